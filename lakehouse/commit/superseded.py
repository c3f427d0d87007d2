"""Whether a run may write to its table, and whether another run has already done its work."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from lakehouse.commit.situation import (
    Due,
    Facts,
    Overtaken,
    RolledBack,
    Superseded,
    covers,
    has_read_further,
    is_undisturbed,
    situation_of_append,
    situation_of_run,
)
from lakehouse.cursor.cursor import Cursor, Fresh, Known
from lakehouse.cursor.find import find_cursor, newest_covering, newest_of_runs
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.walk import leaves_nothing_older, readable_mark, standing
from lakehouse.declare.table import UNSAFE_PROPERTIES
from lakehouse.errors import ForeignTableError, OvertakenError, RolledBackError, UnsafeTableError
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log
from lakehouse.read.run import Run
from lakehouse.results.writes import Append, Write
from lakehouse.spark.phases import phase


def refuse_unsafe(run: Run, head: Head | None) -> None:
    """Refuses a table on which "exactly once" cannot be guaranteed.

    Raises:
        UnsafeTableError: A property says so. Nothing was written.
    """
    for key, why in UNSAFE_PROPERTIES.items():
        if head is not None and key in head.properties:
            raise UnsafeTableError(run.name, run.ref.identifier, key, head.properties[key], why)


def refuse_foreign(run: Run, cursor: Cursor) -> None:
    """Refuses a table that holds rows of another program, unless a run tag has the run adopt the table (`Run.adopts`).

    Raises:
        ForeignTableError: The table holds such rows. Nothing was written.
    """
    if isinstance(cursor, Fresh) and cursor.foreign is not None and not run.adopts:
        raise ForeignTableError(run.name, run.ref.location, cursor.foreign, run.asset.adoption)


@phase("look at the cursor")
def superseded_by(log: Log, head: Head | None, run: Run, write: Write, done: int | None) -> Known | None:
    """The commit that leaves this run nothing to do; None if the run still has work to do.

    Args:
        log: The log of the run's table.
        head: Where that table stands.
        run: The run.
        write: What the asset returned.
        done: The version of this run's own commit; None before it.

    Raises:
        OvertakenError: Another run has committed, and this run still has work to do.
        RolledBackError: The position from which this run began is no longer in the table.
        ForeignTableError: The table now belongs to another program.
    """
    by_request = run.request.overrides_mark
    now = find_cursor(log, head, run.name, run.partitions, positions=bool(run.changes), overrides_mark=by_request)
    refuse_foreign(run, now)
    if isinstance(write, Append) and not run.changes and not run.partitions:
        situation = situation_of_append(run, now, _repeated(log, head, run))
    else:
        situation = situation_of_run(run, _facts(log, head, run, now, done))
    match situation:
        case Due():
            return None
        case Superseded(by=other):
            return other
        case Overtaken(by=other):
            raise OvertakenError(run.name, other.mark.run, other.version, written=done)
        case RolledBack():
            raise RolledBackError(run.name, head and head.version)
        case _:
            assert_never(situation)


def _repeated(log: Log, head: Head | None, run: Run) -> Known | None:
    """The newest commit of a run that this run repeats, after which others may have added their rows."""
    if not run.aliases or head is None:
        return None
    return newest_of_runs(log, head, run.name, {run.run_id, *run.aliases})


def _facts(log: Log, head: Head | None, run: Run, now: Cursor, done: int | None) -> Facts:
    facts = Facts(now, _overtaken_by(log, head, run, done), now if isinstance(now, Known) else None, done)
    if facts.newest is not None or head is None or not run.partitions or run.changes:
        return facts
    if is_undisturbed(run, facts):
        return facts
    # `now` was found without positions.
    return replace(facts, newest=newest_covering(log, head, run.name, run.partitions))


def _overtaken_by(log: Log, head: Head | None, run: Run, done: int | None) -> Known | None:
    """The newest commit by another application id that supersedes this run.

    Before our own commit: a run that read at least as far. After our own commit: any run, if both read changes.
    """
    if head is None:
        return None
    since = run.began_at if done is None else done
    for other in _of_other_application_ids(log.commits(head.version, since + 1), run):
        behind_own = done is not None and not run.compares_everything and bool(run.changes)
        covered = other.mark.covers(run.partitions) and covers(other, run)
        if covered or behind_own or has_read_further(other, run):
            return other
    return None


def refuse_concurrent(log: Log, run: Run, mark: Mark, own: Commit) -> None:
    """Refuses our commit if another application id committed just before it and another comparison would not be enough.

    If both runs read changes, the start of the other run's range is not recorded. If the whole result is written or
    compared, only a commit with older inputs is refused.

    Args:
        log: The log of the run's table.
        run: The run.
        mark: The mark of its commit.
        own: That commit.

    Raises:
        OvertakenError: The next run compares everything; an `Append` cannot, and is refused.
    """
    whole = not run.changes or leaves_nothing_older(own, mark)
    between = (commit for commit in log.commits(own.version - 1, mark.base + 1) if not commit.is_quiet)
    for other in _of_other_application_ids(between, run):
        if has_read_further(other, run) or not whole:
            raise OvertakenError(run.name, other.mark.run, other.version, written=own.version)


def _of_other_application_ids(commits: Iterable[Commit], run: Run) -> Iterator[Known]:
    """Commits of other runs, in another generation or set of partitions, that wrote partitions of this run."""
    for commit in standing(commits):
        mark = readable_mark(commit, run.name)
        if mark is None or run.is_own(mark) or not mark.meets(run.partitions):
            continue
        if (mark.partitions, mark.generation) != (run.partitions, run.cursor.generation):
            yield Known.of(mark, commit.version)
