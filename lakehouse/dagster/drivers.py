"""Two Spark drivers that write one table on S3: recognised by the tags of their runs, and the second is refused.

Delta's log store for S3 keeps commits apart within one driver only: it looks whether a commit's file is there and then
writes it, so of two drivers one can overwrite the other's commit.
"""

import time
from collections.abc import Callable

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from lakehouse.dagster.run_tags import DRIVER
from lakehouse.errors import SecondDriverError
from lakehouse.log.location import scheme_of
from lakehouse.spark.snapshot import TableRef

SILENT = 3600.0
"""Seconds without an event after which a run counts as dead: a living one says every half minute how far it is."""
_WRITING = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]


def refuse_second_driver(
    execution: dg.AssetExecutionContext, ref: TableRef, driver_of: Callable[[], str | None]
) -> None:
    """Refuses to write a table on S3 while another run's Spark writes it.

    Each run first says which driver it has and then looks at the others, so of two at once at least one is refused.
    Programs that are no run of this Dagster instance are not seen.

    Args:
        execution: The step that is about to write.
        ref: The table.
        driver_of: Gives the id of its Spark application; asked only for a table on S3. None: nothing can be told.

    Raises:
        SecondDriverError: Another run, on another driver, is in the middle of this asset's step.
    """
    if ref.path is None or scheme_of(ref.path) not in ("s3", "s3a"):
        return
    driver = driver_of()
    if driver is None:
        return
    instance, run_id = execution.instance, execution.run.run_id
    instance.add_run_tags(run_id, {DRIVER: driver})
    for run in instance.get_runs(RunsFilter(statuses=_WRITING)):
        other = run.tags.get(DRIVER)
        if run.run_id != run_id and other not in (None, driver) and _is_writing(execution, run):
            raise SecondDriverError(execution.asset_key.to_user_string(), ref.location, run.run_id)


def _is_writing(execution: dg.AssetExecutionContext, run: dg.DagsterRun) -> bool:
    """Whether the same step of another run has begun, has not ended, and the run shows signs of life."""
    step = execution.op_execution_context.get_step_execution_context().step.key
    stats = execution.instance.get_run_step_stats(run.run_id, [step])
    if not any(step_stats.end_time is None and step_stats.start_time is not None for step_stats in stats):
        return False
    last = execution.instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
    return any(time.time() - record.event_log_entry.timestamp < SILENT for record in last)
