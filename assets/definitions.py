"""The entry point: everything that Dagster loads."""

import os
from datetime import timedelta
from typing import Any

import dagster as dg

from assets import flight_events, flights, flights_enriched, gold, reference
from assets.automation import every_check, next_day_of_flights
from lakehouse import incremental
from resources.environments import environment
from resources.nycflights import FlightRecords


def with_common_parts(table: dg.AssetsDefinition) -> dg.AssetsDefinition:
    """The asset with the attributes that all assets share; the first part of its key is its group."""
    return table.map_asset_specs(
        lambda spec: spec.replace_attributes(
            group_name=spec.key.path[0],
            kinds={"pyspark", "deltalake"},
            owners=["team:flights"],
            freshness_policy=FRESH.get(spec.key.path[0]),
        )
    )


FRESH = {"gold": dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=36))}
"""How old a table may be, by the first part of its key; Dagster shows it on the asset's page."""
given = environment()
root = given["io_manager"].root
landing = os.environ.get("LAKEHOUSE_LANDING") or f"{root}/landing/events"
resources: dict[str, Any] = given | {"flight_records": FlightRecords(spark=given["spark"], landing=landing)}
modules = (reference, flight_events, flights, flights_enriched, gold)
tables = [
    with_common_parts(table) for table in dg.load_assets_from_modules(modules) if isinstance(table, dg.AssetsDefinition)
]

defs = incremental(
    dg.Definitions(
        assets=tables,
        asset_checks=dg.load_asset_checks_from_modules(modules),
        jobs=[every_check],
        schedules=[next_day_of_flights],
        resources=resources,
        executor=dg.in_process_executor,
    ),
    sensor="carry_changes",
    nightly_checks="0 3 * * *",
)
