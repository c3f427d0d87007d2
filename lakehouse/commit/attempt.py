"""One attempt of a write: planned, executed once, and looked for in the log however it ended."""

from dataclasses import dataclass, field, replace
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse.commit.execute import execute
from lakehouse.commit.failed_plan import explain_error
from lakehouse.commit.rivals import Conflict, ConflictKind, LostAttempt, changed_by, classify
from lakehouse.cursor.mark import Mark, rows_of
from lakehouse.delta.commit_info import COMPACTING, Commit
from lakehouse.delta.log import NO_TABLE, Head, Log, version_of
from lakehouse.delta.policy import Clock, Retry
from lakehouse.difference.statements import Planned, Skip, Statement, WithQuarantine, of_table, replaced_rows
from lakehouse.errors import CommitError, LakehouseError, StaleInputsError
from lakehouse.read.archive import archive_begins
from lakehouse.read.asset import OtherTable
from lakehouse.read.run import Run
from lakehouse.spark.abilities import RefusedStatementError
from lakehouse.spark.broken_promises import broken_promise
from lakehouse.spark.diagnosis import Meaning, diagnose, first_line
from lakehouse.spark.progress import Doing, Message, QuarantineWritten, phase, tell
from lakehouse.writes.write import Write, plan


@dataclass(frozen=True, slots=True)
class Writing:
    """A write on its way into the table, and the attempts that it has lost so far."""

    spark: SparkSession
    run: Run
    write: Write
    retry: Retry
    clock: Clock
    log: Log
    began: float
    lost: list[LostAttempt] = field(default_factory=list[LostAttempt])

    @property
    def seconds_so_far(self) -> float:
        return self.clock.now() - self.began


@dataclass(frozen=True, slots=True)
class Attempt:
    """A statement that was executed once."""

    statement: Statement
    mark: Mark
    own: Commit | None
    error: Exception | None
    seconds: float


def head_of(writing: Writing) -> Head | None:
    """Where the table stands.

    Raises:
        StaleInputsError (ROLLED_BACK): The table is not the one from whose position this run continued.
    """
    head, was = writing.log.head(), writing.run.head
    if was is not None and (head is None or head.table_id != was.table_id):
        raise StaleInputsError.rolled_back(writing.run.name, head and head.version)
    return head


def plan_attempt(writing: Writing, head: Head | None) -> Planned:
    """The statement that makes the write true of the table at `head`, and the statement of its quarantine.

    Rows that planning has computed are held by executors, and are lost with them. The inputs are pinned, so the write
    is then planned again.

    Raises:
        LakehouseError: The result does not fit the table, or Spark cannot compute it.
    """
    plans = 1
    while True:
        try:
            return plan(writing.spark, writing.run, writing.write, head)
        except LakehouseError:
            raise
        except Exception as error:
            if Meaning.ROWS_LOST not in diagnose(error) or not writing.retry.allows(plans, writing.seconds_so_far):
                raise explain_error(writing.run, error) from error
            name = writing.run.name
            tell(Message(f"Rows computed for {name} were lost with their executor. They are computed again."))
            plans += 1


def try_once(writing: Writing, statement: Statement, head: Head | None) -> Attempt:
    """Executes the statement once, and searches the log for its commit.

    Raises:
        CommitError (UNKNOWN_OUTCOME): The commit may have landed, and the log cannot be read.
    """
    tell(Doing(f"writing {writing.run.name}"))
    mark, started = _mark(writing, head, statement), writing.clock.now()
    error = _execute_once(writing, statement, mark)
    seconds = writing.clock.now() - started
    return Attempt(statement, mark, _find_attempt(writing.log, mark, writing.run, error), error, seconds)


def try_both(writing: Writing, planned: Planned, head: Head | None) -> tuple[Writing, Attempt | None]:
    """Executes the statement of the quarantine, if there is one, and then that of the table.

    Returns:
        What the last attempt wrote, and that attempt: the quarantine if the attempt was lost there, else the table,
        whose mark then names the version of the quarantine that goes with it. No attempt if the table holds the result.
    """
    if isinstance(planned, WithQuarantine):
        version, at = version_of(planned.run.head), planned.run.head
        if not isinstance(planned.first, Skip):
            quarantine = replace(writing, run=planned.run, log=planned.run.ref.log(lambda: writing.spark))
            attempt = try_once(quarantine, planned.first, planned.run.head)
            if attempt.own is None:
                return quarantine, attempt
            version, at = attempt.own.version, quarantine.log.head()
            tell(QuarantineWritten(version, rows_of(attempt.own)))
        has_quarantine = writing.run.table.quarantines and version != NO_TABLE
        beside, table_id = (version, None if at is None else at.table_id) if has_quarantine else (None, None)
        writing = replace(writing, run=replace(writing.run, other_table=OtherTable(beside, table_id)))
    statement = of_table(planned)
    return writing, None if isinstance(statement, Skip) else try_once(writing, statement, head)


def lost_to(writing: Writing, attempt: Attempt) -> tuple[LostAttempt, Head | None]:
    """Records the rivals to which an attempt was lost; returns them, and where the table stands now.

    Raises:
        LakehouseError: The error is not a conflict.
    """
    conflict = Conflict(ConflictKind.SAME_ASSET) if attempt.error is None else _conflict_of(writing.run, attempt.error)
    head = head_of(writing)
    rivals = () if head is None else tuple(writing.log.commits(head.version, attempt.mark.base + 1))
    is_odd = attempt.error is not None and (conflict.kind is ConflictKind.UNKNOWN or not rivals)
    sentence = first_line(attempt.error)[:200] if attempt.error is not None and is_odd else ""
    changed = changed_by(writing.spark, writing.run, writing.write, rivals)
    lost = LostAttempt(writing.run.name, conflict, rivals, changed, attempt.seconds, sentence)
    writing.lost.append(lost)
    return lost, head


def _mark(writing: Writing, head: Head | None, statement: Statement) -> Mark:
    lost = [attempt for attempt in writing.lost if attempt.rivals and attempt.table == writing.run.name]
    return writing.run.mark(
        uuid4().hex,
        version_of(head),
        compared=statement.compared,
        log_after=_log_after(writing, head),
        rows=replaced_rows(statement),
        lost_to=tuple(attempt.rivals[0].version for attempt in lost),
    )


def _log_after(writing: Writing, head: Head | None) -> int | None:
    """The version after which the table archives its source; None if the rows are not the source's whole log."""
    run = writing.run
    if not run.facts.archives_source:
        return None
    return archive_begins(run.changes[0], run.cursor, writing.log, head)


def _execute_once(writing: Writing, statement: Statement, mark: Mark) -> Exception | None:
    """Executes the statement and returns its error: evidence, not yet an outcome. Raises if no statement was sent."""
    try:
        execute(writing.spark, statement, writing.run, mark)
    except RefusedStatementError:
        raise
    except Exception as error:
        return error
    return None


@phase("find in the log")
def _find_attempt(log: Log, mark: Mark, run: Run, error: Exception | None) -> Commit | None:
    """The commit of this attempt, if it landed; its version is right even if rivals have committed since."""
    try:
        head = log.head()
        if head is None:
            return None
        # A store may list a commit late. Its file is there: the next version is asked for by name.
        for commit in log.commits(max(head.version, mark.base + 1), mark.base + 1):
            if commit.user_metadata and mark.attempt in commit.user_metadata and commit.operation not in COMPACTING:
                return commit
    except Exception as unreadable:
        raise CommitError.unknown_outcome(run.name, mark.attempt, first_line(unreadable)) from (error or unreadable)
    return None


def _conflict_of(run: Run, error: Exception) -> Conflict:
    if isinstance(error, LakehouseError):
        raise error
    conflict = classify(error)
    if conflict.kind is ConflictKind.NOT_A_CONFLICT or broken_promise(run.name, error) is not None:
        raise explain_error(run, error) from error
    return conflict
