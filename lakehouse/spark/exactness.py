"""Which values Delta's change data feed returns exactly, by type: one table, and its two renderings.

Delta returns the feed's rows as Java objects, which cannot represent every value that a file holds. An inexact value
may differ from the value in the table; what relies on the feed then takes another way.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lakehouse.delta.text import literal, quote
from lakehouse.spark.types import fields_within

_ALL = re.compile(r"(?:^|[(,\s])(?:\w+\.)?\*\s*(?:[,)]|$)")
"""A star that stands for all columns, and not for a product."""
REPLACED = "\ufffd"
"""What Java puts in place of bytes that are not UTF-8."""


class Inexact(Enum):
    """When a value of the feed may differ from the value in the table."""

    NEVER = "the feed tells every value"
    NO_UTF8 = "a text whose bytes are not UTF-8"
    OLD_DAY = "a day before 1600, which is of another calendar in java.sql"
    OLD_INSTANT = "an instant before 1900, which may lie where a zone's clocks were set back to standard time"
    ALWAYS = "what the feed tells of the type has not been tested"


INEXACT: dict[type[DataType], Inexact] = {
    ByteType: Inexact.NEVER,
    ShortType: Inexact.NEVER,
    IntegerType: Inexact.NEVER,
    LongType: Inexact.NEVER,
    BooleanType: Inexact.NEVER,
    DecimalType: Inexact.NEVER,
    FloatType: Inexact.NEVER,
    DoubleType: Inexact.NEVER,
    BinaryType: Inexact.NEVER,
    TimestampNTZType: Inexact.NEVER,
    StringType: Inexact.NO_UTF8,
    DateType: Inexact.OLD_DAY,
    TimestampType: Inexact.OLD_INSTANT,
}
"""A type that is not here is always inexact; a struct and an array are as exact as their parts."""
_DAY_1600, _INSTANT_1900 = -11_676_096_000_000_000, -2_208_988_800_000_000
"""The years 1600 and 1900 in microseconds since the epoch."""


def inexact_in_sql(value: str, kind: DataType) -> list[str]:
    """The SQL conditions under which a value of the feed is inexact; none if the value is always exact."""
    match kind:
        case StructType():
            return [
                condition
                for part in kind.fields
                for condition in inexact_in_sql(f"{value}.{quote(part.name)}", part.dataType)
            ]
        case ArrayType():
            each = inexact_in_sql("each", kind.elementType)
            return [f"exists({value}, each -> {' OR '.join(each)})"] if each else []
        case _:
            pass
    match INEXACT.get(type(kind), Inexact.ALWAYS):
        case Inexact.NEVER:
            return []
        case Inexact.NO_UTF8:
            # Spark may evaluate a filter where the files are read, and there the bytes are still those of the file.
            return [f"contains({value}, {literal(REPLACED)})", f"NOT is_valid_utf8({value})"]
        case Inexact.OLD_DAY:
            return [f"{value} < DATE'1600-01-01'"]
        case Inexact.OLD_INSTANT:
            return [f"{value} < TIMESTAMP'1900-01-01 00:00:00Z'"]
        case Inexact.ALWAYS:
            return ["TRUE"]


def may_be_exact(column: StructField) -> bool:
    """Whether the feed returns some values of a column exactly: no part of it has a type that is never exact."""
    parts = (kind for _, kind in fields_within(column.name, column.dataType))
    return all(type(kind) in INEXACT or isinstance(kind, StructType | ArrayType) for kind in parts)


def inexact_in(columns: Iterable[StructField]) -> str | None:
    """The SQL condition that a row of the feed has an inexact value in one of the columns; None if no row can."""
    conditions = [each for column in columns for each in inexact_in_sql(quote(column.name), column.dataType)]
    return " OR ".join(conditions) or None


def named_in(frame: DataFrame, expressions: Iterable[str]) -> list[StructField]:
    """The columns that the texts of expressions may name. In doubt a column counts as named."""
    text = " ".join(expressions).lower().replace("``", "`")
    if _ALL.search(text):
        return frame.schema.fields
    words = {name: re.compile(rf"(?<!\w){re.escape(name.lower())}(?!\w)") for name in frame.columns}
    return [column for column in frame.schema.fields if words[column.name].search(text)]


def are_exact(values: Any, kind: DataType) -> bool:
    """Whether every value of a column of the feed is exact; a type with parts counts as inexact."""
    match INEXACT.get(type(kind), Inexact.ALWAYS):
        case Inexact.NEVER:
            return True
        case Inexact.NO_UTF8:
            return not cast("Any", pc).any(cast("Any", pc).match_substring(values, REPLACED)).as_py()
        case Inexact.OLD_DAY:
            return _oldest(values) >= _DAY_1600
        case Inexact.OLD_INSTANT:
            return _oldest(values) >= _INSTANT_1900
        case Inexact.ALWAYS:
            return False


def _oldest(values: Any) -> int:
    oldest: int | None = pc.min(values.cast(pa.timestamp("us")).cast(pa.int64())).as_py()
    return 0 if oldest is None else oldest
