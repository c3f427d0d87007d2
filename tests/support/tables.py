"""The tables of the tests that go through Dagster."""

import datetime as dt

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Append, Changes, Merge, Overwrite, Table

DAYS = dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-05")
EVENTS = "id int, day date, v int"
DAY_1, DAY_2, DAY_3 = (dt.date(2013, 1, day) for day in (1, 2, 3))

orders = dg.AssetSpec("orders", metadata=Table(key="id"))


def carried(orders: Changes) -> Merge:
    """The computation of `copies`, for assets that a test defines itself."""
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id", columns={"v": "the value"}), kinds={"pyspark", "deltalake"})
def copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(key_prefix="gold", metadata=Table(key="day"))
def totals(copies: Changes) -> Merge:
    touched = copies.touched("day")
    return Merge(touched.rows.groupBy("day").agg(F.sum("v").alias("total")), touched)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day"))
def by_day(orders: DataFrame) -> Overwrite:
    return Overwrite(orders)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day"))
def landed(orders: DataFrame) -> Append:
    return Append(orders)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
def daily_copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id"))
def slow(orders: Changes) -> Merge:
    """Each row takes a while, in one task."""
    touched = orders.touched("id")
    waited = touched.rows.where("reflect('java.lang.Thread', 'sleep', CAST(1000 AS BIGINT)) IS NOT NULL")
    return Merge(waited.coalesce(1), touched)


@dg.asset
def everything(orders: DataFrame) -> DataFrame:
    return orders


@dg.op
def two() -> int:
    return 2


@dg.graph_asset
def number() -> int:
    """Not a table: a graph of ops."""
    return two()


ASSETS = [orders, copies, totals, by_day, landed, daily_copies, everything]
