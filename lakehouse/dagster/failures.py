"""The library's errors as Dagster's: which fail the step for good, and which another try may avoid."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext

import dagster as dg
from pyspark.errors import PySparkException

from lakehouse.commit.failed_plan import session_error
from lakehouse.dagster.contexts import asset_context
from lakehouse.dagster.run_tags import COMPARE, GAP
from lakehouse.errors import (
    LakehouseError,
    LateGapError,
    SetupError,
    StaleInputsError,
    UncomparedError,
)
from lakehouse.spark.diagnosis import Meaning, diagnose

STALE_RETRIES = 3
"""How often a step runs again with new inputs, because its table is no longer what the run started from."""


@contextmanager
def as_dagster_failures(execution: dg.AssetExecutionContext) -> Generator[None]:
    """Turns errors into Dagster's. A RetryPolicy repeats temporary errors; those that need new inputs always repeat."""
    try:
        yield
    except (LateGapError, UncomparedError) as error:
        tag = (GAP if isinstance(error, LateGapError) else COMPARE) + error.asset
        execution.instance.add_run_tags(execution.run.run_id, {tag: f"{execution.run.run_id} {error.reason[:200]}"})
        # Dagster counts every earlier try of the step. The tag takes care that this error does not come again.
        raise dg.RetryRequested(max_retries=execution.retry_number + 1) from error
    except StaleInputsError as error:
        raise dg.RetryRequested(max_retries=STALE_RETRIES) from error
    except LakehouseError as error:
        raise _failure_of(error) from error.__cause__


def _failure_of(error: LakehouseError) -> dg.Failure:
    """The failure in place of an error, with its stack. Raised from the error, it would log the sentence twice."""
    failure = dg.Failure(f"{error} [lakehouse.{error.code}]", allow_retries=error.is_temporary)
    return failure.with_traceback(error.__traceback__)


@contextmanager
def explaining_errors(asset: str) -> Generator[None]:
    """Raises errors of an asset's function as Dagster's: the library's own, in a run; PySpark's about classic Spark.

    Every other exception of the function stays what it is.

    Raises:
        Failure: The function used the library wrongly, or used a column that was made for classic Spark.
    """
    execution = asset_context()
    try:
        with nullcontext() if execution is None else as_dagster_failures(execution):
            yield
    except PySparkException as error:
        if Meaning.OF_CLASSIC_SPARK not in diagnose(error):
            raise
        raise _failure_of(SetupError.of_classic_spark(f"Asset '{asset}'")) from error


@contextmanager
def as_our_errors(asset: str) -> Generator[None]:
    """Turns Spark's errors about a lost session, or about its jars, into the library's own while inputs are read.

    Raises:
        SessionError (SESSION_ENDED): The session is gone.
        SetupError (OTHER_SPARK): A jar is for another version of Spark.
    """
    try:
        yield
    except LakehouseError:
        raise
    except Exception as error:
        of_session = session_error(asset, error)
        if of_session is not None:
            raise of_session from error
        raise
