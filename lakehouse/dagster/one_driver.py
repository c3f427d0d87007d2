"""One driver at a time writes a table on S3: which other runs are alive, and which of them write the table.

On S3, Delta checks whether the file of a commit exists and then writes the file, under a lock within the driver. So the
second of two drivers overwrites the commit of the first (docs/how-to/object-stores.md). Runs of one Dagster instance
see each other by run tags. Only tables by path are guarded: a catalog name does not show where the table is.

Other code that depends on the object store: credentials, timeouts and retries (lakehouse/delta/location.py), errors
(lakehouse/delta/file_log.py, lakehouse/spark/diagnosis.py), `VACUUM` (lakehouse/upkeep/carry_out.py), jars
(lakehouse/server/jars.py).
"""

import time
from collections.abc import Callable, Iterator

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from lakehouse.dagster.run_tags import DRIVER, KEEPING
from lakehouse.delta.location import scheme_of
from lakehouse.errors import TableError
from lakehouse.spark.table_version import TableRef

_UNDER_WAY = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "SUSPENDED", "CANCELING")
UNDER_WAY = [status for status in DagsterRunStatus if status.name in _UNDER_WAY]  # Dagster 1.13.0 suspends no run
"""The states of a run that has not ended."""
SILENT = 3600.0
"""Seconds without an event after which a run counts as dead: a living run logs its progress every half minute."""
_WRITING = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]


def silence(instance: dg.DagsterInstance, record: dg.RunRecord, now: float) -> float:
    """Seconds since the run's last event; 0 for a queued run, because a queued run emits no events."""
    if record.dagster_run.status is DagsterRunStatus.QUEUED:
        return 0.0
    last = instance.get_records_for_run(record.dagster_run.run_id, limit=1, ascending=False).records
    heard = max([record.create_timestamp.timestamp(), *(event.event_log_entry.timestamp for event in last)])
    return now - heard


def refuse_second_driver(
    execution: dg.AssetExecutionContext, ref: TableRef, driver_of: Callable[[], str | None]
) -> None:
    """Refuses to write a table on S3 while another run's Spark writes it.

    Each run first records its own driver and then looks at the other runs, so at least one of two simultaneous runs is
    refused. Programs that are not runs of this Dagster instance are not seen.

    Args:
        execution: The step that is about to write.
        ref: The table.
        driver_of: Gives the id of the run's Spark application, or None if it is not known; called only for S3.

    Raises:
        TableError (SECOND_DRIVER): Another run, on another driver, is in the middle of this asset's step.
    """
    tag = driver_tag(ref, driver_of)
    if not tag:
        return
    instance, table = execution.instance, execution.asset_key.to_user_string()
    instance.add_run_tags(execution.run.run_id, tag)
    step = execution.op_execution_context.get_step_execution_context().step.key
    for run in runs_writing(instance, execution.run.run_id, table, step):
        if run.tags.get(DRIVER) not in (None, tag[DRIVER]):
            raise TableError.second_driver(table, ref.location, run.run_id)


def driver_tag(ref: TableRef | None, driver_of: Callable[[], str | None]) -> dict[str, str]:
    """The run tag with the Spark application that writes a table on S3; empty for every other table."""
    if ref is None or ref.path is None or scheme_of(ref.path) not in ("s3", "s3a"):
        return {}
    driver = driver_of()
    return {} if driver is None else {DRIVER: driver}


def runs_writing(instance: dg.DagsterInstance, besides: str, table: str, step: str) -> Iterator[dg.DagsterRun]:
    """The living runs that are writing a table: the table's step has begun and not ended, or upkeep works on it."""
    for record in instance.get_run_records(RunsFilter(statuses=_WRITING)):
        run = record.dagster_run
        is_other = run.run_id != besides and (run.tags.get(KEEPING) == table or _is_in_step(instance, run, step))
        if is_other and silence(instance, record, time.time()) < SILENT:
            yield run


def _is_in_step(instance: dg.DagsterInstance, run: dg.DagsterRun, step: str) -> bool:
    stats = instance.get_run_step_stats(run.run_id, [step])
    return any(step_stats.end_time is None and step_stats.start_time is not None for step_stats in stats)
