"""Which columns of its tables the names of a view stand for, and from which of them each column takes its value."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors.views import ViewError
from lakehouse.views.query import read
from lakehouse.views.sql.lineage import digest_of_names, is_plain, lineage
from lakehouse.views.view_text import NotFollowedError
from tests.support.for_each import for_each
from tests.support.views import TABLES, VIEWS
from tests.views import queries, tpch

LISTS = {"o": {"id": "int", "items": "array<int>"}}


def origins(text: str, schemas: dict[str, dict[str, str]] = queries.TABLES) -> dict[str, list[str]]:
    query = read(text, schemas)
    listed = zip(query.outputs, lineage(query), strict=True)
    return {output.name: [f"{table}.{column}" for table, column in columns] for output, columns in listed}


@for_each(
    "text, expected",
    [
        ("SELECT id, amt * 2 AS twice, 1 AS one FROM o", {"id": ["o.id"], "twice": ["o.amt"], "one": []}),
        ("SELECT st, count(*) AS n, sum(amt) AS s FROM o GROUP BY st", {"st": ["o.st"], "n": [], "s": ["o.amt"]}),
        (
            "SELECT coalesce(c.seg, o.st) AS seg FROM o LEFT JOIN c ON o.cust = c.id WHERE o.amt > 1",
            {"seg": ["c.seg", "o.st"]},
        ),
        ("SELECT id FROM o JOIN c USING (id)", {"id": ["o.id"]}),
        ("SELECT id FROM o FULL JOIN c USING (id)", {"id": ["c.id", "o.id"]}),
        (
            "WITH t AS (SELECT cust, sum(amt) AS s FROM o GROUP BY cust) SELECT a.cust, a.s + b.s AS s FROM t a JOIN t b ON a.cust = b.cust",
            {"cust": ["o.cust"], "s": ["o.amt"]},
        ),
        (
            "SELECT id, nat FROM c UNION ALL SELECT oid, qty FROM i",
            {"id": ["c.id", "i.oid"], "nat": ["c.nat", "i.qty"]},
        ),
        (
            "SELECT id, lag(amt) OVER (PARTITION BY cust ORDER BY day) AS before FROM o",
            {"id": ["o.id"], "before": ["o.amt", "o.cust", "o.day"]},
        ),
        (
            "SELECT id, cust IN (SELECT id FROM c) AS is_customer FROM o",
            {"id": ["o.id"], "is_customer": ["c.id", "o.cust"]},
        ),
        (
            "SELECT id, (SELECT max(x.amt) FROM o x WHERE x.cust = c.id) AS top FROM c",
            {"id": ["c.id"], "top": ["o.amt"]},
        ),
        ("SELECT CASE WHEN st = 'x' THEN amt END AS paid FROM o", {"paid": ["o.amt", "o.st"]}),
    ],
)
def test_a_column_takes_its_value_of_these_columns(text: str, expected: dict[str, list[str]]):
    assert origins(text) == expected


@for_each(
    "text, plain",
    [
        ("SELECT day FROM o", True),
        ("SELECT DAY FROM (SELECT *, row_number() OVER (PARTITION BY cust ORDER BY id) AS n FROM o) WHERE n = 1", True),
        ("SELECT day, count(*) AS n FROM o GROUP BY day", True),
        ("SELECT day FROM o UNION SELECT nat FROM c", True),
        ("SELECT day FROM o UNION ALL SELECT nat + 1 FROM c", False),
        ("SELECT day + 1 AS day FROM o", False),
        ("SELECT * FROM (SELECT id, day + 1 AS day FROM o)", False),
        ("SELECT max(day) AS day FROM o GROUP BY id", False),
        ("SELECT day FROM o FULL JOIN (SELECT nat AS day FROM c) t USING (day)", False),
    ],
)
def test_a_plain_column_is_one_of_a_table_in_each_row(text: str, *, plain: bool):
    assert is_plain(read(text, queries.TABLES), "day") is plain


def test_the_items_of_a_list_are_of_its_column():
    text = "SELECT o.id, l.item FROM o LATERAL VIEW explode(o.items) l AS item"
    assert origins(text, LISTS) == {"id": ["o.id"], "item": ["o.items"]}


@for_each("number", tpch.QUERIES)
def test_only_columns_of_the_tables_are_named(number: int):
    named = {name for names in origins(tpch.QUERIES[number], tpch.SCHEMAS).values() for name in names}
    assert named
    assert named <= {f"{table}.{column}" for table, columns in tpch.SCHEMAS.items() for column in columns}


TEXTS = [view.sql for view in VIEWS if "*" not in view.sql.replace("count(*)", "").replace(" * ", " ")]


@pytest.mark.parametrize("text", TEXTS)
@given(moved=st.randoms(use_true_random=False))
def test_other_columns_of_a_table_and_their_order_give_a_text_without_a_star_no_other_meaning(text: str, moved: Random):
    tables = {name: dict(column.split() for column in columns.split(", ")) for name, columns in TABLES.items()}
    others = {
        name: dict(moved.sample(every := [*columns.items(), ("unused", "int")], len(every)))
        for name, columns in tables.items()
    }
    assert digest_of_names(read(text, tables)) == digest_of_names(read(text, others))


@for_each("text", TEXTS)
def test_another_type_of_a_column_that_the_text_names_is_another_meaning(text: str):
    tables = {name: dict(column.split() for column in columns.split(", ")) for name, columns in TABLES.items()}
    query = read(text, tables)
    named = {(table, column) for origin in lineage(query) for table, column in origin}
    for table, column in named:
        wider = {**tables, table: {**tables[table], column: "binary"}}
        try:
            other = digest_of_names(read(text, wider))
        except (ViewError, NotFollowedError):
            continue
        assert other != digest_of_names(query), (table, column)
