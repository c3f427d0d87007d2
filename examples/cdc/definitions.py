"""The log of a database, as Debezium writes it, becomes the table that the database has, and a total of it."""

from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse import Changes, DeltaIOManager, LocalSpark, Merge, Table, View, automation, incremental, scd

HERE = Path(__file__).parent.absolute()
ORDER = "STRUCT<order_id: INT, customer_id: INT, amount: DECIMAL(10, 2)>"


@dg.asset(metadata=Table(key="lsn"), group_name="bronze")
def order_events(spark: LocalSpark) -> DataFrame:
    """Each change of the table `orders` of the database: the row after it, or, of a deletion, the row before it."""
    log = spark.spark_session.read.schema(f"lsn BIGINT, op STRING, before {ORDER}, after {ORDER}")
    events = log.option("mode", "FAILFAST").json(str(HERE / "data"))
    return events.selectExpr("lsn", "op", "inline(array(coalesce(after, before)))")


@dg.asset(metadata=Table(key="order_id"), group_name="silver", automation_condition=automation())
def orders(order_events: Changes) -> Merge:
    """The orders that the database has. Events may come late, twice, or a deletion before its insert."""
    touched = order_events.touched("order_id")
    rows = scd.type1(
        touched.rows,
        keys="order_id",
        sequence_by="lsn",
        apply_as_deletes="op = 'd'",
        column_list=["order_id", "customer_id", "amount"],
    )
    return Merge(rows, touched)


@dg.asset(metadata=Table(key="customer_id"), group_name="gold", automation_condition=automation())
def customer_totals(orders: Changes) -> View:
    """What each customer has ordered."""
    return View("SELECT customer_id, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY customer_id")


spark = LocalSpark(root=str(HERE / "lake"))
defs = incremental(
    dg.Definitions(
        assets=[order_events, orders, customer_totals],
        resources={"spark": spark, "io_manager": DeltaIOManager(spark=spark, root=str(HERE / "lake"))},
    )
)
