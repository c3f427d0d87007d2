"""Errors of this package as Dagster's: what fails the step for good, and what another try may do better."""

from collections.abc import Generator
from contextlib import contextmanager

import dagster as dg

from lakehouse.dagster.run_tags import COMPARE, GAP
from lakehouse.errors import (
    ComputeError,
    ConflictError,
    LakehouseError,
    LateGapError,
    MissingFileError,
    NewColumnsError,
    OtherJarsError,
    SecondDriverError,
    SessionEndedError,
    StaleInputsError,
    UnknownOutcomeError,
    UnsettledError,
)
from lakehouse.spark.diagnosis import Meaning, diagnose
from lakehouse.spark.evidence import first_line

STALE_RETRIES = 3
"""How often a step runs again with new inputs, because its table is not what the run started from."""


@contextmanager
def as_dagster_failures(execution: dg.AssetExecutionContext) -> Generator[None]:
    """Our errors as Dagster's. A RetryPolicy repeats temporary errors; those that need new inputs always repeat."""
    try:
        yield
    except (LateGapError, NewColumnsError) as error:
        tag = (GAP if isinstance(error, LateGapError) else COMPARE) + error.asset
        execution.instance.add_run_tags(execution.run.run_id, {tag: f"{execution.run.run_id} {error.reason[:200]}"})
        # Dagster counts every earlier try of the step. The tag takes care that this one is not met again.
        raise dg.RetryRequested(max_retries=execution.retry_number + 1) from error
    except StaleInputsError as error:
        raise dg.RetryRequested(max_retries=STALE_RETRIES) from error
    except LakehouseError as error:
        raise dg.Failure(description=str(error), allow_retries=is_worth_another_try(error)) from error


@contextmanager
def as_our_errors(asset: str) -> Generator[None]:
    """What Spark says of a session that is gone, or of its jars, as our own error: while inputs are read.

    Raises:
        SessionEndedError: The session is gone.
        OtherJarsError: A jar is for another version of Spark.
    """
    try:
        yield
    except LakehouseError:
        raise
    except Exception as error:
        meanings = diagnose(error)
        if Meaning.SESSION_ENDED in meanings:
            raise SessionEndedError(asset, first_line(error)) from error
        if Meaning.OTHER_JARS in meanings:
            raise OtherJarsError(asset, first_line(error)) from error
        raise


def is_worth_another_try(error: LakehouseError) -> bool:
    """Whether the next try may succeed: with another server, other rivals, other executors.

    An error about the asset or its table would only be raised again.
    """
    may = ComputeError | MissingFileError | ConflictError | SecondDriverError | UnsettledError | UnknownOutcomeError
    return isinstance(error, ConnectionError | may)
