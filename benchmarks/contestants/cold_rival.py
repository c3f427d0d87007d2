"""A process that brings a target up to date with a JVM of its own, as in Delta's quick start, and ends.

`python -m benchmarks.contestants.cold_rival ROOT first` writes the target, `next` merges what changed.
"""

import sys
from pathlib import Path

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from benchmarks.contestants.by_hand import Batch
from benchmarks.harness.data import PROPERTIES, Pair, name


def main() -> None:
    pair, what = Pair(Path(sys.argv[1])), sys.argv[2]
    builder = (
        SparkSession.builder.appName("quick start")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.warehouse.dir", str(pair.root / "warehouse"))
    )
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    batch = Batch(spark)
    if what == "first":
        batch.prepare(pair)
        rows = spark.read.table(name(pair.source))
        rows.write.format("delta").options(**PROPERTIES).save(str(pair.target))
    else:
        batch.step(pair)
    spark.stop()


if __name__ == "__main__":
    main()
