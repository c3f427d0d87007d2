"""Spark's error about a plan, as an error of this library; LateGapError if a feed turned out to be unreadable."""

from collections.abc import Generator
from contextlib import contextmanager

from pyspark.errors import AnalysisException

from lakehouse.delta.table import Isolation
from lakehouse.errors import LakehouseError, LateGapError, ReadError, SessionError, SetupError, TableError, WriteError
from lakehouse.read.run import Run
from lakehouse.spark.broken_promises import broken_promise
from lakehouse.spark.diagnosis import (
    Meaning,
    causes,
    diagnose,
    first_line,
    is_of_the_asset,
    missing_module,
    refusal,
    unread_file,
    why_temporary,
    why_unreadable,
    without_jvm_trace,
)


@contextmanager
def as_explained(run: Run) -> Generator[None]:
    """Raises Spark's error about a plan as an error of this library: through Spark Connect a plan is analyzed late."""
    try:
        yield
    except LakehouseError:
        raise
    except Exception as error:
        raise explain_error(run, error) from error


def session_error(asset: str, error: Exception) -> LakehouseError | None:
    """Spark's error about its session or its jars, as an error of this library; None if it is about something else."""
    meanings = diagnose(error)
    if Meaning.SESSION_ENDED in meanings:
        return SessionError.session_ended(asset, first_line(error))
    if Meaning.OTHER_JARS in meanings and refusal(error) is None:
        problem = f"A jar on the class path of '{asset}' needs a class that is missing: {first_line(error)}"
        remedy = "Give Spark the jar of Delta for its own version (io.delta:delta-spark_4.1_2.13 for Spark 4.1, say)"
        return SetupError.other_spark(problem, remedy)
    return None


def explain_error(run: Run, error: Exception) -> LakehouseError:
    """An error of Spark as an error of this library: a broken promise, unreadable changes, or a failed plan."""
    broken = broken_promise(run.name, error)
    if broken is not None:
        without_jvm_trace(error)
        return broken
    of_session = session_error(run.name, error)
    if of_session is not None:
        return of_session
    meanings = diagnose(error)
    reason = why_unreadable(error)
    if reason is not None and any(changes.are_of_the_feed for changes in run.changes):
        return LateGapError(run.name, reason)
    if reason is not None and Meaning.FILE_GONE in meanings:
        return ReadError.missing_file(run.name, first_line(error))
    if Meaning.NO_SCHEMA in meanings and run.ref.path is None and run.head is None:
        return ReadError.no_schema(run.name, run.ref.identifier, first_line(error))
    module = missing_module(error)
    if module is not None:
        return WriteError.module_missing(run.name, module)
    level = run.table.isolation
    if level is Isolation.WRITE_SERIALIZABLE and Meaning.ISOLATION_REFUSED in meanings:
        return TableError.isolation_level(run.name, level.value)  # only Delta knows: on Databricks the definition works
    why = why_temporary(error)
    if why is not None and (Meaning.VERSION_EXPIRED in meanings or not is_of_the_asset(error)):
        return WriteError.compute(run.name, first_line(error), why)
    refused = refusal(error)
    if refused is not None:
        without_jvm_trace(error)
        return TableError.delta_refused(run.name, run.ref.identifier, refused.condition, refused.sentence)
    unread = unread_file(error)
    if unread is not None:
        without_jvm_trace(error)
        return ReadError.unreadable_file(run.name, unread)
    if is_of_the_asset(error) or any(isinstance(cause, AnalysisException) for cause in causes(error)):
        without_jvm_trace(error)
        return WriteError.plan(run.name, first_line(error))
    return WriteError.unexplained_failure(run.name, first_line(error))
