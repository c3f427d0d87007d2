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
    grouped = _sides_by_key(old, new, key, touched)
    if not key:
        return _of_whole_rows(grouped, new.schema, most, added, dropped)
    differing = _differing(grouped, new.schema, key)
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
    """Both sides of each key in one row; without a key, of each row that is equal in all columns."""
    texts = comparable(new.schema)
    by = [text for name, text in texts.items() if not key or name.lower() in fold(key)]
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
    if touched is None or not key:
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
    texts = shown.select(_CHANGE, _NAMES, *(_texts(side, schema).alias(side) for side in (_BEFORE, _AFTER)))
    return tuple(_row(row.asDict(recursive=True), fold(key)) for row in texts.collect())


def _row(values: dict[str, Any], key: frozenset[str]) -> RowDiff:
    change, before, after = values[_CHANGE], values[_BEFORE], values[_AFTER]
    of_key = {name: value for name, value in (after or before).items() if name.lower() in key}
    differing = values[_NAMES] if change == "update" else [name for name in (after or before) if name not in of_key]
    old, new = (None if side is None else {name: side[name] for name in differing} for side in (before, after))
    return RowDiff(change, of_key, old, new)


def _texts(side: str, schema: StructType) -> Column:
    """A side as texts; NULL if the row is not there."""
    values = [_text(F.col(f"{side}.{quote(column.name)}"), column.dataType).alias(column.name) for column in schema]
    return F.when(F.col(side).isNotNull(), F.struct(*values))


def _text(value: Column, kind: DataType) -> Column:
    match kind:
        case BinaryType():
            return F.hex(value)
        case VariantType():
            return F.to_json(value)
        case _:
            return value.cast("string")


def _of_whole_rows(
    grouped: DataFrame, schema: StructType, most: int, added: tuple[str, ...], dropped: tuple[str, ...]
) -> VersionDiff:
    """The rows of which one version has more than the other."""
    more = grouped.withColumn("__more", F.col("__new") - F.col("__old")).where("__more <> 0")
    sums = more.agg(F.sum(F.greatest("__more", F.lit(0))), F.sum(F.greatest(-F.col("__more"), F.lit(0)))).collect()[0]
    rows: list[RowDiff] = []
    if most > 0:
        texts = F.coalesce(_texts(_AFTER, schema), _texts(_BEFORE, schema))
        shown = more.limit(most).select("__more", texts.alias("row")).collect()
        rows = [_whole(row.asDict(recursive=True)) for row in shown]
    return VersionDiff(Rows(sums[0] or 0, 0, sums[1] or 0), tuple(rows), added, dropped)


def _whole(values: dict[str, Any]) -> RowDiff:
    more, values = int(values["__more"]), values["row"]
    return RowDiff("insert", {}, None, values, more) if more > 0 else RowDiff("delete", {}, values, None, -more)
