"""One row over all rows: it follows from its last values and from the rows of touched keys before and after changes."""

from random import Random

import pytest

from lakehouse import Policy, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.views.analysis import ByKeys, Whole
from lakehouse.views.steps.one_row import OneRow
from lakehouse.writes.view import View
from tests.support.lake import Lake
from tests.support.views import TABLES, Kept, Shop

SCHEMAS = {table: dict(column.split(" ") for column in columns.split(", ")) for table, columns in TABLES.items()}
KEYS = {"orders": ("id",), "customers": ("id",)}
ONE_ROWS = {
    "plain": "SELECT count(*) AS n, sum(amount) AS s, min(amount) AS least, max(amount) AS most FROM orders",
    "few": """SELECT count(tags) AS n, coalesce(sum(amount - 25), 0) AS s, sum(CASE WHEN amount > 45 THEN amount END) AS high,
              min(status) AS least, max(tags) AS most FROM orders WHERE amount > 44""",
    "joined": """SELECT count(o.id) AS n, sum(o.amount) AS s, max(c.city) AS last FROM customers c
                 LEFT JOIN orders o ON o.customer = c.id WHERE c.segment = 'a'""",
    "used": "SELECT sum(amount) AS s, count(*) AS n FROM orders JOIN (SELECT id AS customer FROM customers) USING (customer)",
    "of_groups": """SELECT count(*) AS groups, max(s) AS most, min(n) AS least, sum(n) AS n
                    FROM (SELECT customer, sum(amount) AS s, count(*) AS n FROM orders GROUP BY customer HAVING count(*) > 1)""",
    "of_distinct": "SELECT count(*) AS n FROM (SELECT city FROM customers EXCEPT SELECT city FROM cities);",
    "with": """WITH paid AS (SELECT * FROM orders WHERE status = 'paid' ORDER BY id LIMIT 3)
               SELECT count(1) AS n FROM customers ORDER BY count(1) LIMIT 10""",
    "anti": """SELECT /* lost -- ones */ sum(o.amount -- a comment
               ) AS s FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer) ORDER BY 1 LIMIT 1""",
    "tagged": "SELECT count(tag) AS n FROM orders LATERAL VIEW explode(split(tags, ',')) t AS tag",
    "parts": """SELECT count(*) FILTER (WHERE amount > 40) AS n, coalesce(sum(amount) FILTER (where status = 'paid' -- all
                ), 0) AS s, max(id) FILTER (WHERE tags IS NULL) AS last, count(tags) FILTER (WHERE amount < 9) AS m FROM orders""",
    "values": """SELECT count(DISTINCT customer) AS customers, count(*) AS n, count(amount) AS known, sum(amount) FILTER (WHERE status <> 'open') AS s,
                 max(status) AS last FROM orders WHERE amount > 20""",
    "values_joined": """SELECT count(DISTINCT upper(c.city)) AS n, coalesce(sum(o.amount), 0) AS s, min(o.amount) AS m
                        FROM customers c LEFT JOIN orders o ON o.customer = c.id ORDER BY 1 LIMIT 3""",
    "twice": "SELECT count(*) AS n, sum(a.amount * b.amount) AS s FROM orders a JOIN orders b ON a.customer = b.customer",
}
NOT_KEPT = {
    "an average": "SELECT avg(amount) AS a FROM orders",
    "values of two columns": "SELECT count(DISTINCT customer) AS n, count(DISTINCT status) AS m FROM orders",
    "values of two columns at once": "SELECT count(DISTINCT customer, status) AS n FROM orders",
    "a sum of values": "SELECT sum(DISTINCT amount) AS s FROM orders",
    "values of two tables": "SELECT count(DISTINCT concat(c.city, o.status)) AS n FROM customers c JOIN orders o ON o.customer = c.id",
    "no column": "SELECT count(DISTINCT 1) AS n FROM orders",
    "a part of the values": "SELECT count(DISTINCT customer) FILTER (WHERE amount > 3) AS n FROM orders",
    "a value of two totals": "SELECT sum(amount) / count(*) AS a FROM orders",
    "an inexact sum": "SELECT sum(CAST(amount AS double)) AS s FROM orders",
    "a sum of inexact sums": "SELECT count(*) AS n FROM (SELECT customer, sum(amount / 3) AS s FROM orders GROUP BY 1) WHERE s > 1",
    "ties": "SELECT sum(amount) AS s FROM (SELECT amount, row_number() OVER (PARTITION BY customer ORDER BY status) AS n FROM orders) WHERE n = 1",
    "a condition on the row": "SELECT count(*) AS n FROM orders HAVING count(*) > 3",
    "all of a table": "SELECT count(*) AS n FROM orders o JOIN customers c ON o.amount < c.id",
    "two of them": "SELECT count(*) AS n FROM orders UNION ALL SELECT count(*) FROM customers",
    "a hint": "SELECT /*+ BROADCAST(orders) */ count(*) AS n FROM orders",
}
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
OF_ONE_ROW = "computes its one row, from what it was"


def test_the_verdict_says_which_rows_follow_from_what_they_were() -> None:
    for name, sql in ONE_ROWS.items():
        verdict = View(sql).check(SCHEMAS, KEYS).verdict
        is_kept = isinstance(verdict, ByKeys) and isinstance(verdict.above, OneRow)
        assert is_kept is (name != "with"), (name, verdict)
    few = View(ONE_ROWS["few"]).check(SCHEMAS, KEYS).verdict
    assert isinstance(few, ByKeys) and isinstance(few.above, OneRow)
    assert [total.is_null for total in few.above.totals] == [False, False, True, True, True]
    for name, sql in NOT_KEPT.items():
        assert isinstance(View(sql).check(SCHEMAS, KEYS).verdict, Whole), name


def test_no_row_is_guessed(lake: Lake) -> None:
    lake.create("orders", [(n, 1, n, "paid", "") for n in range(9)], TABLES["orders"])
    view = Kept("plain", ONE_ROWS["plain"])
    lake.materialize(view.asset)
    for statement, row, is_kept in [
        ("UPDATE {orders} SET amount = 20 WHERE id = 3", (9, 53, 0, 20), True),
        ("UPDATE {orders} SET amount = 5 WHERE id = 3", (9, 38, 0, 8), False),  # the largest value is gone
        ("DELETE FROM {orders} WHERE id = 4", (8, 34, 0, 8), True),
        ("UPDATE {orders} SET amount = NULL", (8, None, None, None), False),  # it is not known whether a value is left
        ("UPDATE {orders} SET amount = -7 WHERE id = 5", (8, -7, -7, -7), True),
        ("INSERT INTO {plain} VALUES (1, 1L, 1, 1)", (8, -7, -7, -7), False),  # another program wrote
        ("DELETE FROM {orders} WHERE true", (0, None, None, None), False),
    ]:
        lake.sql(statement)
        lake.sql("UPDATE {orders} SET tags = 'seen' WHERE id = 8")
        lake.said.clear()
        lake.materialize(view.asset)
        assert lake.rows("plain") == [row], statement
        assert any(OF_ONE_ROW in line for line in lake.said) is is_kept, (statement, lake.said)


def test_values_of_which_many_are_touched_are_counted_anew(lake: Lake) -> None:
    lake.create("orders", [(n, 1, n, f"status {n % 3}", "") for n in range(9)], TABLES["orders"])
    view = Kept("kinds", "SELECT count(DISTINCT status) AS kinds, count(*) AS n FROM orders")
    lake.materialize(view.asset)
    for statement, row, is_kept in [
        ("UPDATE {orders} SET status = 'status 1' WHERE id = 0", (3, 9), False),  # two of three values are touched
        ("INSERT INTO {orders} VALUES (9, 1, 0, 'status 1', '')", (3, 10), True),
        ("INSERT INTO {orders} VALUES (10, 1, 0, 'status 3', '')", (4, 11), True),
        ("DELETE FROM {orders} WHERE status = 'status 3'", (3, 10), True),
        ("UPDATE {orders} SET status = NULL WHERE status = 'status 2'", (2, 10), False),
    ]:
        lake.sql(statement)
        lake.said.clear()
        with in_force(Limits(whole_rows=0)):
            lake.materialize(view.asset)
        assert lake.rows("kinds") == [row], statement
        assert any(OF_ONE_ROW in line for line in lake.said) is is_kept, (statement, lake.said)


def test_a_source_that_was_cleaned_up_needs_all_rows(lake: Lake) -> None:
    lake.create("orders", [(n, 1, n, "paid", "") for n in range(5)], TABLES["orders"])
    lake.insert("orders", [(n, 1, n, "paid", "") for n in range(5, 9)])
    view, table = Kept("plain", ONE_ROWS["plain"]), Table(policy=Policy(refresh="incremental"))
    lake.materialize(view.asset, table)
    lake.sql("OPTIMIZE {orders}")
    lake.spark.conf.set(CHECK, "false")
    try:
        lake.sql("VACUUM {orders} RETAIN 0 HOURS")
    finally:
        lake.spark.conf.unset(CHECK)
    lake.insert("orders", [(9, 1, 3, "paid", "")])
    lake.materialize(view.asset, table)
    assert lake.rows("plain") == [(10, 39, 0, 8)]
    assert [line for line in lake.told if "a source cannot be read as it was" in line]


def follow(lake: Lake, seed: int, names: list[str], rounds: int) -> None:
    shop = Shop(lake, Random(seed))
    shop.open(customers=12, orders=30)
    views = [Kept(name, ONE_ROWS[name]) for name in names]
    for step in range(rounds):
        if step:
            shop.edit()
        if step == rounds // 2:
            lake.sql("DELETE FROM {orders} WHERE amount > 20")
        for view in views:
            with in_force(Limits(whole_rows=0)):
                lake.materialize(view.asset, Table(policy=Policy(refresh="incremental")))
            assert lake.rows(view.name) == shop.expected(view.sql), (seed, step, view.name)


def test_one_row_is_right_after_every_change(lake: Lake) -> None:
    follow(lake, 3, ["plain", "few", "joined", "anti", "parts", "values", "values_joined"], 5)
    assert len([line for line in lake.said if OF_ONE_ROW in line]) > 8


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(20, 26))
def test_one_row_is_right_after_every_change_of_many_seeds(lake: Lake, seed: int) -> None:
    follow(lake, seed, [*ONE_ROWS], 8)
    assert [line for line in lake.said if OF_ONE_ROW in line]
