"""`lakehouse doctor --spark --scratch`: what a Spark can do, on a real table that is created and dropped."""

from pyspark.sql import SparkSession

from lakehouse.spark.scratch import try_out

NAME = "default.doctors_scratch"


def test_the_spark_that_is_tested_can_all_of_it_and_the_table_is_gone(spark: SparkSession) -> None:
    trials = try_out(spark, NAME)
    assert [trial for trial in trials if trial.problem is not None] == []
    assert len(trials) == 8
    assert not spark.catalog.tableExists(NAME)


def test_a_table_that_was_there_before_is_left_alone(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} USING delta AS SELECT 1 AS mine").collect()
    try:
        (trial,) = try_out(spark, NAME)
        assert trial.problem is not None and "ALREADY_EXISTS" in trial.problem
        assert spark.read.table(NAME).collect() == [(1,)]
    finally:
        spark.sql(f"DROP TABLE {NAME}").collect()
