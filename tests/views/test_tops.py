"""A LIMIT by columns of the result: its rows follow from the table's and from touched keys, while none leave it."""

from random import Random

import dagster as dg
import pytest

from lakehouse import Changes, Policy, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import WriteError
from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import FirstRows
from lakehouse.views.analysis import Analysis, ByKeys, TableFacts, Whole
from lakehouse.views.sql.tokens import tokens
from lakehouse.views.view_text import OutputColumn, ViewText
from lakehouse.writes.view import View
from tests.support.dagster_house import House
from tests.support.lake import Lake
from tests.support.views import TABLES, Kept, Shop, asset_of

SCHEMAS = {table: dict(column.split(" ") for column in columns.split(", ")) for table, columns in TABLES.items()}
KEYS = {"orders": ("id",), "customers": ("id",)}
TOPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "largest": ("SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 5", ("id",)),
    "smallest": ("SELECT id, amount FROM orders ORDER BY amount NULLS LAST, id DESC LIMIT 3", ("id",)),
    "one": ("SELECT id, status FROM orders WHERE amount > 10 ORDER BY (2) DESC NULLS FIRST, 1 LIMIT 1", ("id",)),
    "groups": (
        "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer ORDER BY sum(amount) DESC, customer LIMIT 4",
        ("customer",),
    ),
    "joined": (
        (
            "(SELECT c.city, o.id, count(*) AS n FROM orders o JOIN customers c ON o.customer = c.id "
            "GROUP BY c.city, o.id ORDER BY c.city, o.id LIMIT 6)"
        ),
        ("city", "id"),
    ),
    "united": (
        "SELECT id, customer FROM orders UNION SELECT id, id FROM customers ORDER BY customer, id DESC LIMIT 7;",
        ("id", "customer"),
    ),
    "all": ("SELECT status, customer FROM orders GROUP BY ALL ORDER BY ALL LIMIT 4", ("status", "customer")),
    "by_a_value": ("SELECT id, 50 - amount AS amount FROM orders ORDER BY amount % 7 DESC, id LIMIT 4", ("id",)),
    "ties": ("SELECT id, status, customer FROM orders ORDER BY customer % 2, customer DESC LIMIT 4", ("id",)),
    "ties_of_groups": ("SELECT city, count(*) AS n FROM customers GROUP BY city ORDER BY n DESC LIMIT 2", ("city",)),
    "comment": ("SELECT id, amount FROM orders ORDER BY amount DESC -- the largest first\nLIMIT 3", ("id",)),
    "of_its_table": ("SELECT * FROM orders o ORDER BY o.amount DESC, o.id LIMIT 3", ("id",)),
    "left_out": ("SELECT id, status FROM orders ORDER BY amount DESC, id LIMIT 5", ("id",)),
    "counts_left_out": (
        "SELECT status FROM orders GROUP BY status ORDER BY count(*) DESC NULLS LAST, status LIMIT 2",
        ("status",),
    ),
    "many_of_a_key": (
        (
            "SELECT customer, id, rank() OVER (PARTITION BY customer ORDER BY amount, id) AS r FROM orders "
            "ORDER BY amount % 9 DESC, id LIMIT 5"
        ),
        ("customer", "id"),
    ),
    "ties_left_out": ("SELECT id, status FROM orders ORDER BY customer -- of whom\n, amount % 3 LIMIT 4", ("id",)),
    "more_left_out_than_there_are": (
        "SELECT status AS s FROM orders o GROUP BY status ORDER BY max(o.amount), status LIMIT 40",
        ("s",),
    ),
    "joined_left_out": (
        (
            "WITH c AS (SELECT id, city FROM customers) SELECT o.id, o.amount IS DISTINCT FROM 3 AS d FROM orders o "
            "LEFT JOIN c ON o.customer = c.id ORDER BY c.city DESC NULLS FIRST, o.amount + o.id, 1 LIMIT 5"
        ),
        ("id",),
    ),
    "of_no_key": ("SELECT status, customer FROM orders ORDER BY customer % 3, status LIMIT 6", ()),
    "of_no_key_left_out": ("SELECT customer, status FROM orders ORDER BY amount % 5, id LIMIT 6", ()),
    "more_than_there_are": ("SELECT DISTINCT status FROM orders ORDER BY status LIMIT 40", ("status",)),
}
SETTLED_BY_HAND = {
    "ties": "SELECT id, status, customer FROM orders ORDER BY customer % 2, customer DESC, id, status LIMIT 4",
    "ties_of_groups": "SELECT city, count(*) AS n FROM customers GROUP BY city ORDER BY n DESC, city LIMIT 2",
    "comment": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 3",
    "ties_left_out": "SELECT id, status FROM orders ORDER BY customer, amount % 3, id, status LIMIT 4",
    "of_no_key": "SELECT status, customer FROM orders ORDER BY customer % 3, status, customer LIMIT 6",
}
FROM_ALL, NOT_IN_RESULT = "LIMIT takes its rows from all rows", "a value in the ORDER BY of its LIMIT is no column"
NOT_KEPT = {
    "SELECT id, amount FROM orders ORDER BY amount, id LIMIT 5 OFFSET 1": "takes its rows from all rows",
    "SELECT id, -amount AS amount FROM orders ORDER BY amount + customer, id LIMIT 5": NOT_IN_RESULT,
    "SELECT status FROM orders GROUP BY ALL ORDER BY count(*), status LIMIT 5": NOT_IN_RESULT,
    "(SELECT id FROM orders ORDER BY amount, id LIMIT 5)": FROM_ALL,
    "SELECT id FROM orders ORDER BY id LIMIT 2 + 3": FROM_ALL,
    "(SELECT id, amount FROM orders ORDER BY id LIMIT 9) ORDER BY id LIMIT 5": FROM_ALL,
    "SELECT id FROM orders ORDER BY id LIMIT 100000000": FROM_ALL,
    "SELECT id, amount AS a, customer AS a2 FROM orders ORDER BY (status, id) LIMIT 5 OFFSET 2": FROM_ALL,
    "SELECT id, ntile(3) OVER (ORDER BY id) AS n FROM orders ORDER BY id LIMIT 5": "a window without PARTITION BY",
}
OF_TOP = "computes its first rows, from those of the table and of touched keys"


def test_the_verdict_names_the_first_rows_and_the_text_below() -> None:
    for name, (sql, _) in TOPS.items():
        verdict = View(sql).check(SCHEMAS, KEYS).verdict
        assert isinstance(verdict, ByKeys) and isinstance(verdict.above, FirstRows), name
        words = [token.text for token in tokens(sql)]
        assert f"LIMIT {verdict.above.rows}" in sql, name
        assert View(sql.replace(f"LIMIT {verdict.above.rows}", "")).check(SCHEMAS, KEYS).verdict.touch == verdict.touch
        assert words.count("LIMIT") == 1, name
    for sql, why in NOT_KEPT.items():
        verdict = View(sql).check(SCHEMAS, KEYS).verdict
        assert isinstance(verdict, Whole) and why in verdict.why, sql


SETTLED = {
    "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 5": ("amount DESC, 1 LIMIT 5", "id"),
    "(SELECT id, amount, status FROM orders ORDER BY 2 LIMIT 3);": ("2, 1, 3 LIMIT 3);", "id, status"),
    "SELECT o.id, o.amount FROM orders o JOIN customers c ON o.customer = c.id ORDER BY c.id LIMIT 5 OFFSET 2": (
        "c.id, 1, 2 LIMIT 5 OFFSET 2",
        "id, amount",
    ),
    "SELECT id, rank() OVER w AS r FROM orders ORDER BY 2 WINDOW w AS (PARTITION BY customer ORDER BY amount) LIMIT 2": (
        "2, 1 WINDOW w AS (PARTITION BY customer ORDER BY amount) LIMIT 2",
        "id",
    ),
    "SELECT id, status FROM (SELECT * FROM orders ORDER BY id LIMIT 9) ORDER BY status LIMIT 2": None,
    "(SELECT id, amount FROM orders ORDER BY amount LIMIT 9) ORDER BY id": ("amount, 1 LIMIT 9) ORDER BY id", "id"),
    "SELECT o.id AS amount, status FROM orders o ORDER BY o.amount, status LIMIT 3": ("status, 1 LIMIT 3", "amount"),
    "SELECT id, amount FROM orders ORDER BY amount, id LIMIT 5": None,
    "SELECT o.id, o.amount FROM orders o JOIN customers c ON o.customer = c.id ORDER BY o.id LIMIT 5": None,
    "SELECT status, customer FROM orders GROUP BY ALL ORDER BY ALL LIMIT 4": None,
}


def test_rows_that_an_order_leaves_equal_are_taken_in_the_order_of_their_other_columns() -> None:
    for sql, settled in SETTLED.items():
        analysis = Analysis.of(ViewText(sql), SCHEMAS, TableFacts(tuple(SCHEMAS), keys=KEYS))
        end, names = settled or ("", "")
        assert " ".join(analysis.settled_text.split()).replace(" ,", ",").endswith(end) and (
            analysis.settled_text == sql
        ) is (settled is None), sql
        notes = [note for note in View(sql).check(SCHEMAS, KEYS).notes if "LIMIT" in note]
        assert all(note.endswith(f"other columns: {names}.") for note in notes) and bool(notes) is bool(settled), sql


def test_a_field_of_a_struct_is_no_column_of_its_name() -> None:
    schemas = {"t": {"id": "int", "v": "int", "st": "struct<id:int>"}}
    for sql in ("SELECT id, v, st FROM t ORDER BY st.id LIMIT 2", "SELECT * FROM t ORDER BY st.id DESC LIMIT 2"):
        verdict = View(sql).check(schemas, {"t": ("id",)}).verdict
        assert isinstance(verdict, Whole) and NOT_IN_RESULT in verdict.why, sql
    assert isinstance(View("SELECT id, st.id AS x FROM t ORDER BY st.id LIMIT 2").check(schemas).verdict, ByKeys)


def test_a_column_may_be_called_offset() -> None:
    schemas = {"k": {"id": "int", "offset": "bigint", "limit": "int"}}
    for order in ("offset DESC, limit", "offset, k.limit NULLS LAST", "limit, offset"):
        sql = f"SELECT id, offset, limit FROM k ORDER BY {order} LIMIT 1"
        analysis = Analysis.of(ViewText(sql), schemas, TableFacts(("k",)))
        assert analysis.settled_text == sql.replace(" LIMIT 1", "\n, 1 LIMIT 1")


def test_a_declared_key_promises_nothing_of_the_rows_before_the_limit() -> None:
    sql = "SELECT status, amount FROM orders ORDER BY amount LIMIT 5"
    analysis = Analysis.of(ViewText(sql), SCHEMAS, TableFacts(tuple(SCHEMAS), keys=KEYS, key=("amount",)))
    assert analysis.ties == (1,)


def test_the_first_rows_of_a_partition_are_those_of_the_result(lake: Lake, instance: dg.DagsterInstance) -> None:
    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["x"]), metadata=Table(key="id", partition_by="city"))
    def largest(src: Changes) -> View:
        return View("SELECT id, city, v FROM src ORDER BY v DESC LIMIT 2")

    lake.create("src", [(n, "x", n) for n in range(9)], "id INT, city STRING, v INT")
    house = House(lake, [dg.AssetSpec("src", metadata=Table(key="id")), largest], instance)
    house.run("largest", partition_key="x")
    lake.sql("UPDATE {src} SET v = 5 WHERE id = 3")
    house.run("largest", partition_key="x")
    assert sorted(lake.rows("largest")) == [(7, "x", 7), (8, "x", 8)]


def test_what_spark_cannot_order_settles_no_tie(lake: Lake) -> None:
    lake.create("orders", [(n, 1, n % 2, "paid", "") for n in range(9)], TABLES["orders"])
    kept = Kept("kept", "SELECT id, map('n', id) AS m FROM orders ORDER BY amount LIMIT 3", ("id",))
    with pytest.raises(ViewError, match="Spark has no order for m"):
        lake.materialize(kept.asset, kept.table)


def test_a_declared_type_that_may_change_the_order_needs_all_rows() -> None:
    sql, types = TOPS["largest"][0], {"int": True, None: True, "string": False}
    for declared, is_kept in types.items():
        text = ViewText(sql, columns=(OutputColumn("number"), OutputColumn("worth", declared)))
        assert isinstance(View(text).check(SCHEMAS, KEYS).verdict, ByKeys) is is_kept, declared


def test_what_a_head_refuses_and_casts_concerns_the_first_rows_alone(lake: Lake) -> None:
    lake.keys["orders"], lake.trust_key = ("id",), True
    lake.create("orders", [(n, 1, n, "paid", "") for n in range(9)], TABLES["orders"])
    columns = OutputColumn("id"), OutputColumn("amount"), OutputColumn("customer", "TINYINT")
    text = "SELECT id, amount, customer FROM orders ORDER BY amount DESC, id LIMIT 3"
    largest = asset_of("largest", ViewText(text, columns=columns, required=frozenset({"customer"})), ["orders"])
    lake.materialize(largest, Table(key="id"))
    lake.insert("orders", [(20, None, -1, "paid", ""), (21, 1_000, -2, "paid", ""), (22, 7, 30, "paid", "")])
    lake.materialize(largest, Table(key="id"))
    assert OF_TOP in lake.said[-1]
    assert sorted(lake.rows("largest")) == [(7, 7, 1), (8, 8, 1), (22, 30, 7)]
    assert dict(lake.frame("largest").dtypes)["customer"] == "tinyint"
    lake.insert("orders", [(30, None, 40, "paid", "")])
    with pytest.raises(WriteError, match="NULL in column customer"):
        lake.materialize(largest, Table(key="id"))


def follow(lake: Lake, seed: int, names: list[str], rounds: int) -> None:
    shop = Shop(lake, Random(seed))
    shop.open(customers=12, orders=30)
    views = [Kept(name, *TOPS[name]) for name in names]
    for step in range(rounds):
        if step:
            shop.edit()
        for view in views:
            with in_force(Limits(whole_rows=0)):
                lake.materialize(view.asset, Table(key=view.key or None, policy=Policy(refresh="incremental")))
            expected = shop.expected(SETTLED_BY_HAND.get(view.name, view.sql))
            assert lake.rows(view.name) == expected, (seed, step, view.name)


def test_tops_hold_the_first_rows_after_every_change(lake: Lake) -> None:
    follow(lake, 3, ["groups", "joined", "by_a_value", "ties", "ties_of_groups", "comment", "of_its_table"], 4)
    assert [line for line in lake.said if OF_TOP in line]


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(10, 14))
def test_tops_hold_the_first_rows_after_every_change_of_many_seeds(lake: Lake, seed: int) -> None:
    follow(lake, seed, [*TOPS], 8)
    assert [line for line in lake.told if "too many of its first rows leave" in line]


def test_a_row_that_leaves_lets_another_one_in(lake: Lake) -> None:
    lake.create("orders", [(n, 1, n, "paid", "") for n in range(9)], TABLES["orders"])
    view = Kept("largest", *TOPS["largest"])
    table = Table(key=view.key)
    lake.materialize(view.asset, table)
    for statement, held, kept in [
        ("UPDATE {orders} SET amount = 20 WHERE id = 3", [(3, 20), (8, 8), (7, 7), (6, 6), (5, 5)], True),
        ("UPDATE {orders} SET amount = 1 WHERE id = 3", [(8, 8), (7, 7), (6, 6), (5, 5), (4, 4)], False),
        ("DELETE FROM {orders} WHERE id = 0", [(8, 8), (7, 7), (6, 6), (5, 5), (4, 4)], True),
        ("DELETE FROM {orders} WHERE id > 2", [(2, 2), (1, 1)], False),
        ("UPDATE {orders} SET amount = 0 WHERE id = 2", [(1, 1), (2, 0)], True),
    ]:
        lake.sql(statement)
        lake.said.clear()
        lake.materialize(view.asset, table)
        assert sorted(lake.rows("largest")) == sorted(held), statement
        assert any(OF_TOP in line for line in lake.said) is kept, statement


def test_a_row_that_somebody_else_deleted_comes_back(lake: Lake) -> None:
    lake.create("orders", [(n, 1, n, "paid", "") for n in range(9)], TABLES["orders"])
    view = Kept("largest", *TOPS["largest"])
    lake.materialize(view.asset, view.table)
    lake.sql("DELETE FROM {largest} WHERE id = 8")
    lake.sql("UPDATE {orders} SET amount = 3 WHERE id = 2")
    lake.materialize(view.asset, view.table)
    assert sorted(lake.rows("largest")) == [(4, 4), (5, 5), (6, 6), (7, 7), (8, 8)]


def test_limits_that_take_no_row_away_or_every_row_need_no_order() -> None:
    by = View("SELECT id, amount FROM orders").check(SCHEMAS, KEYS).verdict.touch
    for sql in ("SELECT id, amount FROM orders LIMIT ALL", "SELECT * FROM (SELECT id, amount FROM orders LIMIT all)"):
        verdict = View(sql).check(SCHEMAS, KEYS).verdict
        assert isinstance(verdict, ByKeys) and (verdict.touch, verdict.above) == (by, None), sql
    assert not isinstance(View("SELECT id FROM orders LIMIT 0").check(SCHEMAS, KEYS).verdict, ByKeys)
