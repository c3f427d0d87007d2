"""To which types INSERT casts: a number to a number, a time to a time, and any type without parts to a text."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lakehouse.spark.types import is_assignable
from tests.support.for_each import for_each

TEXT, INT = StringType(), IntegerType()
CAST = [
    (INT, ShortType()),
    (DoubleType(), INT),
    (LongType(), DecimalType(3, 1)),
    (DateType(), TimestampType()),
    (TimestampType(), DateType()),
    (TimestampNTZType(), TimestampType()),
    (INT, TEXT),
    (BooleanType(), TEXT),
    (NullType(), BooleanType()),
    (BinaryType(), BinaryType()),
    (ArrayType(INT), ArrayType(ShortType())),
    (MapType(INT, INT), MapType(TEXT, LongType())),
    (StructType([StructField("a", INT)]), StructType([StructField("b", TEXT)])),
]
REFUSED = [
    (TEXT, INT),
    (TEXT, DateType()),
    (INT, BooleanType()),
    (BooleanType(), INT),
    (INT, TimestampType()),
    (DateType(), INT),
    (ArrayType(INT), TEXT),
    (ArrayType(TEXT), ArrayType(INT)),
    (StructType([StructField("a", INT)]), StructType([StructField("a", INT), StructField("b", INT)])),
]


@for_each("value, column", CAST)
def test_insert_casts(value: DataType, column: DataType):
    assert is_assignable(value, column)


@for_each("value, column", REFUSED)
def test_insert_casts_not(value: DataType, column: DataType):
    assert not is_assignable(value, column)
