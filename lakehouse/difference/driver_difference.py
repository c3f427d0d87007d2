"""The difference if the result is at the driver: one scan of the table answers for each row whether it stays.

The rows of the table stay where they are. For each of them the driver learns which row of the result has its key, and
whether the two are the same. Rows of the result that no row of the table matches are new. No second plan compares, and
if the result is empty, the scan reads the keys alone.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from lakehouse.delta.text import Literal, fold, quote, same
from lakehouse.difference.broken_promises import broken
from lakehouse.difference.difference import AGAIN, DELETE, HELD, INSERT, OPERATION, UPDATE
from lakehouse.read.touched import Touched, require
from lakehouse.spark.driver_rows import Local, small
from lakehouse.spark.fitting import Breach
from lakehouse.spark.types import comparable

_NTH, _DIFFERS = "__lakehouse_nth", "__lakehouse_differs"


def local_difference(
    asset: str,
    rows: Local,
    target: DataFrame,
    key: tuple[str, ...],
    touched: Touched,
    *,
    partition_columns: tuple[str, ...] = (),
) -> Local | None:
    """The difference that makes the table hold exactly `rows` for the touched keys; None if Spark must find it.

    Raises:
        WriteError (BROKEN_PROMISE): A row lies outside the touched keys, or a key occurs twice.
    """
    if not _keeps_promises(asset, rows, key, touched):
        return None
    by_key = fold(touched.columns) == fold(key)
    predicate = touched.predicate(target.schema) if by_key else None
    whole = rows.arrow if predicate is None else _with_keys(rows.arrow, touched.columns, _without_row(rows, touched))
    existing = touched.restrict(target) if predicate is None else target.where(predicate.sql)
    answers = small(_beside(rows, whole, existing, key, partition_columns, "left" if predicate is None else "inner"))
    if answers is None:
        return None
    nth: list[int | None] = answers.column(_NTH).to_pylist()
    removed = dict[tuple[Literal, ...], int]()
    if None in nth:
        if answers.values(key) is None:
            return None
        for place, values in enumerate(answers.literal_rows(key)):
            if nth[place] is None:
                nth[place] = len(whole) + removed.setdefault(values, len(removed))
        whole = _with_keys(whole, key, list(removed))
    return _as_difference(rows, whole, cast("list[int]", nth), answers)


def insertions(asset: str, rows: Local, key: tuple[str, ...], touched: Touched) -> Local | None:
    """The difference from a table that is known to hold none of the touched keys, in the same form.

    Raises:
        WriteError (BROKEN_PROMISE): A row lies outside the touched keys, or a key occurs twice.
    """
    if not _keeps_promises(asset, rows, key, touched):
        return None
    fields = [*_nullable(rows.schema), StructField(OPERATION, StringType())]
    arrow = _with_keys(rows.arrow, key, []).append_column(OPERATION, pa.array([INSERT] * rows.rows, pa.string()))
    return Local(rows.spark, StructType(fields), arrow)


def _keeps_promises(asset: str, rows: Local, key: tuple[str, ...], touched: Touched) -> bool:
    """Whether the result is known to keep its promises; False if its keys have no literals, so that this is unknown.

    Raises:
        WriteError (BROKEN_PROMISE): It is known not to.
    """
    require(rows.schema.names, touched.columns, f"The result of '{asset}'")
    named = rows.values(key)
    within = named if touched.columns == key else rows.values(touched.columns)
    if named is None or within is None or touched.values is None or touched.predicate(rows.schema) is None:
        return False
    keys = set(touched.values)
    outside = next((values for values in within if values not in keys), None)
    if outside is not None:
        raise broken(asset, Breach.OUTSIDE, {"key": dict(zip(touched.columns, outside, strict=True))})
    if len(named) < rows.rows:
        ((twice, _),) = Counter(rows.literal_rows(key)).most_common(1)
        raise broken(asset, Breach.TWICE, {"key": dict(zip(key, twice, strict=True))})
    return True


def _without_row(rows: Local, touched: Touched) -> list[tuple[Literal, ...]]:
    """The touched keys that the result has no row for."""
    present = set(rows.literal_rows(touched.columns))
    return [values for values in touched.values or () if values not in present]


def _beside(
    rows: Local, whole: Any, existing: DataFrame, key: tuple[str, ...], partition_columns: tuple[str, ...], how: str
) -> DataFrame:
    """A row for each row of the table: the place of its key in `whole` and whether the two differ, or its own key."""
    schema = rows.schema
    numbered = whole.append_column(_NTH, pa.array(range(len(whole)), pa.int32()))
    fields = [*_nullable(schema), StructField(_NTH, IntegerType())]
    result = Local(rows.spark, StructType(fields), numbered)
    pairs = ((f"__target.{quote(name)}", f"__result.{quote(name)}") for name in key)
    nulls = result.has_nulls(key)
    on = F.expr(" AND ".join(same(left, right, nulls=nulls) for left, right in pairs))
    joined = existing.alias("__target").join(F.broadcast(result.frame.alias("__result")), on, how)
    in_result, in_target = (comparable(schema, f"{side}.") for side in ("__result", "__target"))
    keys = fold(key)
    values = [name for name in schema.names if name.lower() not in keys and rows.rows]
    differs = " OR ".join(f"NOT ({same(in_result[name], in_target[name])})" for name in values)
    answers = [f"{_NTH} IS NOT NULL AND ({differs or 'FALSE'}) AS {_DIFFERS}"]
    if how == "left":
        answers += [f"IF({_NTH} IS NULL, __target.{quote(name)}, NULL) AS {quote(name)}" for name in key]
    if partition_columns:
        values = ", ".join(f"__target.{quote(name)} AS {quote(name)}" for name in partition_columns)
        answers.append(f"struct({values}) AS {HELD}")
    return joined.selectExpr(_NTH, *answers)


def _as_difference(rows: Local, whole: Any, nth: Sequence[int], answers: Local) -> Local:
    """The rows of `whole` that differ from the table, each with its operation."""
    places = defaultdict[int, list[int]](list)
    for place, row in enumerate(nth):
        places[row].append(place)
    differs: list[bool] = answers.column(_DIFFERS).to_pylist()
    taken, operations, matched = list[int](), list[str](), list[Sequence[int]]()
    for row in range(len(whole)):
        in_table = places.get(row, ())
        for operation in _due(in_table, differs, is_row=row < rows.rows):
            taken.append(row)
            operations.append(operation)
            matched.append(in_table)
    arrow = whole.take(pa.array(taken, pa.int64()))
    fields = _nullable(rows.schema)
    if HELD in answers.schema.names:
        arrow = arrow.append_column(HELD, _lists(answers.column(HELD), matched))
        fields.append(StructField(HELD, ArrayType(answers.schema[HELD].dataType)))
    arrow = arrow.append_column(OPERATION, pa.array(operations, pa.string()))
    return Local(rows.spark, StructType([*fields, StructField(OPERATION, StringType())]), arrow)


def _due(in_table: Sequence[int], differs: Sequence[bool], *, is_row: bool) -> tuple[str, ...]:
    """What is due for a key that the rows `in_table` of the table have."""
    match len(in_table):
        case 0:
            return (INSERT,) if is_row else ()
        case _ if not is_row:
            return (DELETE,)
        case 1:
            return (UPDATE,) if differs[in_table[0]] else ()
        case _:
            return (DELETE, AGAIN)


def _with_keys(arrow: Any, columns: tuple[str, ...], keys: Sequence[tuple[Literal, ...]]) -> Any:
    """The rows, and after them one for each of the keys, with no other value."""
    listed = zip(*keys, strict=True) if keys else ((),) * len(columns)
    named = {column.lower(): list(values) for column, values in zip(columns, listed, strict=True)}
    schema: Any = pa.schema([field.with_nullable(True) for field in arrow.schema])
    bare: list[Any] = [pa.array(named.get(field.name.lower(), [None] * len(keys)), field.type) for field in schema]
    return pa.concat_tables([arrow.cast(schema), pa.table(bare, schema=schema)])


def _nullable(schema: StructType) -> list[StructField]:
    return [StructField(field.name, field.dataType) for field in schema.fields]


def _lists(values: Any, places: Sequence[Sequence[int]]) -> Any:
    ends = accumulate(map(len, places), initial=0)
    flat = values.combine_chunks().take(pa.array([place for some in places for place in some], pa.int64()))
    return pa.ListArray.from_arrays(pa.array(list(ends), pa.int32()), flat)
