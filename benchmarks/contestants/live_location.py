"""The code location that benchmarks/suites/live.py runs in `dagster dev`: a source, three hops, and the sensor."""

import os
from pathlib import Path

import dagster as dg
from pyspark.sql import functions as F

from benchmarks.harness.data import KEY
from lakehouse import Changes, DeltaIOManager, Merge, Table, change_sensor
from lakehouse.dagster.resources import LocalSpark
from lakehouse.server.settings import local_settings

ROOT = Path(os.environ["LAKEHOUSE_ROOT"])
source = dg.AssetSpec("source", metadata=Table(key=KEY))


@dg.asset(metadata=Table(key=KEY))
def bronze(source: Changes) -> Merge:
    touched = source.touched(KEY)
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key=KEY))
def silver(bronze: Changes) -> Merge:
    touched = bronze.touched(KEY)
    return Merge(touched.rows.withColumn("part", F.col(KEY) % 100), touched)


@dg.asset(metadata=Table(key="part"))
def gold(silver: Changes) -> Merge:
    touched = silver.touched("part")
    return Merge(touched.rows.groupBy("part").agg(F.sum("value").alias("value")), touched)


assets = [bronze, silver, gold]
spark = LocalSpark(spark_config=local_settings(ROOT), root=str(ROOT))
sensor = change_sensor(
    "carry_changes",
    [*assets, source],
    root=str(ROOT),
    minimum_interval_seconds=1,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
defs = dg.Definitions(
    assets=[*assets, source],
    sensors=[sensor],
    resources={"io_manager": DeltaIOManager(spark=spark, root=str(ROOT)), "spark": spark},
    executor=dg.in_process_executor,
)
