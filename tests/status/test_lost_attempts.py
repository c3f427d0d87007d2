"""What commits record about attempts that the runs that made them had lost; no log, no Spark."""

from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark
from lakehouse.delta.commit_info import Commit
from lakehouse.status.lakehouse_status import LostAttempts, lost_attempts

DAY = 86_400_000
NOW = 100 * DAY


def commit(
    version: int, asset: str | None, *lost_to: int, operation: str = "MERGE", run: str = "", day: int = 0
) -> Commit:
    mark = None if asset is None else Mark(asset, (), FIRST_GENERATION, 1, run or f"run {version}", "a", version - 1)
    text = (
        None if mark is None else mark.__class__(**{n: getattr(mark, n) for n in mark.__slots__} | {"lost_to": lost_to})
    )
    metrics = {"numTargetRowsInserted": version, "numTargetRowsUpdated": 0, "numTargetRowsDeleted": 0}
    added = {} if operation != "MERGE" else metrics | {"numTargetBytesAdded": 10 * version}
    return Commit(version, NOW - day * DAY, operation, {}, added, None if text is None else text.to_json())


def test_an_attempt_is_counted_by_its_writer_and_by_who_had_committed_first() -> None:
    commits = [
        commit(9, "a", 8, 7),
        commit(8, "a"),
        commit(7, None, operation="OPTIMIZE"),
        commit(6, "b", 5, 4),
        commit(5, "a"),
        commit(4, None),
    ]
    assert lost_attempts(commits, 0) == (
        LostAttempts("a", "OPTIMIZE", 1, NOW),
        LostAttempts("a", "another run of it", 1, NOW),
        LostAttempts("b", "a", 1, NOW),
        LostAttempts("b", "another program's MERGE", 1, NOW),
    )


def test_an_attempt_that_both_commits_of_one_run_tell_of_counts_once() -> None:
    commits = [commit(9, "a", 5, 7, run="r"), commit(8, "a", 5, run="r"), commit(7, "b"), commit(5, "b")]
    assert lost_attempts(commits, 0) == (LostAttempts("a", "b", 2, NOW),)


def test_an_attempt_of_before_the_time_is_not_counted() -> None:
    commits = [commit(version, "a", version - 1, day=30 - version) for version in range(30, 0, -1)]
    assert [pair.attempts for pair in lost_attempts(commits, NOW - 5 * DAY)] == [6]
