"""A write as Delta will store it: in a column that a table is partitioned by, an empty string is a NULL.

Delta: PROTOCOL.md, "Partition Value Serialization". What is compared with the table must be what the table will hold.
"""

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lakehouse.read.touched import Touched
from lakehouse.sql.text import folded, quote
from lakehouse.write.writes import Append, Merge, Overwrite, Stated


def stored(write: Stated, partition_columns: Collection[str]) -> Stated:
    """The write with the values that a table which is partitioned by these columns gives back.

    Args:
        write: What the asset returned.
        partition_columns: What the table is partitioned by; empty where it is not.
    """
    if not partition_columns:
        return write
    rows = stored_rows(write.rows, partition_columns)
    match write:
        case Merge(touched=touched):
            return Merge(rows, _touched(touched, partition_columns))
        case Append() | Overwrite():
            return replace(write, rows=rows)


def stored_rows(rows: DataFrame, partition_columns: Collection[str]) -> DataFrame:
    """The rows with NULL for each empty string in a column of the partitioning."""
    texts = _texts(rows, partition_columns)
    if not texts:
        return rows
    return rows.select(*(_stored(column) if column in texts else F.col(quote(column)) for column in rows.columns))


def _touched(touched: Touched, partition_columns: Collection[str]) -> Touched:
    if touched.found is None or not folded(touched.columns) & folded(partition_columns):
        return touched
    texts = _texts(touched.keys, partition_columns)
    values = touched.values
    if not texts or (values is not None and not any("" in key for key in values)):
        return touched
    return replace(touched, found=stored_rows(touched.keys, partition_columns), alike=frozenset())


def _texts(frame: DataFrame, partition_columns: Collection[str]) -> frozenset[str]:
    partitions = folded(partition_columns)
    return frozenset(
        field.name
        for field in frame.schema.fields
        if field.name.lower() in partitions and isinstance(field.dataType, StringType)
    )


def _stored(column: str) -> Column:
    return F.nullif(F.col(quote(column)), F.lit("")).alias(column)
