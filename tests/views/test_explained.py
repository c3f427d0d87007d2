"""What is reported about how a view follows its tables: over which tables, by which keys, from how many files."""

from lakehouse.views.analysis import Analysis, TableFacts
from lakehouse.views.explained import follow, how_followed
from lakehouse.views.plan import KeyFacts
from lakehouse.views.planner import rows_plan, touched_plan
from lakehouse.views.query import read
from lakehouse.views.view_text import ViewText
from tests.views import queries

REVENUE = """
    SELECT coalesce(c.seg, 'none') AS seg, sum(i.qty) AS n
    FROM o LEFT JOIN c ON o.cust = c.id JOIN i ON i.oid = o.id
    GROUP BY coalesce(c.seg, 'none')"""


def said(text: str, *touch: str, followed: tuple[str, ...], small: tuple[str, ...] = ()) -> list[str]:
    return list(follow(read(text, queries.TABLES), touch, followed, small).sentences)


def test_each_table_says_over_which_tables_its_changes_reach_the_keys():
    assert said(REVENUE, "seg", followed=("o", "c", "i"), small=("c",)) == [
        "Changes are followed by the keys (seg).",
        "Changes of o reach the keys over all of c (it is small).",
        "Changes of c reach the keys over o by cust.",
        "Changes of i reach the keys over o by id, then all of c (it is small).",
        "The rows of the keys are computed from o by cust, c by COALESCE(seg, 'none'), i by oid.",
        (
            "If NULL or a constant of the query is among the keys, they also need all of o (rows without a match have "
            "such a key), all of i (rows without a match have such a key)."
        ),
    ]


def test_what_is_computed_whole_says_which_rows_count():
    analysis = Analysis.of(
        ViewText("SELECT avg(o.amt) AS a FROM o JOIN c ON o.cust = c.id"), queries.TABLES, TableFacts(("o", "c"))
    )
    assert list(how_followed(analysis, "")) == [
        (
            "All rows are computed if a row of o or c moved, because its result is one row of all rows, and a is not a "
            "plain count, sum of exact numbers, minimum or maximum."
        )
    ]


def test_first_rows_say_whether_their_table_holds_their_order():
    of_table = {
        "SELECT id, amt FROM o ORDER BY amt, id LIMIT 3": "from those of the table and of the keys;",
        "SELECT id FROM o ORDER BY amt, id LIMIT 3": "of the keys in the table, whose order it does not hold, and of the keys;",
    }
    for text, where in of_table.items():
        analysis = Analysis.of(ViewText(text), queries.TABLES, TableFacts(("o",), keys={"o": ("id",)}))
        assert where in how_followed(analysis, "")[-1], text


def test_what_only_some_keys_need_is_said_apart():
    text = "SELECT c.seg, sum(o.amt) AS s FROM o LEFT JOIN c ON o.cust = c.id GROUP BY c.seg"
    *_, rows, some = said(text, "seg", followed=("o", "c"))
    assert rows == "The rows of the keys are computed from o by cust, c by seg."
    assert some.startswith("If NULL or a constant of the query is among the keys, they also need all of o (")


def test_a_run_whose_keys_hold_null_says_what_it_has_read():
    query = read("SELECT c.seg, sum(o.amt) AS s FROM o LEFT JOIN c ON o.cust = c.id GROUP BY c.seg", queries.TABLES)
    touched = touched_plan(query, ("seg",), ("o", "c"))
    with_null = rows_plan(query, touched, KeyFacts(str(touched.touched), frozenset(), lambda _, __: True))
    lines = follow(query, ("seg",), ("o", "c"), (), with_null).sentences
    assert lines[3] == (
        "The rows of the keys are computed from all of o (rows without a match have such a key), all of c (rows without a "
        "match have such a key)."
    )
