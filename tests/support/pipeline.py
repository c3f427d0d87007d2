"""A code location for `dagster dev`: a source that another Spark writes, a table of its rows, and a table of sums.

FOLLOWED names what starts runs: the automation conditions or the sensor. SOURCE is the directory of the source. With
PARTITIONED there is also a table with partitions, with EXPECTED a table with expectations. TABLES is the root of the
tables if that is not LAKEHOUSE_ROOT. STORE and SPARK are the options, as JSON, to read its logs and its rows.
"""

import json
import os

import dagster as dg
from pyspark.sql import functions as F

from lakehouse import Changes, DeltaIOManager, Expect, LocalSpark, Merge, Table, automation, incremental

BY_CONDITION = os.environ["FOLLOWED"] == "condition"
condition = automation() if BY_CONDITION else None
DAYS = dg.StaticPartitionsDefinition(["2013-01-01", "2013-01-02"])
orders = dg.AssetSpec("orders", metadata=Table(key="id", path=os.environ["SOURCE"]))


@dg.asset(metadata=Table(key="id"), automation_condition=condition)
def copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.where("v < 1000"), touched)


@dg.asset(key_prefix="gold", metadata=Table(key="day"), automation_condition=condition)
def totals(copies: Changes) -> Merge:
    touched = copies.touched("day")
    return Merge(touched.rows.groupBy("day").agg(F.sum("v").alias("total")), touched)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
def daily(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id", expect=(Expect("v < 20", "drop"), Expect("v < 1000", "fail"))))
def judged(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


root = os.environ["LAKEHOUSE_ROOT"]
spark = LocalSpark(root=root, spark_config=json.loads(os.environ.get("SPARK", "{}")))
store = json.loads(os.environ["STORE"]) if "STORE" in os.environ else None
manager = DeltaIOManager(spark=spark, root=os.environ.get("TABLES", root), storage_options=store)
more = [asset for name, asset in {"PARTITIONED": daily, "EXPECTED": judged}.items() if name in os.environ]
on = dg.AutomationConditionSensorDefinition(
    "conditions",
    target=dg.AssetSelection.assets("copies", ["gold", "totals"]),
    use_user_code_server=True,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
)
defs = incremental(
    dg.Definitions(
        assets=[orders, copies, totals, *more],
        sensors=[on] if BY_CONDITION else [],
        resources={"io_manager": manager, "spark": spark},
        executor=dg.in_process_executor,
    ),
    sensor="carry_on",
)
