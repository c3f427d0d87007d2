"""The findings of the checks that read only logs, over histories in memory: each sentence with its state."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import Unread, unread_after
from lakehouse.dagster.definitions.findings import Drift, Finding, Grade, lasting, schema
from lakehouse.dagster.definitions.lateness import up_to_date
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.log import FileSchema, feed_retention, interval
from tests.support.commits import TABLE_ID, History
from tests.support.for_each import for_each

DAY = 86_400_000
NOW = 100 * DAY
FEED = {"delta.enableChangeDataFeed": "true"}


def source(*days_ago: float, read: int = 0, table: str = TABLE_ID, oldest: int = 0, **properties: str) -> Unread:
    """A source with one append for each number of days ago, the oldest first; `read` of its versions have been read."""
    history = History(asset="src", properties=FEED | {k.replace("__", "."): v for k, v in properties.items()})
    for _ in days_ago:
        history.append()
    history.entries = [
        replace(commit, timestamp=NOW - int(days * DAY)) for commit, days in zip(history.entries, days_ago, strict=True)
    ]
    history.oldest = oldest
    head = history.head()
    assert head is not None
    return unread_after(Position(table, read), history, "src", head)


def told(found: Unread, most: timedelta = timedelta(days=2)) -> Finding:
    return up_to_date("copies", [found], [], most, timedelta(days=2), NOW)


def test_the_lag_is_the_age_of_the_oldest_change_that_is_not_read() -> None:
    late = told(source(9, 3, 1))
    assert late.grade is Grade.FAILED
    assert late.figures == {
        "versions behind": 2,
        "seconds behind": 3 * 86_400,
        "sources with a gap": 0,
        "hours left": 96,
    }
    assert late.sentence == (
        "'copies' has not read 2 versions of 'src' (oldest 3 days ago). The limit is 2 days: materialize it, or see why "
        "its runs fail."
    )
    assert told(source(9, 3, 1, read=1)).grade is Grade.PASSED
    assert told(source(9, 3, 1, read=2)).sentence == "'copies' has read every change of its sources."


def test_a_commit_that_changed_no_row_keeps_nobody_waiting() -> None:
    history = History(asset="src")
    history.append()
    history.add("OPTIMIZE")
    head = history.head()
    assert head is not None
    found = unread_after(Position(TABLE_ID, 0), history, "src", head)
    assert (found.versions, found.since) == (0, None)


def test_a_log_that_was_cleaned_behind_the_position_is_as_late_as_it_was_kept_for() -> None:
    gone = source(40, 39, 38, 1, oldest=3)
    finding = told(gone)
    assert gone.commits is None and finding.grade is Grade.FAILED
    assert finding.figures["seconds behind"] == 7 * 86_400
    assert finding.records[0]["feed"] == "the log after version 0 was cleaned up"


@for_each("days, grade", [(1.0, Grade.PASSED), (5.5, Grade.WARNS), (6.9, Grade.WARNS), (7.5, Grade.FAILED)])
def test_the_deadline_is_the_age_of_the_oldest_unread_change_against_what_its_source_keeps(
    days: float, grade: Grade
) -> None:
    """VACUUM may remove change files after a week, unless the table says otherwise."""
    patient = timedelta(days=365)
    finding = told(source(9, days), patient)
    assert finding.grade is grade
    assert finding.figures["hours left"] == round((7 - days) * 24, 1)
    assert ("'src' may remove what is unread" in finding.sentence) == (grade is not Grade.PASSED)
    kept = source(9, days, delta__deletedFileRetentionDuration="interval 30 days")
    assert told(kept, patient).grade is Grade.PASSED


def test_what_has_read_everything_has_no_deadline() -> None:
    finding = told(source(90, 80, read=1))
    assert finding.grade is Grade.PASSED and "hours left" not in finding.figures


def test_the_feed_is_contiguous_only_of_the_table_that_was_read_and_while_it_is_kept() -> None:
    def broken(found: Unread) -> object:
        finding = told(found, timedelta(days=365))
        assert (finding.grade is Grade.FAILED) == (finding.figures["sources with a gap"] == 1)
        feed = finding.records[0]["feed"]
        assert feed == "contiguous" or f"cannot read on by the feed ('src': {feed}): " in finding.sentence
        return feed

    assert broken(source(3, 2, 1)) == "contiguous"
    assert broken(source(3, table="another")) == f"another table (id {TABLE_ID}) has taken its place"
    assert broken(source(3, read=5)) == "its log ends at version 0, and version 5 was read"
    off = source(3, delta__enableChangeDataFeed="false")
    assert broken(off) == "its change data feed was switched off"


def test_an_input_that_is_read_whole_is_behind_and_has_neither_deadline_nor_gap() -> None:
    gone = source(40, 39, 38, 1, oldest=3, delta__enableChangeDataFeed="false")
    finding = up_to_date("copies", [], [gone], timedelta(days=365), timedelta(days=2), NOW)
    assert finding.grade is Grade.WARNS and finding.figures["sources with a gap"] == 0
    assert "may remove" not in finding.sentence and "hours left" not in finding.figures


def test_a_column_that_came_went_or_changed_its_type_is_drift() -> None:
    before = FileSchema((), fields(id="integer", v="integer", old="string"))
    after = FileSchema((), fields(id="integer", v="long", new="string"))
    drift = Drift.between("src", 3, before, after)
    assert drift.differences == {"new": "added", "old": "dropped or renamed", "v": "integer became long"}
    none = Drift.between("copies", 1, before, before)
    found = schema("copies", ["gone"], none, [drift], 3)
    assert found.grade is Grade.WARNS and found.figures == {"columns": 3, "columns that differ": 4}
    assert schema("copies", [], none, [], 3).grade is Grade.PASSED


@given(
    st.lists(st.tuples(st.integers(0, 999), st.sampled_from(["week", "day", "hour", "minute", "second"])), min_size=1)
)
def test_a_duration_is_the_sum_of_its_parts_however_it_is_written(parts: list[tuple[int, str]]) -> None:
    expected = sum((timedelta(**{f"{unit}s": number}) for number, unit in parts), timedelta())
    text = " ".join(f"{number} {unit}{'s' if number % 2 else ''}" for number, unit in parts)
    assert interval(text) == interval(f"INTERVAL {text.upper()}") == expected


@for_each("text", ["", "interval", "30", "days", "interval 1 month", "interval 1 day and a bit"])
def test_what_is_no_duration_of_deltas_is_not_guessed_at(text: str) -> None:
    assert interval(text) is None


def test_a_table_that_says_nothing_keeps_its_changes_for_a_week() -> None:
    head = source(1).head
    assert feed_retention(head) == timedelta(days=7)
    short = source(1, delta__logRetentionDuration="interval 1 day").head
    assert feed_retention(short) == timedelta(days=1)


def test_one_of_a_thing_is_not_many() -> None:
    assert [count_of(n, "row") for n in (0, 1, 2, 2000)] == ["0 rows", "1 row", "2 rows", "2,000 rows"]
    assert [lasting(s) for s in (0, 1, 90, 7_300, 200_000)] == [
        "0 seconds",
        "1 second",
        "90 seconds",
        "2 hours",
        "2 days",
    ]


def fields(**types: str) -> tuple[dict[str, str], ...]:
    return tuple({"name": name, "type": kind} for name, kind in types.items())
