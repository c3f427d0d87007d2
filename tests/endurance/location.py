"""The code location of the soak, as a user would write it: four sources, views in a folder of SQL, tables in Python."""

import os
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import (
    Aggregate,
    Append,
    Changes,
    DeltaIOManager,
    Expect,
    History,
    Merge,
    Policy,
    Snapshot,
    Table,
    View,
    automation,
    incremental,
    views_from,
)
from tests.endurance.sources import MEMORY
from tests.support.client import local_spark

ROOT = os.environ["LAKEHOUSE_ROOT"]
SQL = Path(__file__).parent / "sql"
SENSOR = "carry_changes"

sources = [dg.AssetSpec(name, metadata=Table(key="id")) for name in ("orders", "customers", "events")]
extracts = dg.AssetSpec("extracts")


@dg.asset(metadata=Table(key="id"))
def current(orders: Changes) -> Merge:
    """The orders that are not too large, with all columns, including added ones."""
    touched = orders.touched("id")
    return Merge(touched.rows.where("amount < 400"), touched)


@dg.asset(metadata=Table(key="product"))
def totals(current: Changes) -> Aggregate:
    return Aggregate(current, by="product", count="n", sums={"total": "amount"})


@dg.asset(metadata=Table(key="id"))
def orders_past(current: Changes) -> History:
    return History(current, track=("product", "amount"))


@dg.asset(metadata=Table(key="id"))
def customers_past(customers: Changes) -> History:
    return History(customers, track=("city", "tier"))


@dg.asset(metadata=Table(key="id", expect=Expect("amount < 450", "quarantine")))
def judged(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset
def archive(events: Changes) -> Append:
    """Every version that an event ever had."""
    kept = events.log().where("change_type IN ('insert', 'update_postimage')")
    return Append(kept.select("id", "token", "commit_version"))


@dg.asset(metadata=Table(key="id"))
def calm(events: Changes) -> Merge:
    touched = events.touched("id")
    return Merge(touched.rows.where("points < 50").select("id", "points"), touched)


@dg.asset(metadata=Table(key="kind"))
def kinds(events: Changes) -> Merge:
    touched = events.touched("kind")
    return Merge(touched.rows.groupBy("kind").agg(F.max("points").alias("most"), F.count("*").alias("n")), touched)


@dg.asset(metadata=Table(key="id"))
def shares(events: Changes, calm: Changes, kinds: Changes) -> View:
    """A diamond, which never mixes two states of `events`."""
    return View("""
        SELECT e.id AS id, e.kind AS kind, c.points AS points, k.most AS most, k.n AS n
        FROM events e LEFT JOIN calm c ON e.id = c.id LEFT JOIN kinds k ON e.kind = k.kind
    """)


def newest(extracts: DataFrame) -> Snapshot:
    number = extracts.agg(F.max("number")).collect()[0][0]
    return Snapshot(extracts.where(F.col("number") == number).drop("number"), version=number)


@dg.asset(metadata=Table(key="id"))
def prices(extracts: DataFrame) -> Snapshot:
    return newest(extracts)


@dg.asset(metadata=Table(key="id"))
def prices_past(extracts: DataFrame) -> History:
    return History(newest(extracts), track=("price", "shelf"))


deliveries = dg.define_asset_job("deliveries", [prices, prices_past])
spark = local_spark(Path(ROOT), MEMORY)
defs = incremental(
    dg.Definitions(
        assets=[
            *sources,
            extracts,
            *(current, totals, orders_past, customers_past, judged, archive, calm, kinds, shares, prices, prices_past),
            *views_from(SQL, automation_condition=automation()),
        ],
        schedules=[
            dg.ScheduleDefinition(
                job=deliveries, cron_schedule="*/2 * * * *", default_status=dg.DefaultScheduleStatus.RUNNING
            )
        ],
        resources={"spark": spark, "io_manager": DeltaIOManager(spark=spark, root=ROOT, policy=Policy(inputs="agree"))},
        executor=dg.in_process_executor,
    ),
    sensor=SENSOR,
    nightly_checks=os.environ.get("SOAK_CHECKS", "*/7 * * * *"),
    upkeep=os.environ.get("SOAK_UPKEEP", "*/5 * * * *"),
)
