"""A text in a partition column is refused if Delta would keep a NULL instead: the empty one, and Hive's NULL (ADR 18).

Delta: PROTOCOL.md, "Partition Value Serialization". The table would hold another row than the one that was written,
under a key that nobody touched.
"""

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lakehouse.delta.text import fold, quote
from lakehouse.difference.broken_promises import broken
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import EveryKey, SomeKeys, UnreadRows
from lakehouse.spark.fitting import Breach, breach_text
from lakehouse.writes.writes import Append, Merge, Overwrite, Snapshot, Stated

KEPT_AS_NULL = ("", "__HIVE_DEFAULT_PARTITION__")
"""The texts that Delta reads back as NULL: it takes partition values out of the names of directories, as Hive does."""


def refusing_empty_texts(asset: str, write: Stated, partition_columns: Collection[str]) -> Stated:
    """The write, whose plan fails at an empty text in a column that the table is partitioned by.

    Args:
        asset: The asset, for messages.
        write: What the asset returned.
        partition_columns: What the table is partitioned by; empty if it is not partitioned.

    Raises:
        BrokenPromiseError: A key that the write is about has an empty text there.
    """
    if not partition_columns:
        return write
    rows = _refusing(write.rows, partition_columns)
    match write:
        case Merge(touched=touched):
            return Merge(rows, _refuse_in_keys(asset, touched, partition_columns))
        case Append() | Overwrite() | Snapshot():
            return replace(write, rows=rows)


def _refuse_in_keys(asset: str, touched: Touched, partition_columns: Collection[str]) -> Touched:
    """The keys likewise: rows that the table holds under NULL would stay there when the empty text is deleted."""
    keys = touched.touched
    if isinstance(keys, EveryKey) or not fold(touched.columns) & fold(partition_columns):
        return touched
    if touched.values is None:
        checked = _refusing(keys.distinct, partition_columns)
        rows = checked if touched.few else UnreadRows(checked)
        return replace(touched, touched=SomeKeys(keys.columns, rows, keys.most))
    partitions = fold(partition_columns)
    for index, column in enumerate(touched.columns):
        if column.lower() in partitions and any(key[index] in KEPT_AS_NULL for key in touched.values):
            raise broken(asset, Breach.EMPTY, {"column": column})
    return touched


def _refusing(frame: DataFrame, partition_columns: Collection[str]) -> DataFrame:
    partitions = fold(partition_columns)
    refused = {
        field.name: F.when(F.col(quote(field.name)).isin(*KEPT_AS_NULL), _raise_for_empty_text(field.name))
        .otherwise(F.col(quote(field.name)))
        .alias(field.name)
        for field in frame.schema.fields
        if field.name.lower() in partitions and isinstance(field.dataType, StringType)
    }
    if not refused:
        return frame
    return frame.select(*(refused.get(column, F.col(quote(column))) for column in frame.columns))


def _raise_for_empty_text(column: str) -> Column:
    return F.raise_error(F.lit(breach_text(Breach.EMPTY, column=column)))
