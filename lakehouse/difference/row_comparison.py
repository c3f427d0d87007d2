"""What must be inserted, updated and deleted so that a table becomes the result: one comparison by key, two engines.

Equal rows drop out, so they are neither rewritten nor seen downstream.

- Spark: one plan groups both sides by key. A broken promise is an error inside the plan: it surfaces while the plan is
  computed, before anything is written.
- The driver, if it has the result: the rows of the table stay where they are. One scan finds for each of them which row
  of the result has its key, and whether the two are equal. If the result is empty, the scan reads the keys alone.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from lakehouse.delta.limits import limits
from lakehouse.delta.text import Literal, fold, quote, same
from lakehouse.read.touched import Touched, require
from lakehouse.read.touched_keys import FromFeed, SomeKeys
from lakehouse.spark.broken_promises import Breach, breach_sql, broken
from lakehouse.spark.driver_rows import Local, compute_once, is_empty, small
from lakehouse.spark.fitting import with_known_schema, with_lacking
from lakehouse.spark.types import comparable

OPERATION = "__lakehouse_operation"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
AGAIN = "insert again"
"""The operation of a row whose key the table held more than once; a `DELETE` of the key goes with it."""
HELD = "__lakehouse_held"
"""What the table holds in some columns, if requested: an array, because the table may hold a key more than once."""
_PROBLEM, _NTH, _DIFFERS = "__lakehouse_problem", "__lakehouse_nth", "__lakehouse_differs"


def compare(
    asset: str,
    rows: DataFrame,
    touched: Touched | None,
    target: DataFrame,
    key: tuple[str, ...],
    partitions: tuple[str, ...],
    *,
    few: bool = False,
    is_small: bool = False,
) -> DataFrame | Local:
    """The difference, found in the cheapest way that is exact; at the driver if it is small.

    - Any key may differ: all rows of both sides are grouped by key (`difference`). If the table `is_small`, the
      difference comes to the driver without being kept.
    - At most `one_task_keys` keys are touched: the rows with these keys are compared in one task.
    - The result is at the driver, and the table holds none of its keys: nothing is compared.
    - The result is at the driver: one scan of the table compares its keys (`local_difference`).
    - Otherwise: the rows with touched keys are grouped by key, as in the first way.
    """
    if touched is None or touched.is_everything:
        result = with_promises(asset, rows, touched)
        changed = difference(result, target, key, one_task=few, partition_columns=partitions)
        return compute_once(changed, few=few or is_small)
    if fold(touched.columns) == fold(key) and touched.is_one_task:
        result, existing = with_promises(asset, rows, touched), touched.restrict(target)
        changed = difference(result, existing, key, one_task=True, partition_columns=partitions)
        return compute_once(changed, few=True)
    # One column is read, not all of them.
    new = touched.from_feed is FromFeed.NEW_ROWS and is_empty(touched.restrict(target))
    result = _result(rows, touched)
    if isinstance(result, Local):
        existing = None if new else target
        changed = local_difference(asset, result, existing, key, touched, partition_columns=partitions)
        if changed is not None:
            return changed
    rows = result.frame if isinstance(result, Local) else result
    existing = target.limit(0) if new else touched.restrict(target)
    return compute_once(difference(with_promises(asset, rows, touched), existing, key, partition_columns=partitions))


def _result(rows: DataFrame, touched: Touched) -> Local | DataFrame:
    """The result, at the driver if it is small. A result that may not be small is kept, and not computed a second time.

    With many changes the attempt is not worth it: their result is computed while it is compared.
    """
    if not touched.few:
        return rows
    if touched.values is not None and len(touched.values) > limits().tried_keys:
        return compute_once(rows)
    return small(rows) or rows


def with_promises(asset: str, rows: DataFrame, touched: Touched | None) -> DataFrame:
    """The result with a column that has a breach for each row outside the touched keys, and NULL for all other rows.

    Raises:
        ReadError (COLUMN_MISSING): The result lacks a column by which its keys were touched, even if all keys are.
    """
    if touched is not None:
        require(rows.columns, touched.columns, f"The result of '{asset}'")
    keys = None if touched is None else touched.touched
    if touched is None or not isinstance(keys, SomeKeys):
        return _with_problem(rows, f"CAST(NULL AS STRING) AS {_PROBLEM}")
    outside = breach_sql(Breach.OUTSIDE, {column: quote(column) for column in touched.columns})
    predicate = keys.predicate(rows.schema)
    if predicate is not None and predicate.is_exact:
        return _with_problem(rows, f"CASE WHEN NOT coalesce({predicate.sql}, FALSE) THEN {outside} END AS {_PROBLEM}")
    renamed = {f"__promised_{index}": column for index, column in enumerate(touched.columns)}
    sent = keys.sent.selectExpr("TRUE AS __promised", *(_as(quote(c), alias) for alias, c in renamed.items()))
    beside = rows.join(sent, keys.same_key(rows, renamed), "left")
    problem_of_row = f"CASE WHEN __promised IS NULL THEN {outside} END AS {_PROBLEM}"
    return beside.selectExpr("*", problem_of_row).drop("__promised", *renamed)


def _with_problem(rows: DataFrame, problem: str) -> DataFrame:
    return with_known_schema(
        rows.selectExpr("*", problem), StructType([*rows.schema.fields, StructField(_PROBLEM, StringType())])
    )


def difference(
    rows: DataFrame,
    existing: DataFrame | None,
    key: tuple[str, ...],
    *,
    one_task: bool = False,
    partition_columns: tuple[str, ...] = (),
) -> DataFrame:
    """The rows that turn `existing` into `rows`: the table's columns and `OPERATION`, one row per key that differs.

    Both sides are grouped by key in one pass, which also finds a key that the result has twice. Grouping treats two
    NULLs as equal, as a key must.

    Args:
        rows: What the table should hold, from `with_promises`.
        existing: What the table holds, in the part that the write is about; None if there is no table yet.
        key: The table's key, at least one column.
        one_task: Whether both sides are so small that one task is quicker than a shuffle.
        partition_columns: Columns whose values in the table each row is to carry, as structs in `HELD`.
    """
    schema = StructType([column for column in rows.schema.fields if column.name != _PROBLEM])
    named = [_find(schema.names, name) for name in key]
    keys = [f"__key_{index}" for index in range(len(named))]
    both = rows.selectExpr(*_side(named, schema.names, "__result"), _PROBLEM)
    if existing is not None:
        target = with_lacking(existing, schema).selectExpr(*_side(named, schema.names, "__target"))
        both = both.unionByName(target, allowMissingColumns=True)
    else:
        # Grouping needs a shuffle; one by ranges of the key also gives each file of a new table a range of its own.
        both = both.repartitionByRange(*keys).selectExpr("*", "IF(FALSE, __result, NULL) AS __target")
    aggregates = [
        "count(__result) AS __copies",
        "count(__target) AS __target_rows",
        "first(__result, TRUE) AS __result",
        "first(__target, TRUE) AS __target",
        f"max({_PROBLEM}) AS __outside",
    ]
    if partition_columns:
        names = [_find(schema.names, column) for column in partition_columns]
        values = ", ".join(_as(f"__target.{quote(name)}", name) for name in names)
        aggregates.append(f"collect_set(IF(__target IS NULL, NULL, struct({values}))) AS {HELD}")
    grouped = (both.coalesce(1) if one_task else both).groupBy(*keys)
    return _operations(grouped.agg(*map(F.expr, aggregates)), schema, named, [HELD] if partition_columns else [])


def _operations(grouped: DataFrame, schema: StructType, named: list[str], extra: list[str]) -> DataFrame:
    """The grouped sides as rows to insert, update and delete; broken promises are raised here."""
    keys = {name: f"__key_{index}" for index, name in enumerate(named)}
    problem_of_key = f"coalesce(__outside, CASE WHEN __copies > 1 THEN {breach_sql(Breach.TWICE, keys)} END)"
    result, target = (comparable(schema, f"{side}.") for side in ("__result", "__target"))
    differ = [f"NOT ({same(result[name], target[name])})" for name in schema.names if name not in named]
    operations = (
        f"CASE WHEN {_PROBLEM} IS NOT NULL THEN array(CAST(raise_error({_PROBLEM}) AS STRING)) "
        f"WHEN __target IS NULL THEN array('{INSERT}') "
        f"WHEN __result IS NULL THEN array('{DELETE}') "
        f"WHEN __target_rows > 1 THEN array('{DELETE}', '{AGAIN}') "
        f"WHEN {' OR '.join(differ) or 'FALSE'} THEN array('{UPDATE}') END"
    )
    values = [_as(keys.get(name, f"__result.{quote(name)}"), name) for name in schema.names]
    checked = grouped.selectExpr("*", f"{problem_of_key} AS {_PROBLEM}")
    due = checked.selectExpr(*values, *extra, f"explode({operations}) AS {OPERATION}")
    return due if extra else with_known_schema(due, StructType([*schema.fields, StructField(OPERATION, StringType())]))


def _side(named: list[str], columns: list[str], side: str) -> list[str]:
    keys = [f"{quote(name)} AS __key_{index}" for index, name in enumerate(named)]
    return [*keys, f"struct({', '.join(_as(quote(name), name) for name in columns)}) AS {side}"]


def local_difference(
    asset: str,
    rows: Local,
    target: DataFrame | None,
    key: tuple[str, ...],
    touched: Touched,
    *,
    partition_columns: tuple[str, ...] = (),
) -> Local | None:
    """The difference that makes the table hold exactly `rows` for the touched keys; None if Spark must find it.

    `target` is None if the table is known to hold none of these keys.

    Raises:
        WriteError (BROKEN_PROMISE): A row lies outside the touched keys, or a key occurs twice.
    """
    if not _keeps_promises(asset, rows, key, touched):
        return None
    if target is None:
        arrow = _with_keys(rows.arrow, key, [])
        return _with_operations(rows, arrow, _nullable(rows.schema), [INSERT] * rows.rows)
    by_key = fold(touched.columns) == fold(key)
    predicate = touched.predicate(target.schema) if by_key else None
    whole = rows.arrow
    if predicate is not None:
        present = set(rows.literal_rows(touched.columns))
        without_row = [values for values in touched.values or () if values not in present]
        whole = _with_keys(whole, touched.columns, without_row)
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


def _keeps_promises(asset: str, rows: Local, key: tuple[str, ...], touched: Touched) -> bool:
    """Whether the result is known to keep its promises; False if its keys have no literals, so that this is unknown.

    Raises:
        WriteError (BROKEN_PROMISE): The result is known to break a promise.
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


def _beside(
    rows: Local, whole: Any, existing: DataFrame, key: tuple[str, ...], partition_columns: tuple[str, ...], how: str
) -> DataFrame:
    """A row for each row of the table: the place of its key in `whole` and whether the two differ, or else its key."""
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
    arrow, fields = whole.take(pa.array(taken, pa.int64())), _nullable(rows.schema)
    if HELD in answers.schema.names:
        arrow = arrow.append_column(HELD, _lists(answers.column(HELD), matched))
        fields.append(StructField(HELD, ArrayType(answers.schema[HELD].dataType)))
    return _with_operations(rows, arrow, fields, operations)


def _with_operations(rows: Local, arrow: Any, fields: list[StructField], operations: Sequence[str]) -> Local:
    schema = StructType([*fields, StructField(OPERATION, StringType())])
    return Local(rows.spark, schema, arrow.append_column(OPERATION, pa.array(operations, pa.string())))


def _due(in_table: Sequence[int], differs: Sequence[bool], *, is_row: bool) -> tuple[str, ...]:
    """The operations for a key; `in_table` are the places of the answers for the table's rows with this key."""
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
    """The rows, followed by one row for each of the keys, with NULL in all other columns."""
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


def _as(value: str, name: str) -> str:
    return f"{value} AS {quote(name)}"


def _find(columns: list[str], name: str) -> str:
    return next(column for column in columns if column.lower() == name.lower())
