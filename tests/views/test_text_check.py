"""A test without Spark finds out how a view would follow its tables, or why it could not."""

import pytest

from lakehouse.delta.policy import Policy
from lakehouse.errors.views import ViewError
from lakehouse.views.analysis import ByKeys, Whole
from lakehouse.views.view_text import Origin, OutputColumn, ViewText
from lakehouse.writes.view import View
from tests.support.for_each import for_each

TABLES = {"orders": {"id": "int", "customer": "int", "amount": "int"}, "customers": {"id": "int", "city": "string"}}
CITIES = "SELECT city, count(*) AS orders FROM orders o JOIN customers c ON o.customer = c.id GROUP BY city"


def test_a_view_is_followed_by_its_group():
    checked = View(CITIES).check(TABLES)
    assert (checked.columns, checked.key) == (("city", "orders"), ("city",))
    assert isinstance(checked.verdict, ByKeys)
    assert (checked.verdict.touch, checked.verdict.plan.touch) == (("city",), ("city",))
    assert checked.verdict.plan.read_whole == ()


def test_the_key_follows_from_the_keys_of_the_tables():
    query = "SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.id"
    assert View(query).check(TABLES).key is None
    assert View(query).check(TABLES, {"orders": ("id",), "customers": ("id",)}).key == ("id",)


def test_other_touch_columns_and_arguments_are_taken():
    checked = View(CITIES + " HAVING count(*) > :least", args={"least": 1}, touch="city").check(TABLES)
    assert isinstance(checked.verdict, ByKeys) and checked.verdict.touch == ("city",)


def test_a_list_of_columns_names_the_columns_of_the_result():
    text = ViewText(CITIES, columns=(OutputColumn("place"), OutputColumn("number", "INT")))
    checked = View(text).check(TABLES)
    assert (checked.columns, checked.key) == (("place", "number"), ("place",))
    assert isinstance(checked.verdict, ByKeys) and checked.verdict.touch == ("place",)


def test_two_columns_of_one_name_are_told_apart_by_a_list_of_columns():
    pairs = "SELECT a.id, b.id FROM orders a JOIN orders b ON a.customer = b.customer"
    with pytest.raises(ViewError, match="Two columns of the result are called id"):
        View(pairs).check(TABLES)
    assert View(ViewText(pairs, columns=(OutputColumn("one"), OutputColumn("other")))).check(TABLES).columns == (
        "one",
        "other",
    )


@for_each(
    "view, code",
    [
        (View("SELECT town FROM customers"), "VIEW_UNKNOWN_COLUMN"),
        (View("SELECT a FROM nowhere"), "VIEW_UNKNOWN_TABLE"),
        (View("SELECT id FROM orders LIMIT 1"), "VIEW_NOT_DETERMINISTIC"),
        (View("SELECT id FROM orders WHERE id > :id"), "VIEW_PARAMETER"),
        (View(ViewText("SELECT id FROM orders", columns=(OutputColumn("a"), OutputColumn("b")))), "VIEW_HEAD"),
    ],
)
def test_a_text_of_which_no_view_can_be_kept_is_refused(view: View, code: str):
    with pytest.raises(ViewError) as refused:
        view.check(TABLES)
    assert refused.value.code == code


def test_a_refusal_has_the_place_in_the_file():
    text = ViewText("SELECT id,\n  town FROM customers", origin=Origin("sql/a.sql", 7, 4))
    with pytest.raises(ViewError, match=r"sql/a.sql: .*line 8, column 3: town"):
        View(text).check(TABLES)


WITH_TYPES = {
    "o": {"id": "int", "k": "int", "s": "string", "st": "struct<b:binary>"},
    "c": {"id": "int"},
}


@for_each(
    "query, what, words",
    [
        ("SELECT dateadd(date(s), 1) AS c, count(*) AS n FROM o GROUP BY 1", "dateadd()", "dateadd"),
        (
            "SELECT x, count(*) AS n FROM (SELECT named_struct('a', date_diff(date(s), date(s))) AS x FROM o) GROUP BY x",
            "date_diff()",
            "date_diff",
        ),
        ("SELECT x FROM (SELECT o.id IN (SELECT id FROM c) AS x FROM o)", "EXISTS or IN", None),
        (
            "SELECT x FROM (SELECT o.id IN (SELECT id FROM c) AS y FROM o) LATERAL VIEW explode(array(y)) AS x",
            "EXISTS or IN",
            None,
        ),
        (r"SELECT concat(s, 'it\'s') AS x FROM o GROUP BY 1", "an expression", r"'it\'s'"),
    ],
)
def test_a_view_whose_key_no_step_computes_is_whole_with_its_part_and_place(query: str, what: str, words: str | None):
    text = ViewText(query, origin=Origin("sql/a.sql", 7, 4))
    verdict = View(text).check(WITH_TYPES, policy=Policy(refresh="full")).verdict
    assert isinstance(verdict, Whole)
    assert f"decides which keys change, and is computed by {what}, which no step writes again" in verdict.why
    place = verdict.place
    assert (place and place.words, place and place.line) == (words, words and 7)


@for_each(
    "query, why",
    [
        (CITIES, None),
        ("SELECT id, city FROM customers", None),
        ("SELECT count(*) AS n FROM orders", None),
        (
            "SELECT avg(id) AS a FROM orders",
            "its result is one row of all rows, and a is not a plain count, sum of exact numbers, minimum or maximum",
        ),
        (
            "SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer > c.id",
            "all of orders is read to find the keys, because no equality links it to c",
        ),
        (
            "SELECT n, count(*) AS k FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) GROUP BY n",
            "n decides which keys change, and is computed from many rows (line 1, column 48: count)",
        ),
        (
            "SELECT concat(c.city, o.id) AS k FROM orders o JOIN customers c ON o.customer = c.id",
            "all of orders, customers is read for the rows of the keys, because no equality links it",
        ),
        ("SELECT coalesce(city, '?') AS city FROM orders o LEFT JOIN customers c ON o.customer = c.id", None),
        ("SELECT k FROM (SELECT id AS k FROM orders UNION ALL SELECT id FROM customers) GROUP BY k", None),
        (
            "SELECT k FROM (SELECT id AS k FROM orders UNION ALL SELECT city FROM customers) GROUP BY k",
            "all of orders, customers is read for the rows of the keys, because k may be of another type in each branch",
        ),
    ],
)
def test_a_test_learns_whether_changes_need_more_than_the_rows_of_keys(query: str, why: str | None):
    found = View(query).check(TABLES).why_whole
    assert found == why


def test_a_test_fails_where_the_policy_refuses_what_changes_need():
    pairs = View("SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer > c.id")
    assert pairs.check(TABLES, policy=Policy(refresh="incremental")).why_whole is not None
    with pytest.raises(ViewError, match="Keys alone are not enough, because all of orders is read") as refused:
        pairs.check(TABLES, policy=Policy(refresh="strict"))
    assert refused.value.code == "VIEW_NOT_INCREMENTAL"
    assert View(CITIES).check(TABLES, policy=Policy(refresh="strict")).why_whole is None


def test_an_expression_without_a_name_is_called_as_no_column_is() -> None:
    """Spark names `-id` `(- id)`, and `CAST(id AS string)` `id`."""
    schemas = {"orders": {"id": "int", "city": "string"}}
    apart = View("SELECT id, -id, id IS NULL, id + 1 FROM orders").check(schemas)
    assert [name == "id" for name in apart.columns] == [True, False, False, False]
    with pytest.raises(ViewError, match="Two columns of the result are called id"):
        View("SELECT id, CAST(id AS string) FROM orders").check(schemas)
    assert View("SELECT DISTINCT(city) FROM orders").check(schemas).columns == ("city",)
