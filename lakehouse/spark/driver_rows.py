"""Few rows at the driver: as Arrow, as a local relation, and compared as Spark compares them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from inspect import signature
from math import isnan
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
)

from lakehouse.delta.keys import is_literal
from lakehouse.delta.limits import limits
from lakehouse.delta.text import Literal, quote, same
from lakehouse.spark.abilities import keep
from lakehouse.spark.diagnosis import causes, message
from lakehouse.spark.exactness import REPLACED
from lakehouse.spark.session import is_connect
from lakehouse.spark.types import ATOMS, comparable

ONE, MORE = "__one", "__more"


def bag_difference(rows: DataFrame, existing: DataFrame) -> DataFrame:
    """Rows counted with their repetitions: `MORE` > 0 where the result has a row more often than the table."""
    both = (
        rows.select(*map(quote, existing.columns)).withColumn(ONE, F.lit(1)).union(existing.withColumn(ONE, F.lit(-1)))
    )
    return net(both, existing.schema, comparable(existing.schema).values())


def net(signed: DataFrame, schema: StructType, by: Iterable[str]) -> DataFrame:
    """The balance of rows that each come (`ONE` is 1) or go (-1): each row once, with its surplus as `MORE`.

    Rows are the same if they are equal in the SQL expressions `by`, one for each column of the schema.
    """
    grouped = signed.groupBy(*(F.expr(text).alias(f"__by_{place}") for place, text in enumerate(by)))
    first = [F.first(F.col(quote(name))).alias(name) for name in schema.names]
    moved = grouped.agg(*first, F.sum(ONE).alias(MORE)).where(F.col(MORE) != 0)
    return moved.select(*map(quote, schema.names), MORE)


def matching(frame: DataFrame, other: DataFrame, columns: Sequence[str], how: str = "left_semi") -> DataFrame:
    """The rows of a frame that match (`left_semi`) or do not match (`left_anti`) a row of another in some columns."""
    values = other.selectExpr(*(f"{quote(name)} AS __value_{index}" for index, name in enumerate(columns)))
    on = " AND ".join(same(quote(name), f"__value_{index}") for index, name in enumerate(columns))
    return frame.join(values, F.expr(on), how)


_UTC: Any = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {"timestamp_utc": True}
"""The argument that puts a schema's instants in UTC; Spark 4.2 renamed it."""
_WIDE = "lakehouse-wide-row"
_WORD = 16
"""Roughly the bytes of a value, without the content of a text or a binary."""
_NESTED = (ArrayType, StructType)
_DOUBTFUL = (FloatType, DoubleType, StringType)
"""Types with values whose equality in Python is not that of Spark."""


@dataclass(frozen=True, eq=False)
class Local:
    """Rows that are at the driver."""

    spark: SparkSession
    schema: StructType
    arrow: Any

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a local relation, for plans; sent to Spark when first requested."""
        # In one batch: PySpark 4.2 stops at the first empty batch and drops what follows (tests/upstream).
        # Even without rows: Arrow combines these to no batch, and PySpark then does not know a nested column's type.
        arrow = self.arrow.combine_chunks() if self.rows else self.arrow.schema.empty_table()
        frame = self.spark.createDataFrame(arrow, schema=self.schema)
        if self.rows > limits().decoded_rows and is_connect(self.spark):
            # A server keeps a plan that it has analyzed; a part of a plan is decoded again each time.
            _ = frame.schema
        return frame

    @property
    def rows(self) -> int:
        return int(self.arrow.num_rows)

    @classmethod
    def empty(cls, frame: DataFrame) -> "Local":
        """No rows, with the frame's columns, without a Spark job."""
        return cls(frame.sparkSession, frame.schema, to_arrow_schema(frame.schema, **_UTC).empty_table())

    def select(self, columns: Sequence[str]) -> "Local":
        """Some columns, under the names that are given."""
        named = {field.name.lower(): (index, field) for index, field in enumerate(self.schema.fields)}
        taken = [named[column.lower()] for column in columns]
        fields = [
            StructField(column, field.dataType, field.nullable, field.metadata)
            for column, (_, field) in zip(columns, taken, strict=True)
        ]
        arrow = self.arrow.select([index for index, _ in taken]).rename_columns(list(columns))
        return Local(self.spark, StructType(fields), arrow)

    def take(self, rows: Sequence[int]) -> "Local":
        """Some rows, by their places."""
        return Local(self.spark, self.schema, self.arrow.take(pa.array(rows, pa.int64())))

    def where(self, mask: Any) -> "Local":
        """The rows for which the mask, a `pyarrow` array of booleans, is true."""
        return Local(self.spark, self.schema, self.arrow.filter(mask))

    def union(self, other: "Local") -> "Local | None":
        """The rows of both; None if their columns differ."""
        if self.schema != other.schema or self.arrow.schema != other.arrow.schema:
            return None
        return Local(self.spark, self.schema, pa.concat_tables([self.arrow, other.arrow]))

    def has_nulls(self, columns: Sequence[str]) -> bool:
        """Whether one of the columns holds a NULL."""
        return any(self.column(column).null_count for column in columns)

    def column(self, name: str) -> Any:
        """A column's values, whatever the case of its name."""
        names = [field.name.lower() for field in self.schema.fields]
        return self.arrow.column(names.index(name.lower()))

    def literal_rows(self, columns: Sequence[str]) -> list[tuple[Literal, ...]]:
        """The values of some columns that have literals, row by row; instants in UTC.

        In another zone, Python treats two instants as equal if they lie in the hour that occurs twice.
        """
        return list(zip(*(_in_utc(self.column(column)).to_pylist() for column in columns), strict=True))

    def values(self, columns: Sequence[str]) -> list[tuple[Literal, ...]] | None:
        """The distinct values of some columns; None if their types have no exact literals."""
        kinds = {column.name.lower(): column for column in self.schema.fields}
        fields = [kinds[column.lower()] for column in columns]
        if not all(is_literal(column.dataType.simpleString()) for column in fields):
            return None
        try:
            distinct = list(dict.fromkeys(self.literal_rows(columns)))
        except (OverflowError, ValueError):  # a date that Python lacks: before the year 1 or after 9999
            return None
        doubtful = [place for place, column in enumerate(fields) if isinstance(column.dataType, _DOUBTFUL)]
        if any(_is_no_key(values[place]) for values in distinct for place in doubtful):
            return None
        return distinct


def small(frame: DataFrame) -> Local | None:
    """The frame's rows at the driver; None if they are too many or too wide.

    Computes the frame (up to the limit) once, so errors of its plan surface here.
    """
    if not _travels(frame.schema):
        return None
    most_bytes, values = limits().driver_bytes, _WORD * len(frame.columns)
    rows = min(limits().driver_rows, most_bytes // values)
    frame, texts = frame.limit(rows + 1), _width(frame)
    if texts is not None:
        # After the limit there is one partition (several only for a few rows), in which this counts the rows.
        nth = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1) + 1
        most = F.least(F.lit(limits().driver_row_bytes), F.lit(most_bytes) / nth - values)
        frame = frame.where(F.when(texts > most, F.raise_error(F.lit(_WIDE)).cast("boolean")).otherwise(True))
    try:
        local = collect_all(frame)
    except Exception as error:
        if any(_WIDE in message(cause) for cause in causes(error)):
            return None
        raise
    return None if local.rows > rows else local


def compute_once(frame: DataFrame, *, few: bool = False) -> Local | DataFrame:
    """The frame's rows, computed once, however often a plan reads them; at the driver if they are few.

    On a platform that keeps no rows, many rows are computed again by each plan.
    """
    if few:
        return small(frame) or keep(frame)
    checkpoint = keep(frame)
    is_kept = checkpoint is not frame  # rows that have been computed cost little to count
    are_many = is_kept and checkpoint.count() > limits().driver_rows
    return checkpoint if are_many else small(checkpoint) or checkpoint


def _in_utc(column: Any) -> Any:
    is_instant = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp("us", "UTC")) if is_instant else column


def _is_no_key(value: Literal) -> bool:
    """Whether a literal may miss some rows with the key: NaN, a zero, and a text in which bytes were replaced."""
    if isinstance(value, float):
        # Spark groups and joins by 0.0 and -0.0 as one value. Parquet's reader leaves out a file with the other zero.
        return isnan(value) or not value
    return isinstance(value, str) and REPLACED in value


def _width(frame: DataFrame) -> Column | None:
    """The bytes of a row in the columns without a fixed width; None if there are no such columns."""
    widths = [
        F.coalesce(F.octet_length(quote(field.name) if plain else F.to_json(quote(field.name))), F.lit(0))
        for field in frame.schema.fields
        if (plain := isinstance(field.dataType, StringType | BinaryType)) or isinstance(field.dataType, _NESTED)
    ]
    return reduce(Column.__add__, widths) if widths else None


def collect_all(frame: DataFrame) -> Local:
    """All the frame's rows at the driver: for a frame that is known to have few, of types that travel exactly."""
    return Local(frame.sparkSession, frame.schema, frame.toArrow())


def is_empty(frame: DataFrame) -> bool:
    """Whether the frame has no row. Connect's own `isEmpty` keeps a reference to every frame for ever."""
    return not frame.select().take(1)


def _travels(kind: DataType) -> bool:
    """Whether every value of a type comes back from Arrow exactly as it left."""
    match kind:
        case ArrayType():
            return _travels(kind.elementType)
        case StructType():
            return all(_travels(column.dataType) for column in kind.fields)
        case _:
            return type(kind) in ATOMS
