"""What the newest commits of a table say of the runs that made them: what each wrote, and to whom it lost attempts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakehouse.cursor.mark import Mark, mark_in, rows_of
from lakehouse.delta.commit_info import Commit, Rows


@dataclass(frozen=True, slots=True)
class PastRun:
    """What one run wrote, by the metrics of its commit.

    Args:
        version: The version that it made.
        at: When, in milliseconds since the epoch.
        run: The id of the run.
        operation: The operation, as Delta calls it.
        rows: How many rows it inserted, updated and deleted.
        bytes: The bytes of the files that it added; 0 if no row changed.
    """

    version: int
    at: int
    run: str
    operation: str
    rows: Rows
    bytes: int


@dataclass(frozen=True, slots=True)
class LostAttempts:
    """Attempts to commit that a writer of a table lost to another one, and repeated.

    Args:
        writer: The asset whose runs lost them.
        rival: Who had committed first: an asset, an operation of upkeep, or another program's operation.
        attempts: How many attempts.
        last: When the writer committed after the last of them, in milliseconds since the epoch.
    """

    writer: str
    rival: str
    attempts: int
    last: int


_Lost = dict[tuple[str, int], tuple[Mark, int]]
"""By run and by the version of the rival's commit: the mark of the run's commit, and its time."""


@dataclass(frozen=True, slots=True)
class TablePastRuns:
    """The runs that the newest commits tell of, newest first, and the attempts that they lost."""

    runs: tuple[PastRun, ...] = ()
    lost: tuple[LostAttempts, ...] = ()


def past_runs(commits: Iterable[Commit], most: int, since: int) -> TablePastRuns:
    """The newest runs of a table, and the attempts that were lost since a time; no commit is read that neither needs.

    Args:
        commits: Its commits, newest first.
        most: How many runs are asked for.
        since: The time, in milliseconds since the epoch.
    """
    runs, lost, read = list[PastRun](), _Lost(), dict[int, Commit]()
    for commit in commits:
        read[commit.version] = commit
        if commit.timestamp < since and len(runs) >= most:
            break
        mark = mark_in(commit)
        if mark is None:
            continue
        if len(runs) < most:
            rows = rows_of(commit)
            run = PastRun(commit.version, commit.timestamp, mark.run, commit.operation, rows, commit.bytes_written)
            runs.append(run)
        if commit.timestamp >= since:  # a second commit of a run repeats what the run had lost before the first
            lost |= {(mark.run, rival): (mark, commit.timestamp) for rival in mark.lost_to}
    return TablePastRuns(tuple(runs), _by_pair(lost, read))


def _by_pair(lost: _Lost, commits: Mapping[int, Commit]) -> tuple[LostAttempts, ...]:
    """The attempts by writer and rival, whose commit is older than the writer's."""
    pairs = dict[tuple[str, str], list[int]]()
    for (_, version), (mark, at) in lost.items():
        pairs.setdefault((mark.asset, _writer(commits.get(version), mark)), []).append(at)
    return tuple(LostAttempts(*pair, len(times), max(times)) for pair, times in sorted(pairs.items()))


def _writer(commit: Commit | None, loser: Mark) -> str:
    """Who made a commit, as the writer that lost to it would say."""
    if commit is None:
        return "a commit that is no longer looked at"
    mark = mark_in(commit)
    if mark is None:
        return commit.operation if commit.is_quiet else f"another program's {commit.operation}"
    return "another run of it" if mark.asset == loser.asset else mark.asset
