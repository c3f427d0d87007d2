"""Whether a run may write to its table, and whether another run has already done its work.

What other commits to its table mean for a run is a closed set of situations, decided from facts that the log shows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from logging import WARNING
from typing import TypeAlias

from lakehouse.cursor.cursor import Cursor, Fresh, Known
from lakehouse.cursor.digests import may_be_same
from lakehouse.cursor.find import find_cursor, newest_covering, newest_of_runs
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.walk import readable_mark, standing
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.log import Head, Log
from lakehouse.delta.table import UNSAFE_PROPERTIES
from lakehouse.errors import StaleInputsError, TableError
from lakehouse.read.asset import UNREAD, PastRows
from lakehouse.read.run import Run
from lakehouse.spark.progress import Message, phase, tell


@dataclass(frozen=True, slots=True)
class Due:
    """No other run has done the run's work: it plans and commits."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A commit leaves the run nothing to do."""

    by: Known


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Another run has committed, and this run still has work to do, with new inputs."""

    by: Known


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The position from which the run began is no longer in the table."""


Situation: TypeAlias = Due | Superseded | Overtaken | RolledBack


@dataclass(frozen=True, slots=True)
class Facts:
    """What the log of the run's table shows.

    Args:
        now: The cursor of the run's partitions now.
        other: The newest commit of another generation, or set of partitions, that is about this run's work; see
            `_overtaken_by`.
        newest: The newest commit that wrote all of the run's partitions.
        done: The version of this run's own commit; None before it.
    """

    now: Cursor
    other: Known | None
    newest: Known | None
    done: int | None


def situation_of_run(run: Run, facts: Facts) -> Situation:
    """The situation of a run whose result the table is to hold, whichever run writes it."""
    newest, done = facts.newest, facts.done
    if is_undisturbed(run, facts):
        return Superseded(newest) if newest is not None and newest.version != done and _repeats(run, newest) else Due()
    by = facts.other or newest
    if by is None:
        return RolledBack()
    # The mark of a commit need not hold: the cursor allows for a stale base, and for a position that was rolled back.
    return Superseded(by) if newest is not None and _supersedes(run, newest, done) else Overtaken(by)


def situation_of_append(run: Run, now: Cursor, repeated: Known | None) -> Situation:
    """The situation of a run that adds its rows every time, so that only its own commit can have added them."""
    newest = now if isinstance(now, Known) else None
    if newest is not None and run.is_own(newest.mark):
        return Superseded(newest)
    if repeated is not None:
        return Superseded(repeated)
    if _is_unmoved(run, now):
        return Due()
    return RolledBack() if newest is None else Overtaken(newest)


def is_undisturbed(run: Run, facts: Facts) -> bool:
    """Whether the table's cursor is the one from which the run began, and no other commit is about its work."""
    rolled_back = _is_rolled_back(run, facts.now, facts.done)
    return facts.other is None and _is_unmoved(run, facts.now) and not rolled_back


def _is_unmoved(run: Run, now: Cursor) -> bool:
    return (now.generation, now.epoch) == (run.cursor.generation, run.cursor.epoch)


def _is_rolled_back(run: Run, now: Cursor, done: int | None) -> bool:
    """Whether the run's position is gone although its epoch is the same, so that its range would leave a hole."""
    if run.compares_everything or not run.changes:
        return False
    return _stands_before(run, now) if done is None else not isinstance(now, Known)


def _repeats(run: Run, newest: Known) -> bool:
    """Whether the newest commit is the run's own, with the same snapshot inputs and no stale base.

    Not if the commit was there when the run began: what the run reads besides may have changed since, and its code.
    """
    if run.changes or run.partitions or newest.stale_base or newest.version <= run.began_at:
        return False
    return run.is_own(newest.mark) and newest.mark.reads == run.reads and newest.mark.extract == run.facts.extract


def _supersedes(run: Run, newest: Known, done: int | None) -> bool:
    """Whether the newest commit leaves the run nothing to do.

    After the run's own commit it does if the table holds the rows of its position. After a reconciliation no position
    shows that.
    """
    if done is None:
        return covers(newest, run)
    return not newest.stale_base and not run.compares_everything


def covers(newest: Known, run: Run) -> bool:
    """Whether a commit leaves a run nothing to do.

    Another run's commit does if it has the same definition and read at least as far in every source. It never does
    if the run compares everything or restates a history, or if it reads no changes or has an input without a version,
    because its result may depend on something else.
    """
    if run.is_own(newest.mark):
        return not newest.stale_base
    if run.compares_everything or run.request.restate_from is not None:
        return False
    if not run.changes or run.unversioned_inputs or not _has_definition_of(newest.mark, run):
        return False
    return all(
        (read := newest.reads.get(source)) is not None
        and read.is_of_same_rows(position)
        and read.version >= position.version
        for source, position in run.reads.items()
    )


def _has_definition_of(mark: Mark, run: Run) -> bool:
    same = mark.definition is None or mark.definition == run.definition
    same = same and may_be_same(mark.query, run.facts.query)
    return same and mark.code_version == run.asset.code_version and run.asset.why_new_code(mark) is None


def has_read_further(other: Known, run: Run) -> bool:
    """Whether a commit had read further than a run in one of its sources."""
    return any(
        (read := other.reads.get(source)) is not None
        and read.table == position.table
        and read.version > position.version
        for source, position in run.reads.items()
    )


def _stands_before(run: Run, now: Cursor) -> bool:
    """Whether the table stands before the position from which the run continues, which would leave a hole."""
    return any(
        (position := now.reads.get(source)) is None or position.table != at.table or position.version < at.version
        for source, at in run.cursor.reads.items()
        if not at.is_snapshot
    )


def refuse_unsafe(run: Run, head: Head | None) -> None:
    """Refuses a table on which "exactly once" cannot be guaranteed.

    Raises:
        TableError (UNSAFE_TABLE): A property of the table rules it out. Nothing was written.
    """
    for key, why in UNSAFE_PROPERTIES.items():
        if head is not None and key in head.properties:
            raise TableError.unsafe_table(run.name, run.ref.identifier, key, head.properties[key], why)


def refuse_foreign(run: Run, cursor: Cursor) -> None:
    """Refuses a table that holds rows of another program, unless a run tag has the run adopt the table.

    Raises:
        TableError (FOREIGN_TABLE): The table holds such rows. Nothing was written.
    """
    if isinstance(cursor, Fresh) and cursor.foreign is not None and not _adopts(run):
        raise TableError.foreign_table(run.name, run.ref.location, cursor.foreign, run.asset.adoption)


def _adopts(run: Run) -> bool:
    """Whether the run may write to a table that holds rows of another program."""
    match run.asset.past:
        case PastRows.KEPT:
            return False
        case PastRows.DELIVERED if "version" in run.request.allowed:
            return True
        case PastRows.COMPUTED | PastRows.DELIVERED | PastRows.APPENDED:
            return run.compares_everything or run.continued_from is not None


@phase("look at the cursor")
def superseded_by(log: Log, head: Head | None, run: Run, done: int | None) -> Known | None:
    """The commit that leaves this run nothing to do; None if the run still has work to do.

    Raises:
        StaleInputsError (OVERTAKEN): Another run has committed, and this run still has work to do.
        StaleInputsError (ROLLED_BACK): The position from which this run began is no longer in the table.
        TableError (FOREIGN_TABLE): The table now belongs to another program.
    """
    by_request = run.request.overrides_mark
    now = find_cursor(log, head, run.name, run.partitions, positions=bool(run.changes), overrides_mark=by_request)
    refuse_foreign(run, now)
    if run.asset.past is PastRows.APPENDED and not run.changes and not run.partitions:
        situation = situation_of_append(run, now, _run_to_repeat(log, head, run))
    else:
        situation = situation_of_run(run, _facts(log, head, run, now, done))
    match situation:
        case Due():
            return None
        case Superseded(by=other):
            if run.request.thaw == UNREAD and not run.is_own(other.mark):
                why = f"run {other.mark.run} committed meanwhile, whose log names what had frozen, and how to thaw that"
                tell(Message(f"{run.name} thawed nothing: {why}.", WARNING))
            return other
        case Overtaken(by=other):
            raise StaleInputsError.overtaken(run.name, other.mark.run, other.version, written=done)
        case RolledBack():
            raise StaleInputsError.rolled_back(run.name, head and head.version)


def _run_to_repeat(log: Log, head: Head | None, run: Run) -> Known | None:
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

    Before the run's own commit: a run that read at least as far. After it: any run, if both read changes.
    """
    if head is None:
        return None
    since = run.began_at if done is None else done
    for other in commits_of_other_application_ids(log.commits(head.version, since + 1), run):
        behind_own = done is not None and not run.compares_everything and bool(run.changes)
        covered = other.mark.covers(run.partitions) and covers(other, run)
        if covered or behind_own or has_read_further(other, run):
            return other
    return None


def commits_of_other_application_ids(commits: Iterable[Commit], run: Run) -> Iterator[Known]:
    """Commits of other runs, in another generation or set of partitions, that wrote partitions of this run."""
    for commit in standing(commits):
        mark = readable_mark(commit, run.name)
        if mark is None or run.is_own(mark) or not mark.meets(run.partitions):
            continue
        if (mark.partitions, mark.generation) != (run.partitions, run.cursor.generation):
            yield Known.of(mark, commit.version)
