"""Queries that keys do not follow: each is accepted, computed whole if a table of it moved, and equal to its query."""

from collections.abc import Sequence
from random import Random

import pytest

from lakehouse import Policy, Table
from lakehouse.commit.outcome import Unchanged
from lakehouse.delta.limits import Limits, in_force
from lakehouse.difference.statements import MarkOnly
from lakehouse.errors.views import ViewError
from lakehouse.views.analysis import Analysis, TableFacts
from lakehouse.views.input_refusals import refuse_other_inputs
from lakehouse.views.view_text import ViewText
from lakehouse.writes.view import View
from tests.support.lake import Lake
from tests.support.ready_runs import committed
from tests.support.views import TABLES, Kept, Shop, asset_of

SCHEMAS = {table: dict(column.split(" ") for column in columns.split(", ")) for table, columns in TABLES.items()}
WHOLE: dict[str, tuple[str, tuple[str, ...]]] = {
    # name: the query, and the key of its table
    "top": ("SELECT id FROM orders ORDER BY amount DESC, id LIMIT 5 OFFSET 1", ("id",)),
    "top_of_groups": (
        "SELECT status, sum(amount) AS s FROM orders GROUP BY status ORDER BY s DESC, status LIMIT 2 OFFSET 1",
        ("status",),
    ),
    "top_within": (
        (
            "SELECT c.city, t.id FROM (SELECT id, customer FROM orders ORDER BY id, customer LIMIT 9) t "
            "JOIN customers c ON c.id = t.customer"
        ),
        (),
    ),
    "limited_row": (
        "SELECT a.m, b.n FROM (SELECT max(amount) AS m FROM orders) a CROSS JOIN (SELECT count(*) AS n FROM customers) b LIMIT 9",
        (),
    ),
    "ranked": ("SELECT id, rank() OVER (ORDER BY amount, id) AS r FROM orders", ("id",)),
    "share": ("SELECT id, amount / sum(amount) OVER () AS share FROM orders WHERE status = 'paid'", ("id",)),
    "numbered": ("SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM orders) WHERE n < 4", ("id",)),
    "cubed": (
        (
            "SELECT id, customer, amount, status, tags, count(*) AS n FROM orders "
            "GROUP BY CUBE (id, customer, amount, status, tags)"
        ),
        (),
    ),
    "hive": ("SELECT city, segment, count(*) AS n FROM customers GROUP BY city, segment WITH ROLLUP", ()),
    "by_range": (
        "SELECT r.id, count(o.id) AS n FROM range(4) r LEFT JOIN orders o ON o.id % 4 = r.id GROUP BY r.id",
        ("id",),
    ),
    "any_of": ("SELECT id FROM orders WHERE status LIKE ANY ('op%', 'ca%')", ("id",)),
    "not_equal": (
        "SELECT id, (SELECT max(p.amount) FROM orders p WHERE p.id < o.id) AS before FROM orders o",
        ("id",),
    ),
    "lateral": (
        (
            "SELECT c.id, t.id AS first FROM customers c, "
            "LATERAL (SELECT o.id FROM orders o WHERE o.customer = c.id ORDER BY o.id LIMIT 1) t"
        ),
        ("id",),
    ),
    "piped": ("FROM orders |> WHERE amount > 10 |> SELECT id, amount", ("id",)),
    "piped_columns": (
        "FROM orders |> EXTEND amount AS a, customer AS c |> SET a = c + 1, status = 'x' |> DROP amount, tags, customer",
        ("id",),
    ),
    "piped_top": ("FROM orders |> SELECT id, amount |> ORDER BY amount, id |> LIMIT 3 |> LIMIT 2", ("id",)),
    "piped_own_name": ("WITH orders AS (SELECT id FROM orders WHERE amount > 9) FROM orders |> SELECT id", ("id",)),
    "recursive": (
        (
            "WITH RECURSIVE steps(id, n) AS (SELECT id, 0 FROM orders WHERE amount > 9 UNION ALL "
            "SELECT s.id, n + 1 FROM steps s WHERE n < 2) SELECT id, n FROM steps"
        ),
        ("id", "n"),
    ),
    "cast_to_a_collation": (
        ("SELECT min(status) AS s, count(*) AS n FROM orders GROUP BY CAST(status AS STRING COLLATE UTF8_LCASE)"),
        ("s",),
    ),
    "windowed": (
        (
            "SELECT session_window(timestamp_seconds(o.amount * 600), '1 hour').start AS hour, count(*) AS n "
            "FROM orders o GROUP BY session_window(timestamp_seconds(o.amount * 600), '1 hour')"
        ),
        ("hour",),
    ),
    "own_function": ("SELECT id, twice(amount) AS amount FROM orders", ("id",)),
    "compared_twice": ("SELECT id FROM orders WHERE amount > 10 = (status = 'paid')", ("id",)),
    "unused": ("WITH t AS (SELECT 1 FROM cities) SELECT id, city FROM customers", ("id",)),
    "having_in": (
        "SELECT city, count(*) AS n FROM customers GROUP BY city HAVING city IN (SELECT city FROM cities)",
        ("city",),
    ),
    "listed": ("SELECT (city, segment) AS place, count(*) AS n FROM customers GROUP BY (city, segment)", ()),
    "by_an_unwritten_key": (
        "SELECT position(',' IN tags) AS size, count(*) AS n FROM orders GROUP BY position(',' IN tags)",
        ("size",),
    ),
    "by_marks": (
        (
            "SELECT customer IN (SELECT id FROM customers) AS known, count(*) AS n FROM orders "
            "GROUP BY customer IN (SELECT id FROM customers)"
        ),
        ("known",),
    ),
}
REFUSED = {
    "the clock": ("SELECT id FROM orders WHERE amount > unix_timestamp()", "VIEW_NOT_DETERMINISTIC"),
    "the clock without brackets": (
        "FROM orders |> WHERE current_date > '2020-01-01' |> SELECT id",
        "VIEW_NOT_DETERMINISTIC",
    ),
    "chance": ("SELECT id, rand() AS r FROM orders GROUP BY ROLLUP (id)", "VIEW_NOT_DETERMINISTIC"),
    "chance by a quoted name": ("SELECT id, `rand`() AS r FROM orders", "VIEW_NOT_DETERMINISTIC"),
    "a sample": ("SELECT id FROM orders TABLESAMPLE (10 PERCENT)", "VIEW_NOT_DETERMINISTIC"),
    "no order": ("SELECT id FROM orders LIMIT 3", "VIEW_NOT_DETERMINISTIC"),
    "no order within": ("SELECT id FROM (SELECT id FROM orders LIMIT 3) GROUP BY ALL", "VIEW_NOT_DETERMINISTIC"),
    "no order of two rows": (
        "SELECT * FROM (SELECT max(id) AS a FROM orders) FULL JOIN (SELECT min(id) AS b FROM orders) ON a = b LIMIT 1",
        "VIEW_NOT_DETERMINISTIC",
    ),
    "no order of a list": ("SELECT explode(sequence(1, max(id))) AS n FROM orders LIMIT 1", "VIEW_NOT_DETERMINISTIC"),
    "no order in pipes": ("FROM orders |> SELECT id |> LIMIT 3", "VIEW_NOT_DETERMINISTIC"),
    "an order that a pipe loses": (
        "FROM orders |> ORDER BY id |> AGGREGATE count(*) AS n GROUP BY status |> LIMIT 1",
        "VIEW_NOT_DETERMINISTIC",
    ),
    "no order in brackets of pipes": (
        "FROM orders |> WHERE id IN (SELECT id FROM orders LIMIT :few) |> ORDER BY id |> LIMIT 3 |> SELECT id",
        "VIEW_NOT_DETERMINISTIC",
    ),
    "a parameter without a value": ("FROM orders |> WHERE id > :least |> SELECT id", "VIEW_PARAMETER"),
    "another version": ("FROM orders VERSION AS OF 3 |> SELECT id", "VIEW_UNKNOWN_TABLE"),
    "a table that is no input": ("FROM nothing |> SELECT id", "VIEW_UNKNOWN_TABLE"),
    "a name that only a run knows": ("SELECT id FROM identifier('orders')", "VIEW_UNKNOWN_TABLE"),
    "two queries": ("SELECT id FROM orders; SELECT 1", "VIEW_STATEMENT"),
    "no query": ("DELETE FROM orders", "VIEW_STATEMENT"),
    "a bracket": ("SELECT id FROM orders WHERE (id > 1", "VIEW_SYNTAX"),
    "a comma": ("SELECT id, FROM orders", "VIEW_SYNTAX"),
}


def test_each_is_computed_whole_and_says_where() -> None:
    for name, (sql, key) in WHOLE.items():
        checked = View(sql).check(SCHEMAS, policy=Policy(refresh="full"))
        assert checked.why_whole, name
        with pytest.raises(ViewError) as refused:
            View(sql).check(SCHEMAS, policy=Policy(refresh="strict"))
        assert refused.value.code == "VIEW_NOT_INCREMENTAL", name
        assert not key or not checked.key or set(checked.key) <= set(key), name


def judge(text: ViewText) -> None:
    """What is reported of a text at load, and then over the columns of its tables."""
    refuse_other_inputs(text, ["orders"], "kept")
    assert Analysis.of(text, SCHEMAS, TableFacts(("orders",), key=())).verdict


def test_what_may_be_another_result_in_each_run_is_refused() -> None:
    for name, (sql, code) in REFUSED.items():
        with pytest.raises(ViewError) as refused:
            judge(ViewText(sql))
        assert refused.value.code == code, name


def follow(lake: Lake, names: Sequence[str], rounds: int) -> None:
    shop = Shop(lake, Random(7))
    shop.open(customers=12, orders=30)
    lake.spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN 2 * x")
    views = [Kept(name, *WHOLE[name]) for name in names]
    for step in range(rounds):
        if step:
            shop.edit()
        for view in views:
            with in_force(Limits(whole_rows=0)):
                lake.materialize(view.asset, Table(key=view.key, policy=Policy(refresh="incremental")))
            assert lake.rows(view.name) == shop.expected(view.sql), (step, view.name)
    for view in views:
        assert isinstance(lake.materialize(view.asset, view.table), Unchanged), view.name


def test_a_few_are_what_their_queries_say(lake: Lake) -> None:
    follow(lake, ["top", "share", "hive", "piped", "own_function"], 2)
    assert any(
        line.startswith("top will be computed whole by each run that changes reach: LIMIT takes its rows")
        for line in lake.told
    )


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_all_are_what_their_queries_say(lake: Lake) -> None:
    follow(lake, list(WHOLE), 4)


def test_a_change_that_the_query_does_not_read_moves_no_top(lake: Lake) -> None:
    lake.create("orders", [(n, 1, n, "paid", "") for n in range(9)], TABLES["orders"])
    view = Kept("top", *WHOLE["top"])
    lake.materialize(view.asset, view.table)
    lake.sql("UPDATE {orders} SET status = 'open' WHERE id = 8")
    assert committed(lake.materialize(view.asset, view.table)).statement == MarkOnly()
    assert [said for said in lake.said if "computes all rows" in said] == [
        "top computes all rows, because there is no table yet."
    ]


def test_what_spark_cannot_read_either_is_refused_at_its_place(lake: Lake) -> None:
    lake.create("orders", [(1, 1, 1, "paid", "")], TABLES["orders"])
    with pytest.raises(ViewError, match=r"Spark cannot read the text: .*line 2, column") as refused:
        lake.materialize(asset_of("kept", "SELECT id\nFROM orders WHERE id IS", ["orders"]), Table())
    assert refused.value.code == "VIEW_SYNTAX"


def test_the_first_run_says_which_order_the_query_leaves_open(lake: Lake) -> None:
    lake.create("orders", [(n, 1, n, "paid", "") for n in range(3)], TABLES["orders"])
    view = Kept("seen", "SELECT customer, first(amount) AS a FROM orders GROUP BY customer", ("customer",))
    lake.materialize(view.asset, view.table)
    assert any(line.startswith("seen: first takes rows that are equal in customer") for line in lake.told)
