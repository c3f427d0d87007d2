"""The write law as a difference: what must be inserted, updated and deleted so that the table is the result.

One plan compares the rows that the table should hold with those it holds, in the part of it that the write is
about. Rows that are the same drop out of it, so they are neither rewritten nor seen by anybody downstream.
Broken promises are errors inside the same plan: they surface while it is computed, before anything is written.
"""

import json
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.conflicts import causes, message
from lakehouse.errors import BrokenPromiseError
from lakehouse.schema import comparable
from lakehouse.sql import quote, same
from lakehouse.touched import Touched, require, same_key

OPERATION = "__lakehouse_operation"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
_BROKEN = "lakehouse-broken-promise:"
ELSEWHERE = _BROKEN + '{"kind": "elsewhere"}'
_PROBLEM = "__lakehouse_problem"


def promised(asset: str, rows: DataFrame, key: tuple[str, ...], touched: Touched | None) -> DataFrame:
    """The result with a column that says, row by row, which promise it breaks (NULL: none).

    Args:
        asset: The asset, for messages.
        rows: The result.
        key: The table's key; empty where it has none.
        touched: The keys that the result is about; None, or everything, where it is about all of them.
    """
    problem = F.lit(None).cast("string")
    if touched is not None and touched.found is not None:
        require(rows, touched.columns, asset)
        renamed = {f"__promised_{index}": column for index, column in enumerate(touched.columns)}
        keys = touched.keys.select(*(F.col(column).alias(alias) for alias, column in renamed.items()))
        keys = keys.withColumn("__promised", F.lit(True))
        rows = rows.join(keys, same_key(renamed), "left").drop(*renamed)
        problem = F.when(F.col("__promised").isNull(), _problem("outside", touched.columns))
    if key:
        copies = F.count(F.lit(1)).over(Window.partitionBy(*(F.col(column) for column in key)))
        rows = rows.withColumn("__copies", copies)
        problem = F.when(F.col("__copies") > 1, _problem("twice", key)).otherwise(problem)
    return rows.withColumn(_PROBLEM, problem).drop("__promised", "__copies")


def kept(rows: DataFrame) -> DataFrame:
    """The rows of `promised`, as long as no promise is broken."""
    fine = F.when(F.col(_PROBLEM).isNull(), F.lit(True)).otherwise(F.raise_error(F.col(_PROBLEM)).cast("boolean"))
    return rows.where(fine).drop(_PROBLEM)


def difference(rows: DataFrame, existing: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """What turns `existing` into `rows`: the table's columns and `OPERATION`, one row per key that differs.

    Args:
        rows: What the table should hold, from `promised`.
        existing: What it holds, in the part that the write is about.
        key: The table's key, at least one column.
    """
    columns = [column for column in rows.columns if column != _PROBLEM]
    ours = {column: f"__ours_{index}" for index, column in enumerate(columns)}
    theirs = {column: f"__theirs_{index}" for index, column in enumerate(existing.columns)}
    left = rows.select(*(F.col(quote(c)).alias(a) for c, a in ours.items()), _PROBLEM, F.lit(True).alias("__ours"))
    right = existing.select(*(F.col(quote(c)).alias(a) for c, a in theirs.items()), F.lit(True).alias("__theirs"))
    by_name = {column.lower(): alias for column, alias in theirs.items()}
    joined = left.join(right, _all([_same(ours[_find(columns, k)], by_name[k.lower()]) for k in key]), "full_outer")
    mine, yours = comparable(left, ours.values()), comparable(right, theirs.values())
    differs = _any(
        [
            ~F.expr(same(mine[alias], yours[by_name[column.lower()]]))
            if column.lower() in by_name
            else F.col(alias).isNotNull()
            for column, alias in ours.items()
            if column.lower() not in {k.lower() for k in key}
        ]
    )
    operation = (
        F.when(F.col(_PROBLEM).isNotNull(), F.raise_error(F.col(_PROBLEM)).cast("string"))
        .when(F.col("__theirs").isNull(), INSERT)
        .when(F.col("__ours").isNull(), DELETE)
        .when(differs, UPDATE)
    )
    values = [
        F.coalesce(F.col(alias), F.col(by_name[column.lower()])).alias(column)
        if column.lower() in {k.lower() for k in key}
        else F.col(alias).alias(column)
        for column, alias in ours.items()
    ]
    return joined.select(*values, operation.alias(OPERATION)).where(F.col(OPERATION).isNotNull())


def bag_difference(rows: DataFrame, existing: DataFrame) -> DataFrame:
    """Rows counted with their repetitions: `__more` > 0 where the result has more of a row than the table."""
    order = existing.columns
    texts = comparable(existing, order)
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


def _problem(kind: str, columns: tuple[str, ...]) -> Column:
    key = F.to_json(
        F.struct(*(F.col(quote(c)).cast("string").alias(c) for c in columns)), {"ignoreNullFields": "false"}
    )
    return F.concat(F.lit(f'{_BROKEN}{{"kind": "{kind}", "key": '), key, F.lit("}"))


def _same(left: str, right: str) -> Column:
    return F.col(left).eqNullSafe(F.col(right))


def _find(columns: list[str], name: str) -> str:
    return next(column for column in columns if column.lower() == name.lower())


def _all(conditions: list[Column]) -> Column:
    return reduce(Column.__and__, conditions)


def _any(conditions: list[Column]) -> Column:
    return reduce(Column.__or__, conditions, F.lit(False))
