"""What asks for runs. Nothing here is on until it is switched on in Dagster."""

import dagster as dg

from assets.flight_events import DAYS, flight_events

recompute_checks = dg.define_asset_job(
    "recompute_checks",
    selection=dg.AssetSelection.all_asset_checks(),
    description="Compares every table that a Merge or an Aggregate keeps with a recompute, as of what it has read.",
)


@dg.schedule(cron_schedule="0 6 * * *", target=dg.AssetSelection.assets(flight_events.key))
def next_day_of_flights(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Brings one more day of flights every morning, until the year is complete."""
    here = context.instance.get_materialized_partitions(flight_events.key)
    day = next((day for day in DAYS.get_partition_keys() if day not in here), None)
    if day is None:
        return dg.SkipReason("Every day of the year is here.")
    return dg.RunRequest(partition_key=day)
