"""The write law as a difference: what must be inserted, updated and deleted so that the table is the result.

One plan compares the rows that the table should hold with those it holds, in the part of it that the write is
about. Rows that are the same drop out of it, so they are neither rewritten nor seen by anybody downstream.
Broken promises are errors inside the same plan: they surface while it is computed, before anything is written.
"""

import json
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.conflicts import causes, message
from lakehouse.errors import BrokenPromiseError
from lakehouse.schema import comparable
from lakehouse.sql import quote, same
from lakehouse.touched import Touched, require, same_key

OPERATION = "__lakehouse_operation"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
AGAIN = "insert again"
"""The row of a key that the table held more than once; a `DELETE` of the key stands beside it."""
HELD = "__lakehouse_held"
"""What the table holds in some columns, where that is asked for: an array, for a key may be there more than once."""
_BROKEN = "lakehouse-broken-promise:"
ELSEWHERE = _BROKEN + '{"kind": "elsewhere"}'
_PROBLEM = "__lakehouse_problem"


def promised(asset: str, rows: DataFrame, touched: Touched | None) -> DataFrame:
    """The result with a column that says which rows lie outside the touched keys (NULL: none of that kind).

    Args:
        asset: The asset, for messages.
        rows: The result.
        touched: The keys that the result is about; None, or everything, where it is about all of them.
    """
    if touched is None or touched.is_everything:
        return rows.withColumn(_PROBLEM, F.lit(None).cast("string"))
    require(rows, touched.columns, asset)
    near = touched.predicate(rows)
    if near is not None and near.is_exact:
        inside = F.coalesce(F.expr(near.sql), F.lit(False))
        return rows.withColumn(_PROBLEM, F.when(~inside, _problem("outside", touched.columns)))
    renamed = {f"__promised_{index}": column for index, column in enumerate(touched.columns)}
    keys = touched.keys.select(*(F.col(quote(column)).alias(alias) for alias, column in renamed.items()))
    keys = keys.withColumn("__promised", F.lit(True))
    outside = F.when(F.col("__promised").isNull(), _problem("outside", touched.columns))
    return rows.join(keys, same_key(rows, renamed), "left").withColumn(_PROBLEM, outside).drop("__promised", *renamed)


def difference(
    rows: DataFrame,
    existing: DataFrame | None,
    key: tuple[str, ...],
    *,
    one_task: bool = False,
    held: tuple[str, ...] = (),
) -> DataFrame:
    """What turns `existing` into `rows`: the table's columns and `OPERATION`, one row per key that differs.

    Both sides are grouped by key in one pass, which finds a key that the result has twice as well; grouping holds
    two NULLs to be the same, as a key must.

    Args:
        rows: What the table should hold, from `promised`.
        existing: What it holds, in the part that the write is about; None where there is no table yet.
        key: The table's key, at least one column.
        one_task: Whether both sides are so small that one task is quicker than a shuffle.
        held: Columns whose values in the table are to stand beside each row, as structs in `HELD`.
    """
    columns = [column for column in rows.columns if column != _PROBLEM]
    named = [_find(columns, name) for name in key]
    ours = F.struct(*(F.col(quote(column)) for column in columns))
    both = _side(rows, named, "__ours", ours).withColumn(_PROBLEM, F.col(_PROBLEM))
    if existing is not None:
        there = [F.col(quote(c)) if c.lower() in _lower(existing.columns) else _null(rows, c) for c in columns]
        values = F.struct(*(value.alias(column) for value, column in zip(there, columns, strict=True)))
        both = both.unionByName(_side(existing, named, "__theirs", values), allowMissingColumns=True)
    else:
        # Grouping needs a shuffle; one by ranges of the key also gives each file of a new table a range of its own.
        both = both.repartitionByRange(*(F.col(f"__key_{index}") for index in range(len(named))))
        both = both.withColumn("__theirs", F.lit(None).cast(both.schema["__ours"].dataType))
    grouped = (
        (both.coalesce(1) if one_task else both)
        .groupBy(*(F.col(f"__key_{index}") for index in range(len(named))))
        .agg(
            F.count("__ours").alias("__copies"),
            F.count("__theirs").alias("__held"),
            F.first("__ours", ignorenulls=True).alias("__ours"),
            F.first("__theirs", ignorenulls=True).alias("__theirs"),
            F.max(_PROBLEM).alias(_PROBLEM),
            *([_values_held(columns, held).alias(HELD)] if held else []),
        )
    )
    return _operations(grouped, columns, named)


def _values_held(columns: list[str], held: tuple[str, ...]) -> Column:
    values = F.struct(*(F.col("__theirs").getField(_find(columns, name)).alias(name) for name in held))
    return F.collect_set(F.when(F.col("__theirs").isNotNull(), values))


def _operations(grouped: DataFrame, columns: list[str], named: list[str]) -> DataFrame:
    """The grouped sides as rows to insert, update and delete; broken promises are raised here."""
    twice = _problem("twice", tuple(f"__key_{index}" for index in range(len(named))), named)
    problem = F.coalesce(F.col(_PROBLEM), F.when(F.col("__copies") > 1, twice))
    flat = grouped.withColumn(_PROBLEM, problem)
    mine, yours = (comparable(grouped.select(f"{side}.*").schema, f"{side}.") for side in ("__ours", "__theirs"))
    differs = _any([~F.expr(same(mine[column], yours[column])) for column in columns if column not in named])
    operations = (
        F.when(F.col(_PROBLEM).isNotNull(), F.array(F.raise_error(F.col(_PROBLEM)).cast("string")))
        .when(F.col("__theirs").isNull(), F.array(F.lit(INSERT)))
        .when(F.col("__ours").isNull(), F.array(F.lit(DELETE)))
        .when(F.col("__held") > 1, F.array(F.lit(DELETE), F.lit(AGAIN)))
        .when(differs, F.array(F.lit(UPDATE)))
    )
    keys = {name: F.col(f"__key_{index}") for index, name in enumerate(named)}
    values = [keys.get(column, F.col("__ours").getField(column)).alias(column) for column in columns]
    held = [HELD] if HELD in flat.columns else []
    return flat.select(*values, *held, F.explode(operations).alias(OPERATION))


def _side(frame: DataFrame, named: list[str], side: str, values: Column) -> DataFrame:
    keys = [F.col(quote(name)).alias(f"__key_{index}") for index, name in enumerate(named)]
    kept = [F.col(_PROBLEM)] if _PROBLEM in frame.columns else []
    return frame.select(*keys, values.alias(side), *kept)


def _null(rows: DataFrame, column: str) -> Column:
    return F.lit(None).cast(rows.schema[column].dataType)


def _lower(names: list[str]) -> set[str]:
    return {name.lower() for name in names}


def bag_difference(rows: DataFrame, existing: DataFrame) -> DataFrame:
    """Rows counted with their repetitions: `__more` > 0 where the result has more of a row than the table."""
    order = existing.columns
    texts = comparable(existing.schema)
    both = rows.select(*order).withColumn("__one", F.lit(1)).union(existing.withColumn("__one", F.lit(-1)))
    grouped = both.groupBy(*(F.expr(texts[name]).alias(f"__by_{i}") for i, name in enumerate(order)))
    first = [F.first(F.col(quote(name))).alias(name) for name in order]
    return grouped.agg(*first, F.sum("__one").alias("__more")).where("__more <> 0").select(*order, "__more")


def missing_from(asset: str, rows: DataFrame, existing: DataFrame) -> DataFrame:
    """The rows that `existing` lacks; an error in the plan where it holds rows that the result lacks."""
    difference_ = bag_difference(rows, existing)
    gone = F.raise_error(F.lit(_BROKEN + json.dumps({"kind": "gone", "asset": asset}))).cast("boolean")
    more = difference_.where(F.when(F.col("__more") > 0, F.lit(True)).otherwise(gone))
    return more.select(*existing.columns, F.explode(F.sequence(F.lit(1), F.col("__more"))).alias("__n")).drop("__n")


def broken_promise(asset: str, error: BaseException) -> BrokenPromiseError | None:
    """The promise that an error of Spark stands for; None where it stands for something else."""
    for cause in causes(error):
        text = message(cause)
        if _BROKEN not in text:
            continue
        start = text.index(_BROKEN) + len(_BROKEN)
        found = json.JSONDecoder().raw_decode(text[start:])[0]
        where = ", ".join(f"{name}={value}" for name, value in found.get("key", {}).items())
        match found["kind"]:
            case "outside":
                return BrokenPromiseError(
                    asset,
                    f"has a row with {where}, which is not among its touched keys",
                    "Compute the rows from touched.rows or touched.of(frame), so that they belong to touched keys.",
                )
            case "twice":
                return BrokenPromiseError(
                    asset,
                    f"has more than one row with the key {where}",
                    "Aggregate or deduplicate the rows, or declare the finer key in Table(key=...).",
                )
            case "elsewhere":
                return BrokenPromiseError(
                    asset,
                    "has a row whose key the table already holds outside the touched keys",
                    "Touch the keys by columns of which the table's key is a part, or make Table(key=...) finer.",
                )
            case _:
                return BrokenPromiseError(
                    asset,
                    "lacks rows that an earlier materialization appended",
                    "An Append never removes rows; return an Overwrite or a Merge where rows can change.",
                )
    return None


def _problem(kind: str, columns: tuple[str, ...], names: list[str] | None = None) -> Column:
    named = zip(columns, names or columns, strict=True)
    key = F.struct(*(F.col(quote(column)).cast("string").alias(name) for column, name in named))
    text = F.to_json(key, {"ignoreNullFields": "false"})
    return F.concat(F.lit(f'{_BROKEN}{{"kind": "{kind}", "key": '), text, F.lit("}"))


def _find(columns: list[str], name: str) -> str:
    return next(column for column in columns if column.lower() == name.lower())


def _any(conditions: list[Column]) -> Column:
    return reduce(Column.__or__, conditions, F.lit(False))
