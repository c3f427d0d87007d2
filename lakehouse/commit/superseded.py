"""Whether a run may write, and still has something to do: what its table is, and what became of it since."""

from collections.abc import Iterable, Iterator

from lakehouse.cursor.find import Cursor, Fresh, Known, find_cursor, newest_covering, newest_of_runs
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.walk import leaves_nothing_older, readable_mark, standing
from lakehouse.declare.table import UNSAFE_PROPERTIES
from lakehouse.errors import ForeignTableError, OvertakenError, RolledBackError, UnsafeTableError
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log
from lakehouse.read.run import Run
from lakehouse.spark.phases import phase
from lakehouse.write.writes import Append, Write


def refuse_unsafe(run: Run, head: Head | None) -> None:
    """Refuses a table on which "exactly once" could not be kept.

    Raises:
        UnsafeTableError: A property says so. Nothing was written.
    """
    for key, why in UNSAFE_PROPERTIES.items():
        if head is not None and key in head.properties:
            raise UnsafeTableError(run.asset, run.ref.identifier, key, head.properties[key], why)


def refuse_foreign(run: Run, cursor: Cursor) -> None:
    """Refuses a table that holds rows of somebody else's, unless the run was asked to compare with them.

    Raises:
        ForeignTableError: It is one. Nothing was written.
    """
    if isinstance(cursor, Fresh) and cursor.foreign is not None and not run.takes_over:
        raise ForeignTableError(run.asset, run.ref.location, cursor.foreign, appends=run.of.appends)


@phase("look at the cursor")
def superseded_by(log: Log, head: Head | None, run: Run, write: Write, done: int | None) -> Known | None:
    """The commit that leaves this run nothing to do; None while what the run found or brought about still holds.

    Args:
        log: The log of the run's table.
        head: Where that table stands.
        run: The run.
        write: What the asset returned.
        done: The version of this attempt's own commit, where there is one already.

    Raises:
        OvertakenError: Another run has committed, and not what this one was about to.
        RolledBackError: The position that this run began from is no longer there.
        ForeignTableError: The table is somebody else's by now.
    """
    now = find_cursor(log, head, run.asset, run.partitions, positions=bool(run.changes), asked=run.asked)
    refuse_foreign(run, now)
    unmoved = (now.generation, now.epoch) == (run.cursor.generation, run.cursor.epoch)
    if isinstance(write, Append) and not run.changes and not run.partitions:
        return _added_by(log, head, run, now, unmoved=unmoved)
    other = _overtaken_by(log, head, run, done)
    if other is None and unmoved and not _is_rolled_back(run, now, done):
        return now if isinstance(now, Known) and now.version != done and _repeats(run, now) else None
    # What a commit says of itself need not hold: the cursor knows what slipped in, or was taken back.
    newest = now if isinstance(now, Known) else None
    if newest is None and run.partitions and not run.changes:  # `now` was found without positions
        newest = None if head is None else newest_covering(log, head, run.asset, run.partitions)
    other = other or newest
    if other is None:
        raise RolledBackError(run.asset, head and head.version)
    return _judged(run, other, newest, done)


def _is_rolled_back(run: Run, now: Cursor, done: int | None) -> bool:
    """Whether what the run goes on from is no longer there, although its epoch is: a range would leave a hole."""
    if run.compares_everything or not run.changes:
        return False
    return run.is_rolled_back_in(now) if done is None else not isinstance(now, Known)


def _repeats(run: Run, newest: Known) -> bool:
    """Whether the newest commit is the run's own, with the same look-ups and nothing slipped in: it runs again."""
    if run.changes or run.partitions or newest.stale_base:
        return False
    return run.is_own(newest.mark) and newest.mark.reads == run.reads


def _judged(run: Run, other: Known, newest: Known | None, done: int | None) -> Known:
    """The commit of another run, where by the cursor it leaves this one nothing to do.

    Behind the run's own commit it does where the rows hold as of their position. Of rows that were compared with
    everything no position tells.
    """
    if done is None:
        settles = newest is not None and run.is_covered_by(newest)
    else:
        settles = newest is not None and not newest.stale_base and not run.compares_everything
    if not settles:
        raise OvertakenError(run.asset, other.mark.run, other.version, written=done)
    return other


def _added_by(log: Log, head: Head | None, run: Run, now: Cursor, *, unmoved: bool) -> Known | None:
    """The commit by which this very run has added its rows: another run adds its own, which never stand for ours."""
    newest = now if isinstance(now, Known) else None
    if newest is not None and run.is_own(newest.mark):
        return newest
    own = None
    if run.aliases and head is not None:  # it repeats a run, after which others may have added theirs
        own = newest_of_runs(log, head, run.asset, {run.run_id, *run.aliases})
    if own is None and not unmoved:
        if newest is None:
            raise RolledBackError(run.asset, head and head.version)
        raise OvertakenError(run.asset, newest.mark.run, newest.version)
    return own


def _overtaken_by(log: Log, head: Head | None, run: Run, done: int | None) -> Known | None:
    """Who has written partitions of this run since it began, in a sequence of epochs of its own, and was not earlier.

    Before the run's commit that is one that read as far, or further. Behind it any, if both read changes: a range that
    began earlier holds this run's, and one that began later goes on from its commit.
    """
    if head is None:
        return None
    since = run.began_at if done is None else done
    for known in _of_other_sequences(log.commits(head.version, since + 1), run):
        behind_ours = done is not None and not run.compares_everything and bool(run.changes)
        covered = known.mark.covers(run.partitions) and run.is_covered_by(known)
        if covered or behind_ours or run.is_behind(known):
            return known
    return None


def refuse_unseen(log: Log, run: Run, mark: Mark, own: Commit) -> None:
    """Refuses a commit that followed unseen upon one of another sequence, where to compare once more is not enough.

    Both had changes of their own to apply, and from where the other one had read nobody knows. Where the whole result
    is written, or compared, it is only one with older inputs that must not stay.

    Args:
        log: The log of the run's table.
        run: The run.
        mark: What its commit says.
        own: That commit.

    Raises:
        OvertakenError: The next run compares everything; an `Append` cannot, and says so.
    """
    whole = not run.changes or leaves_nothing_older(own, mark)
    between = (commit for commit in log.commits(own.version - 1, mark.base + 1) if not commit.is_quiet)
    for known in _of_other_sequences(between, run):
        if run.is_behind(known) or not whole:
            raise OvertakenError(run.asset, known.mark.run, known.version, written=own.version)


def _of_other_sequences(commits: Iterable[Commit], run: Run) -> Iterator[Known]:
    """What other runs have written, in another generation or set of partitions, to partitions of this run."""
    for commit in standing(commits):
        mark = readable_mark(commit, run.asset)
        if mark is None or run.is_own(mark) or not mark.meets(run.partitions):
            continue
        if (mark.partitions, mark.generation) != (run.partitions, run.cursor.generation):
            yield Known.of(mark, commit.version)
