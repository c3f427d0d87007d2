"""Where a first read begins, and how much of a source one run reads, if its input limits that."""

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import cap, pending, start_version
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.limits import Limits, in_force
from lakehouse.delta.log import NOTHING_READ, VersionRange
from lakehouse.delta.table import Read, Table
from lakehouse.errors import ReadError
from lakehouse.read.archive import Archived, Unanswered
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.decide import Reconcile
from lakehouse.read.feed_reader import Feeds
from lakehouse.read.feed_trust import Source
from lakehouse.read.read_plan import InputFacts, ReadArchive, ReadFeed, read_plan
from lakehouse.read.resolve import read_changes
from lakehouse.spark.table_version import TableRef
from tests.support.commits import FEED, TABLE_ID, History, cursor_at, run_of, source_of
from tests.support.for_each import for_each
from tests.support.raises import raises_code

REF = TableRef.at_path("asset", "/asset")
MERGES = Asset("asset", Table(key="id"), REF, past=PastRows.COMPUTED, read_options={"src": Read()})
APPENDS = Asset("asset", Table(), REF, past=PastRows.APPENDED, read_options={"src": Read()})


def write(version: int, size: int = 10) -> Commit:
    return Commit(version, version, "WRITE", {"mode": "Append"}, {"numOutputRows": 1, "numOutputBytes": size}, None)


def compaction(version: int) -> Commit:
    return Commit(version, version, "OPTIMIZE", {}, {"numOutputBytes": 1000}, None)


def test_a_log_that_was_cleaned_up_is_a_gap_to_a_run_with_a_limit_as_to_one_without() -> None:
    """Even where cleanup went beyond the commits that a limited run looks at first."""
    history = History()
    for _ in range(40):
        history.append()
    with in_force(Limits(commits_ahead=4)):
        for history.oldest in range(40):
            for after in range(39):
                all_of, first = (pending(history, "src", after, 39, read, 0) for read in (Read(), Read(max_versions=1)))
                assert (first is None) == (all_of is None) == (history.oldest > after + 1)


def read(commits: tuple[Commit, ...], limits: Read, furthest: int = NOTHING_READ) -> list[int]:
    return [commit.version for commit in cap(commits, limits, furthest)]


MIXED = (compaction(1), write(2), compaction(3), write(4, 25), compaction(5), write(6))


@for_each(
    "limits, furthest, last",
    [
        (Read(), NOTHING_READ, 6),
        (Read(max_versions=1), NOTHING_READ, 3),
        (Read(max_versions=2), NOTHING_READ, 5),
        (Read(max_versions=3), NOTHING_READ, 6),
        (Read(max_bytes=1), NOTHING_READ, 3),
        (Read(max_bytes=34), NOTHING_READ, 3),
        (Read(max_bytes=35), NOTHING_READ, 5),
        (Read(max_bytes=45), NOTHING_READ, 6),
        (Read(max_versions=2, max_bytes=1), NOTHING_READ, 3),
        (Read(max_versions=1), 4, 5),
        (Read(max_versions=1, exclude_operations=("WRITE",)), NOTHING_READ, 6),
    ],
)
def test_a_limit_counts_what_there_is_to_read(limits: Read, furthest: int, last: int):
    assert read(MIXED, limits, furthest) == list(range(1, last + 1))


@given(
    with_rows=st.lists(st.booleans(), min_size=1, max_size=12),
    versions=st.integers(1, 5),
    size=st.integers(1, 100),
    furthest=st.integers(0, 12),
)
def test_every_portion_goes_on_and_none_is_larger_than_it_must_be(
    with_rows: list[bool], versions: int, size: int, furthest: int
):
    """The portions together read every commit once, in order, whatever the limits."""
    rest = tuple(write(at) if changes_rows else compaction(at) for at, changes_rows in enumerate(with_rows, 1))
    limits = Read(max_versions=versions, max_bytes=size)
    while rest:
        portion = read(rest, limits, furthest)
        assert portion == [commit.version for commit in rest[: len(portion)]] and portion
        counted = [at for at in portion if with_rows[at - 1]]
        beyond = [at for at in counted if at > furthest]
        assert len(counted) <= max(1, min(versions, size // 10)) or len(beyond) == 0
        assert portion[-1] >= min(furthest, rest[-1].version)
        rest = rest[len(portion) :]


@given(
    with_rows=st.lists(st.booleans(), min_size=1, max_size=30),
    versions=st.integers(1, 5),
    size=st.integers(1, 100),
    furthest=st.integers(0, 30),
    after=st.integers(-1, 10),
)
def test_a_portion_is_the_same_however_few_of_the_pending_commits_are_read(
    with_rows: list[bool], versions: int, size: int, furthest: int, after: int
):
    history = History("src")
    for changes_rows in with_rows:
        history.append() if changes_rows else history.add("OPTIMIZE")
    head = history.head()
    assert head is not None
    limits = Read(max_versions=versions, max_bytes=size)
    everything = pending(history, "src", after, head.version, Read(), furthest)
    with in_force(Limits(commits_ahead=1)):
        some = pending(history, "src", after, head.version, limits, furthest)
    assert everything is not None and some is not None
    assert everything[: len(some)] == some
    assert cap(some, limits, furthest) == cap(everything, limits, furthest)


@pytest.fixture
def source() -> Source:
    """A source at version 5."""
    history = History("src", properties=FEED)
    for _ in range(6):
        history.append()
    return source_of(history)


def stale(read: int, furthest: int) -> Known:
    """A table that has read up to a version of the source, and whose rows may already reflect a later version."""
    reads = {"src": Position(TABLE_ID, read)}
    return replace(cursor_at(Position(TABLE_ID, furthest)), reads=reads, stale_base=True)


def test_a_source_that_ends_before_the_furthest_row_is_compared(source: Source):
    """The source was put back from a backup: no feed contains the changes that are gone."""
    cursor = stale(2, 9)
    plan = read_plan(InputFacts(run_of(MERGES, cursor), Read(), source, cursor.reads["src"]))
    assert isinstance(plan, Reconcile) and "ends at version 5" in plan.reason


@pytest.mark.parametrize("end", [3, 4])
def test_an_archive_that_ends_before_the_furthest_row_does_not_answer(source: Source, end: int):
    archived = Archived(source.at, VersionRange(2, end))
    cursor = stale(2, 4)
    facts = InputFacts(
        run_of(MERGES, cursor), Read(archive="kept"), source, cursor.reads["src"], archive=lambda _: archived
    )
    plan = read_plan(facts)
    assert isinstance(plan, ReadFeed)
    instead = plan.without_feed("a file of _change_data/ is gone")
    assert isinstance(instead, ReadArchive if end == 4 else Reconcile)


def test_a_gap_that_the_run_has_found_before_is_told_once_and_asks_the_archive_once(source: Source):
    asked = list[VersionRange]()
    said = "DELTA_MISSING_CHANGE_DATA (a file of _change_data/ is gone)"

    def archive(range_: VersionRange) -> Unanswered:
        asked.append(range_)
        return Unanswered.LACKS

    position = Position(TABLE_ID, 2)
    cursor = cursor_at(position)
    facts = InputFacts(run_of(APPENDS, cursor), Read(archive="kept"), source, position, archive=archive)
    plan = read_plan(facts)
    assert isinstance(plan, ReadFeed) and asked == []
    with raises_code("GAP") as told:
        read_changes(plan.without_feed(said), facts, Feeds())
    assert str(told.value).count(said) == 1
    assert str(told.value).count("Nothing was written") == 1
    assert asked == [VersionRange(2, 5)]


def ms(millis: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC)


def started(source: Source, start: dt.datetime | int, *, clamp: bool) -> int | None:
    """The version after which a first read starts; None if the start is refused."""
    try:
        return start_version("asset", "src", source.log, source.head, Read(start=start, clamp=clamp))
    except ReadError as error:
        if error.code != "START":
            raise
        return None


@pytest.mark.parametrize(
    ("start", "strict", "clamp"),
    [
        pytest.param(ms(2500), 2, 2, id="between two commits"),
        pytest.param(ms(2000), 2, 2, id="the time of a commit"),
        pytest.param(ms(-5), -1, -1, id="before the first commit, which is there"),
        pytest.param(ms(5000), 5, 5, id="the time of the last commit"),
        pytest.param(ms(5001), None, 5, id="after the last commit"),
        pytest.param(0, 0, 0, id="the first version"),
        pytest.param(5, 5, 5, id="the last version"),
        pytest.param(6, None, 5, id="a version to come"),
    ],
)
def test_a_first_read_starts_behind_the_last_commit_until_then(
    source: Source, start: dt.datetime | int, strict: int | None, clamp: int
):
    """A start that the history does not reach is refused; an input with `clamp` starts at the end of the history."""
    assert started(source, start, clamp=False) == strict
    assert started(source, start, clamp=True) == clamp


@pytest.mark.parametrize(
    ("start", "strict", "clamp"),
    [
        pytest.param(ms(2500), None, 2, id="between a commit that is gone and one that is there"),
        pytest.param(ms(-5), None, 2, id="before all that is gone"),
        pytest.param(ms(3000), 3, 3, id="the time of the oldest commit"),
        pytest.param(1, None, 2, id="a version behind which one is gone"),
        pytest.param(2, 2, 2, id="the version before the oldest commit"),
    ],
)
def test_a_first_read_misses_no_commit_that_was_cleaned_up_unless_it_is_clamped(
    source: Source, start: dt.datetime | int, strict: int | None, clamp: int
):
    """Versions 0 to 2 are gone, and with them what they changed after the start."""
    assert isinstance(source.log, History)
    source.log.clean(3)
    assert started(source, start, clamp=False) == strict
    assert started(source, start, clamp=True) == clamp


def test_a_start_by_time_leaves_no_later_commit_out_where_clocks_differ(source: Source):
    """Version 2 was committed at 5 s by a clock that is ahead, and version 3 after it at 3 s by another clock."""
    assert isinstance(source.log, History)
    entries = source.log.entries
    entries[2], entries[3] = replace(entries[2], timestamp=5000), replace(entries[3], timestamp=3000)
    assert started(source, ms(3500), clamp=False) == started(source, ms(3500), clamp=True) == 1
