"""What is said of a plan in PySpark that may make a table differ from a recompute: by the plans that the client makes."""

from typing import Any
from warnings import catch_warnings

import pytest

pytest.importorskip("grpc")  # of PySpark, only Connect's client makes such plans

from pyspark.sql.connect import functions as F
from pyspark.sql.connect.plan import SQL, Aggregate, Filter, Join, Limit, LogicalPlan, Project, Read, WithColumns
from pyspark.sql.connect.window import Window

from lakehouse.views.on_spark.plan_lint import doubts_of_plan
from tests.support.for_each import for_each

col, lit, expr = F.col, F.lit, F.expr
SOURCE = Read("orders")


def project(*columns: Any, of: LogicalPlan = SOURCE) -> LogicalPlan:
    return Project(of, list(columns))


def groups(by: list[Any], *aggregates: Any) -> LogicalPlan:
    return Aggregate(SOURCE, "groupby", by, list(aggregates), None, None, None)


def computed(name: str, column: Any) -> LogicalPlan:
    return WithColumns(SOURCE, [name], [column])


def doubts(plan: LogicalPlan, *key: str, source: LogicalPlan = SOURCE) -> tuple[str, ...]:
    client: Any = None  # which only functions in Python need
    with catch_warnings(action="ignore"):  # of windows without a partition
        return doubts_of_plan(plan.plan(client), key, source.plan(client))


FIRST = F.row_number().over(Window.partitionBy("customer").orderBy("day"))
BY_DAY = F.sum("amount").over(Window.partitionBy("day"))
RIGHT: dict[str, tuple[LogicalPlan, tuple[str, ...]]] = {
    "columns": (project(col("id"), (col("amount") * 2).alias("twice")), ("id",)),
    "groups of the key": (groups([col("customer")], F.max("amount").alias("top")), ("customer",)),
    "a window by the key": (project(col("customer"), FIRST.alias("n")), ("customer",)),
    "a window by the key and more": (
        project(F.rank().over(Window.partitionBy("customer", "day").orderBy("id")).alias("n")),
        ("customer",),
    ),
    "a window by the key's former name": (
        project(col("customer").alias("id"), FIRST.alias("n")),
        ("id",),
    ),
    "a window by an expression": (project(F.sum("amount").over(Window.partitionBy(F.year("day"))).alias("s")), ("id",)),
    "a window in text": (
        project(expr("sum(amount) OVER (PARTITION BY o.customer, `day` ORDER BY id) AS s")),
        ("customer",),
    ),
    "no row": (Limit(SOURCE, 0), ("id",)),
    "a cast of the key": (computed("id", col("id").cast("string")), ("id",)),
    "a key under another name in text": (project(expr("o.customer AS id")), ("id",)),
    "a word like a function": (project(col("rand"), expr("now AS n")), ("id",)),
    "keys of a query": (project(BY_DAY.alias("s")), ()),
    "a window over another table": (Join(SOURCE, project(FIRST.alias("n"), of=Read("rates")), None, "cross"), ("id",)),
    "an aggregate of another table": (
        Join(SOURCE, Aggregate(Read("rates"), "groupby", [], [F.max("day")], None, None, None), None, "cross"),
        ("id",),
    ),
}
DOUBTFUL: dict[str, tuple[LogicalPlan, tuple[str, ...], str]] = {
    "a limit": (Limit(SOURCE, 3), ("id",), "A limit keeps rows by what rows of other keys are."),
    "a limit of keys of a query": (Limit(SOURCE, 3), (), "A limit keeps rows"),
    "a limit in a query": (SQL("SELECT * FROM orders ORDER BY day LIMIT 3"), ("id",), "A limit keeps rows"),
    "chance": (computed("r", F.rand()), ("id",), "rand() has another value in each run."),
    "the clock in text": (project(expr("current_date() AS today")), ("id",), "current_date() has another value"),
    "the clock without brackets": (Filter(SOURCE, expr("day < CURRENT_DATE")), ("id",), "current_date() has"),
    "a window by another column": (
        project(col("id"), FIRST.alias("n")),
        ("id",),
        "A window is partitioned by customer, so a change moves values of rows whose key (id) it does not touch.",
    ),
    "a window by a part of the key": (
        project(FIRST.alias("n")),
        ("customer", "day"),
        "A window is partitioned by customer, so",
    ),
    "a window over all rows": (
        project(F.rank().over(Window.orderBy("amount")).alias("n")),
        ("id",),
        "A window has no partition, so",
    ),
    "a window over all rows in text": (project(expr("rank() OVER (ORDER BY amount) AS n")), ("id",), "A window has no"),
    "a window by another column in text": (
        project(expr("rank() OVER (PARTITION BY day ORDER BY amount) AS n")),
        ("id",),
        "A window is partitioned by day, so",
    ),
    "an aggregate of all rows": (
        groups([], F.max("amount").alias("top")),
        ("id",),
        "max() of all rows moves with any row, also for keys (id) that the change does not touch.",
    ),
    "an aggregate of all rows in a select": (project(F.avg("amount").alias("mean")), ("id",), "avg() of all rows"),
    "a computed key": (
        computed("city", F.coalesce(col("city"), lit("unknown"))),
        ("city",),
        "city is computed (coalesce(...)), and the touched keys are values of the source's own city.",
    ),
    "a computed key in text": (
        Filter(project(expr("upper(city) AS city")), col("city").isNotNull()),
        ("city",),
        "city is computed (upper(city)), and",
    ),
    "a computed group": (
        groups([F.upper("city").alias("city")], F.count("id")),
        ("city",),
        "city is computed (upper(...))",
    ),
}


@for_each("name", RIGHT)
def test_nothing_is_said_of_what_is_right_or_cannot_be_seen(name: str) -> None:
    plan, key = RIGHT[name]
    assert doubts(plan, *key) == ()


@for_each("name", DOUBTFUL)
def test_what_may_differ_from_a_recompute_is_said(name: str) -> None:
    plan, key, sentence = DOUBTFUL[name]
    (said,) = doubts(plan, *key)
    assert said.startswith(sentence)


def test_a_key_that_the_frame_of_the_touched_keys_computes_alike_is_right() -> None:
    plan = computed("city", F.coalesce(col("city"), lit("unknown")))
    assert doubts(project(col("city"), of=plan), "city", source=plan) == ()
