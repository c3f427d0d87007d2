"""The columns of a view's result: those of its query, under the names and types that a statement declares."""

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from lakehouse.delta.text import literal, quote
from lakehouse.errors.views import ViewError
from lakehouse.spark.driver_rows import Local, small
from lakehouse.spark.fitting import Breach, breach_text
from lakehouse.spark.types import is_assignable, sql_type, widens
from lakehouse.views.view_text import OutputColumn, ViewText

_NAME = re.compile(r"[A-Za-z_]\w*")


def are_as_read(columns: Sequence[str], read: Sequence[str]) -> bool:
    """Whether Spark has the columns of a query in the order in which its text was read: keys are found by position.

    Args:
        columns: The columns as Spark has them.
        read: The columns as the text was read; an expression without a name has its words.
    """
    if len(columns) != len(read):
        return False
    named = [(one, other) for one, other in zip(columns, read, strict=True) if _NAME.fullmatch(other)]
    return all(one.lower() == other.lower() for one, other in named)


def with_declared_columns(frame: DataFrame, text: ViewText) -> DataFrame:
    """The rows of a query under the names and types that are declared, by position, without the NULLs it refuses.

    Raises:
        ViewError: INSERT would not cast a column to its declared type.
    """
    if not text.columns and not text.required:
        return frame
    columns = text.columns or [OutputColumn(name) for name in frame.columns]
    named = frame.toDF(*(column.name for column in columns))
    fields = named.schema.fields
    result = named.selectExpr(
        *(_as_declared(text, column, field) for column, field in zip(columns, fields, strict=True))
    )
    for given, field in zip(fields, result.schema.fields, strict=True):
        if not is_assignable(given.dataType, field.dataType):
            raise ViewError(
                "VIEW_HEAD",
                f"The head declares {field.name} as {sql_type(field.dataType)}, and the query gives "
                f"{sql_type(given.dataType)}, which INSERT would not cast",
                None,
                "Cast the column in the query, or declare the type that the query gives.",
            )
    return result


def _as_declared(text: ViewText, column: OutputColumn, given: StructField) -> str:
    """A column as SQL under its declared type, which raises an error where a value does not fit or NULL is refused."""
    name = quote(column.name)
    value = name if column.type is None else _cast(name, column, given.dataType)
    value = refuse_null(value, column.name, text)
    return value if value == name else f"{value} AS {name}"


def refuse_null(value: str, column: str, text: ViewText) -> str:
    """The SQL of a value, which raises an error at NULL if NULL is refused in its column."""
    if column.lower() not in text.required:
        return value
    return f"coalesce({value}, raise_error({literal(breach_text(Breach.REQUIRED, column=column))}))"


def _cast(name: str, column: OutputColumn, given: DataType) -> str:
    """A value cast as INSERT casts: a plain CAST wraps numbers in a session without ANSI mode."""
    if str(column.type).replace(" ", "").lower() == given.simpleString():
        return name
    if isinstance(given, ArrayType | MapType | StructType):  # within them `try_cast` puts NULL for what does not fit
        return f"CAST({name} AS {column.type})"
    cast = f"try_cast({name} AS {column.type})"
    text = literal(breach_text(Breach.UNFIT, column=column.name, type=str(column.type)))
    unfit = f"CAST(raise_error({text}) AS {column.type})"
    return f"CASE WHEN {cast} IS NULL AND {name} IS NOT NULL THEN {unfit} ELSE {cast} END"


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
