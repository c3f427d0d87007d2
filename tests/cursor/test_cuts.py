"""What versions of tables stand for, and how far runs read so that their inputs agree: the rules, without Spark."""

import random
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.cursor.cuts import Agreement, agreement, greatest_cut, reach
from lakehouse.cursor.mark import Position
from lakehouse.cursor.standings import Siblings, Standing, Standings, Ways
from lakehouse.delta.table import Read
from tests.support.commits import TABLE_ID, History, cursor
from tests.support.for_each import for_each
from tests.support.protocol import Machine, explore
from tests.support.simulated_graph import Graph, live, random_graph

MANY = settings(max_examples=2 * settings().max_examples)


@st.composite
def towers(draw: st.DrawFn) -> dict[str, list[dict[str, int]]]:
    """Tables whose versions stand for later and later versions of some of three sources."""
    tables = dict[str, list[dict[str, int]]]()
    for name in "abc"[: draw(st.integers(1, 3))]:
        sources = sorted(draw(st.sets(st.sampled_from("XYZ"), min_size=1)))
        at, versions = dict.fromkeys(sources, 0), list[dict[str, int]]()
        for _ in range(draw(st.integers(1, 6))):
            at = {source: version + draw(st.integers(0, 2)) for source, version in at.items()}
            versions.append(at)
        tables[name] = versions
    return tables


def all_cuts(tables: Mapping[str, list[dict[str, int]]]) -> list[dict[str, int]]:
    cuts = list[dict[str, int]]()
    for versions in product(*(range(len(each)) for each in tables.values())):
        together = [tables[name][version] for name, version in zip(tables, versions, strict=True)]
        if all(a[s] == b[s] for a in together for b in together for s in a.keys() & b.keys()):
            cuts.append(dict(zip(tables, versions, strict=True)))
    return cuts


@MANY
@given(towers())
def test_of_two_cuts_the_newer_version_of_each_table_is_a_cut_again(tables: dict[str, list[dict[str, int]]]) -> None:
    cuts = all_cuts(tables)
    for one, other in product(cuts, cuts):
        assert {name: max(one[name], other[name]) for name in tables} in cuts


@MANY
@given(
    towers(),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 4)),
    st.dictionaries(st.sampled_from("XYZ"), st.integers(0, 6)),
    st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=6),
)
@example({"a": [{"X": 2}], "b": [{"X": at} for at in (0, 0, 0, 2, 3, 3)]}, {}, {}, {("b", 2)})
def test_the_greatest_cut_is_the_greatest_of_all_cuts_within_its_bounds(
    tables: dict[str, list[dict[str, int]]], floors: dict[str, int], most: dict[str, int], torn: set[tuple[str, int]]
) -> None:
    def is_within(cut: Mapping[str, int]) -> bool:
        above = all(version >= floors.get(name, 0) for name, version in cut.items())
        return above and all(at <= most.get(s, at) for name, v in cut.items() for s, at in tables[name][v].items())

    heads = {name: len(versions) - 1 for name, versions in tables.items()}
    expected = [cut for cut in all_cuts(tables) if is_within(cut) and not torn & cut.items()]

    def stands(name: str, version: int) -> Mapping[str, int] | None:
        return None if (name, version) in torn else tables[name][version]

    cut = greatest_cut(stands, heads, floors, most)

    assert cut == max(expected, key=lambda each: sum(each.values()), default=None)


def _cut(graph: Graph, table: str, limit: Mapping[str, int]) -> Mapping[str, int] | None:
    heads = {name: graph.newest(name) for name in graph.inputs[table]}
    return greatest_cut(graph.stands, heads, {}, limit)


@cache
def _ways(inputs: tuple[tuple[str, tuple[str, ...]], ...]) -> Ways:
    return Ways(dict(inputs), frozenset(name for name, _ in inputs))


def _limit(graph: Graph, table: str) -> Mapping[str, int]:
    ways = _ways(tuple((name, tuple(inputs)) for name, inputs in graph.inputs.items()))
    siblings = ways.siblings(table)
    if siblings is None:
        return {}
    others = [graph.versions[name][-1][0] for name in siblings.tables - {table} if graph.versions[name]]
    own = graph.versions[table][-1][0] if graph.versions[table] else {}
    named = {source for each in others for source in each} & siblings.sources & ways.sources(table)
    return reach(own, {source: max(each[source] for each in others if source in each) for source in named})


def test_the_rules_are_those_of_the_simulation_and_every_table_advances() -> None:
    troubles = Counter[str]()
    for seed in range(60):
        ours = random_graph(random.Random(seed), cut=_cut, limit=_limit)
        naive = random_graph(random.Random(seed))
        troubles += live(ours, random.Random(seed), 25)
        live(naive, random.Random(seed), 25)
        assert ours.versions == naive.versions, seed

    assert troubles == {}


@given(st.dictionaries(st.sampled_from("abcd"), st.dictionaries(st.sampled_from("XY"), st.integers(0, 3)), min_size=1))
def test_the_foremost_of_the_others_is_found_for_each_sibling(stand: dict[str, dict[str, int]]) -> None:
    class Known(Standings):
        def newest(self, table: str) -> Standing | None:
            return Standing(stand[table]) if table in stand else None

    group = Siblings(frozenset("abcd"), frozenset("XY"))
    standings = Known(Ways(dict[str, list[str]]()), lambda _: None)
    for table in "abcd":
        others = Counter[str]()
        for name in stand.keys() - {table}:
            others |= Counter({source: at + 1 for source, at in stand[name].items()})
        assert standings.furthest(group, table) == {source: at - 1 for source, at in others.items()}


def test_without_the_rule_of_siblings_tables_starve() -> None:
    troubles = Counter[str]()
    for seed in range(60):
        troubles += live(random_graph(random.Random(seed), limit=lambda graph, table: {}), random.Random(seed), 25)

    assert troubles["starved"] > 0
    assert troubles["not met in one run"] > 0


MISTAKES = {
    "no epoch": "holds",
    "position beside the commit": "holds",
    "siblings read to the head": "does not advance",
    "cut by head only": "does not advance",
    "RESTORE ignored": "holds",
}


def test_no_state_of_the_protocol_loses_doubles_or_tears_a_change_or_is_stuck() -> None:
    states, why = explore(Machine())

    assert why is None
    assert states > 3_000


@for_each("mistake", [*MISTAKES])
def test_each_mistake_in_the_protocol_is_noticed(mistake: str) -> None:
    _, why = explore(Machine(mistake))

    assert why is not None
    assert MISTAKES[mistake] in why


FORK = Ways({"a": ("src",), "b": ("src",), "m": ("a", "b")}, frozenset("abm"))


class Tables:
    """The logs of a source, of two tables that follow it, and of the table in which they meet."""

    def __init__(self) -> None:
        self.logs = {name: History(name, properties={"lakehouse.asset": name}) for name in ("src", "a", "b", "m")}
        self.logs["src"] = History("src")
        self.logs["src"].append()

    def run(self, name: str, **reads: int) -> None:
        positions = {source: Position(TABLE_ID, version) for source, version in reads.items()}
        log = self.logs[name]
        log.own(reads=positions, epoch=len(log.entries) + 1)

    def standings(self, ways: Ways = FORK) -> Standings:
        return Standings(ways, self.logs.get)

    def stands_for(self, name: str) -> Mapping[str, int] | str | None:
        standing = self.standings().newest(name)
        assert standing is not None
        return standing.why_inexact if standing.exact is None else standing.exact

    def agreement(self, name: str = "m", **reads: Read) -> Agreement:
        return agreement(self.standings(), name, cursor(self.logs[name]), reads)


def test_commits_without_rows_do_not_change_what_a_version_stands_for() -> None:
    tables = Tables()
    tables.logs["src"].add("OPTIMIZE")
    tables.run("a", src=1)
    tables.logs["a"].add("OPTIMIZE")

    assert tables.stands_for("a") == {"src": 0}
    assert tables.standings().of("src", 1).exact == {"src": 0}


def test_a_restored_table_stands_for_what_the_restored_version_stood_for() -> None:
    tables = Tables()
    tables.run("a", src=0)
    tables.logs["src"].append()
    tables.run("a", src=1)
    tables.logs["a"].restore(0)

    assert tables.stands_for("a") == {"src": 0}


def test_a_table_whose_inputs_disagree_says_over_which_source_and_by_how_much() -> None:
    tables = Tables()
    tables.run("a", src=0)
    tables.logs["src"].append()
    tables.run("b", src=1)
    tables.run("m", a=0, b=0)

    assert tables.stands_for("m") == (
        "its inputs disagree over src by 1 version: a stands for version 0 and b stands for version 1"
    )


def test_what_a_table_stands_for_is_not_known_without_its_mark_and_the_run_reads_the_newest() -> None:
    tables = Tables()
    tables.run("a", src=0)
    tables.run("b", src=0)
    tables.logs["a"].append()
    tables.logs["a"].clean(1)

    assert "its log says no position" in str(tables.stands_for("a"))
    assert "its log says no position" in str(tables.agreement().newest)


def test_a_table_without_a_position_waits_for_a_first_cut() -> None:
    tables = Tables()
    tables.run("a", src=0)
    tables.logs["src"].append()
    tables.run("b", src=1)

    assert tables.agreement().has_no_cut
    assert tables.agreement().sentences == ("waits for a, which stands for version 0 of src: b stands for 1",)


def test_a_table_reads_an_older_version_of_an_input_where_both_agree_and_says_for_whom_it_waits() -> None:
    tables = Tables()
    tables.run("a", src=0)
    tables.run("b", src=0)
    tables.run("m", a=0, b=0)
    tables.logs["src"].append()
    tables.run("a", src=1)
    assert tables.agreement().upto == {"a": 0, "b": 0}
    assert tables.agreement().sentences == ("waits for b, which stands for version 0 of src: a stands for 1",)
    assert not tables.agreement().moves

    tables.run("b", src=1)
    tables.logs["src"].append()
    tables.run("a", src=2)
    settled = tables.agreement()

    assert settled.upto == {"a": 1, "b": 1}
    assert settled.stands_for == {"src": 1}
    assert settled.moves


def test_who_is_behind_its_siblings_reads_as_far_as_the_foremost_and_who_is_level_to_the_head() -> None:
    tables = Tables()
    tables.run("a", src=0)
    tables.logs["src"].append()
    assert tables.agreement("b").upto == {"src": 0}
    tables.run("b", src=0)
    tables.logs["src"].append()

    assert tables.agreement("b").upto == {"src": 2}


def test_a_limit_ends_the_batch_at_a_cut_and_gives_way_where_there_is_none_within_it() -> None:
    tables = Tables()
    for version in range(4):
        if version:
            tables.logs["src"].append()
        tables.run("a", src=version)
        if version != 1:
            tables.run("b", src=version)
    tables.logs["m"].own(reads={"a": Position(TABLE_ID, 0), "b": Position(TABLE_ID, 0)})

    assert tables.agreement(a=Read(max_versions=1)).upto == {"a": 3, "b": 2}
    assert tables.agreement(a=Read(max_versions=2)).upto == {"a": 2, "b": 1}
    assert tables.agreement().upto == {"a": 3, "b": 2}
