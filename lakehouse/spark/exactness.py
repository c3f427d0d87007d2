"""Which values Delta's change data feed returns exactly, by type: one table, and its two renderings.

Delta hands the feed's rows out as Java's objects, which cannot say all that a file holds. A value in doubt may be
another one in the table; whoever goes by the feed then takes another way.
"""

from enum import Enum
from typing import Any, assert_never, cast

import pyarrow as pa
import pyarrow.compute as pc
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lakehouse.sql.text import literal, quote

REPLACED = "\ufffd"
"""What Java has for bytes that are no UTF-8."""


class Doubt(Enum):
    """When a value of the feed may differ from the value in the table."""

    NEVER = "the feed tells every value"
    NO_UTF8 = "a text whose bytes are no UTF-8"
    OLD_DAY = "a day before 1600, which is of another calendar in java.sql"
    OLD_INSTANT = "an instant before 1900, which may lie where a zone's clocks were set back to standard time"
    ALWAYS = "nobody has looked at what the feed tells of the type"


DOUBTS: dict[type[DataType], Doubt] = {
    ByteType: Doubt.NEVER,
    ShortType: Doubt.NEVER,
    IntegerType: Doubt.NEVER,
    LongType: Doubt.NEVER,
    BooleanType: Doubt.NEVER,
    DecimalType: Doubt.NEVER,
    FloatType: Doubt.NEVER,
    DoubleType: Doubt.NEVER,
    BinaryType: Doubt.NEVER,
    TimestampNTZType: Doubt.NEVER,
    StringType: Doubt.NO_UTF8,
    DateType: Doubt.OLD_DAY,
    TimestampType: Doubt.OLD_INSTANT,
}
"""A type that is not here is in doubt; a struct and an array are what their parts are."""
_DAY_1600, _INSTANT_1900 = -11_676_096_000_000_000, -2_208_988_800_000_000
"""The years 1600 and 1900 in microseconds since the epoch."""


def doubts_in_sql(value: str, kind: DataType) -> list[str]:
    """The SQL conditions under which a value of the feed is in doubt; none where it never is.

    Args:
        value: The value, as SQL.
        kind: Its type.
    """
    match kind:
        case StructType():
            return [
                doubt for part in kind.fields for doubt in doubts_in_sql(f"{value}.{quote(part.name)}", part.dataType)
            ]
        case ArrayType():
            each = doubts_in_sql("each", kind.elementType)
            return [f"exists({value}, each -> {' OR '.join(each)})"] if each else []
        case _:
            pass
    doubt = DOUBTS.get(type(kind), Doubt.ALWAYS)
    match doubt:
        case Doubt.NEVER:
            return []
        case Doubt.NO_UTF8:
            return [f"contains({value}, {literal(REPLACED)})"]
        case Doubt.OLD_DAY:
            return [f"{value} < DATE'1600-01-01'"]
        case Doubt.OLD_INSTANT:
            return [f"{value} < TIMESTAMP'1900-01-01 00:00:00Z'"]
        case Doubt.ALWAYS:
            return ["TRUE"]
        case _:
            assert_never(doubt)


def is_told_exactly(values: Any, kind: DataType) -> bool:
    """Whether no value of a column of the feed is in doubt; a type with parts counts as in doubt.

    Args:
        values: The column, as a `pyarrow.ChunkedArray`.
        kind: Its type.
    """
    doubt = DOUBTS.get(type(kind), Doubt.ALWAYS)
    match doubt:
        case Doubt.NEVER:
            return True
        case Doubt.NO_UTF8:
            return not cast("Any", pc).any(cast("Any", pc).match_substring(values, REPLACED)).as_py()
        case Doubt.OLD_DAY:
            return _oldest(values) >= _DAY_1600
        case Doubt.OLD_INSTANT:
            return _oldest(values) >= _INSTANT_1900
        case Doubt.ALWAYS:
            return False
        case _:
            assert_never(doubt)


def _oldest(values: Any) -> int:
    oldest: int | None = pc.min(values.cast(pa.timestamp("us")).cast(pa.int64())).as_py()
    return 0 if oldest is None else oldest
