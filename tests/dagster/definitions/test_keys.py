"""The check of a key, through Spark."""

from pyspark.sql import SparkSession

from lakehouse.dagster.definitions.findings import Grade, keys


def test_null_in_a_key_warns_and_a_key_in_two_rows_fails(spark: SparkSession) -> None:
    rows = [(1, "a"), (None, "b")]
    once = keys("t", spark.createDataFrame(rows, "id int, k string"), ["id"])
    assert once.grade is Grade.WARNS
    assert once.sentence.startswith("NULL stands in 1 key (id) of 't', each of one row.")
    assert once.records == ({"id": "NULL", "rows": 1},)
    twice = keys("t", spark.createDataFrame([*rows, (None, "c")], "id int, k string"), ["id"])
    assert twice.grade is Grade.FAILED
    assert "does not identify its rows: 1 key in more than one row, 1 key with NULL." in twice.sentence
