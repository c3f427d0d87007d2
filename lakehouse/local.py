"""Small results brought to the driver once, so that everything after them plans with their true size.

A frame of a few rows whose size the optimizer does not know (a change data feed has no statistics) makes Spark
shuffle the table it is joined with; the same rows as a local relation are broadcast, and are computed once.
"""

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
    StructType,
    TimestampNTZType,
    TimestampType,
)

SMALL_ROWS = 10_000
_ATOMS = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)


def small(frame: DataFrame, rows: int = SMALL_ROWS) -> "tuple[DataFrame, int] | None":
    """The frame as a local relation and its row count; None where it has more than `rows` rows.

    Computes the frame (up to the limit) once, so errors of its plan surface here.
    """
    if not all(_travels(column.dataType) for column in frame.schema.fields):
        return None
    # In one batch: PySpark 4.2 stops at the first empty one and drops what follows (tests/upstream).
    arrow = frame.limit(rows + 1).toArrow().combine_chunks()
    if arrow.num_rows > rows:
        return None
    return frame.sparkSession.createDataFrame(arrow, schema=frame.schema), int(arrow.num_rows)


def _travels(kind: DataType) -> bool:
    """Whether values of the type come back from Arrow exactly as they left."""
    match kind:
        case ArrayType():
            return _travels(kind.elementType)
        case StructType():
            return all(_travels(column.dataType) for column in kind.fields)
        case _:
            return type(kind) in _ATOMS
