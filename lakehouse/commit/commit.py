"""From a write to one Delta commit, and a second where a rival slipped in before it (ADR 2, ADR 4).

The inputs are pinned, so a write that lost its commit may be planned and tried again. An exception never means
"not committed" until the log says so: after every attempt, however it ended, the log is searched for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse.commit.rivals import Changed, LostAttempt, advice, changed_by, describe, explained, is_disputed, sentence
from lakehouse.commit.superseded import refuse_unsafe, refuse_unseen, superseded_by
from lakehouse.cursor.find import Known
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.walk import may_concern
from lakehouse.declare.retry import REAL_CLOCK, Clock, Retry
from lakehouse.errors import (
    ConflictError,
    ForeignApplicationIdError,
    LakehouseError,
    LateGapError,
    RolledBackError,
    StaleInputsError,
    UnknownOutcomeError,
    UnsettledError,
)
from lakehouse.log.commit_info import COMPACTING, Commit
from lakehouse.log.log import Head, Log, version_of
from lakehouse.log.size import total
from lakehouse.read.run import Run
from lakehouse.spark.codegen import interpreted
from lakehouse.spark.diagnosis import Conflict, Kind, classify, first_line
from lakehouse.spark.progress import doing, heard
from lakehouse.write.aggregate import Aggregate
from lakehouse.write.difference import broken_promise
from lakehouse.write.plan import plan
from lakehouse.write.statements import Skip, Statement, execute, is_compared
from lakehouse.write.writes import Write


@dataclass(frozen=True, slots=True)
class _Kept:
    """A statement whose comparison still holds while the table stays at `head`: the rivals changed other rows."""

    statement: Statement
    head: Head | None


@dataclass(frozen=True, slots=True)
class Committed:
    """The write is in the table, as `commit`."""

    commit: Commit
    statement: Statement
    lost: tuple[LostAttempt, ...] = ()
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class AlreadyApplied:
    """Another run, or an earlier attempt that was taken for dead, had committed the same changes."""

    mark: Mark
    commit: Commit
    lost: tuple[LostAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """There was nothing to commit; the table stays at `version`."""

    version: int


Outcome: TypeAlias = Committed | AlreadyApplied | Unchanged


def commit(
    spark: SparkSession,
    run: Run,
    write: Write,
    retry: Retry,
    clock: Clock = REAL_CLOCK,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Makes the write true of its table in one commit, and a second where a rival slipped in; or says why not.

    Args:
        spark: The session.
        run: What the run has pinned.
        write: What the asset returned.
        retry: How often a lost commit is tried again.
        clock: Time and chance.
        tell: Takes a line about each attempt that was lost, and about work that nobody would expect.

    Raises:
        ConflictError: Rivals won every attempt. Nothing was written.
        OvertakenError: Another run of this asset has committed, and does not leave this one nothing to do.
        RolledBackError: The position that this run began from is no longer in the table.
        BrokenPromiseError, SchemaError, PlanError: The result itself. Nothing was written.
        MissingFileError, ComputeError: Spark, for no fault of the result's. Nothing was written.
        UnknownOutcomeError: The commit may have landed, and the log cannot be read.
        UnsettledError: The commit is in the table, and rivals changed its rows just before it, again and again.
    """
    writing = _Attempts(spark, run, write, retry, clock, tell, run.ref.log(lambda: spark), clock.now())
    with heard(spark):
        while (outcome := writing.tried()) is None:
            pass
    return outcome


@dataclass(slots=True)
class _Attempts:
    """A write until its outcome is known: what it lost on the way, and what of that still holds."""

    spark: SparkSession
    run: Run
    write: Write
    retry: Retry
    clock: Clock
    tell: Callable[[str], None]
    log: Log
    began: float
    lost: list[LostAttempt] = field(default_factory=list[LostAttempt])
    slips: int = 0
    stale_base: Changed = Changed.UNKNOWN
    kept: _Kept | None = None
    done: Committed | None = None

    def tried(self) -> Outcome | None:
        """What one attempt came to; None where another is due."""
        try:
            return self._tried()
        except (UnsettledError, StaleInputsError, LateGapError):
            raise
        except LakehouseError as error:
            if self.done is None:
                raise
            # "Nothing was written", it says. So it is, by the second commit.
            version, problem = self.done.commit.version, first_line(error).partition(" Nothing was written")[0]
            raise UnsettledError(self.run.asset, version, max(1, self.slips), self.stale_base.value, problem) from error

    def _tried(self) -> Outcome | None:
        head = self._head()
        refuse_unsafe(self.run, head)
        settled = self._superseded(head)
        if settled is not None:
            return self.done or _already_applied(self.log, settled, self.lost)
        with interpreted(self.spark, total((self.run.inputs, self.log.size()))):
            doing(f"comparing its result with {self.run.asset}")
            statement = self._statement(head)
            if isinstance(statement, Skip):
                assert head is not None
                return self.done or Unchanged(head.version)
            mark = self._mark(head, statement)
            doing(f"writing {self.run.asset}")
            started, error = self.clock.now(), _attempt(self.spark, statement, self.run, mark)
        own = _find_attempt(self.log, mark, self.run, error)
        if own is None:
            self._lose(statement, mark, error, self.clock.now() - started)
            return None
        self.done = Committed(own, statement, tuple(self.lost), recovered=error is not None)
        stale_base = self._stale_base(mark, own)
        if stale_base is None:
            return self.done
        self._mend(mark, own, stale_base)
        return None

    def _superseded(self, head: Head | None) -> Known | None:
        done = None if self.done is None else self.done.commit.version
        return superseded_by(self.log, head, self.run, self.write, done)

    def _head(self) -> Head | None:
        """Where the table stands.

        Raises:
            RolledBackError: It is another table than the one whose position this run has read on from.
        """
        head, was = self.log.head(), self.run.table_id
        if was is not None and (head is None or head.table_id != was):
            raise RolledBackError(self.run.asset, head and head.version)
        return head

    def _mark(self, head: Head | None, statement: Statement) -> Mark:
        base, compared = version_of(head), is_compared(statement)
        digest = self.write.digest if isinstance(self.write, Aggregate) else None
        return self.run.mark(uuid4().hex, base, compared=compared, aggregate=digest)

    def _statement(self, head: Head | None) -> Statement | Skip:
        if self.kept is not None and self.kept.head == head:
            return self.kept.statement
        try:
            return plan(self.spark, self.run, self.write, head, self.tell)
        except LakehouseError:
            raise
        except Exception as error:
            raise explained(self.run, error) from error

    def _lose(self, statement: Statement, mark: Mark, error: Exception | None, seconds: float) -> None:
        """Takes down to what the attempt was lost, and waits for the next.

        Raises:
            ConflictError, UnsettledError, ForeignApplicationIdError: It was the last.
            LakehouseError: It was no conflict.
        """
        conflict = Conflict(Kind.SAME_ASSET) if error is None else _classified(self.run, error)
        head = self._head()
        rivals = () if head is None else tuple(self.log.commits(head.version, mark.base + 1))
        said = first_line(error)[:200] if error is not None and conflict.kind is Kind.UNKNOWN else ""
        attempt = LostAttempt(conflict, rivals, changed_by(self.spark, self.run, self.write, rivals), seconds, said)
        self.lost.append(attempt)
        number, elapsed = len(self.lost), self.clock.now() - self.began
        if (rivals and is_disputed(self.run, attempt.changed)) or not self.retry.allows(number, elapsed):
            if self._superseded(head) is not None:
                self.kept = None
                return  # a twin has done this run's work, which the next look at the log tells
            raise self._defeat(attempt, elapsed, error) from error
        # Sums are added only to what no rival has written to, whichever rows.
        may_hold = mark.compared and mark.aggregate is None and conflict.kind is Kind.FILES
        holds = may_hold and attempt.changed is Changed.OTHER_ROWS
        self.kept = _Kept(statement, head) if holds else None
        wait = self.retry.wait(number, self.clock.random)
        self.tell(f"{sentence(self.run, attempt, number)} Attempt {number + 1} in {wait:.1f} s.")
        self.clock.sleep(wait)

    def _defeat(self, attempt: LostAttempt, elapsed: float, error: Exception | None) -> LakehouseError:
        run = self.run
        if self.done is not None:
            return UnsettledError(run.asset, self.done.commit.version, len(self.lost), attempt.changed.value)
        if attempt.conflict.kind is Kind.SAME_ASSET and error is None and self._is_skipped():
            return ForeignApplicationIdError(run.asset, run.application_id, run.cursor.epoch + 1)
        unread = "; ".join(f"the changes of {c.name} {c.range} are still unread" for c in run.changes)
        inputs = unread or "its inputs are as they were"
        return ConflictError(run.asset, len(self.lost), elapsed, describe(attempt), inputs, advice(run, attempt))

    def _is_skipped(self) -> bool:
        """Whether Delta took the attempt for done. It also commits nothing where a rival has deleted the same rows."""
        head = self.log.head()
        epoch = None if head is None else self.log.epoch(self.run.application_id, head.version)
        return epoch is None or epoch > self.run.cursor.epoch

    def _stale_base(self, mark: Mark, own: Commit) -> Changed | None:
        """Whose rows a rival changed after they were compared and before our transaction began; None if not ours.

        Delta's own check covers what comes after the transaction's snapshot; the comparison was made on `base`.

        Raises:
            OvertakenError: It is one of the asset's own runs, and to compare once more would not be enough.
        """
        if own.version == mark.base + 1:
            return None
        refuse_unseen(self.log, self.run, mark, own)
        if not mark.compared:
            return None
        rivals = self.log.commits(own.version - 1, mark.base + 1)
        between = tuple(rival for rival in rivals if may_concern(rival, self.run.asset, self.run.partitions))
        judged = changed_by(self.spark, self.run, self.write, between) if between else Changed.OTHER_ROWS
        return None if judged is Changed.OTHER_ROWS else judged

    def _mend(self, mark: Mark, own: Commit, stale_base: Changed) -> None:
        """Makes the next attempt compare with the table as it is after our own commit.

        Raises:
            UnsettledError: Rivals have slipped in too often, or the table says that it is not to be overruled.
        """
        self.slips, self.stale_base = self.slips + 1, stale_base
        elapsed = self.clock.now() - self.began
        if is_disputed(self.run, stale_base) or not self.retry.allows(self.slips, elapsed):
            raise UnsettledError(self.run.asset, own.version, self.slips, stale_base.value)
        self.tell(f"A rival changed rows of {self.run.asset} just before version {own.version}; writing them again.")
        # Our own commit's epoch, so that a twin is noticed; the positions before it, so that nothing is skipped.
        cursor = replace(Known.of(mark, own.version), reads=self.run.cursor.reads)
        self.run, self.kept = replace(self.run, cursor=cursor), None
        self.clock.sleep(self.retry.wait(self.slips, self.clock.random))


def _attempt(spark: SparkSession, statement: Statement, run: Run, mark: Mark) -> Exception | None:
    """Executes once. Whatever is raised is evidence, not yet an outcome."""
    try:
        execute(spark, statement, run, mark)
    except Exception as error:
        return error
    return None


def _already_applied(log: Log, known: Known, lost: Sequence[LostAttempt]) -> AlreadyApplied:
    return AlreadyApplied(known.mark, next(log.commits(known.version, known.version)), tuple(lost))


def _find_attempt(log: Log, mark: Mark, run: Run, error: Exception | None) -> Commit | None:
    """Our commit, if this attempt landed; its version is its own, whatever rivals committed since."""
    try:
        head = log.head()
        if head is None:
            return None
        for found in log.commits(head.version, mark.base + 1):
            if found.user_metadata and mark.attempt in found.user_metadata and found.operation not in COMPACTING:
                return found
    except Exception as unreadable:
        raise UnknownOutcomeError(run.asset, mark.attempt, first_line(unreadable)) from (error or unreadable)
    return None


def _classified(run: Run, error: Exception) -> Conflict:
    if isinstance(error, LakehouseError):
        raise error
    conflict = classify(error)
    if conflict.kind is Kind.NOT_A_CONFLICT or broken_promise(run.asset, error) is not None:
        raise explained(run, error) from error
    return conflict
