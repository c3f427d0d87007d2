"""The columns of a view's result: those of its query, under the names and types that a statement declares."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from lakehouse.delta.text import literal, quote
from lakehouse.errors.views import ViewError
from lakehouse.spark.driver_rows import Local, small
from lakehouse.spark.fitting import Breach, breach_text
from lakehouse.spark.types import widens
from lakehouse.views.view_text import OutputColumn


def with_declared_columns(frame: DataFrame, columns: Sequence[OutputColumn]) -> DataFrame:
    """The rows of a query under the names and types that are declared, by position.

    Raises:
        ViewError: The query gives another number of columns.
    """
    if not columns:
        return frame
    if len(columns) != len(frame.columns):
        raise ViewError(
            "VIEW_COLUMN_LIST",
            f"the head declares {len(columns)} columns, and the query gives {len(frame.columns)}",
            None,
            f"Declare a column for each of {', '.join(frame.columns)}, or none.",
        )
    named = frame.toDF(*(column.name for column in columns))
    return named.selectExpr(*map(_declared, columns))


def _declared(column: OutputColumn) -> str:
    """A column as SQL: cast to its declared type, and raising an error at NULL where NULL is refused."""
    name = quote(column.name)
    value = name if column.type is None else f"CAST({name} AS {column.type})"
    if column.required:
        value = f"coalesce({value}, raise_error({literal(breach_text(Breach.REQUIRED, column=column.name))}))"
    return value if value == name else f"{value} AS {name}"


def keeps_keys_apart(key: DataType, column: DataType) -> bool:
    """Whether two keys are two values of a column to whose type they are cast."""
    return key == column or (not isinstance(key, StringType) and widens(key, column))


def convert_keys(keys: Local | DataFrame, columns: Sequence[str], fields: Sequence[StructField]) -> Local | DataFrame:
    """Columns of keys under the names and types of others. Spark is asked only where a type differs."""
    frame = keys.frame if isinstance(keys, Local) else keys
    kinds = {field.name.lower(): field.dataType for field in frame.schema.fields}
    if isinstance(keys, Local) and all(
        kinds[column.lower()] == field.dataType for column, field in zip(columns, fields, strict=True)
    ):
        rows = keys.select(columns)
        schema = StructType([StructField(field.name, field.dataType) for field in fields])
        return Local(rows.spark, schema, rows.arrow.rename_columns([field.name for field in fields]))
    named = frame.select(
        *(
            F.col(quote(column)).cast(field.dataType).alias(field.name)
            for column, field in zip(columns, fields, strict=True)
        )
    )
    return (small(named) or named) if isinstance(keys, Local) else named
