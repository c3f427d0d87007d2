"""What commits record about the runs that made them, and about attempts that these runs had lost; no log, no Spark."""

from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark
from lakehouse.delta.commit_info import Commit, Rows
from lakehouse.status.lakehouse_status import LostAttempts, past_runs

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


def test_a_run_is_told_with_what_its_commit_says_that_it_wrote() -> None:
    past = past_runs([commit(7, "a"), commit(6, None), commit(5, "a", operation="OPTIMIZE"), commit(4, "b")], 20, 0)
    assert [(run.version, run.run, run.rows, run.bytes) for run in past.runs] == [
        (7, "run 7", Rows(7, 0, 0), 70),
        (4, "run 4", Rows(4, 0, 0), 40),
    ], "an OPTIMIZE with the mark of a run is not the run"


def test_an_attempt_is_counted_by_its_writer_and_by_who_had_committed_first() -> None:
    commits = [
        commit(9, "a", 8, 7),
        commit(8, "a"),
        commit(7, None, operation="OPTIMIZE"),
        commit(6, "b", 5, 4),
        commit(5, "a"),
        commit(4, None),
    ]
    assert past_runs(commits, 20, 0).lost == (
        LostAttempts("a", "OPTIMIZE", 1, NOW),
        LostAttempts("a", "another run of it", 1, NOW),
        LostAttempts("b", "a", 1, NOW),
        LostAttempts("b", "another program's MERGE", 1, NOW),
    )


def test_an_attempt_that_both_commits_of_one_run_tell_of_counts_once() -> None:
    commits = [commit(9, "a", 5, 7, run="r"), commit(8, "a", 5, run="r"), commit(7, "b"), commit(5, "b")]
    assert past_runs(commits, 20, 0).lost == (LostAttempts("a", "b", 2, NOW),)


def test_an_attempt_of_before_the_time_is_not_counted_and_no_commit_is_read_that_nobody_needs() -> None:
    read = list[int]()

    def commits():
        for version in range(30, 0, -1):
            read.append(version)
            yield commit(version, "a", version - 1, day=30 - version)

    past = past_runs(commits(), 3, NOW - 5 * DAY)
    assert [pair.attempts for pair in past.lost] == [6]
    assert len(past.runs) == 3 and min(read) == 24
