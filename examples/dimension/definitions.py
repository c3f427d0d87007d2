"""A dimension of type 2 from full extracts, and orders with the row of the dimension as of their day."""

import datetime as dt
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse import Changes, DeltaIOManager, History, LocalSpark, Merge, Snapshot, Table, automation, incremental, scd

HERE = Path(__file__).parent.absolute()


class Extract(dg.Config):
    day: str


def read(spark: LocalSpark, file: str, columns: str) -> DataFrame:
    strictly = {"header": True, "enforceSchema": False, "mode": "FAILFAST"}
    return spark.spark_session.read.schema(columns).options(**strictly).csv(str(HERE / "data" / file))


@dg.asset(metadata=Table(key="customer_id"), group_name="dimension")
def customers_history(config: Extract, spark: LocalSpark) -> History:
    """Which city and status each customer had, from which extract to which."""
    rows = read(spark, f"customers-{config.day}.csv", "customer_id INT, city STRING, status STRING")
    extract = Snapshot(rows, version=dt.date.fromisoformat(config.day), max_deleted=0.5)
    return History(extract, track=("city", "status"))


@dg.asset(metadata=Table(key="order_id"), group_name="facts")
def orders(spark: LocalSpark) -> DataFrame:
    """The orders, as they are delivered."""
    return read(spark, "orders.csv", "order_id INT, customer_id INT, day DATE, amount INT")


@dg.asset(metadata=Table(key="order_id"), group_name="facts", automation_condition=automation())
def orders_as_placed(orders: Changes, customers_history: Changes) -> Merge:
    """Orders with the city that the customer had on the day of the order."""
    moved = customers_history.touched("customer_id").via(orders.source, "order_id")
    touched = orders.touched("order_id") | moved
    placed = scd.as_of(orders.source, customers_history.source, at="day", keys="customer_id")
    return Merge(touched.of(placed).select("order_id", "customer_id", "day", "amount", "city"), touched)


spark = LocalSpark(root=str(HERE / "lake"))
defs = incremental(
    dg.Definitions(
        assets=[customers_history, orders, orders_as_placed],
        resources={"spark": spark, "io_manager": DeltaIOManager(spark=spark, root=str(HERE / "lake"))},
    )
)
