"""Jobs that a cron schedule starts: the schedule runs from the start, one night at a time, each within a limit."""

import time
from datetime import datetime, timedelta

import dagster as dg

from lakehouse.dagster.one_driver import SILENT, UNDER_WAY, silence
from lakehouse.dagster.run_tags import NIGHT
from lakehouse.errors import DefinitionError


def night_schedule(job: dg.JobDefinition, cron_schedule: str, timezone: str | None, text: str) -> dg.ScheduleDefinition:
    """The schedule of a job: on from the start, because to name a cron schedule is the consent.

    Args:
        job: The job. Its tags tell it from the job of this name in another code location.
        cron_schedule: When a night begins.
        timezone: The time zone of the cron schedule; None for UTC.
        text: What the nights do.
    """

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


def end_of_night(context: dg.OpExecutionContext, limit: timedelta) -> float:
    """When nothing more is started, in seconds since the epoch.

    A night begins when the schedule says, however long its run was in the queue; now, if the run repeats another.
    """
    at = context.run.tags.get(NIGHT)
    begin = time.time() if at is None or context.run.parent_run_id else datetime.fromisoformat(at).timestamp()
    return begin + limit.total_seconds()


def refuse_no_limit(name: str, limit: timedelta) -> None:
    """Refuses a limit that lets nothing start.

    Raises:
        DefinitionError: The limit is not positive.
    """
    if limit <= timedelta():
        raise DefinitionError(f"The limit of {name}(...) is not positive. Give a positive timedelta.")


def _under_way(instance: dg.DagsterInstance, job: dg.JobDefinition) -> dg.DagsterRun | None:
    """A run of an earlier night that is not over; in another code location the job has the same name and other tags."""
    wanted = dg.RunsFilter(job_name=job.name, tags=dict(job.tags), statuses=UNDER_WAY)
    for record in instance.get_run_records(wanted):
        if silence(instance, record, time.time()) <= SILENT:
            return record.dagster_run
    return None
