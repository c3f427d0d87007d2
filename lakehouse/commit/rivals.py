"""An attempt that did not commit: the rivals to which it lost, and whether they changed its rows."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lakehouse.changes.changes import Changes
from lakehouse.commit.conflict import Conflict
from lakehouse.declare.isolation import Isolation
from lakehouse.difference.broken_promises import broken_promise
from lakehouse.errors import (
    ComputeError,
    DeltaRefusedError,
    IsolationLevelError,
    LakehouseError,
    LateGapError,
    MissingFileError,
    ModuleMissingError,
    OtherJarsError,
    PlanError,
    SessionEndedError,
    UnexplainedError,
)
from lakehouse.frames.driver_rows import is_empty
from lakehouse.history.history_rows import Shape
from lakehouse.log.commit_info import Commit
from lakehouse.read.run import Run
from lakehouse.results.writes import History, Merge, Write
from lakehouse.spark.diagnosis import Meaning, diagnose, missing_module, refusal, why_temporary, why_unreadable
from lakehouse.spark.evidence import causes, first_line, is_of_the_asset, without_jvm_trace
from lakehouse.spark.snapshot import TableVersion


class Changed(Enum):
    """Whether a rival changed rows that this write is about."""

    OTHER_ROWS = "other rows"
    SAME_ROWS = "the same rows"
    UNKNOWN = "rows that the log does not name"


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """One attempt that did not commit.

    Args:
        conflict: What Delta said about it.
        rivals: The commits that came first, newest first.
        changed: Whether they changed the same rows.
        seconds: How long it took.
        message: The error's first line, if the error need not come from a rival.
    """

    conflict: Conflict
    rivals: tuple[Commit, ...]
    changed: Changed
    seconds: float
    message: str = ""


def changed_by(spark: SparkSession, run: Run, write: Write, rivals: tuple[Commit, ...]) -> Changed:
    """Whether the rivals changed rows in the part of the table that this write is about."""
    with_rows = [rival.version for rival in rivals if not rival.is_quiet]
    if not with_rows:
        return Changed.OTHER_ROWS if rivals else Changed.UNKNOWN
    head = run.ref.log(lambda: spark).head()
    if head is None or not head.keeps_feed:
        return Changed.UNKNOWN
    try:
        changed = TableVersion.of(spark, run.ref, head).feed(min(with_rows), max(with_rows))
        if isinstance(write, Merge) and not write.touched.is_everything:
            changed = write.touched.restricted(changed)
        if isinstance(write, History) and isinstance(write.changes, Changes):
            changed = write.changes.touched(*Shape.entity_of(run.table.key_columns)).of(changed)
        within = run.within(changed.schema)
        if within is not None:
            changed = changed.where(within)
        return Changed.OTHER_ROWS if is_empty(changed) else Changed.SAME_ROWS
    except Exception:  # the rivals' changes are gone, or Spark is: the next attempt says what of it matters
        return Changed.UNKNOWN


def is_disputed(run: Run, changed: Changed) -> bool:
    """Whether two writers may disagree about a row and the table forbids that one overrules the other."""
    return changed is not Changed.OTHER_ROWS and run.table.on_same_rows == "fail"


def describe(attempt: LostAttempt) -> str:
    """The rivals of a lost attempt, in words."""
    if not attempt.rivals:
        message = f"; Spark said: {attempt.message}" if attempt.message else ""
        return f"nobody who left a commit ({attempt.conflict.kind.value}{message})"
    newest = attempt.rivals[0]
    others = f" and {len(attempt.rivals) - 1} more" if len(attempt.rivals) > 1 else ""
    partition = f" in {attempt.conflict.partition}" if attempt.conflict.partition else ""
    return f"{newest.operation} (version {newest.version}){others}{partition}, which changed {attempt.changed.value}"


def sentence(run: Run, attempt: LostAttempt, number: int) -> str:
    """The line about the attempt in the run's log."""
    return f"Attempt {number} to commit {run.name} lost to {describe(attempt)}."


def advice(run: Run, attempt: LostAttempt) -> str:
    """What to do about the last attempt that was lost."""
    if not attempt.rivals and attempt.message:
        return "No rival is in the table's log, so look for the cause in what Spark said."
    if attempt.rivals and is_disputed(run, attempt.changed):
        return f"It changed {attempt.changed.value}, and on_same_rows='fail': decide which of the two owns the rows."
    return (
        "Run it again, or keep the two writers apart: give them one Dagster pool, or partition the table so that "
        "they write different partitions."
    )


@contextmanager
def as_explained(run: Run) -> Generator[None]:
    """What Spark says of a plan, as an error of this library: through Spark Connect a plan is analyzed late."""
    try:
        yield
    except LakehouseError:
        raise
    except Exception as error:
        raise explained(run, error) from error


def explained(run: Run, error: Exception) -> LakehouseError:
    """An error of Spark as an error of this library: a broken promise, unreadable changes, or a failed plan."""
    broken = broken_promise(run.name, error)
    if broken is not None:
        without_jvm_trace(error)
        return broken
    meanings = diagnose(error)
    if Meaning.SESSION_ENDED in meanings:
        return SessionEndedError(run.name, first_line(error))
    if Meaning.OTHER_JARS in meanings:
        return OtherJarsError(run.name, first_line(error))
    reason = why_unreadable(error)
    if reason is not None and any(changes.are_of_the_feed for changes in run.changes):
        return LateGapError(run.name, reason)
    if reason is not None and Meaning.FILE_GONE in meanings:
        return MissingFileError(run.name, first_line(error))
    module = missing_module(error)
    if module is not None:
        return ModuleMissingError(run.name, module)
    level = run.table.isolation
    if level is Isolation.WRITE_SERIALIZABLE and Meaning.ISOLATION_REFUSED in meanings:
        return IsolationLevelError(run.name, level.value)  # only Delta knows: on Databricks the definition works
    why = why_temporary(error)
    if why is not None and (Meaning.VERSION_EXPIRED in meanings or not is_of_the_asset(error)):
        return ComputeError(run.name, first_line(error), why)
    refused = refusal(error)
    if refused is not None:
        without_jvm_trace(error)
        return DeltaRefusedError(run.name, run.ref.identifier, refused.condition, refused.sentence)
    if is_of_the_asset(error) or any(isinstance(cause, AnalysisException) for cause in causes(error)):
        without_jvm_trace(error)
        return PlanError(run.name, first_line(error))
    return UnexplainedError(run.name, first_line(error))
