"""The write law as a difference: what must be inserted, updated and deleted so that the table is the result.

One plan compares the rows that the table should hold with the rows that it holds, in the part that the write is about.
Equal rows drop out, so they are neither rewritten nor seen downstream. Broken promises are errors inside the same plan:
they surface while it is computed, before anything is written.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.delta.text import quote, same
from lakehouse.difference.broken_promises import breach_sql
from lakehouse.read.touched import Touched, require
from lakehouse.spark.driver_rows import MORE, bag_difference
from lakehouse.spark.fitting import Breach, breach_text, with_known_schema, with_lacking
from lakehouse.spark.types import comparable

OPERATION = "__lakehouse_operation"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
AGAIN = "insert again"
"""The row of a key that the table held more than once; a `DELETE` of the key stands beside it."""
HELD = "__lakehouse_held"
"""What the table holds in some columns, if they are asked for: an array, because a key may be there more than once."""
_PROBLEM = "__lakehouse_problem"


def with_promises(asset: str, rows: DataFrame, touched: Touched | None) -> DataFrame:
    """The result with a column that says which rows lie outside the touched keys (NULL: none of that kind).

    Args:
        asset: The asset, for messages.
        rows: The result.
        touched: The keys that the result is about; None, or everything, if the result is about all of them.

    Raises:
        ReadError (COLUMN_MISSING): The result lacks a column by which its keys were touched, whether or not they are
            all.
    """
    if touched is not None:
        require(rows.columns, touched.columns, f"The result of '{asset}'")
    if touched is None or touched.is_everything:
        return _with_problem(rows, f"CAST(NULL AS STRING) AS {_PROBLEM}")
    outside = breach_sql(Breach.OUTSIDE, {column: quote(column) for column in touched.columns})
    predicate = touched.predicate(rows.schema)
    if predicate is not None and predicate.is_exact:
        return _with_problem(rows, f"CASE WHEN NOT coalesce({predicate.sql}, FALSE) THEN {outside} END AS {_PROBLEM}")
    renamed = {f"__promised_{index}": column for index, column in enumerate(touched.columns)}
    keys = touched.sent.selectExpr("TRUE AS __promised", *(_as(quote(c), alias) for alias, c in renamed.items()))
    beside = rows.join(keys, touched.same_key(rows, renamed), "left")
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

    Both sides are grouped by key in one pass, which finds a key that the result has twice as well; grouping holds
    two NULLs to be the same, as a key must.

    Args:
        rows: What the table should hold, from `with_promises`.
        existing: What it holds, in the part that the write is about; None if there is no table yet.
        key: The table's key, at least one column.
        one_task: Whether both sides are so small that one task is quicker than a shuffle.
        partition_columns: Columns whose values in the table are to stand beside each row, as structs in `HELD`.
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


def missing_from(rows: DataFrame, existing: DataFrame) -> DataFrame:
    """The rows that `existing` lacks. If `existing` holds rows that the result lacks, the plan raises an error."""
    difference_ = bag_difference(rows, existing)
    lacking = F.raise_error(F.lit(breach_text(Breach.GONE))).cast("boolean")
    more = difference_.where(F.when(F.col(MORE) > 0, F.lit(True)).otherwise(lacking))
    each = F.explode(F.sequence(F.lit(1), F.col(MORE))).alias("__n")
    return more.select(*map(quote, existing.columns), each).drop("__n")


def _as(value: str, name: str) -> str:
    return f"{value} AS {quote(name)}"


def _find(columns: list[str], name: str) -> str:
    return next(column for column in columns if column.lower() == name.lower())
