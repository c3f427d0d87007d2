"""What requests runs, in addition to the nightly checks. Nothing here is on until it is switched on in Dagster."""

import dagster as dg

from assets.flight_events import DAYS, flight_events

every_check = dg.define_asset_job(
    "every_check",
    selection=dg.AssetSelection.all_asset_checks(),
    description="Every check of every table, those that read whole tables among them; nothing is materialized.",
)


@dg.schedule(cron_schedule="0 6 * * *", target=dg.AssetSelection.assets(flight_events.key))
def next_day_of_flights(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Brings one more day of flights every morning, until the year is complete."""
    here = context.instance.get_materialized_partitions(flight_events.key)
    day = next((day for day in DAYS.get_partition_keys() if day not in here), None)
    if day is None:
        return dg.SkipReason("Every day of the year is here.")
    return dg.RunRequest(partition_key=day)
