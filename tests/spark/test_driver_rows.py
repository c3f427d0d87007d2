"""Rows that are collected at the driver: only as many as fit there, and every value unchanged."""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta.limits import MEASURED
from lakehouse.spark.driver_rows import collect_all, small
from tests.support.for_each import for_each


def texts(spark: SparkSession, rows: int, width: int, partitions: int = 4) -> DataFrame:
    """Rows of a range: Spark knows their number, drops a limit that they do not reach, and keeps the partitions."""
    return spark.range(0, rows, 1, partitions).selectExpr("id", f"repeat('x', {width}) AS text")


SMALL_BYTES, SMALL_ROWS, WIDE_BYTES = MEASURED.driver_bytes, MEASURED.driver_rows, MEASURED.driver_row_bytes
NARROW = SMALL_BYTES // SMALL_ROWS - 100
FITS = {
    "one wide row": (1, WIDE_BYTES - 100, True),
    "one that is too wide": (1, WIDE_BYTES + 1, False),
    "few wide rows": (SMALL_BYTES // WIDE_BYTES // 2, WIDE_BYTES - 100, True),
    "too many wide rows": (SMALL_BYTES // WIDE_BYTES * 2, WIDE_BYTES - 100, False),
    "many rows": (SMALL_ROWS, NARROW, True),
    "too many rows": (SMALL_ROWS + 1, 0, False),
    "too many for their width": (SMALL_ROWS, NARROW + 200, False),
}


@for_each("rows, width, fits", FITS.values())
def test_so_many_rows_of_such_a_width(spark: SparkSession, rows: int, width: int, *, fits: bool) -> None:
    local = small(texts(spark, rows, width, partitions=4 if fits else 1))
    assert (local is not None) == fits
    if local is not None:
        assert local.rows == rows
        assert local.frame.selectExpr("count(DISTINCT id)", "sum(length(text))").first() == (rows, rows * width)


def test_many_columns_count_as_well(spark: SparkSession) -> None:
    wide = spark.range(SMALL_ROWS).selectExpr("id", *(f"id + {n} AS c{n}" for n in range(40)))
    assert small(wide) is None
    assert small(wide.limit(SMALL_ROWS // 3)) is not None


def test_rows_that_are_here_can_be_written_again(spark: SparkSession) -> None:
    """A local relation of several batches gives the same rows each time."""
    there = texts(spark, 30_000, 30)
    here = collect_all(there).frame
    assert here.schema == there.schema
    assert here.exceptAll(there).isEmpty()
    assert there.exceptAll(here).isEmpty()


def test_rows_that_are_united_are_all_there_for_a_plan(spark: SparkSession) -> None:
    """A batch without rows would cut off the rows after it (tests/upstream)."""
    some, none, more = (
        collect_all(spark.range(count).selectExpr("timestamp_seconds(id) AS at")) for count in (2, 0, 3)
    )
    for parts in ((some, none, more), (none, none, more), (none, some, none)):
        first, second, third = parts
        united = first.union(second)
        assert united is not None
        united = united.union(third)
        assert united is not None
        assert united.frame.count() == united.rows == sum(part.rows for part in parts)


def test_no_rows_of_a_nested_column_are_a_frame(spark: SparkSession):
    """After a filter that leaves no row Arrow has no batch, from which PySpark cannot infer a type."""
    frame = spark.sql("SELECT named_struct('at', TIMESTAMP'2026-01-01 00:00:00') AS s, array(1) AS a")
    local = small(frame)
    assert local is not None
    none = local.where(pa.array([False]))
    assert none.frame.schema == frame.schema and none.frame.collect() == []
