"""Whether a run that has not ended is alive: a killed code server leaves its runs started for ever."""

import dagster as dg
from dagster import DagsterRunStatus


def silence(instance: dg.DagsterInstance, record: dg.RunRecord, now: float) -> float:
    """For how many seconds nothing was heard of a run; one in the queue says nothing, and is none the worse for it."""
    if record.dagster_run.status is DagsterRunStatus.QUEUED:
        return 0.0
    last = instance.get_records_for_run(record.dagster_run.run_id, limit=1, ascending=False).records
    heard = max([record.create_timestamp.timestamp(), *(event.event_log_entry.timestamp for event in last)])
    return now - heard
