from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse import LocalSpark, Table

FILE = Path(__file__).parents[3] / "data" / "orders.csv"


@dg.asset(metadata=Table(key="order_id"), group_name="raw", kinds={"csv", "deltalake"})
def orders(spark: LocalSpark) -> DataFrame:
    """The orders in orders.csv, as they are now. Only rows that differ are written."""
    columns = "order_id INT, customer_id STRING, amount INT"
    strictly = {"header": True, "enforceSchema": False, "mode": "FAILFAST"}
    reader = spark.spark_session.read.schema(columns).options(**strictly)
    return reader.csv(str(FILE))
