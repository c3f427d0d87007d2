"""A text means what it means to Spark, where another SQL parser would take another column, value or row."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from lakehouse import Policy, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.views.on_spark.bound_text import are_as_read
from lakehouse.views.query import read
from lakehouse.views.view_text import NotFollowedError
from tests.support.lake import Lake
from tests.support.slow import slow
from tests.support.views import Kept

pytestmark = pytest.mark.anywhere
BY_KEYS = Policy(refresh="incremental")


@dataclass(frozen=True)
class Case:
    """A query, its tables with some rows as SQL, and statements; after each the table is what the query gives.

    Args:
        sql: The query.
        key: The key of its table.
        tables: The columns of each table, and its rows.
        acts: The statements.
        by_keys: Whether at least one step goes by keys.
    """

    sql: str
    key: str | tuple[str, ...]
    tables: Mapping[str, tuple[str, str]]
    acts: tuple[str, ...]
    by_keys: bool = True
    limits: Limits = field(default_factory=lambda: Limits(whole_rows=0))


ORDERS = {
    "o": ("order_id bigint, customer_id bigint, amount int", "(1, 10, 5), (2, 20, 7), (3, 1, 8)"),
    "c": ("customer_id bigint, city string", "(10, 'A'), (20, 'B'), (1, 'C')"),
}
OF_ORDERS = (
    "UPDATE {o} SET amount = 6 WHERE order_id = 1",
    "INSERT INTO {o} VALUES (10, 3, 1)",
    "DELETE FROM {c} WHERE city = 'B'",
)
MARKS = {"t": ("id int, marks array<int>, mark int", "(1, array(5, 7), 6), (2, array(1, 2), 3), (3, NULL, 1)")}
ZEROS = {"t": ("id int, d double, x int", "(1, 0.0D, 1), (2, -0.0D, 2), (3, 5.0D, 3)")}
OF_ZEROS = (
    "INSERT INTO {t} VALUES (5, -0.0D, 11), (6, 5.0D, 12)",
    "INSERT INTO {t} VALUES (4, 0.0D, 12)",
    "UPDATE {t} SET x = 19 WHERE id = 1",
    "DELETE FROM {t} WHERE id IN (1, 4)",
)
PASSED = "size(filter(marks, mark -> mark >= least))"
OF_MARKS = (
    "UPDATE {t} SET mark = 8 WHERE id = 1",
    "INSERT INTO {t} VALUES (4, array(9), 9)",
    "UPDATE {t} SET marks = array(3, 4) WHERE id = 2",
    "DELETE FROM {t} WHERE id = 4",
)
STATES = {
    "t": ("id int, status string, flag boolean", "(1, 'a', true), (2, 'c', true), (3, 'c', false), (4, 'b', NULL)")
}
OF_STATES = (
    "UPDATE {t} SET flag = false WHERE id = 1",
    "UPDATE {t} SET status = 'b' WHERE id = 2",
    "UPDATE {t} SET status = 'a' WHERE id = 3",
    "DELETE FROM {t} WHERE id = 2",
)
SHOPS = {
    "web": ("cust_no string, amt int", "('0042', 10), ('7', 1)"),
    "shop": ("cust_no bigint, amt int", "(42, 5)"),
    "c": ("cust_no string, city string", "('42', 'A'), ('7', 'B')"),
}
OF_SHOPS = (
    "UPDATE {c} SET city = 'C' WHERE cust_no = '42'",
    "INSERT INTO {web} VALUES ('0042', 1)",
    "DELETE FROM {shop}",
)
FLAGS = {
    "o": (
        "id int, flags int, at timestamp, cid int",
        "(1, 1, timestamp'2024-01-02', 1), (2, 8, timestamp'2024-01-01 22:30:00', 1)",
    ),
    "c": ("id int, start timestamp, seg string", "(1, timestamp'2024-01-03', 'x')"),
}
CASES = {
    "a star with a qualifier beside USING": Case(
        "SELECT o.*, c.city FROM o JOIN c USING (customer_id)", "order_id", ORDERS, OF_ORDERS
    ),
    "the star of the other side": Case(
        "SELECT c.*, o.order_id, o.amount FROM o LEFT JOIN c USING (customer_id)", "order_id", ORDERS, OF_ORDERS
    ),
    "a star beside RIGHT JOIN": Case(
        "SELECT o.order_id, c.* FROM c RIGHT JOIN o USING (customer_id)", "order_id", ORDERS, OF_ORDERS
    ),
    "a star beside FULL JOIN": Case(
        "SELECT o.*, c.city FROM o FULL JOIN c USING (customer_id)", ("order_id", "city"), ORDERS, OF_ORDERS
    ),
    "a star beside ANTI JOIN": Case(
        "SELECT * FROM o LEFT ANTI JOIN c USING (customer_id)", "order_id", ORDERS, OF_ORDERS
    ),
    "a star beside SEMI JOIN": Case(
        "SELECT * FROM o LEFT SEMI JOIN c USING (customer_id)", "order_id", ORDERS, OF_ORDERS
    ),
    "a star beside NATURAL JOIN": Case("SELECT o.* FROM o NATURAL JOIN c", "order_id", ORDERS, OF_ORDERS),
    "stars beside two joins with USING": Case(
        "SELECT o.*, c.*, d.name FROM o JOIN c USING (customer_id) JOIN d USING (customer_id)".replace("c.*", "c.city"),
        "order_id",
        {**ORDERS, "d": ("name string, customer_id bigint", "('x', 10), ('y', 20)")},
        (*OF_ORDERS, "UPDATE {d} SET name = 'z' WHERE customer_id = 10"),
    ),
    "EXCEPT with a qualifier": Case(
        "SELECT * EXCEPT (c.customer_id, c.city) FROM o JOIN c ON o.customer_id = c.customer_id",
        "order_id",
        ORDERS,
        (*OF_ORDERS, "UPDATE {o} SET customer_id = 10 WHERE order_id = 3"),
    ),
    "a key without a name": Case(
        "SELECT marks[0], count(*) AS n, sum(mark) AS s FROM t GROUP BY marks[0]", (), MARKS, OF_MARKS
    ),
    "branches of two types": Case(
        """SELECT c.city, sum(a.amt) AS s FROM (SELECT cust_no, amt FROM web UNION ALL SELECT cust_no, amt FROM shop) a
           JOIN c ON a.cust_no = c.cust_no GROUP BY c.city""",
        "city",
        SHOPS,
        OF_SHOPS,
    ),
    "the key is of branches of two types": Case(
        """SELECT cust_no, count(*) AS n FROM (SELECT cust_no FROM web UNION ALL SELECT cust_no FROM shop)
           GROUP BY cust_no""",
        "cust_no",
        SHOPS,
        OF_SHOPS,
    ),
    "INTERSECT of two types": Case(
        "SELECT cust_no FROM web INTERSECT SELECT cust_no FROM shop", "cust_no", SHOPS, OF_SHOPS
    ),
    "coalesce of two types": Case(
        """SELECT d.name, count(*) AS n FROM (SELECT coalesce(c.cust_no, s.cust_no) AS k FROM c
           LEFT JOIN shop s ON c.cust_no = s.cust_no) x JOIN d ON x.k = d.k GROUP BY d.name""",
        "name",
        {**SHOPS, "d": ("k string, name string", "('42', 'x'), ('7', 'y')")},
        (*OF_SHOPS, "UPDATE {d} SET name = 'z' WHERE k = '42'", "INSERT INTO {c} VALUES ('042', 'D')"),
    ),
    "a shift binds tighter than a bit operator": Case(
        "SELECT id, flags FROM o WHERE (flags & 1 << 3) <> 0",
        "id",
        FLAGS,
        ("INSERT INTO {o} VALUES (3, 8, NULL, 1), (4, 1, NULL, 1)", "UPDATE {o} SET flags = 9 WHERE id = 1"),
    ),
    "an interval of two units": Case(
        "SELECT o.id, c.seg FROM o JOIN c ON o.cid = c.id AND o.at < c.start - INTERVAL 1 DAY 1 HOUR",
        "id",
        FLAGS,
        ("UPDATE {c} SET seg = 'y'", "UPDATE {o} SET at = at - INTERVAL 1 HOUR"),
    ),
    "CHAR beside an array": Case(
        "SELECT id, tags FROM o WHERE st = 'new'",
        "id",
        {"o": ("id int, st CHAR(5), tags ARRAY<STRING>", "(1, 'new', array('a')), (2, 'old', array('b'))")},
        ("UPDATE {o} SET tags = array('c') WHERE id = 1", "INSERT INTO {o} VALUES (3, 'new', NULL)"),
    ),
    "CHARs of two lengths": Case(
        "SELECT o.id, c.name FROM o JOIN c ON o.k = c.k",
        "id",
        {"o": ("id int, k CHAR(3)", "(1, 'ab'), (2, 'x')"), "c": ("k CHAR(5), name string", "('ab', 'p'), ('x', 'q')")},
        (
            "UPDATE {c} SET name = 'r' WHERE k = 'ab'",
            "INSERT INTO {o} VALUES (3, 'ab')",
            "DELETE FROM {c} WHERE k = 'x'",
        ),
    ),
    "the parameter of a lambda is called as a column": Case(
        f"SELECT {PASSED} AS passed, max(id) AS newest FROM (SELECT id, mark AS least, marks FROM t) s GROUP BY 1",
        "passed",
        MARKS,
        OF_MARKS,
    ),
    "sums by a group with a lambda": Case(
        f"SELECT {PASSED} AS passed, count(*) AS n FROM (SELECT id, mark AS least, marks FROM t) s GROUP BY 1",
        "passed",
        MARKS,
        OF_MARKS,
    ),
    "zeros of two signs are equal and have two texts": Case(
        "SELECT CAST(o.x AS STRING) AS k, max(c.city) AS city FROM o JOIN c ON o.x = c.x GROUP BY 1",
        "k",
        {
            "o": ("id int, x double", "(1, 0.0D), (2, 1.5D)"),
            "c": ("x double, city string", "(-0.0D, 'A'), (1.5D, 'B')"),
        },
        ("UPDATE {c} SET city = 'Z' WHERE x = 0", "UPDATE {o} SET id = 3 WHERE id = 1", "DELETE FROM {c} WHERE x = 0"),
    ),
    "a group of zeros of two signs, by the text of one": Case(
        "SELECT CAST(d AS STRING) AS k, count(*) AS n, max(x) AS m FROM t GROUP BY d",
        "k",
        ZEROS,
        OF_ZEROS,
        by_keys=False,
    ),
    "a group of zeros, one of whose texts HAVING looks for": Case(
        "SELECT d, count(*) AS n FROM t GROUP BY d HAVING CAST(d AS STRING) <> '-0.0'", "d", ZEROS, OF_ZEROS
    ),
    "a partition of zeros of two signs, by the text of one": Case(
        "SELECT CAST(d AS STRING) AS k, max(x) OVER (PARTITION BY d) AS m FROM t",
        "k",
        ZEROS,
        ("UPDATE {t} SET x = 9 WHERE id = 1", "DELETE FROM {t} WHERE id = 1"),
        by_keys=False,
    ),
    "the text of a zero that EXCEPT takes away by the other": Case(
        "SELECT CAST(d AS STRING) AS k FROM (SELECT d FROM t EXCEPT SELECT d FROM b)",
        "k",
        {**ZEROS, "b": ("d double", "(7.0D)")},
        ("INSERT INTO {b} VALUES (-0.0D)", "DELETE FROM {b} WHERE d = 0"),
        by_keys=False,
    ),
    "zeros of two signs, joined by their texts": Case(
        "SELECT b.s AS k, count(*) AS n, max(t.x) AS m FROM t JOIN b ON CAST(t.d AS STRING) = b.s GROUP BY b.s",
        "k",
        {**ZEROS, "b": ("s string", "('0.0'), ('-0.0'), ('5.0')")},
        OF_ZEROS,
    ),
    "zeros of two signs in a full join, grouped by their texts": Case(
        """SELECT CAST(t.d AS STRING) AS k, c.id AS cid, count(*) AS n, max(t.x) AS m
           FROM t FULL JOIN c ON t.x = c.id GROUP BY 1, 2""",
        ("k", "cid"),
        {**ZEROS, "c": ("id int", "(1), (2)")},
        ("INSERT INTO {t} VALUES (5, -0.0D, 2), (6, 5.0D, 3)", *OF_ZEROS),
    ),
    "an alias in SELECT is IN": Case(
        "SELECT id FROM (SELECT id, status IN ('a', 'b') AS open, flag = open AS agrees FROM t) WHERE agrees",
        "id",
        STATES,
        OF_STATES,
    ),
    "two subqueries with one text, in the branches of OR": Case(
        """SELECT id, status FROM t WHERE (flag AND EXISTS (SELECT 1 FROM c WHERE c.status = t.status))
           OR (id > 2 AND EXISTS (SELECT 1 FROM c WHERE c.status = t.status))""",
        "id",
        {**STATES, "c": ("status string", "('a'), ('c')")},
        (*OF_STATES, "DELETE FROM {c} WHERE status = 'a'", "INSERT INTO {c} VALUES ('b')"),
    ),
    "LATERAL VIEW whose table is called AS": Case(
        "SELECT id, count(e) AS n FROM t LATERAL VIEW explode(marks) AS e GROUP BY id", "id", MARKS, OF_MARKS
    ),
    "a text under the binary collation, whose type no other reader of Delta knows": Case(
        "SELECT id, CAST(status AS STRING COLLATE UTF8_BINARY) AS s, array(CAST(status AS STRING COLLATE UTF8_BINARY)) AS l FROM t",
        "id",
        STATES,
        OF_STATES,
    ),
    "one column under two names, which may be NULL": Case(
        "SELECT c.city AS a, c.city AS b, count(*) AS n FROM o LEFT JOIN c USING (customer_id) GROUP BY c.city",
        "a",
        ORDERS,
        (*OF_ORDERS, "UPDATE {o} SET customer_id = NULL WHERE order_id = 2"),
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        "branches of two types",
        *(slow(name) for name in CASES if name != "branches of two types"),
    ],
)
def test_the_table_is_what_spark_says(lake: Lake, name: str) -> None:
    case = CASES[name]
    for table, (columns, rows) in case.tables.items():
        feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        lake.spark.sql(f"CREATE TABLE {lake.ref(table).identifier} ({columns}) USING delta {feed}")
        lake.sql(f"INSERT INTO {{{table}}} VALUES {rows}")
    view = Kept("kept", case.sql, (case.key,) if isinstance(case.key, str) else case.key)
    for act in ("", *case.acts):
        if act:
            lake.sql(act)
        with in_force(case.limits):
            lake.materialize(view.asset, Table(key=case.key, policy=BY_KEYS))
        for table in case.tables:
            lake.frame(table).createOrReplaceTempView(table)
        due = lake.spark.sql(case.sql)
        stored = lake.frame("kept").select(*due.columns)
        assert sorted(map(tuple, stored.collect()), key=repr) == sorted(map(tuple, due.collect()), key=repr), act
    assert case.by_keys == any("the rows of touched keys" in said for said in (*lake.said, *lake.told))


def test_no_keys_follow_names_that_differ_in_case_beside_natural() -> None:
    """In a NATURAL JOIN Spark takes them for two names, and everywhere else for one."""
    schemas = {"x": {"A": "int", "Id": "int"}, "y": {"id": "int", "A": "int"}}
    with pytest.raises(NotFollowedError, match="NATURAL JOIN takes Id and id for two columns"):
        read("SELECT x.A, x.Id FROM x NATURAL JOIN y", schemas)


def test_columns_in_another_order_than_they_were_read_are_noticed() -> None:
    assert are_as_read(["A", "count(1)", "c"], ["a", "count(*)", "c"])
    assert not are_as_read(["b", "a"], ["a", "b"])
    assert not are_as_read(["a", "b"], ["a"])
