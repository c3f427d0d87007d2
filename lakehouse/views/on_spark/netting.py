"""Which rows of a source a range of changes moved, by the columns that a query uses."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from lakehouse.delta.text import quote
from lakehouse.read.content import BEFORE, CHANGE, DELETE, Feed, SourceRead
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.types import ATOMS, can_be_told_apart, identities, padding_like

_ONE, _MORE = "__one", "__more"


def moved_rows(read: SourceRead, columns: tuple[str, ...]) -> DataFrame:
    """The distinct rows, of some columns, that the source has more or fewer of than before the range.

    Two changes that cancel are no row. If the values of a column cannot be told apart (MAP, VARIANT), nothing cancels,
    and the column is NULL, because Spark knows no DISTINCT of such values.
    """
    match read.content:
        case Feed(rows=Local() as images):
            net = _net(images, columns)
            return _net_by_spark(images.frame, columns) if net is None else net.frame
        case _:
            return _net_by_spark(read.feed, columns)


def _net(images: Local, columns: tuple[str, ...]) -> Local | None:
    """The rows, found at the driver; None if a column has a type with parts.

    Arrow groups values by their bytes. So it never takes two values for one that a query can tell apart.
    """
    rows = images.select(columns)
    if not all(type(column.dataType) in ATOMS for column in rows.schema.fields):
        return None
    arrow: Any = pc
    is_gone = arrow.is_in(images.column(CHANGE), value_set=pa.array([DELETE, BEFORE]))
    sign = arrow.if_else(is_gone, pa.scalar(-1, pa.int64()), pa.scalar(1, pa.int64()))
    names = [str(place) for place, _ in enumerate(columns)]
    table: Any = rows.arrow.rename_columns(names).append_column(_ONE, sign)
    summed = table.group_by(names).aggregate([(_ONE, "sum")])
    # The sum of no row is NULL, as in Spark.
    moved = summed.filter(arrow.not_equal(summed.column(f"{_ONE}_sum"), 0))
    if not columns:  # Arrow counts the rows of a table by its columns
        return Local(images.spark, StructType([StructField(_ONE, LongType())]), moved.rename_columns([_ONE]))
    return Local(images.spark, rows.schema, moved.select(names).rename_columns(list(columns)).cast(rows.arrow.schema))


def _net_by_spark(feed: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    names = [quote(name) for name in columns]
    rows = feed.select(*names, F.when(F.col(CHANGE).isin(DELETE, BEFORE), -1).otherwise(1).alias(_ONE))
    schema = feed.select(*names).schema
    unknown = [column.name for column in schema.fields if not can_be_told_apart(column.dataType)]
    if unknown:
        return rows.drop(_ONE).withColumns({name: F.lit(None).cast("int") for name in unknown})
    by = [F.expr(text).alias(f"__by_{place}") for place, text in enumerate(identities(schema).values())]
    first = [F.first(F.col(quote(column.name))).alias(column.name) for column in schema.fields]
    moved = rows.groupBy(*by).agg(*first, F.sum(_ONE).alias(_MORE)).where(F.col(_MORE) != 0)
    return padding_like(schema, moved.select(*names)) if names else moved.select(_MORE)
