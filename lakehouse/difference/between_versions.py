"""How two versions of one table differ, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType, StructType, VariantType

from lakehouse.delta.commit_info import Rows
from lakehouse.delta.text import fold, literal, quote, quote_all, same
from lakehouse.errors import ReadError
from lakehouse.spark.driver_rows import MORE, bag_difference, is_empty, matching
from lakehouse.spark.fitting import with_lacking
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import ATOMS, comparable, widens

_BEFORE, _AFTER, _CHANGE, _NAMES = "__before", "__after", "__change", "__names"
_SIDES = (_BEFORE, _AFTER)


@dataclass(frozen=True, slots=True)
class RowDiff:
    """One row that differs. Values are texts, as Spark prints them; None is NULL."""

    change: str
    key: Mapping[str, str | None]
    before: Mapping[str, str | None] | None
    after: Mapping[str, str | None] | None


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """How two versions differ; `columns` gives the number of updated rows in which each column differs."""

    counts: Rows
    rows: tuple[RowDiff, ...]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    columns: Mapping[str, int] = field(default_factory=dict[str, int])


def diff_versions(
    before: TableVersion, after: TableVersion, key: Sequence[str], most: int, touched: DataFrame | None = None
) -> VersionDiff:
    """How two versions of a table differ; a column that only one version has is NULL in the other.

    Whole rows are compared, with their repetitions. Rows of one key that differ are then paired, as updates.

    The key may have no column: a row is then identified by all of its values. If `touched` is given, only rows whose
    key is in it can differ.

    Raises:
        ReadError: A version lacks a column of the key.
    """
    old, new = before.rows(), after.rows()
    names = fold(new.columns)
    dropped = tuple(name for name in old.columns if name.lower() not in names)
    added = tuple(name for name in new.columns if name.lower() not in fold(old.columns))
    lacking = [column for column in key if column.lower() not in names or column.lower() in fold(added)]
    if lacking:
        raise ReadError(f"'{after.ref.name}' has no column {lacking[0]} in both versions.", "Nothing was read.")
    old, new = _alike(old, new)
    if touched is not None:
        keys = touched.select(*map(quote, key)).distinct()
        old, new = matching(old, keys, key), matching(new, keys, key)
    pairs = _pairs(bag_difference(new, old), new.schema, key)
    counts = dict[str, int](row[0:2] for row in pairs.groupBy(_CHANGE).count().collect())
    values = Rows(*(counts.get(change, 0) for change in ("insert", "update", "delete")))
    columns = _columns(pairs, new.schema, key) if values.updated else {}
    return VersionDiff(values, _some(pairs, new.schema, key, most), added, dropped, columns)


def is_same(before: TableVersion, after: TableVersion) -> bool:
    """Whether two versions hold the same rows, by their number and the sum of their hashes: no row is moved.

    A hash skips a NULL, so a column without a value is told by a flag. Nested values are compared themselves.
    """
    old, new = before.rows(), after.rows()
    if old.schema != new.schema:
        return False
    if not all(type(column.dataType) in ATOMS for column in new.schema.fields):
        return is_empty(bag_difference(new, old))
    values = [F.col(quote(name)) for name in new.columns]
    hashes = F.xxhash64(*values, *map(F.isnull, values)).cast("decimal(20, 0)")
    before_, after_ = (rows.agg(F.count("*"), F.sum(hashes)).collect() for rows in (old, new))
    return before_ == after_


def _alike(old: DataFrame, new: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Both frames with the columns of both, in one order; a column of two types has the wider one, or becomes text."""
    old = with_lacking(old, new.schema)
    new = with_lacking(new, old.schema)
    kinds = {column.name.lower(): column.dataType for column in old.schema.fields}
    retyped = {
        column.name: _common_type(kinds[column.name.lower()], column.dataType)
        for column in new.schema.fields
        if kinds[column.name.lower()] != column.dataType
    }
    columns = [
        (F.col(quote(name)).cast(retyped[name]) if name in retyped else F.col(quote(name))).alias(name)
        for name in new.columns
    ]
    return old.select(*columns), new.select(*columns)


def _common_type(one: DataType, other: DataType) -> DataType:
    """The type that keeps the values of two types: the wider one, or text."""
    if widens(one, other):
        return other
    return one if widens(other, one) else StringType()


def _pairs(differing: DataFrame, schema: StructType, key: Sequence[str]) -> DataFrame:
    """Pairs of differing rows of one key: the first of the earlier version with the first of the later, and so on.

    Without a key the whole row is its key, and no row has another row to be paired with.
    """
    each = differing.selectExpr(
        f"struct({quote_all(schema.names)}) AS __row",
        f"{MORE} > 0 AS __new",
        f"explode(sequence(1L, abs({MORE}))) AS _",
    )
    values = comparable(schema, "__row.")
    by = (text for name, text in values.items() if not key or name.lower() in fold(key))
    keys = [F.expr(text).alias(f"__key_{place}") for place, text in enumerate(by)]
    of_key = Window.partitionBy("__new", *keys).orderBy(*map(F.expr, values.values()))
    numbered = each.withColumn("__nth", F.row_number().over(of_key))
    sides = (
        F.first(F.when(is_side, F.col("__row")), ignorenulls=True) for is_side in (~F.col("__new"), F.col("__new"))
    )
    pairs = numbered.groupBy(*keys, "__nth").agg(*(side.alias(name) for side, name in zip(sides, _SIDES, strict=True)))
    change = f"CASE WHEN {_BEFORE} IS NULL THEN 'insert' WHEN {_AFTER} IS NULL THEN 'delete' ELSE 'update' END"
    return pairs.withColumn(_CHANGE, F.expr(change))


def _names_that_differ(schema: StructType, key: Sequence[str]) -> str:
    """SQL: the names of the columns in which the sides differ."""
    before, after = (comparable(schema, f"{side}.") for side in _SIDES)
    others = [name for name in schema.names if name.lower() not in fold(key)]
    flags = (f"CASE WHEN NOT ({same(before[name], after[name])}) THEN {literal(name)} END" for name in others)
    return f"array_compact(array({', '.join(flags)}))"


def _columns(pairs: DataFrame, schema: StructType, key: Sequence[str]) -> dict[str, int]:
    """In how many updated rows each column differs, most rows first."""
    names = f"explode({_names_that_differ(schema, key)}) AS {_NAMES}"
    counted = pairs.where(f"{_CHANGE} = 'update'").selectExpr(names).groupBy(_NAMES).count()
    return dict(sorted(((row[0], row[1]) for row in counted.collect()), key=lambda each: (-each[1], each[0])))


def _some(pairs: DataFrame, schema: StructType, key: Sequence[str], most: int) -> tuple[RowDiff, ...]:
    """The first rows that differ, with their values as texts."""
    if most <= 0:
        return ()
    order = [name for name in pairs.columns if name.startswith("__key_")]
    shown = pairs.orderBy(*order, "__nth").limit(most)
    sides = [F.when(F.col(side).isNotNull(), _texts(schema, f"{side}.")).alias(side) for side in _SIDES]
    texts = shown.select(_CHANGE, F.expr(_names_that_differ(schema, key)).alias(_NAMES), *sides)
    return tuple(_row(row.asDict(recursive=True), fold(key)) for row in texts.collect())


def _row(values: dict[str, Any], key: frozenset[str]) -> RowDiff:
    change, before, after = values[_CHANGE], values[_BEFORE], values[_AFTER]
    of_key = {name: value for name, value in (after or before).items() if name.lower() in key}
    differing = values[_NAMES] if change == "update" else [name for name in (after or before) if name not in of_key]
    old, new = (None if side is None else {name: side[name] for name in differing} for side in (before, after))
    return RowDiff(change, of_key, old, new)


def _texts(schema: StructType, prefix: str = "") -> Column:
    """The values of a row as texts."""
    return F.struct(
        *(_text(F.col(prefix + quote(column.name)), column.dataType).alias(column.name) for column in schema)
    )


def _text(value: Column, kind: DataType) -> Column:
    match kind:
        case BinaryType():
            return F.hex(value)
        case VariantType():
            return F.to_json(value)
        case _:
            return value.cast("string")
