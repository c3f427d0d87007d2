"""What two versions of one table hold differently: row by row of a key, or as whole rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StructType, VariantType

from lakehouse.delta.commit_info import Rows
from lakehouse.delta.text import fold, literal, quote, same
from lakehouse.errors import ReadError
from lakehouse.spark.driver_rows import MORE, bag_difference
from lakehouse.spark.fitting import with_lacking
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import comparable

_BEFORE, _AFTER, _CHANGE, _COPIES, _NAMES = "__before", "__after", "__change", "__copies", "__names"


@dataclass(frozen=True, slots=True)
class RowDiff:
    """One row that differs. Values are texts, as Spark prints them; None is NULL.

    Args:
        change: What became of it: insert, update, delete.
        key: Its key; empty if the table has none.
        before: Its other values in the earlier version, of an update those that differ; None of an insert.
        after: The same in the later version; None of a delete.
        copies: How often the row was inserted, or deleted; more than once only without a key.
    """

    change: str
    key: Mapping[str, str | None]
    before: Mapping[str, str | None] | None
    after: Mapping[str, str | None] | None
    copies: int = 1


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """What two versions hold differently.

    Args:
        counts: How many rows.
        rows: Some of them, in the order of their keys.
        added: The columns that only the later version has.
        dropped: The columns that only the earlier version has.
    """

    counts: Rows
    rows: tuple[RowDiff, ...]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def diff_versions(
    before: TableVersion, after: TableVersion, key: Sequence[str], most: int, touched: DataFrame | None = None
) -> VersionDiff:
    """What two versions of a table hold differently; a column that only one has is NULL in the other.

    Args:
        before: The earlier version.
        after: The later version.
        key: The columns that identify a row; none to compare whole rows, with their repetitions.
        most: How many rows are given; all are counted.
        touched: The keys of which alone a row can differ; None if it can be any.

    Raises:
        ReadError: A column of the key is not there, or the key is in several rows of one version.
    """
    old, new = before.rows(), after.rows()
    names = fold(new.columns)
    dropped = tuple(name for name in old.columns if name.lower() not in names)
    added = tuple(name for name in new.columns if name.lower() not in fold(old.columns))
    lacking = [column for column in key if column.lower() not in names or column.lower() in fold(added)]
    if lacking:
        raise ReadError(f"'{after.ref.name}' has no column {lacking[0]} in both versions.", "Nothing was read.")
    old, new = _alike(old, new)
    if not key:
        return _of_whole_rows(bag_difference(new, old), new.schema, most, added, dropped)
    differing = _differing(_sides_by_key(old, new, key, touched), new.schema, key)
    counts = {row[0]: (row[1], row[2]) for row in _count(differing)}
    if any(copies > 1 for _, copies in counts.values()):
        raise ReadError(
            f"'{after.ref.name}' has several rows with one value of {', '.join(key)}.",
            "Nothing was compared. Name the columns that identify a row: --key COLUMN, once for each.",
        )
    values = Rows(*(counts.get(change, (0, 0))[0] for change in ("insert", "update", "delete")))
    return VersionDiff(values, _some(differing, new.schema, key, most), added, dropped)


def _alike(old: DataFrame, new: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Both with the columns of both, in one order; a column of two types as text."""
    old = with_lacking(old, new.schema)
    new = with_lacking(new, old.schema)
    kinds = {column.name.lower(): column.dataType for column in old.schema.fields}
    retyped = [column.name for column in new.schema.fields if kinds[column.name.lower()] != column.dataType]
    columns = [
        (F.col(quote(name)).cast("string") if name in retyped else F.col(quote(name))).alias(name)
        for name in new.columns
    ]
    return old.select(*columns), new.select(*columns)


def _sides_by_key(old: DataFrame, new: DataFrame, key: Sequence[str], touched: DataFrame | None) -> DataFrame:
    """Both sides of each key in one row."""
    by = [text for name, text in comparable(new.schema).items() if name.lower() in fold(key)]
    keys = [F.expr(text).alias(f"__key_{place}") for place, text in enumerate(by)]
    sides = [
        _touched_rows(rows, key, touched).select(*keys, F.struct(*map(quote, rows.columns)).alias(side))
        for rows, side in ((old, _BEFORE), (new, _AFTER))
    ]
    both = sides[0].unionByName(sides[1], allowMissingColumns=True)
    return both.groupBy(*(f"__key_{place}" for place in range(len(by)))).agg(
        F.first(_BEFORE, ignorenulls=True).alias(_BEFORE),
        F.first(_AFTER, ignorenulls=True).alias(_AFTER),
        F.count(_BEFORE).alias("__old"),
        F.count(_AFTER).alias("__new"),
    )


def _touched_rows(rows: DataFrame, key: Sequence[str], touched: DataFrame | None) -> DataFrame:
    if touched is None:
        return rows
    keys = touched.select(*(F.col(quote(name)).alias(f"__of_{place}") for place, name in enumerate(key))).distinct()
    on = " AND ".join(same(quote(name), f"__of_{place}") for place, name in enumerate(key))
    return rows.join(keys, F.expr(on), "left_semi")


def _differing(grouped: DataFrame, schema: StructType, key: Sequence[str]) -> DataFrame:
    """The keys that differ: what became of each, and in which columns."""
    before, after = (comparable(schema, f"{side}.") for side in (_BEFORE, _AFTER))
    others = [name for name in schema.names if name.lower() not in fold(key)]
    flags = [f"CASE WHEN NOT ({same(before[name], after[name])}) THEN {literal(name)} END" for name in others]
    names = (
        f"filter(array({', '.join(flags)}), each -> each IS NOT NULL)" if flags else "CAST(array() AS array<string>)"
    )
    change = (
        f"CASE WHEN {_BEFORE} IS NULL THEN 'insert' WHEN {_AFTER} IS NULL THEN 'delete' "
        f"WHEN size({_NAMES}) > 0 THEN 'update' END"
    )
    named = grouped.withColumn(_NAMES, F.expr(names)).withColumn(_CHANGE, F.expr(change))
    return named.withColumn(_COPIES, F.greatest("__old", "__new")).where(f"{_CHANGE} IS NOT NULL OR {_COPIES} > 1")


def _count(differing: DataFrame) -> list[tuple[str, int, int]]:
    rows = differing.groupBy(_CHANGE).agg(F.count("*").alias("rows"), F.max(_COPIES).alias("copies")).collect()
    return [(row[0], row[1], row[2]) for row in rows]


def _some(differing: DataFrame, schema: StructType, key: Sequence[str], most: int) -> tuple[RowDiff, ...]:
    """The first rows that differ, with their values as texts."""
    if most <= 0:
        return ()
    order = [f"__key_{place}" for place in range(len(key))]
    shown = differing.where(f"{_CHANGE} IS NOT NULL").orderBy(*order).limit(most)
    sides = [F.when(F.col(side).isNotNull(), _texts(schema, f"{side}.")).alias(side) for side in (_BEFORE, _AFTER)]
    texts = shown.select(_CHANGE, _NAMES, *sides)
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


def _of_whole_rows(
    differing: DataFrame, schema: StructType, most: int, added: tuple[str, ...], dropped: tuple[str, ...]
) -> VersionDiff:
    """The rows of which one version has more than the other."""
    more = F.col(MORE)
    sums = differing.agg(F.sum(F.greatest(more, F.lit(0))), F.sum(F.greatest(-more, F.lit(0)))).collect()[0]
    shown = differing.limit(most).select(more, _texts(schema).alias("row")).collect() if most > 0 else []
    rows = tuple(_whole(row["row"].asDict(), row[MORE]) for row in shown)
    return VersionDiff(Rows(sums[0] or 0, 0, sums[1] or 0), rows, added, dropped)


def _whole(values: dict[str, str | None], more: int) -> RowDiff:
    return RowDiff("insert", {}, None, values, more) if more > 0 else RowDiff("delete", {}, values, None, -more)
