"""Spark's types: their fields, whether one keeps the values of another, how their values are compared."""

from collections.abc import Iterator

from pyspark.sql import DataFrame
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

from lakehouse.delta.log import CHAR, FileSchema, padded_type
from lakehouse.delta.text import quote

INTEGERS: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)
NUMBERS: tuple[type[DataType], ...] = (*INTEGERS, DecimalType, FloatType, DoubleType)
_TIMES: tuple[type[DataType], ...] = (DateType, TimestampType, TimestampNTZType)
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
"""Types without parts, which their name and size describe completely."""
_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}


def pads(schema: StructType) -> bool:
    """Whether a column is a CHAR, whose texts Spark pads with blanks."""
    return any(char_type(column) is not None for column in schema.fields)


def char_type(column: StructField) -> str | None:
    """The type of a CHAR, which Spark shows as a STRING; None for other columns."""
    kind = str(column.metadata.get(CHAR))
    return kind if kind.startswith("char(") else None


def char_length(column: StructField) -> int | None:
    """How many letters a CHAR has; None for other columns."""
    kind = char_type(column)
    return None if kind is None else int(kind.removeprefix("char(").removesuffix(")"))


def padding_like(schema: StructType, frame: DataFrame) -> DataFrame:
    """The frame with the CHAR columns of a schema marked as such, so that Spark pads what they are compared with.

    Delta's feed has the padded texts, but does not mark their columns as CHARs: `status = 'new'` would hold for no row.
    """
    for column in schema.fields:
        if padded_type(column.metadata) is not None:
            frame = frame.withMetadata(column.name, {CHAR: column.metadata[CHAR]})
    return frame


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
        case ((ByteType() | ShortType() | IntegerType()), DoubleType()) | ((ByteType() | ShortType()), FloatType()):
            return True
        case ArrayType(), ArrayType():
            return widens(value.elementType, column.elementType)
        case MapType(), MapType():
            return widens(value.keyType, column.keyType) and widens(value.valueType, column.valueType)
        case StructType(), StructType():
            return len(value.fields) == len(column.fields) and all(
                a.name.lower() == b.name.lower() and widens(a.dataType, b.dataType)
                for a, b in zip(value.fields, column.fields, strict=True)
            )
        case _:
            if type(value) in INTEGERS and type(column) in INTEGERS:
                return INTEGERS.index(type(value)) <= INTEGERS.index(type(column))
            return value.simpleString() == column.simpleString()


def is_assignable(value: DataType, column: DataType) -> bool:
    """Whether INSERT casts values of one type to a column of the other. Spark: `Cast.canANSIStoreAssign`."""
    if value == column or isinstance(value, NullType):
        return True
    match value, column:
        case ArrayType(), ArrayType():
            return is_assignable(value.elementType, column.elementType)
        case MapType(), MapType():
            return is_assignable(value.keyType, column.keyType) and is_assignable(value.valueType, column.valueType)
        case StructType(), StructType():
            pairs = zip(value.fields, column.fields, strict=False)
            return len(value.fields) == len(column.fields) and all(
                is_assignable(a.dataType, b.dataType) for a, b in pairs
            )
        case _, StringType():
            return type(value) in ATOMS
        case _:
            kinds = type(value), type(column)
            return all(kind in NUMBERS for kind in kinds) or all(kind in _TIMES for kind in kinds)


def widened_by_delta(column: DataType, value: DataType) -> bool:
    """Whether Delta can alter a column of one type to the other. Delta: PROTOCOL.md, "Type Widening"."""
    match column, value:
        case LongType(), DecimalType():
            return value.precision - value.scale >= 20
        case ((StructType() | StringType() | CharType() | VarcharType()), _):
            return False
        case _:
            return column != value and type(column) in ATOMS and widens(column, value)


def as_struct(schema: FileSchema) -> StructType:
    """The columns of a table from its log: as Spark reads them, with their comments, but without Spark."""
    return StructType.fromJson({"type": "struct", "fields": [*schema.fields]})


def column_types(schema: StructType) -> dict[str, str]:
    """The type of each column as SQL writes it, by the column's name in lower case."""
    return {column.name.lower(): column.dataType.simpleString() for column in schema.fields}


def partition_types(schema: StructType) -> dict[str, str]:
    """As `column_types`, but with CHAR kept: Spark pads its texts with blanks, so no partition's key equals them."""
    return {column.name.lower(): char_type(column) or column.dataType.simpleString() for column in schema.fields}


def field_names(kind: DataType) -> tuple[str, ...]:
    """The names of the fields within a type, in their order, in lower case."""
    return tuple(path.lower() for path, _ in fields_within("", kind))


def paths(schema: StructType) -> frozenset[str]:
    """The columns and the fields within them as Delta's log names them, in lower case."""
    return frozenset(path.lower() for field in schema.fields for path, _ in fields_within(field.name, field.dataType))


def fields_within(path: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    """The fields within a type and their types, the type itself first."""
    yield path, kind
    match kind:
        case StructType():
            for field in kind.fields:
                yield from fields_within(f"{path}.{field.name}", field.dataType)
        case ArrayType():
            yield from fields_within(f"{path}.element", kind.elementType)
        case MapType():
            yield from fields_within(f"{path}.key", kind.keyType)
            yield from fields_within(f"{path}.value", kind.valueType)
        case _:
            pass


def sql_type(kind: DataType) -> str:
    """The type as SQL writes it, with the names of its fields quoted."""
    match kind:
        case StructType():
            return f"STRUCT<{', '.join(f'{quote(field.name)}: {sql_type(field.dataType)}' for field in kind.fields)}>"
        case ArrayType():
            return f"ARRAY<{sql_type(kind.elementType)}>"
        case MapType():
            return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
        case TimestampType():
            return "timestamp_ltz"
        case _:
            return kind.simpleString()


def comparable(schema: StructType, prefix: str = "") -> dict[str, str]:
    """For each column the SQL expression to compare it by: maps and variants have no equality of their own."""
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


def can_be_told_apart(kind: DataType) -> bool:
    """Whether `identities` knows every part of a type."""
    match kind:
        case ArrayType():
            return can_be_told_apart(kind.elementType)
        case StructType():
            return all(can_be_told_apart(column.dataType) for column in kind.fields)
        case _:
            return type(kind) in ATOMS


def identities(schema: StructType) -> dict[str, str]:
    """For each column the SQL expression that is equal for two values exactly if no query can tell them apart.

    Spark's own equality takes 0.0 and -0.0 for one value, and under a collation also different texts.
    """
    return {column.name: _identity(quote(column.name), column.dataType) for column in schema.fields}


def _identity(value: str, kind: DataType, depth: int = 0) -> str:
    name = f"v{depth}"
    match kind:
        case FloatType() | DoubleType():
            return f"CAST({value} AS STRING)"
        case StringType() if kind != StringType():
            return f"CAST({value} AS BINARY)"
        case ArrayType():
            return f"transform({value}, {name} -> {_identity(name, kind.elementType, depth + 1)})"
        case StructType():
            fields = (_identity(f"{value}.{quote(f.name)}", f.dataType, depth + 1) for f in kind.fields)
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
