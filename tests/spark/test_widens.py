"""A type fits a column exactly if the column keeps every value of the type, however deep the type is nested."""

import datetime as dt
import os
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
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
)

from lakehouse import Changes, Merge, Overwrite, Table
from lakehouse.commit.outcome import Unchanged
from lakehouse.delta.commit_info import NO_ROWS
from lakehouse.spark.types import widens
from tests.support.lake import Lake

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "0"))
BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
MANTISSA: dict[type[DataType], int] = {FloatType: 24, DoubleType: 53}
EXACT = Context(prec=38)
LARGEST: dict[type[DataType], int] = {FloatType: 2**128 - 2**104, DoubleType: 2**1024 - 2**971}

decimals = st.integers(1, 38).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p)))
atoms = (
    st.sampled_from(
        [
            *(kind() for kind in (*BITS, *MANTISSA)),
            StringType(),
            BooleanType(),
            DateType(),
            TimestampType(),
            TimestampNTZType(),
            DecimalType(10, 0),
            DecimalType(12, 2),
            NullType(),
        ]
    )
    | decimals
)
names = st.sampled_from(["sku", "Sku", "n"])


def structs(kinds: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(st.tuples(names, kinds), min_size=1, max_size=2, unique_by=lambda field: field[0].lower())
    return fields.map(lambda named: StructType([StructField(name, kind) for name, kind in named]))


types = st.recursive(
    atoms, lambda kinds: st.builds(ArrayType, kinds) | st.builds(MapType, kinds, kinds) | structs(kinds), max_leaves=4
)


def widened(kind: DataType) -> st.SearchStrategy[DataType]:
    """Types of the same shape, in which some parts may have other types."""
    match kind:
        case ArrayType():
            return widened(kind.elementType).map(ArrayType)
        case MapType():
            return st.builds(MapType, widened(kind.keyType), widened(kind.valueType))
        case StructType():
            parts = st.tuples(*(widened(field.dataType) for field in kind.fields))
            named = [field.name for field in kind.fields]
            return parts.map(
                lambda of: StructType([StructField(n.upper(), part) for n, part in zip(named, of, strict=True)])
            )
        case _:
            return st.just(kind) | atoms


pairs = st.tuples(types, types) | types.flatmap(lambda kind: st.tuples(st.just(kind), widened(kind)))


def keeps(column: DataType, kind: DataType) -> bool:
    """Whether a column keeps every value of a type, decided by the extreme values of the type."""
    match kind, column:
        case NullType(), _:
            return True
        case ArrayType(), ArrayType():
            return keeps(column.elementType, kind.elementType)
        case MapType(), MapType():
            return keeps(column.keyType, kind.keyType) and keeps(column.valueType, kind.valueType)
        case StructType(), StructType():
            fields = zip(kind.fields, column.fields, strict=False)
            return len(kind) == len(column) and all(
                field.name.lower() == of.name.lower() and keeps(of.dataType, field.dataType) for field, of in fields
            )
        case _:
            ends = _ends(kind)
            return type(kind) is type(column) if ends is None else _becomes(kind, column) and _all_kept(column, ends)


def _becomes(kind: DataType, column: DataType) -> bool:
    """Whether the column's type is a number of the same sort; a whole number may become a number of any sort."""
    sorts = (tuple(BITS), tuple(MANTISSA), (DecimalType,))
    return type(kind) in BITS or any(type(kind) in sort and type(column) in sort for sort in sorts)


def _all_kept(column: DataType, values: list[Fraction]) -> bool:
    return all(_is_kept(column, value) for value in values)


def _ends(kind: DataType) -> list[Fraction] | None:
    """The values of a number's type that are hardest to keep; None if the type is not a number's."""
    match kind:
        case DecimalType():
            return [Fraction(10**kind.precision - 1, 10**kind.scale), Fraction(1, 10**kind.scale)]
        case FloatType() | DoubleType():
            of = MANTISSA[type(kind)]
            return [Fraction(LARGEST[type(kind)]), Fraction(2**of - 1, 2**of)]
        case _ if type(kind) in BITS:
            return [Fraction(2 ** (BITS[type(kind)] - 1) - 1), Fraction(-(2 ** (BITS[type(kind)] - 1)))]
        case _:
            return None


def _is_kept(column: DataType, value: Fraction) -> bool:
    """Whether a column keeps a number."""
    match column:
        case FloatType() | DoubleType():
            odd = value.numerator // (value.numerator & -value.numerator)
            is_binary = value.denominator & (value.denominator - 1) == 0
            return is_binary and odd.bit_length() <= MANTISSA[type(column)] and abs(value) <= LARGEST[type(column)]
        case DecimalType():
            return (value * 10**column.scale).denominator == 1 and abs(value) * 10**column.scale < 10**column.precision
        case _:
            bound = 2 ** (BITS[type(column)] - 1) if type(column) in BITS else 0
            return value.denominator == 1 and -bound <= value < bound


@settings(deadline=None, max_examples=max(200, EXAMPLES))
@given(pairs)
@example((ArrayType(IntegerType()), ArrayType(LongType())))
@example((ArrayType(NullType(), containsNull=False), ArrayType(IntegerType())))
def test_a_type_fits_a_column_that_keeps_each_of_its_values(pair: tuple[DataType, DataType]) -> None:
    kind, column = pair
    assert widens(kind, column) == keeps(column, kind), f"{kind.simpleString()} into {column.simpleString()}"


def of_parts(src: Changes) -> Merge:
    """Columns that have wider types at first, and narrower types, or no values, later."""
    touched = src.touched("id")
    kind, name = ("BIGINT", "Sku") if touched.is_everything else ("INT", "sku")
    empty = "CAST(array() AS ARRAY<INT>)" if touched.is_everything else "array()"
    rows = touched.rows.selectExpr(
        "id",
        f"array(CAST(v AS {kind})) AS a",
        f"map('x', CAST(v AS {kind})) AS m",
        f"array(named_struct('{name}', CAST(v AS {kind}))) AS s",
        f"{empty} AS e",
        "array(CAST(NULL AS INT)) AS n" if touched.is_everything else "array(NULL) AS n",
    )
    return Merge(rows, touched)


@pytest.mark.slow
def test_nested_values_of_narrower_types_arrive_and_are_not_written_twice(lake: Lake) -> None:
    lake.create("src", [(1, 10), (2, 20)], "id int, v int")
    lake.materialize(of_parts, Table(key="id"))
    before = lake.frame("of_parts").schema
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.materialize(of_parts, Table(key="id"))
    assert lake.frame("of_parts").schema == before
    rows = lake.frame("of_parts").orderBy("id").collect()
    assert [plain(row) for row in rows] == [(id_, [v], {"x": v}, [(v,)], [], [None]) for id_, v in ((1, 11), (2, 20))]
    version = lake.version("of_parts")
    lake.sql("UPDATE {src} SET v = v WHERE id = 1")
    lake.materialize(of_parts, Table(key="id"))
    assert lake.version("of_parts") == version + 1 and lake.commits("of_parts")[-1].rows == NO_ROWS


def plain(value: Any) -> Any:
    """A value with tuples in place of rows, so that names of fields do not matter."""
    match value:
        case Row() | tuple():
            return tuple(map(plain, value))
        case list():
            return [plain(each) for each in value]
        case dict():
            return {plain(key): plain(each) for key, each in value.items()}
        case _:
            return value


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    """Values of a type, including its extreme values."""
    match kind:
        case NullType():
            return st.none()
        case ArrayType():
            return st.lists(st.none() | values_of(kind.elementType), max_size=2)
        case MapType(keyType=NullType()):
            return st.just({})
        case MapType():
            return st.dictionaries(values_of(kind.keyType).map(str), st.none() | values_of(kind.valueType), max_size=2)
        case StructType():
            return st.tuples(*(st.none() | values_of(field.dataType) for field in kind.fields))
        case DecimalType():
            return st.sampled_from([Decimal(10**kind.precision - 1).scaleb(-kind.scale, EXACT), Decimal(0)])
        case FloatType() | DoubleType():
            return st.floats(width=32, allow_nan=False) if isinstance(kind, FloatType) else st.floats(allow_nan=False)
        case StringType():
            return st.sampled_from(["", "a", "\u00e4"])
        case BooleanType():
            return st.booleans()
        case DateType():
            return st.just(dt.date(2026, 1, 1))
        case TimestampType() | TimestampNTZType():
            return st.just(dt.datetime(2026, 1, 1, 1, 2, 3, 4))  # noqa: DTZ001  (Spark's session is in UTC)
        case _:
            bound = 2 ** (BITS[type(kind)] - 1)
            return st.sampled_from([bound - 1, -bound, 0])


def with_text_keys(kind: DataType) -> DataType:
    """The type with texts as the keys of its maps, because Python hashes other keys differently from Spark."""
    match kind:
        case ArrayType():
            return ArrayType(with_text_keys(kind.elementType))
        case MapType():
            return MapType(StringType(), with_text_keys(kind.valueType))
        case StructType():
            return StructType([StructField(field.name, with_text_keys(field.dataType)) for field in kind.fields])
        case _:
            return kind


fitting = (
    pairs.map(lambda pair: (with_text_keys(pair[0]), with_text_keys(pair[1])))
    .filter(lambda pair: widens(*pair) and not has_void(pair[1]))
    .flatmap(lambda pair: st.tuples(st.just(pair[0]), st.just(pair[1]), st.none() | values_of(pair[0])))
)


def has_void(kind: DataType) -> bool:
    return "void" in kind.simpleString()


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=max(3, EXAMPLES // 10),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
    derandomize="LAKEHOUSE_EXAMPLES" not in os.environ,
)
@given(st.lists(fitting, min_size=8, max_size=12))
def test_values_that_fit_arrive_as_they_were(
    spark: SparkSession, tmp_path: Path, columns: list[tuple[DataType, DataType, Any]]
) -> None:
    lake = Lake(spark, tmp_path / uuid4().hex)
    named = [(f"c{place}", *column) for place, column in enumerate(columns)]
    narrow = StructType([StructField("id", IntegerType()), *(StructField(n, kind) for n, kind, _, _ in named)])
    wide = StructType([StructField("id", IntegerType()), *(StructField(n, kind) for n, _, kind, _ in named)])
    values = tuple(value for *_, value in named)
    frame = spark.createDataFrame([(1, *(None for _ in named))], wide)

    def kept() -> Overwrite:
        return Overwrite(frame)

    lake.materialize(kept, Table(key="id"))
    frame = spark.createDataFrame([(1, *values), (2, *values)], narrow)
    lake.materialize(kept, Table(key="id"))
    assert lake.frame("kept").schema == wide
    rows = lake.frame("kept").orderBy("id").collect()
    assert [plain(row) for row in rows] == [plain((id_, *values)) for id_ in (1, 2)]
    assert isinstance(lake.materialize(kept, Table(key="id")), Unchanged)
