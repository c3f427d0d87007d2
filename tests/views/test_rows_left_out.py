"""A value that fails for rows that the query leaves out, such as a cast of a text, is computed of none of them."""

import pytest

from lakehouse import Policy, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.views.plan import SourceRows
from lakehouse.views.planner import rows_of_any_keys, touched_plan
from lakehouse.views.query import names_in, read
from lakehouse.views.touch import choose_touch
from tests.support.lake import Lake
from tests.support.views import Kept

TABLES = {
    "facts": ("id int, what string, said string", "(1, 'size', '7'), (2, 'name', 'x'), (1, 'day', '2024-02-29')"),
    "sizes": ("size bigint, name string", "(7, 'S'), (8, 'M')"),
}
ACTS = (
    "INSERT INTO {facts} VALUES (2, 'size', '8'), (1, 'name', 'y')",
    "UPDATE {sizes} SET name = 'L' WHERE size = 8",
    "UPDATE {facts} SET what = 'name', said = 'z' WHERE said = '7'",
)
QUERIES = {
    "a group": "SELECT CAST(said AS INT) AS size, count(*) AS n FROM facts WHERE what = 'size' GROUP BY CAST(said AS INT)",
    "a column of a subquery": (
        "SELECT s.name, f.size FROM (SELECT CAST(said AS INT) AS size FROM facts WHERE what = 'size') f "
        "JOIN sizes s ON s.size = f.size"
    ),
    "the condition of a join, where Spark casts": (
        "SELECT f.id, s.name FROM sizes s JOIN facts f ON f.said = s.size WHERE f.what = 'size'"
    ),
    "ON of a row that may be missing": (
        "SELECT s.name, max(f.id) AS last FROM sizes s "
        "LEFT JOIN facts f ON f.what = 'size' AND CAST(f.said AS INT) = s.size GROUP BY s.name"
    ),
    "IN, where Spark casts": "SELECT name FROM sizes WHERE size IN (SELECT said FROM facts WHERE what = 'size')",
    "a key of two casts": (
        "SELECT CAST(a.said AS INT) AS size, CAST(b.said AS DATE) AS day, count(*) AS n FROM facts a "
        "JOIN facts b ON a.id = b.id AND b.what = 'day' WHERE a.what = 'size' GROUP BY 1, 2"
    ),
}


def test_no_restriction_computes_of_rows_that_the_query_leaves_out() -> None:
    schemas = {name: dict(column.split(" ") for column in columns.split(", ")) for name, (columns, _) in TABLES.items()}
    for name, sql in QUERIES.items():
        query = read(sql, schemas)
        plan = touched_plan(query, choose_touch(query, ()), names_in(sql))
        rows = rows_of_any_keys(query, plan)
        parts = [part for sql in (*(step.sql for step in (*plan.steps, *rows.steps)), rows.text) for part in sql]
        places = [part for part in parts if isinstance(part, SourceRows) and part.table == "facts"]
        sought = [pair[0] for place in places for each in place.any_of for one in each for pair in one.pairs]
        computed = [each for each in sought if "said" in each]
        assert computed, name
        assert all(each.startswith("CASE WHEN `what` = ") for each in computed), (name, computed)


@pytest.mark.slow
def test_the_tables_are_what_their_queries_say(lake: Lake) -> None:
    for table, (columns, rows) in TABLES.items():
        feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        lake.spark.sql(f"CREATE TABLE {lake.ref(table).identifier} ({columns}) USING delta {feed}")
        lake.sql(f"INSERT INTO {{{table}}} VALUES {rows}")
    views = [Kept(f"v{place}", sql) for place, sql in enumerate(QUERIES.values())]
    for act in ("", *ACTS):
        if act:
            lake.sql(act)
        for view in views:
            with in_force(Limits(whole_rows=0)):
                lake.materialize(view.asset, Table(policy=Policy(refresh="incremental")))
            for table in TABLES:
                lake.frame(table).createOrReplaceTempView(table)
            assert lake.rows(view.name) == sorted(map(tuple, lake.spark.sql(view.sql).collect()), key=repr), view.sql
    assert any("the rows of touched keys" in said for said in lake.said)
