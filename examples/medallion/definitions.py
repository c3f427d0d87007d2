"""Raw files, silver and gold: each table but the raw ones is a SQL file, and follows the tables that it reads."""

from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse import DeltaIOManager, LocalSpark, Policy, Table, automation, incremental, views_from

HERE = Path(__file__).parent.absolute()


def read(spark: LocalSpark, file: str, columns: str) -> DataFrame:
    strictly = {"header": True, "enforceSchema": False, "mode": "FAILFAST"}
    return spark.spark_session.read.schema(columns).options(**strictly).csv(str(HERE / "data" / file))


@dg.asset(key_prefix="bronze", metadata=Table(key="sale_id"), group_name="bronze")
def sales(spark: LocalSpark) -> DataFrame:
    """The tills' sales, as they are delivered."""
    return read(
        spark, "sales.csv", "sale_id INT, shop STRING, product STRING, pieces INT, price DECIMAL(8, 2), day DATE"
    )


@dg.asset(key_prefix="bronze", metadata=Table(key="shop"), group_name="bronze")
def shops(spark: LocalSpark) -> DataFrame:
    """The shops, and where they are."""
    return read(spark, "shops.csv", "shop STRING, city STRING")


views = views_from("sql", automation_condition=automation())
spark = LocalSpark(root=str(HERE / "lake"))
manager = DeltaIOManager(spark=spark, root=str(HERE / "lake"), policy=Policy(inputs="agree"))
defs = incremental(
    dg.Definitions(
        assets=[sales, shops, *views],
        resources={"spark": spark, "io_manager": manager},
    )
)
