"""Rows that fit a table: by name and type, under the promises that a write makes of them."""

import re
from collections.abc import Callable, Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType, TimestampType

from lakehouse.delta.log import Head
from lakehouse.delta.table import RESERVED_COLUMNS, Table
from lakehouse.delta.text import fold, quote
from lakehouse.errors import WriteError
from lakehouse.spark.session import is_connect
from lakehouse.spark.table_version import TableRef
from lakehouse.spark.types import (
    ATOMS,
    char_length,
    char_type,
    fields_within,
    padding_like,
    sql_type,
    widened_by_delta,
    widens,
)

_ZONE = "spark.sql.session.timeZone"
_FIXED = re.compile(r"UTC|GMT|Z|UCT|Zulu|Etc/[^/]+|(UTC|GMT)?[+-]\d{1,2}(:\d\d){0,2}")

_FORBIDDEN = frozenset(" ,;{}()\n\t=")
"""Characters that Delta allows in the name of a column only with column mapping: `SchemaUtils.checkFieldNames`."""


def check_new(asset: str, rows: DataFrame, table: Table, head: Head | None) -> None:
    """Refuses a result that no Delta table of this declaration can hold.

    Raises:
        WriteError (SCHEMA): A reserved, repeated or impossible column name, or a declared column that the result lacks.
    """
    names = [column.lower() for column in rows.columns]
    problems: dict[str, str] = {}
    for name in RESERVED_COLUMNS & set(names):
        problems[name] = "is a column of Delta's change data feed; rename it, as changes.log() does"
    for name in {name for name in names if names.count(name) > 1}:
        problems[name] = "stands in it twice"
    for role, columns in (
        ("key", table.key_columns),
        ("partition_by", table.partition_columns),
        ("cluster_by", table.cluster_columns),
    ):
        for column in columns:
            if column.lower() not in names:
                problems[column] = f"is declared as {role} but is not in the result"
    partitions = fold(table.partition_columns)
    for field in rows.schema.fields:
        if isinstance(field.dataType, BinaryType) and field.name.lower() in partitions:
            problems[field.name] = "is BINARY and declared as partition_by, whose values Delta keeps as text; use hex()"
    if not (table.maps_columns if head is None else head.maps_columns):
        problems |= dict.fromkeys(
            (
                path
                for field in rows.schema.fields
                for path, _ in fields_within(field.name, field.dataType)
                if _FORBIDDEN & set(path)
            ),
            "has a blank or one of , ; { } ( ) = in its name, which Delta allows only with "
            "Table(properties={'delta.columnMapping.mode': 'name'}); or rename it",
        )
    if problems:
        raise WriteError.schema(asset, problems, f"Its columns are: {', '.join(rows.columns)}.")


def check_padding(asset: str, rows: DataFrame, have: StructType, key: Collection[str]) -> None:
    """Refuses unpadded texts for CHAR columns: Spark pads what the table holds, so the two never match in a join.

    Raises:
        WriteError (SCHEMA): One of the key columns is a CHAR in the table, but not the same CHAR in the result.
    """
    keys = fold(key)
    kinds = {column.name.lower(): char_type(column) for column in rows.schema.fields}
    problems = {
        column.name: f"is joined as {kind} in the table, which Spark pads with blanks, and not in the result"
        for column in have.fields
        if column.name.lower() in keys
        and (kind := char_type(column)) is not None
        and kinds.get(column.name.lower()) != kind
    }
    if problems:
        raise WriteError.schema(asset, problems, "Make the table's column a STRING.")


def check_zone(asset: str, rows: DataFrame, partition_columns: Collection[str]) -> None:
    """Refuses instants as partitions in a time zone with daylight saving, because Delta writes them as local time.

    The hour that occurs twice would be read back as the first of the two, another instant than was written.
    Delta: `DelayedCommitProtocol.parsePartitions`.

    Raises:
        WriteError (SCHEMA): The table is partitioned by a timestamp, and the session's zone has no fixed offset.
    """
    partitions = fold(partition_columns)
    fields = [column for column in rows.schema.fields if column.name.lower() in partitions]
    instants = [column.name for column in fields if isinstance(column.dataType, TimestampType)]
    zone = rows.sparkSession.conf.get(_ZONE) if instants else None
    if zone is not None and not _FIXED.fullmatch(zone):
        problems = dict.fromkeys(instants, f"is a timestamp and a partition column, and the session's zone is {zone}")
        raise WriteError.schema(asset, problems, f"Set {_ZONE} to UTC.")


def fit(
    table: TableRef,
    rows: DataFrame,
    have: StructType,
    *,
    may_add: bool,
    filled: Callable[[], Mapping[str, str]] = dict[str, str],
) -> DataFrame:
    """The rows under the table's column order, names and types.

    `filled` returns how Delta itself fills columns; it is called only if a column is missing.

    Raises:
        WriteError (SCHEMA): A column is missing, is new and may not be added, or has a type that would lose values.
    """
    result = {column.name.lower(): column for column in rows.schema.fields}
    present = {column.name.lower() for column in have.fields}
    problems: dict[str, str] = {}
    wider: dict[str, DataType] = {}
    for column in have.fields:
        column_of_result = result.get(column.name.lower())
        if column_of_result is None:
            problems[column.name] = "is missing from the result"
        elif not widens(column_of_result.dataType, column.dataType):
            problems[column.name] = (
                f"the table has {column.dataType.simpleString()}, the result {column_of_result.dataType.simpleString()}"
            )
            if widened_by_delta(column.dataType, column_of_result.dataType):
                wider[column.name] = column_of_result.dataType
    nested = {
        column.name: fields
        for column in have.fields
        if column.name in problems and (fields := _new_fields(column, result.get(column.name.lower())))
    }
    if nested and nested.keys() == problems.keys():
        raise _new_fields_refused(table, nested)
    remedies = [_widening(table, wider)] if wider else []
    if problems.keys() - wider.keys():
        remedies.append(
            "To drop or retype a column, alter the table, or write it to another asset; in development, make the table "
            f"again (lakehouse run {table.name} --rebuild)."
        )
    added = [column for column in rows.schema.fields if column.name.lower() not in present]
    if added and not may_add:
        problems |= {column.name: "is not in the table" for column in added}
        listed = ", ".join(f"{quote(column.name)} {sql_type(column.dataType)}" for column in added)
        remedies.insert(
            0,
            f"To add a column, use Policy(on_new_columns='add'), or alter the table: ALTER TABLE {table.identifier} "
            f"ADD COLUMNS ({listed}).",
        )
    if problems:
        words = filled() if "is missing from the result" in problems.values() else dict[str, str]()
        for name in problems.keys() & {column.name for column in have.fields if column.name.lower() in words}:
            problems[name] += f", {words[name.lower()]}"
        raise WriteError.schema(table.name, problems, " ".join(remedies))
    return _pad(conform(rows, StructType([*have.fields, *added])), have)


def _pad(frame: DataFrame, have: StructType) -> DataFrame:
    """The frame, with the texts of CHAR columns as Spark reads them from the table: padded, and marked as CHARs.

    Otherwise a condition such as `status = 'new'` would hold only for the rows of the first run.
    """
    lengths = {column.name: n for column in have.fields if (n := char_length(column)) is not None}
    texts = {
        name: F.when(F.length(quote(name)) < length, F.rpad(quote(name), length, " ")).otherwise(F.col(quote(name)))
        for name, length in lengths.items()
    }
    return padding_like(have, frame.withColumns(texts)) if texts else frame


def _new_fields(stored: StructField, computed: StructField | None) -> dict[str, str]:
    """The fields that only the computed column has, if it lacks no field of the stored column; with their types."""
    if computed is None:
        return {}
    of_table, of_result = (
        dict(fields_within(stored.name, stored.dataType)),
        dict(fields_within(stored.name, computed.dataType)),
    )
    lacking = {path.lower() for path in of_table} - {path.lower() for path in of_result}
    had = fold(of_table)
    return {} if lacking else {path: kind.simpleString() for path, kind in of_result.items() if path.lower() not in had}


def _widening(table: TableRef, wider: Mapping[str, DataType]) -> str:
    """The statements that give columns of the table the types of the result."""
    alter = f"ALTER TABLE {table.identifier}"
    each = "; ".join(f"{alter} ALTER COLUMN {quote(name)} TYPE {sql_type(kind)}" for name, kind in wider.items())
    return f"To widen a column: {alter} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true'); {each}."


def _new_fields_refused(table: TableRef, nested: Mapping[str, Mapping[str, str]]) -> WriteError:
    fields = {path: kind for each in nested.values() for path, kind in each.items()}
    within = {path for path in fields if not any(path.startswith(f"{other}.") for other in fields)}
    listed = ", ".join(f"{path} {fields[path]}" for path in sorted(within))
    return WriteError.schema(
        table.name,
        {
            column: f"the table lacks {', '.join(path for path in each if path in within)}"
            for column, each in nested.items()
        },
        f"Delta adds a field within a column by a statement: ALTER TABLE {table.identifier} ADD COLUMNS ({listed}). "
        "The next run then writes its values.",
    )


def conform(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame's columns under the names and types of a schema; NULL in columns that it lacks.

    Written as SQL text if that means the same, because each column of the DataFrame API takes forty calls into the JVM.
    """
    present = fold(frame.columns)
    if all(_is_plain(column) for column in schema.fields):
        texts = {c.name: (quote(c.name) if c.name.lower() in present else "NULL", c.dataType) for c in schema.fields}
        cast = (f"CAST({value} AS {sql_type(kind)}) AS {quote(name)}" for name, (value, kind) in texts.items())
        return with_known_schema(frame.selectExpr(*cast), schema)
    values = [F.col(quote(c.name)) if c.name.lower() in present else F.lit(None) for c in schema.fields]
    casts = (v.cast(c.dataType).alias(c.name) for v, c in zip(values, schema.fields, strict=True))
    return with_plain_texts(frame.select(*casts), schema)


def with_plain_texts(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame, with texts of the type STRING instead of STRING COLLATE UTF8_BINARY.

    A cast to that type gives it, and on a Spark Connect server also a Python function and `cast(StringType())`. Delta
    4.4 writes that type into the log, although its protocol has no such type, and then no other reader opens the table.
    Only a cast in SQL text takes the collation away.
    """
    return frame.selectExpr(*map(_as_plain_text, schema.fields))


def _as_plain_text(column: StructField) -> str:
    """The column, cast if it has texts. Columns of tables have metadata or a plain type, and a cast drops metadata."""
    name, kind = quote(column.name), sql_type(column.dataType)
    has_texts = any(type_ == StringType() for _, type_ in fields_within(column.name, column.dataType))
    return name if column.metadata or not has_texts or "${" in kind + name else f"CAST({name} AS {kind}) AS {name}"


def with_lacking(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame, followed by the columns of a schema that it lacks, as NULLs."""
    present = fold(frame.columns)
    for column in schema.fields:
        if column.name.lower() not in present:
            frame = frame.withColumn(column.name, F.lit(None).cast(column.dataType))
    return frame


def with_known_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with its known columns, so that Connect need not analyze it to find them."""
    if not is_connect(frame.sparkSession) or not all(_is_plain(column) for column in schema.fields):
        return frame
    return frame.to(StructType([StructField(column.name, column.dataType) for column in schema.fields]))


def _is_plain(column: StructField) -> bool:
    """Whether SQL can express name and type: SQL has no NOT NULL for elements, and replaces ${...} even in names."""
    return type(column.dataType) in ATOMS and "${" not in column.name
