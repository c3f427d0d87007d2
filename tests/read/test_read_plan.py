"""What is read of an input, over random logs: compared with a plain model, and as it is forecast and carried out."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lakehouse.cursor.mark import Position
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.log import VersionRange
from lakehouse.delta.table import Read, Table
from lakehouse.read.archive import Archived, Unanswered
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.content import Everything, Nothing
from lakehouse.read.decide import Reconcile, Refuse
from lakehouse.read.feed_reader import Feeds
from lakehouse.read.feed_trust import Source
from lakehouse.read.forecast import Reading, forecast_input
from lakehouse.read.read_plan import InputFacts, ReadArchive, ReadFeed, ReadNothing, ReadPlan, read_plan
from lakehouse.read.resolve import read_changes
from lakehouse.spark.table_version import TableRef
from tests.support.commits import FEED, TABLE_ID, History, cursor_at, run_of, source_of
from tests.support.for_each import for_each
from tests.support.raises import raises_code

REF = TableRef.at_path("asset", "/asset")
MANY = settings(max_examples=8 * settings().max_examples)
"""Few of the random inputs have a gap, an archive and options at once."""
DAILY = ("append", "append", "append", "delete", "optimize")
ACTS = (*DAILY, "off", "on", "restore", "lay out", "retype")


@dataclass
class Past:
    """A random source, and what is true of its versions whatever its log shows."""

    history: History = field(default_factory=lambda: History("src", properties=dict(FEED)))
    recorded: list[bool] = field(default_factory=list)
    keeps: bool = True

    def act(self, what: str) -> None:
        match what:
            case "append":
                self.history.append()
            case "delete":
                self.history.add("DELETE", {"predicate": "[]"}, numDeletedRows=1)
            case "optimize":
                self.history.add("OPTIMIZE")
            case "off" | "on":
                self.keeps = what == "on"
                properties = {"delta.enableChangeDataFeed": str(self.keeps).lower()}
                self.history.add("SET TBLPROPERTIES", {"properties": json.dumps(properties)})
                self.history.properties |= properties
            case "restore":
                self.history.restore(0)
            case "lay out":
                self.history.add("WRITE", {"mode": "Overwrite", "canOverwriteSchema": "true"}, numOutputRows=3)
            case _:
                self.history.add("CHANGE COLUMN")
        self.recorded.append(self.keeps)


@st.composite
def pasts(draw: st.DrawFn, acts: tuple[str, ...]) -> Past:
    past = Past()
    past.act("append")
    for act in draw(st.lists(st.sampled_from(acts), max_size=9)):
        past.act(act)
    past.history.clean(draw(st.sampled_from([0, 0, 0, 1, 3])))
    return past


assets = st.builds(
    lambda past, on_gap: Asset("asset", Table(key="id", on_gap=on_gap), REF, past=past, read_options={"src": Read()}),
    st.sampled_from([PastRows.COMPUTED, PastRows.APPENDED, PastRows.KEPT]),
    st.sampled_from(["reconcile", "fail"]),
)
reads = st.builds(
    lambda limit, excluded, archive: Read(max_versions=limit, exclude_operations=excluded, archive=archive),
    st.none() | st.integers(1, 3),
    st.sampled_from([(), (), ("DELETE",), ("WRITE",)]),
    st.sampled_from([None, "kept"]),
)


@dataclass
class Asked:
    """The archive of a random input: how many versions of the source it has read, and what it was asked."""

    source: Source
    upto: int
    ranges: list[VersionRange] = field(default_factory=list)

    def __call__(self, range_: VersionRange) -> Archived | Unanswered:
        self.ranges.append(range_)
        upto = min(self.upto, range_.upto)
        return Archived(self.source.at, VersionRange(range_.after, upto)) if upto > range_.after else Unanswered.LACKS


@st.composite
def inputs(draw: st.DrawFn, acts: tuple[str, ...] = ACTS) -> tuple[Past, InputFacts, Asked]:
    past, read = draw(pasts(acts)), draw(reads)
    source = source_of(past.history)
    version = draw(st.integers(0, len(past.recorded)))
    commits = past.history.entries
    digests = [None, None, "another"] + [commit.digest for commit in commits if commit.version == version]
    position = Position(
        draw(st.sampled_from([TABLE_ID, TABLE_ID, TABLE_ID, "another"])),
        version,
        commit=draw(st.sampled_from(digests)),
    )
    cursor = cursor_at(position)
    asked = Asked(source, draw(st.integers(0, 10)))
    archive = None if read.archive is None else asked
    return past, InputFacts(run_of(draw(assets), cursor), read, source, position, archive=archive), asked


def batch_of(commits: list[Commit], read: Read) -> list[Commit]:
    """The commits before the commit with rows that exceeds the limit."""
    counted = 0
    for index, commit in enumerate(commits):
        if commit.is_quiet or commit.operation in read.exclude_operations:
            continue
        counted += 1
        if read.max_versions is not None and counted > read.max_versions:
            return commits[:index]
    return commits


def instead(facts: InputFacts, asked: Asked, *, of_archive: bool) -> type:
    """What is read instead of the feed if the feed cannot answer."""
    position, head = facts.position, facts.source.head
    assert position is not None
    if of_archive and facts.archive is not None and not facts.read.excludes and asked.upto > position.version:
        return ReadArchive
    compares = facts.asset.past is not PastRows.APPENDED and facts.asset.table.on_gap == "reconcile"
    return Reconcile if compares and not facts.read.excludes and head.version >= 0 else Refuse


def model(past: Past, facts: InputFacts, asked: Asked) -> type:
    """The right plan by what is true, as far as the log shows enough of it."""
    position, commits = facts.position, past.history.entries
    assert position is not None
    if position.table != TABLE_ID or position.version >= len(commits):
        return instead(facts, asked, of_archive=False)
    after = commits[position.version + 1 :]
    if not after:
        return ReadNothing
    is_there = position.version >= past.history.oldest
    if is_there and position.commit == "another":
        return instead(facts, asked, of_archive=False)
    if position.version + 1 < past.history.oldest:
        return instead(facts, asked, of_archive=True)
    batch = batch_of(after, facts.read)
    anew = (
        {"RESTORE"} if all("canOverwriteSchema" not in commit.parameters for commit in after) else {"RESTORE", "WRITE"}
    )
    if any(commit.operation in anew and commit.parameters.get("mode") != "Append" for commit in after):
        return instead(facts, asked, of_archive=False)
    recomputes = facts.asset.past is not PastRows.APPENDED and not facts.read.excludes
    if recomputes and any(commit.operation == "CHANGE COLUMN" for commit in batch):
        return instead(facts, asked, of_archive=False)
    read = [each for each in batch if not each.is_quiet and each.operation not in facts.read.exclude_operations]
    if any(not past.recorded[commit.version] for commit in read):
        return instead(facts, asked, of_archive=True)
    return ReadFeed if read else ReadNothing


@MANY
@given(inputs())
def test_what_is_read_is_what_the_truth_allows(case: tuple[Past, InputFacts, Asked]) -> None:
    past, facts, asked = case
    plan = read_plan(facts)
    if isinstance(plan, ReadFeed):
        # The log does not show whether the feed was on before it was switched on; a read finds that out.
        unsaid = [commit for commit in plan.batch.changing if not past.recorded[commit.version]]
        assume(not unsaid)
    assert isinstance(plan, model(past, facts, asked))


@MANY
@given(inputs())
def test_what_the_log_says_of_a_feed_that_was_off_is_found_before_a_read(case: tuple[Past, InputFacts, Asked]) -> None:
    past, facts, _ = case
    plan = read_plan(facts)
    if not isinstance(plan, ReadFeed):
        return
    after = past.history.entries[plan.batch.range.after + 1 :]
    toggles = [commit.version for commit in after if commit.operation == "SET TBLPROPERTIES"]
    reaches_head = plan.batch.commits[-1].version + len(plan.batch.later) == past.history.entries[-1].version
    for commit in plan.batch.changing:
        if not past.recorded[commit.version]:
            assert toggles[0] > commit.version if toggles else not reaches_head


@MANY
@given(inputs())
def test_a_plan_is_carried_out_as_it_is_forecast(case: tuple[Past, InputFacts, Asked]) -> None:
    """Carries out the plans that read no row; the others are carried out on Delta, in tests/dagster/definitions."""
    _, facts, _ = case
    plan = read_plan(facts)
    forecast = forecast_input(plan, facts.source, 0)
    if isinstance(plan, ReadFeed | ReadArchive):
        assert forecast.reading is (Reading.CHANGES if isinstance(plan, ReadFeed) else Reading.ARCHIVE)
        range_ = plan.batch.range if isinstance(plan, ReadFeed) else plan.archived.range
        assert (forecast.after, forecast.upto) == (range_.after, range_.upto)
        assert forecast.behind == facts.source.head.version - range_.upto
        return
    if forecast.reading is Reading.REFUSED:
        with raises_code("GAP") as refused:
            read_changes(plan, facts, Feeds())
        assert forecast.why == f"{refused.value.reason}. {refused.value.remedy}"
        return
    changes = read_changes(plan, facts, Feeds())
    match changes.content:
        case Everything(reason=reason):
            assert (forecast.reading, forecast.why) == (Reading.EVERYTHING, reason)
        case Nothing():
            assert forecast.reading is Reading.NOTHING and forecast.after == changes.range.after
        case _:
            raise AssertionError(changes.content)
    assert (forecast.upto, forecast.behind) == (changes.range.upto, changes.behind)


@MANY
@given(inputs(DAILY))
def test_a_plan_without_its_feed_asks_the_archive_only_if_the_feed_was_right(
    case: tuple[Past, InputFacts, Asked],
) -> None:
    _, facts, asked = case
    plan = read_plan(facts)
    if not isinstance(plan, ReadFeed):
        return
    assert asked.ranges == []
    disbelieved = plan.without_feed("it is wrong", is_believed=False)
    assert isinstance(disbelieved, instead(facts, asked, of_archive=False)) and asked.ranges == []
    unreadable = plan.without_feed("it is gone")
    assert isinstance(unreadable, instead(facts, asked, of_archive=True))
    if isinstance(unreadable, ReadArchive):
        assert isinstance(unreadable.without_archive(), instead(facts, asked, of_archive=False))
    assert "it is gone" in _reason(unreadable) and "it is wrong" in _reason(disbelieved)


@MANY
@given(inputs())
def test_a_feed_that_an_earlier_try_could_not_read_is_not_read_again(case: tuple[Past, InputFacts, Asked]) -> None:
    _, facts, _ = case
    plan, again = read_plan(facts), read_plan(replace(facts, gap="a file of it is gone"))
    expected = plan.without_feed("a file of it is gone") if isinstance(plan, ReadFeed) else plan
    assert type(again) is type(expected)
    assert isinstance(again, ReadNothing) or _reason(again) == _reason(expected)


def test_who_goes_on_behind_a_feed_that_could_not_be_read_reads_the_feed_from_there() -> None:
    past = Past()
    for _ in range(4):
        past.act("append")
    position = Position(TABLE_ID, 0)
    asset = Asset("asset", Table(key="id"), REF, past=PastRows.APPENDED, read_options={"src": Read()})
    run = run_of(asset, cursor_at(position), go_on_from=2)
    plan = read_plan(InputFacts(run, Read(), source_of(past.history), position, gap="a file of it is gone"))
    assert isinstance(plan, ReadFeed)
    assert plan.batch.range == VersionRange(2, 3) and plan.facts.refusal == "a file of it is gone"


def _reason(plan: ReadPlan) -> str:
    match plan:
        case Reconcile(reason=reason) | Refuse(reason=reason) | ReadArchive(gap=reason):
            return reason
        case _:
            raise AssertionError(plan)


@for_each(
    "acts, after, off",
    [
        (["off", "append"], 0, True),
        (["off", "append", "on"], 0, True),
        (["off", "on", "append"], 0, False),
        (["append", "off"], 0, False),
        (["off", "append"], 1, True),
        (["off", "append", "restore"], 1, None),
        (["off", "append", "on"], 1, False),
    ],
)
def test_a_feed_is_off_where_the_log_says_so(acts: list[str], after: int, *, off: bool | None) -> None:
    past = Past()
    for act in ("append", *acts):
        past.act(act)
    position = Position(TABLE_ID, after)
    cursor = cursor_at(position)
    asset = Asset("asset", Table(key="id"), REF, past=PastRows.COMPUTED, read_options={"src": Read()})
    plan = read_plan(InputFacts(run_of(asset, cursor), Read(), source_of(past.history), position))
    if off is None:
        assert isinstance(plan, Reconcile) and "changed its partitioning" in plan.reason
    elif off:
        assert isinstance(plan, Reconcile) and "was off at version" in plan.reason
    else:
        assert isinstance(plan, ReadFeed)


@MANY
@given(
    pasts(DAILY), st.integers(0, 9), st.integers(0, 9), st.sampled_from([None, 1, 2]), st.sampled_from([True, False])
)
def test_a_batch_ends_at_the_version_at_which_the_inputs_agree_and_a_limit_ends_no_exact_one_earlier(
    past: Past, after: int, upto: int, limit: int | None, is_exact: Any
) -> None:
    source = source_of(past.history)
    pin = min(upto, source.head.version)
    position = Position(TABLE_ID, min(after, pin))
    asset = Asset("asset", Table(key="id"), REF, past=PastRows.COMPUTED, read_options={"src": Read()})
    pinned = replace(source, at=replace(source.at, version=pin), is_exact=is_exact)

    plan = read_plan(InputFacts(run_of(asset, cursor_at(position)), Read(max_versions=limit), pinned, position))

    if isinstance(plan, ReadFeed | ReadNothing):
        assert plan.batch.at.version == pin if is_exact or limit is None else plan.batch.at.version <= pin
        assert plan.batch.behind == source.head.version - plan.batch.at.version
        assert all(commit.version <= pin for commit in plan.batch.commits)
