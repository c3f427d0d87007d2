"""Which versions a branch clones, and which positions go on there: on logs in memory."""

import random
from collections.abc import Mapping
from dataclasses import replace

from lakehouse.cursor.branching import (
    CloneAt,
    cursors_at,
    mark_of_clone,
    versions_to_clone,
    why_none_carried,
    why_not_carried,
)
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.mark import Mark, Position
from lakehouse.cursor.standings import Standings, Ways
from lakehouse.delta.log import Head
from tests.support.commits import History
from tests.support.simulated_graph import Graph, random_graph

NOW = 10**13
"""Far later than any commit of these histories, so that only a newest version is young enough to be read."""


class OfTable(History):
    """A table with an id of its own."""

    def head(self) -> Head | None:
        head = super().head()
        return None if head is None else replace(head, table_id=self.asset)


def histories(graph: Graph) -> dict[str, OfTable]:
    """The logs of the tables of a graph in which each table has run at least once."""
    tables = {name: OfTable(name) for name in (*graph.head, *graph.inputs)}
    for source, version in graph.head.items():
        for _ in range(version + 1):
            tables[source].append()
    for name, versions in graph.versions.items():
        for epoch, (_, read) in enumerate(versions, 1):
            tables[name].own(epoch=epoch, reads={each: Position(each, at) for each, at in read.items()})
    return tables


def ran(seed: int, *, agree: bool) -> Graph:
    """A graph after runs in random order while its sources changed."""
    chance = random.Random(seed)
    graph = random_graph(chance) if agree else random_graph(chance, cut=_newest, limit=_unlimited)
    for table in graph.inputs:
        graph.run(table)
    for _ in range(12):
        for source in graph.head:
            graph.head[source] += chance.random() < 0.5
        for table in chance.sample(list(graph.inputs), chance.randrange(len(graph.inputs))):
            graph.run(table)
    return graph


def _newest(graph: Graph, table: str, _: Mapping[str, int]) -> Mapping[str, int] | None:
    return {name: graph.newest(name) for name in graph.inputs[table]}


def _unlimited(*_: object) -> Mapping[str, int]:
    return {}


def lost(graph: Graph, now: int = 0) -> list[tuple[str, str]]:
    """Each table with a source whose changes its clone cannot go on reading from the clone of that source."""
    logs = histories(graph)
    ways = Ways({name: tuple(inputs) for name, inputs in graph.inputs.items()}, frozenset(graph.inputs))
    versions = versions_to_clone(Standings(ways, logs.get), [*logs], now, {})
    assert versions.keys() == logs.keys()
    pairs = list[tuple[str, str]]()
    for name in graph.inputs:
        head = logs[name].head()
        assert head is not None
        (cursor,) = cursors_at(logs[name], head, name, versions[name], by_partition=False)
        assert why_none_carried(logs[name], head, cursor, versions[name]) is None
        for source, at in cursor.reads.items():
            of_source = logs[source].head()
            assert of_source is not None
            why = why_not_carried(logs[source], of_source, source, at, CloneAt(versions[source], "clone", 0, source))
            assert (why is None) == (at.version == versions[source]), "each of these commits changed a row"
            pairs += [(name, source)] if why is not None else []
    return pairs


def test_where_inputs_agree_every_position_goes_on_in_the_branch() -> None:
    assert {seed: pairs for seed in range(60) if (pairs := lost(ran(seed, agree=True)))} == {}


def test_versions_that_are_too_old_to_be_read_are_not_cloned() -> None:
    graphs = [ran(seed, agree=True) for seed in range(20)]
    for graph in graphs:
        logs = histories(graph)
        standings = Standings(Ways({name: tuple(inputs) for name, inputs in graph.inputs.items()}), logs.get)
        newest = {name: graph.newest(name) for name in logs}
        assert versions_to_clone(standings, [*logs], NOW, {}) == newest
    assert any(lost(graph, NOW) for graph in graphs), "then some have to be compared"


def test_what_a_branch_has_cloned_already_stays_and_decides_what_goes_with_it() -> None:
    source, copy = OfTable("src"), OfTable("copy")
    for version in range(4):
        source.append()
        copy.own(epoch=version + 1, reads={"src": Position("src", version)})
    logs = {"src": source, "copy": copy}
    standings = Standings(Ways({"copy": ("src",)}), logs.get)

    assert versions_to_clone(standings, ["src", "copy"], 0, {"copy": 1}) == {"src": 1, "copy": 1}
    assert versions_to_clone(standings, ["src", "copy"], 0, {"src": 2})["src"] == 2


def test_a_position_goes_on_over_commits_without_rows_only() -> None:
    source = OfTable("src")
    source.append()
    source.add("OPTIMIZE")
    head = source.head()
    assert head is not None

    def why(position: Position, of: str = "src", version: int = 1) -> str | None:
        return why_not_carried(source, head, "src", position, CloneAt(version, "clone of src", 0, of))

    assert why(Position("src", 1)) is None
    assert "columns" in str(why(Position("src", 0))), "this log does not tell them"
    assert "another table" in str(why(Position("other", 1)))
    assert "another table" in str(why(Position("src", 1), of="other")), "the clone is of the table before this one"
    assert "backup" in str(why(Position("src", 1, commit="another")))
    assert "backup" in str(why(Position("src", 5)))
    assert "backup" in str(why(Position("src", 1), version=5))


def test_no_position_goes_on_if_another_program_has_changed_the_table_since() -> None:
    table = OfTable("copy")
    table.own(reads={"src": Position("src", 0)})
    table.add("OPTIMIZE")
    table.append()
    head = table.head()
    assert head is not None
    for version, why in enumerate([None, None, "version 2 (WRITE) has written to it since"]):
        (cursor,) = cursors_at(table, head, "copy", version, by_partition=False)
        assert why_none_carried(table, head, cursor, version) == why


def test_the_mark_of_a_clone_is_a_position_of_its_own_table_and_leaves_the_rest_as_it_was() -> None:
    table = OfTable("copy")
    reads = {
        "src": Position("src", 7, time=5, commit="x"),
        "far": Position("far", 3),
        "look": Position("look", 2, True),
    }
    table.own(reads=reads)
    cursor = find_cursor(table, table.head(), "copy")
    assert isinstance(cursor, Known)
    cursor = replace(cursor, mark=replace(cursor.mark, log_after=2, code_version="4", beside=9, quarantine="q"))
    carried = {"src": CloneAt(7, "clone of src", 0, "src"), "look": CloneAt(2, "clone of look", 1, "look")}

    mark = mark_of_clone(cursor, carried, CloneAt(9, "clone of q", 0, "q"), "branch/fix", -1)

    assert mark.reads == {
        "src": Position("clone of src", 0, time=5),
        "far": Position("far", 3),
        "look": Position("clone of look", 1, True),
    }
    assert (mark.beside, mark.quarantine, mark.code_version, mark.epoch) == (0, "clone of q", "4", 1)
    assert mark.log_after == 7, "below that the archive holds rows under the versions of the other table"
    assert Mark.from_json(mark.to_json()) == mark
    clone = OfTable("copy")
    clone.land(mark)
    assert find_cursor(clone, clone.head(), "copy").reads == mark.reads
