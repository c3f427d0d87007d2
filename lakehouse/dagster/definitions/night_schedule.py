"""Jobs that a cron schedule starts: the schedule runs from the start, one night at a time, each within a limit."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._utils.schedules import reverse_cron_string_iterator

from lakehouse.dagster.one_driver import SILENT, UNDER_WAY, silence
from lakehouse.dagster.run_tags import NIGHT
from lakehouse.errors import DefinitionError

NIGHTLY = "nightly_checks"
"""The name of the job and of the schedule. Dagster wants another name for the op of a job."""
_LATE = 600.0
"""Seconds that the run of a night may be late: Dagster's daemon evaluates schedules every half minute."""


@dataclass(frozen=True, slots=True)
class Nightly:
    """When the work of a night begins, and how much of it a night does: checks, or the upkeep of tables.

    Args:
        cron_schedule: When a night begins, as a cron schedule of Dagster: "0 3 * * *".
        limit: How long after that a check, or a statement of upkeep, is still started. What has started is completed.
        timezone: The time zone of the cron schedule; None for UTC.
        max_bytes: How many bytes of files a night of upkeep rewrites; None for no limit. A larger partition, or table
            without partitions, is rewritten if it is the first of a night.

    Raises:
        DefinitionError: A limit is not positive.
    """

    cron_schedule: str
    limit: timedelta = timedelta(hours=2)
    timezone: str | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        limits = {"limit": self.limit.total_seconds(), "max_bytes": self.max_bytes}
        for name in (name for name, value in limits.items() if value is not None and value <= 0):
            raise DefinitionError(f"{name} of Nightly(...) is not positive, so that nothing would be done at night.")


def night_schedule(job: dg.JobDefinition, cron_schedule: str, timezone: str | None, text: str) -> dg.ScheduleDefinition:
    """The schedule of a job: on from the start, because naming a cron schedule is the consent."""

    @dg.schedule(
        name=job.name,
        cron_schedule=cron_schedule,
        execution_timezone=timezone,
        job=job,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=text,
    )
    def begin(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        last = _under_way(context.instance, job)
        if last is not None:
            return dg.SkipReason(f"Run {last.run_id[:8]} of an earlier night is still under way.")
        return dg.RunRequest(tags={NIGHT: context.scheduled_execution_time.isoformat()})

    return begin


def missed_night(night: Nightly, instance: dg.DagsterInstance, since: float, now: float) -> datetime | None:
    """When the newest night was to begin, if a check waited for it and no run of it went well; else None."""
    nights = reverse_cron_string_iterator(now - _LATE, night.cron_schedule, night.timezone or "UTC")
    begin = next(nights).astimezone(UTC)
    if since >= begin.timestamp():
        return None
    went_well = [*UNDER_WAY, dg.DagsterRunStatus.SUCCESS]
    runs = instance.get_runs(dg.RunsFilter(job_name=NIGHTLY, statuses=went_well, created_after=begin), limit=1)
    return None if runs else begin


def end_of_night(context: dg.OpExecutionContext, limit: timedelta) -> float:
    """The time from which nothing more is started, in seconds since the epoch.

    A night begins at its scheduled time, however long its run was in the queue; or now, if the run repeats another.
    """
    at = context.run.tags.get(NIGHT)
    begin = time.time() if at is None or context.run.parent_run_id else datetime.fromisoformat(at).timestamp()
    return begin + limit.total_seconds()


def _under_way(instance: dg.DagsterInstance, job: dg.JobDefinition) -> dg.DagsterRun | None:
    """A run of an earlier night that is not over. In another code location the job has the same name and other tags."""
    wanted = dg.RunsFilter(job_name=job.name, tags=dict(job.tags), statuses=UNDER_WAY)
    for record in instance.get_run_records(wanted):
        if silence(instance, record, time.time()) <= SILENT:
            return record.dagster_run
    return None
