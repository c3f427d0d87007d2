"""What the library assumes about Spark; a failure here means that Spark changed."""

import os
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lakehouse.server.jvm import module_options
from lakehouse.server.versions import minor
from lakehouse.spark.driver_rows import small


@pytest.mark.skipif(minor(pyspark.__version__) in ("4.0", "4.1"), reason="Spark 4.2 has it")
def test_an_arrow_table_with_an_empty_batch_in_the_middle_loses_the_rows_behind_it(spark: SparkSession) -> None:
    """If this fails, Spark has fixed it, and lakehouse/spark/driver_rows.py need not combine the batches any more."""
    full, empty = pa.record_batch({"id": pa.array([1, 2])}), pa.record_batch({"id": pa.array([], pa.int64())})
    table = pa.Table.from_batches([full, empty, full])
    assert table.num_rows == 4
    assert spark.createDataFrame(table).count() == 2
    assert spark.createDataFrame(table.combine_chunks()).count() == 4


def test_small_results_arrive_whole_whatever_their_partitions(spark: SparkSession) -> None:
    frame = spark.range(0, 40, 1, 8).where("id % 20 < 3")  # most partitions are empty
    local = small(frame)
    assert local is not None
    assert (local.rows, sorted(row.id for row in local.frame.collect())) == (6, [0, 1, 2, 20, 21, 22])


@pytest.mark.skipif(os.environ["LAKEHOUSE_SPARK"] != "process", reason="it asks the JVM of this process")
def test_the_server_s_jvm_gets_the_options_that_spark_s_own_launcher_gives(spark: SparkSession) -> None:
    """All except the module for linear algebra, which a JRE may lack; an earlier Spark gives fewer options."""
    jvm: Any = spark.sparkContext._jvm
    given = set(jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray())
    ours = set(module_options(pyspark.__version__))
    assert given - ours == {"--add-modules=jdk.incubator.vector"}
    assert minor(pyspark.__version__) in ("4.0", "4.1") or ours <= given


@pytest.mark.skipif(os.environ["LAKEHOUSE_SPARK"] != "process", reason="through Spark Connect the values arrive")
@pytest.mark.skipif(pyspark.__version__.startswith("4.0."), reason="with Spark 4.0 the values arrive")
def test_delta_s_parser_hands_no_value_of_a_named_parameter_on_to_spark_s(spark: SparkSession) -> None:
    """If this fails, Delta has fixed it, and lakehouse/views/on_spark/key_conditions.py no longer needs literals."""
    frame = spark.range(4)
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        spark.sql("SELECT id FROM {frame} WHERE id > :least", args={"least": 1}, frame=frame).collect()
    assert [row.id for row in spark.sql("SELECT id FROM {frame} WHERE id > 1", frame=frame).collect()] == [2, 3]
