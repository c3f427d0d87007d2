"""Whether a result fits its table, decided before anything is written."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
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
    VarcharType,
    VariantType,
)

from lakehouse.declare.table import RESERVED_COLUMNS, Table
from lakehouse.errors import SchemaError
from lakehouse.log.log import FileSchema
from lakehouse.spark.session import is_connect
from lakehouse.sql.text import folded, quote

INTEGERS: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)
ATOMS = {
    *INTEGERS,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    TimestampNTZType,
    TimestampType,
}
"""Types without parts, of which name and size are all there is to say."""
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata in which Spark says that a column which it shows as STRING is a CHAR."""
_PADDED = re.compile(r"\bchar\(")
_ZONE = "spark.sql.session.timeZone"
_FIXED = re.compile(r"UTC|GMT|Z|UCT|Zulu|Etc/[^/]+|(UTC|GMT)?[+-]\d{1,2}(:\d\d){0,2}")
_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}


def check_new(asset: str, rows: DataFrame, table: Table) -> None:
    """Refuses a result that no Delta table of this declaration can hold.

    Raises:
        SchemaError: A reserved or repeated column name, or a declared column that the result lacks.
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
    if problems:
        raise SchemaError(asset, problems, f"Its columns are: {', '.join(rows.columns)}.")


def pads(schema: StructType) -> bool:
    """Whether a column is a CHAR, whose texts Spark pads with blanks."""
    return any(str(column.metadata.get(_CHAR)).startswith("char(") for column in schema.fields)


def padding_like(schema: StructType, frame: DataFrame) -> DataFrame:
    """The frame with the CHAR columns of a schema marked as such, so that Spark pads what they are compared with.

    Delta's feed has the padded texts, and not that their columns are CHARs: `status = 'new'` would hold of no row.
    """
    for column in schema.fields:
        if _PADDED.search(str(column.metadata.get(_CHAR))):
            frame = frame.withMetadata(column.name, {_CHAR: column.metadata[_CHAR]})
    return frame


def check_padding(asset: str, rows: DataFrame, have: StructType, key: Collection[str]) -> None:
    """Refuses texts as keys of a table that pads them: a padded key equals its literal, but joins with nothing.

    Raises:
        SchemaError: A column of the key is a CHAR in the table, and another one, or none, in the result.
    """
    keys = folded(key)
    kinds = {column.name.lower(): column.metadata.get(_CHAR) for column in rows.schema.fields}
    problems = {
        column.name: f"is a key of {kind} in the table, which Spark pads with blanks, and not in the result"
        for column in have.fields
        if column.name.lower() in keys
        and str(kind := column.metadata.get(_CHAR)).startswith("char(")
        and kinds.get(column.name.lower()) != kind
    }
    if problems:
        raise SchemaError(asset, problems, "Make the table's column a STRING.")


def check_zone(asset: str, rows: DataFrame, partition_columns: Collection[str]) -> None:
    """Refuses instants as partitions in a time zone with daylight saving, because Delta writes them as local time.

    The hour that occurs twice would be read back as the first of the two, another instant than was written.
    Delta: `DelayedCommitProtocol.parsePartitions`.

    Raises:
        SchemaError: The table is partitioned by a timestamp, and the session's zone has no fixed offset.
    """
    partitions = folded(partition_columns)
    fields = [column for column in rows.schema.fields if column.name.lower() in partitions]
    instants = [column.name for column in fields if isinstance(column.dataType, TimestampType)]
    zone = rows.sparkSession.conf.get(_ZONE) if instants else None
    if zone is not None and not _FIXED.fullmatch(zone):
        problems = dict.fromkeys(instants, f"is a timestamp and a partition column, and the session's zone is {zone}")
        raise SchemaError(asset, problems, f"Set {_ZONE} to UTC.")


def fit(
    asset: str,
    rows: DataFrame,
    have: StructType,
    *,
    may_add: bool,
    filled: Callable[[], Mapping[str, str]] = dict[str, str],
) -> DataFrame:
    """The rows under the table's column order, names and types.

    Args:
        asset: The asset, for messages.
        rows: The result.
        have: The table's schema.
        may_add: Whether columns may be added: only if every row is compared, because old rows would lack them.
        filled: How Delta itself fills columns, by name in lower case; asked for only if a column is missing.

    Raises:
        SchemaError: A column is missing, is new where it may not be, or has a type that would lose values.
    """
    result = {column.name.lower(): column for column in rows.schema.fields}
    present = {column.name.lower() for column in have.fields}
    problems: dict[str, str] = {}
    for column in have.fields:
        column_of_result = result.get(column.name.lower())
        if column_of_result is None:
            problems[column.name] = "is missing from the result"
        elif not widens(column_of_result.dataType, column.dataType):
            problems[column.name] = (
                f"the table has {column.dataType.simpleString()}, the result {column_of_result.dataType.simpleString()}"
            )
    added = [column for column in rows.schema.fields if column.name.lower() not in present]
    if added and not may_add:
        problems |= {column.name: "is not in the table" for column in added}
    if problems:
        words = filled() if "is missing from the result" in problems.values() else dict[str, str]()
        for name in problems.keys() & {column.name for column in have.fields if column.name.lower() in words}:
            problems[name] += f", {words[name.lower()]}"
        remedy = (
            "To add columns change the asset's code_version: every row is then compared. To drop or retype one, "
            "alter the table, or write it to another asset."
        )
        raise SchemaError(asset, problems, remedy)
    return conformed(rows, StructType([*have.fields, *added]))


def conformed(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame's columns under the names and types of a schema; NULL in those that it lacks.

    As SQL text if that means the same, because each column of the DataFrame API is forty calls into the JVM.
    """
    present = folded(frame.columns)
    if all(_is_plain(column) for column in schema.fields):
        texts = {c.name: (quote(c.name) if c.name.lower() in present else "NULL", c.dataType) for c in schema.fields}
        cast = (f"CAST({value} AS {_text(kind)}) AS {quote(name)}" for name, (value, kind) in texts.items())
        return typed(frame.selectExpr(*cast), schema)
    values = [F.col(quote(c.name)) if c.name.lower() in present else F.lit(None) for c in schema.fields]
    return frame.select(*(v.cast(c.dataType).alias(c.name) for v, c in zip(values, schema.fields, strict=True)))


def typed(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with its known columns, so that Connect need not analyze it to find them."""
    if not is_connect(frame.sparkSession) or not all(_is_plain(column) for column in schema.fields):
        return frame
    return frame.to(StructType([StructField(column.name, column.dataType) for column in schema.fields]))


def _is_plain(column: StructField) -> bool:
    """Whether SQL can express name and type: it has no NOT NULL for elements, and replaces ${...} even in names."""
    return type(column.dataType) in ATOMS and "${" not in column.name


def _text(kind: DataType) -> str:
    return "timestamp_ltz" if isinstance(kind, TimestampType) else kind.simpleString()


def widens(value: DataType, column: DataType) -> bool:
    """Whether every value of one type is kept by a column of the other."""
    if value == column or isinstance(value, NullType):
        return True
    match value, column:
        case ((StringType() | CharType() | VarcharType()), (StringType() | CharType() | VarcharType())):
            return True
        case ((ByteType() | ShortType() | IntegerType() | LongType()), DecimalType()):
            return column.precision - column.scale >= _DIGITS[type(value)]
        case DecimalType(), DecimalType():
            return column.scale >= value.scale and column.precision - column.scale >= value.precision - value.scale
        case FloatType(), DoubleType():
            return True
        case ((ByteType() | ShortType() | IntegerType()), DoubleType()):
            return True
        case StructType(), StructType():
            return len(value.fields) == len(column.fields) and all(
                a.name.lower() == b.name.lower() and widens(a.dataType, b.dataType)
                for a, b in zip(value.fields, column.fields, strict=True)
            )
        case _:
            if type(value) in INTEGERS and type(column) in INTEGERS:
                return INTEGERS.index(type(value)) <= INTEGERS.index(type(column))
            return value.simpleString() == column.simpleString()


def as_struct(schema: FileSchema) -> StructType:
    """The columns of a table by its log: as Spark reads them, with their comments, without Spark."""
    return StructType.fromJson({"type": "struct", "fields": [*schema.fields]})


def column_types(schema: StructType) -> dict[str, str]:
    """The type of each column as SQL says it, by the column's name in lower case."""
    return {column.name.lower(): column.dataType.simpleString() for column in schema.fields}


def field_names(kind: DataType) -> tuple[str, ...]:
    """The names of the fields within a type, in their order, in lower case."""
    return tuple(path.lower() for path in _paths("", kind))


def paths(schema: StructType) -> frozenset[str]:
    """The columns and the fields within them as Delta's log names them, in lower case."""
    return frozenset(path.lower() for field in schema.fields for path in _paths(field.name, field.dataType))


def _paths(path: str, kind: DataType) -> Iterator[str]:
    yield path
    match kind:
        case StructType():
            for field in kind.fields:
                yield from _paths(f"{path}.{field.name}", field.dataType)
        case ArrayType():
            yield from _paths(f"{path}.element", kind.elementType)
        case MapType():
            yield from _paths(f"{path}.key", kind.keyType)
            yield from _paths(f"{path}.value", kind.valueType)
        case _:
            pass


def comparable(schema: StructType, prefix: str = "") -> dict[str, str]:
    """For each column the SQL expression to compare it by: maps and variants have no equality of their own.

    Args:
        schema: The columns.
        prefix: What stands before each name ("t." for example).
    """
    return {column.name: _comparable(prefix + quote(column.name), column.dataType) for column in schema.fields}


def _comparable(value: str, kind: DataType, depth: int = 0) -> str:
    """An expression that is equal for two values exactly if they are the same.

    A map becomes its entries in the order of its keys, a variant its text and the types in it. JSON is not enough,
    because it has neither binaries nor microseconds.
    """
    if not _has_no_equality(kind):
        return value
    name = f"v{depth}"
    match kind:
        case VariantType():
            return f"concat(schema_of_variant({value}), ' ', to_json({value}))"
        case MapType():
            key = _comparable(f"{name}.key", kind.keyType, depth + 1)
            of = _comparable(f"{name}.value", kind.valueType, depth + 1)
            return f"array_sort(transform(map_entries({value}), {name} -> struct({key}, {of})))"
        case ArrayType():
            return f"transform({value}, {name} -> {_comparable(name, kind.elementType, depth + 1)})"
        case StructType():
            fields = (_comparable(f"{value}.{quote(f.name)}", f.dataType, depth + 1) for f in kind.fields)
            return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(fields)}) END"
        case _:
            return value


def _has_no_equality(kind: DataType) -> bool:
    match kind:
        case MapType() | VariantType():
            return True
        case StructType():
            return any(_has_no_equality(column.dataType) for column in kind.fields)
        case ArrayType():
            return _has_no_equality(kind.elementType)
        case _:
            return False
