"""What is reported of a PySpark plan that gives different rows in each run: by the plans that the client makes."""

from typing import Any

import pytest

pytest.importorskip("grpc")  # within PySpark, only Connect's client makes such plans

from pyspark.sql.connect import functions as F
from pyspark.sql.connect.plan import SQL, Filter, Limit, LogicalPlan, Project, Read, WithColumns
from pyspark.sql.connect.window import Window

from lakehouse.views.on_spark.plan_lint import doubts_of_plan
from tests.support.for_each import for_each

SOURCE = Read("orders")
FIRST = F.row_number().over(Window.partitionBy("customer").orderBy("day"))
SAID: dict[str, tuple[LogicalPlan, tuple[str, ...]]] = {
    "columns": (Project(SOURCE, [F.col("id"), (F.col("amount") * 2).alias("twice"), FIRST.alias("n")]), ()),
    "no row": (Limit(SOURCE, 0), ()),
    "a word like a function": (Project(SOURCE, [F.col("rand"), F.expr("now AS n")]), ()),
    "a column called limit": (SQL("SELECT o.limit, `limit` FROM orders o"), ()),
    "a limit": (Limit(SOURCE, 3), ("A limit keeps rows by what rows of other keys are.",)),
    "chance": (WithColumns(SOURCE, ["r"], [F.rand()]), ("rand() has another value in each run.",)),
    "the clock in text": (
        Project(SOURCE, [F.expr("current_date() AS today")]),
        ("current_date() has another value in each run.",),
    ),
    "the clock without brackets": (
        Filter(SOURCE, F.expr("day < CURRENT_DATE")),
        ("current_date() has another value in each run.",),
    ),
    "chance in a query": (SQL("SELECT uuid() AS u FROM orders"), ("uuid() has another value in each run.",)),
}


@for_each("name", SAID)
def test_what_gives_other_rows_in_each_run_is_said(name: str) -> None:
    plan, said = SAID[name]
    client: Any = None  # only Python functions need it
    assert doubts_of_plan(plan.plan(client)) == said
