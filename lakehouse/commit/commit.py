"""From a write to one Delta commit, and a second if a rival committed between the comparison and it (ADR 2, 4).

Two loops, each with its own outcomes. `_land` tries until a commit is in the table or is not needed. `_mend` checks
that this commit followed from what the table held just before it, and lands once more if it did not.

The inputs are pinned, so a write that lost its commit may be planned and tried again. An exception never means
"not committed" until the log says so: after every attempt, however it ended, the log is searched for it.
"""

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from lakehouse.commit.attempt import Writing, head_of, lost_to, plan_attempt, try_both
from lakehouse.commit.outcome import AlreadyApplied, Committed, Outcome, Unchanged
from lakehouse.commit.rivals import (
    Changed,
    ConflictKind,
    LostAttempt,
    advice,
    changed_by,
    describe,
    is_disputed,
    rivals_before,
    sentence,
)
from lakehouse.commit.superseded import refuse_unsafe, superseded_by
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.mark import Mark
from lakehouse.delta.log import Head, total
from lakehouse.delta.policy import REAL_CLOCK, Clock, Retry
from lakehouse.difference.statements import Statement
from lakehouse.errors import (
    CommitError,
    LakehouseError,
    LateGapError,
    StaleInputsError,
    TableError,
    UncomparedError,
    UnsettledError,
)
from lakehouse.read.run import Run
from lakehouse.spark.abilities import RefusedStatementError
from lakehouse.spark.progress import Doing, Message, tell, watching
from lakehouse.spark.session import interpreting
from lakehouse.writes.write import Write


@dataclass(frozen=True, slots=True)
class _Plan:
    """A statement that may be tried again unchanged: rivals changed other rows, and `head` has not moved since."""

    statement: Statement
    head: Head | None


@dataclass(frozen=True, slots=True)
class _Defeated:
    """The last attempt that is allowed was lost; `error` is what it raised, if it raised anything."""

    last: LostAttempt
    error: Exception | None


def commit(spark: SparkSession, run: Run, write: Write, retry: Retry, clock: Clock = REAL_CLOCK) -> Outcome:
    """Makes the write true of its table in one commit, and a second one if a rival came between.

    Raises:
        CommitError (CONFLICT): Rivals won every attempt. Nothing was written.
        StaleInputsError (OVERTAKEN): Another run of this asset has committed, and this run still has work to do.
        StaleInputsError (ROLLED_BACK): The position that this run began from is no longer in the table.
        WriteError (BROKEN_PROMISE, SCHEMA, PLAN): The result is wrong. Nothing was written.
        ReadError (MISSING_FILE), WriteError (COMPUTE): Spark failed, and the result is not the cause. Nothing was
            written.
        CommitError (UNKNOWN_OUTCOME): The commit may have landed, and the log cannot be read.
        UnsettledError: The commit is in the table, and rivals changed its rows just before it, again and again.
    """
    writing = Writing(spark, run, write, retry, clock, run.ref.log(lambda: spark), clock.now())
    with watching(spark):
        match _land(writing):
            case Committed() as landed:
                return _mend(writing, landed)
            case _Defeated() as defeat:
                raise _defeat(writing, defeat) from defeat.error
            case outcome:
                return outcome


def _land(writing: Writing, done: int | None = None) -> Outcome | _Defeated:
    """Tries until one attempt is in the table, another run has done its work, or there is nothing to write."""
    plan: _Plan | None = None
    while True:
        head = head_of(writing)
        refuse_unsafe(writing.run, head)
        other = superseded_by(writing.log, head, writing.run, done)
        if other is not None:
            _refuse_lead(writing.run, other)
            commit_ = next(writing.log.commits(other.version, other.version))
            return AlreadyApplied(other.mark, commit_, tuple(writing.lost))
        with interpreting(writing.spark, total((writing.run.inputs, writing.log.size()))):
            tell(Doing(f"comparing its result with {writing.run.name}"))
            planned = plan.statement if plan is not None and plan.head == head else plan_attempt(writing, head)
            try:
                of, attempt = try_both(writing, planned, head)
            except RefusedStatementError:
                plan = None
                continue  # now it is known that this session refuses it, so writes of rows are planned instead
        if attempt is None:
            assert head is not None
            return Unchanged(head.version)
        if attempt.own is not None:
            recovered = attempt.error is not None
            return Committed(attempt.own, attempt.mark, attempt.statement, tuple(writing.lost), recovered)
        lost, now = lost_to(of, attempt)
        is_of_table = of.run.asset is writing.run.asset
        writing = of if is_of_table else writing
        plan = _Plan(attempt.statement, now) if is_of_table and _still_holds(attempt.mark, lost) else None
        if not _is_the_last(of, lost):
            _wait(of, lost)
        # Unless a concurrent run has done this run's work, which the next look at the log shows.
        elif superseded_by(writing.log, head_of(writing), writing.run, done) is None:
            return _Defeated(lost, attempt.error)


def _refuse_lead(run: Run, other: Known) -> None:
    """Refuses to end a run that has set the quarantine right if the run that wrote the table did not see that.

    Raises:
        StaleInputsError (OVERTAKEN): It did not. This step runs again, finds the quarantine ahead, and compares.
    """
    if run.other_table.version is not None and run.other_table.version > other.mark.version_of_quarantine:
        raise StaleInputsError.overtaken(run.name, other.mark.run, other.version)


def _mend(writing: Writing, landed: Committed) -> Committed:
    """The commit that counts: the landed one if it followed from the table just before it, otherwise a second one.

    `judge_base` decides what a rival just before the commit means, and `changed_by` whether the rival changed rows of
    the write. A rival that Delta itself sees makes the attempt fail, in `_land`.

    Raises:
        UnsettledError: Rivals came between too often, the table forbids overruling them, or the second commit
            failed.
        StaleInputsError (OVERTAKEN): The rival is a run of the same asset, and another comparison would not be enough.
    """
    times, rows = 0, Changed.UNKNOWN
    while True:
        version = landed.commit.version
        try:
            stale = _stale_base(writing, landed)
            if stale is None:
                return landed
            times, rows = times + 1, stale
            if is_disputed(writing.run, stale) or not writing.retry.allows(times, writing.seconds_so_far):
                raise UnsettledError(writing.run.name, version, times, stale.value)
            writing = _behind(writing, landed, times)
            match _land(writing, version):
                case Committed() as again:
                    landed = again
                case _Defeated(last=last, error=error):
                    lost = len(writing.lost)
                    raise UnsettledError(writing.run.name, version, lost, last.changed.value) from error
                case AlreadyApplied() | Unchanged():
                    return landed
        except (UnsettledError, StaleInputsError, UncomparedError):
            raise
        except LateGapError as error:
            raise LateGapError(error.asset, error.reason, written=version) from error
        except LakehouseError as error:
            # What the error calls true now concerns the second commit alone; what happened concerns the whole run.
            raise UnsettledError(writing.run.name, version, max(1, times), rows.value, error.happened) from error


def _is_the_last(writing: Writing, lost: LostAttempt) -> bool:
    disputed = bool(lost.rivals) and is_disputed(writing.run, lost.changed)
    return disputed or not writing.retry.allows(len(writing.lost), writing.seconds_so_far)


def _still_holds(mark: Mark, lost: LostAttempt) -> bool:
    """Whether the comparison still holds. Sums are added only if no rival wrote any rows to the table."""
    compared = mark.compared and mark.aggregate is None
    return compared and lost.conflict.kind is ConflictKind.FILES and lost.changed is Changed.OTHER_ROWS


def _wait(writing: Writing, lost: LostAttempt) -> None:
    number = len(writing.lost)
    wait = writing.retry.wait(number, writing.clock.random)
    tell(Message(f"{sentence(writing.run, lost, number)} Attempt {number + 1} in {wait:.1f} s."))
    writing.clock.sleep(wait)


def _defeat(writing: Writing, defeat: _Defeated) -> LakehouseError:
    run, last = writing.run, defeat.last
    if last.conflict.kind is ConflictKind.SAME_ASSET and defeat.error is None and _is_skipped(writing):
        return TableError.foreign_application_id(run.name, run.application_id, run.cursor.epoch + 1)
    unread = "; ".join(f"the changes of {c.name} {c.range} are still unread" for c in run.changes)
    inputs = unread or "its inputs are as they were"
    return CommitError.conflict(
        run.name, len(writing.lost), writing.seconds_so_far, describe(last), inputs, advice(run, last)
    )


def _is_skipped(writing: Writing) -> bool:
    """Whether Delta skipped the attempt as done. Delta also commits nothing if a rival deleted the same rows."""
    head = writing.log.head()
    epoch = None if head is None else writing.log.epoch(writing.run.application_id, head.version)
    return epoch is None or epoch > writing.run.cursor.epoch


def _stale_base(writing: Writing, landed: Committed) -> Changed | None:
    """Which rows a rival changed between the comparison and the transaction; None if the write is not about them.

    Delta's own check covers what comes after the transaction's snapshot; the comparison was made on `base`.
    """
    run = writing.run
    rivals = rivals_before(writing.log, run, landed.mark, landed.commit)
    changed = changed_by(writing.spark, run, writing.write, rivals) if rivals else Changed.OTHER_ROWS
    return None if changed is Changed.OTHER_ROWS else changed


def _behind(writing: Writing, landed: Committed, times: int) -> Writing:
    """The same write, to be compared with the table as it is after the commit that landed."""
    run, version = writing.run, landed.commit.version
    tell(Message(f"A rival changed rows of {run.name} just before version {version}; writing them again."))
    writing.clock.sleep(writing.retry.wait(times, writing.clock.random))
    # The epoch of that commit, so that a concurrent run is noticed; the earlier positions, so that nothing is skipped.
    cursor = replace(Known.of(landed.mark, version), reads=run.cursor.reads)
    return replace(writing, run=replace(run, cursor=cursor))
