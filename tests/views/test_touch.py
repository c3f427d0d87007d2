"""By which columns a view's changes are followed, in how many steps, and what its key and its sums are: without data."""

import re
from collections import Counter

import pytest

from lakehouse.errors.views import ViewError
from lakehouse.views.explained import follow
from lakehouse.views.functions import AGGREGATES, WINDOW_FUNCTIONS
from lakehouse.views.plan import Found, Image, KeyFacts, Restriction, SourceRows, TouchedPlan, fuse
from lakehouse.views.planner import rows_of_any_keys, rows_plan, touched_plan
from lakehouse.views.query import names_in, read
from lakehouse.views.touch import choose_touch, table_key
from lakehouse.views.view_text import NotFollowedError
from tests.support.for_each import for_each
from tests.views import queries, tpch

TOUCH = {
    2: ("p_partkey",),
    3: ("l_orderkey",),
    5: ("n_name",),
    6: (),
    10: ("c_custkey",),
    18: ("o_orderkey",),
    20: ("s_name",),
}


def plan(text: str, *touch: str, changed: set[str] | None = None, small: tuple[str, ...] = ()) -> TouchedPlan:
    return touched_plan(read(text, queries.TABLES), touch, changed or set(queries.TABLES), small)


@for_each("number", TOUCH)
def test_the_cheapest_columns_are_taken(number: int):
    assert choose_touch(read(tpch.QUERIES[number], tpch.SCHEMAS), ()) == TOUCH[number]


def test_columns_of_the_key_go_before_others():
    query = read(queries.QUERIES["window_join"], queries.TABLES)

    assert "id" in choose_touch(query, ("id",))
    assert choose_touch(query, ()) == ("seg",)


@for_each("name", sorted(queries.QUERIES))
def test_where_all_rows_of_a_key_have_to_be_seen_only_columns_of_the_key_will_do(name: str):
    query = read(queries.QUERIES[name], queries.TABLES)
    for output in query.outputs:
        try:
            touch = choose_touch(query, (output.name,), within_key=True)
        except NotFollowedError:
            continue
        assert touch in ((), (output.name,))


def test_the_whole_key_goes_before_a_part_of_it_that_costs_as_much():
    query = read("SELECT cust, st, sum(amt) AS s FROM o GROUP BY cust, st", queries.TABLES)

    assert choose_touch(query, ("st", "cust")) == ("st", "cust")


BUSIEST = """
    SELECT r.cust, r.day, r.amt, c.seg
    FROM (SELECT *, row_number() OVER (PARTITION BY cust, day ORDER BY amt DESC) AS place FROM o) r
    LEFT JOIN c ON c.id = r.cust AND c.nat = r.amt
    WHERE r.place = 1"""


def test_a_step_less_is_no_reason_for_a_part_of_the_key_of_which_many_rows_have_each_value():
    query = read(BUSIEST, queries.TABLES)
    steps = {touch: len(touched_plan(query, touch, {"c"}).steps) for touch in (("cust",), ("cust", "day"))}

    assert steps["cust",] < steps["cust", "day"]
    assert choose_touch(query, ("cust", "day")) == ("cust", "day")


def test_a_part_of_the_key_that_determines_the_rest_is_as_good_as_the_key():
    query = read(tpch.QUERIES[10], tpch.SCHEMAS)
    groups = ("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment")
    keys = {"customer": ("c_custkey",), "nation": ("n_nationkey",)}

    assert choose_touch(query, groups) == groups
    assert choose_touch(query, groups, (), keys) == ("c_custkey",)
    assert choose_touch(query, groups, (), {"customer": ("c_custkey",)}) == groups


@for_each("number, tables", [(5, 6), (7, 6), (8, 8)])
def test_changes_of_all_tables_take_one_step_for_each_edge_of_the_join(number: int, tables: int):
    """Plus one for what changed in each table, and one for the touched keys. n tables are joined by n - 1 edges."""
    query = read(tpch.QUERIES[number], tpch.SCHEMAS)
    steps = touched_plan(query, choose_touch(query, ()), set(tpch.SCHEMAS)).steps

    assert len(steps) == tables + (tables - 1) + 1


@for_each("number", TOUCH)
def test_what_one_step_alone_reads_is_no_query_of_its_own(number: int):
    query = read(tpch.QUERIES[number], tpch.SCHEMAS)
    steps = touched_plan(query, choose_touch(query, ()), set(tpch.SCHEMAS)).steps
    queries_of_steps = fuse(steps)

    places = [place for step in queries_of_steps for place in step.sql if not isinstance(place, str)]
    uses = Counter(place.step for place in places if isinstance(place, Found))
    sought = {one.step for place in places if isinstance(place, SourceRows) for each in place.any_of for one in each}
    assert all(uses[step.name] > 1 or step.name in sought for step in queries_of_steps[:-1])
    assert uses.keys() | sought <= {step.name for step in queries_of_steps}
    assert queries_of_steps[-1].name == steps[-1].name
    assert sum(isinstance(place, SourceRows) for step in steps for place in step.sql) == sum(
        isinstance(place, SourceRows) for place in places
    )


def test_a_change_that_has_the_key_needs_no_other_table():
    steps = plan("SELECT o.cust, c.seg FROM o JOIN c ON o.cust = c.id", "cust", changed={"c"}).steps

    assert {part.image for step in steps for part in step.sql if isinstance(part, SourceRows)} == {Image.MOVED}


def test_a_column_that_is_not_used_is_not_looked_at():
    moved = plan("SELECT cust, sum(amt) AS s FROM o GROUP BY cust", "cust").steps[0].sql[1]

    assert moved == SourceRows("o", Image.MOVED, ("amt", "cust"))


def test_a_table_without_a_link_is_read_whole_and_said():
    text = "SELECT o.id, n.region FROM o JOIN n ON o.amt > n.nat"

    assert plan(text, "id").read_whole == (("o", "no equality links it to n"),)
    assert plan(text, "id", small=("o",)).read_whole == ()


def test_explain_says_which_change_needs_all_rows():
    customer, orders = follow(read(tpch.QUERIES[22], tpch.SCHEMAS), ("cntrycode",), ("customer", "orders")).paths

    assert str(customer) == (
        "A change of customer needs all rows, because AVG(c_acctbal) decides which keys change, and is computed from "
        "many rows."
    )
    assert str(orders) == "Changes of orders reach the keys over customer by c_custkey."


OF_MANY_ROWS = {
    **dict.fromkeys(("count_of_counts", "count_of_counts_left"), "n"),
    "scalar_uncorr": "MAX(amt)",
    "having_scalar": "AVG(amt)",
    "cte_max": "MAX(SUM(amt))",
}


@for_each("name", queries.QUERIES)
def test_keys_follow_each_query_but_those_whose_keys_a_value_of_many_rows_decides(name: str):
    query = read(queries.QUERIES[name], queries.TABLES)
    if name not in OF_MANY_ROWS:
        assert choose_touch(query, ()) or name == "global_agg"
        return
    with pytest.raises(NotFollowedError) as why:
        choose_touch(query, ())
    assert str(why.value) == f"{OF_MANY_ROWS[name]} decides which keys change, and is computed from many rows"


@for_each("function", sorted(AGGREGATES | WINDOW_FUNCTIONS))
def test_no_value_of_many_rows_decides_a_key(function: str):
    over = "OVER (PARTITION BY cust ORDER BY day)" if function in WINDOW_FUNCTIONS else ""
    two = ("corr", "covar", "regr", "max_by", "min_by", "nth", "approx_p", "percentile", "hist", "count_min")
    call = f"{function}({'amt, 1' if function.startswith(two) else 'amt'}) {over}"
    rows = f"SELECT cust, {call} AS v FROM o{'' if over else ' GROUP BY cust'}"

    assert plan(rows, "cust").touched
    for text in (rows, f"SELECT v, count(*) AS n FROM ({rows}) GROUP BY v", f"SELECT v + 1 AS v FROM ({rows})"):
        with pytest.raises(NotFollowedError, match="v decides which keys change, and is computed from many rows"):
            plan(text, "v")


@for_each("number", tpch.QUERIES)
def test_no_unique_name_of_a_column_is_said(number: int):
    query = read(tpch.QUERIES[number], tpch.SCHEMAS)
    try:
        lines = follow(query, choose_touch(query, ()), names_in(tpch.QUERIES[number])).sentences
    except NotFollowedError as why:
        lines = (str(why),)

    assert re.findall(r"[a-z]_\d+\b", " ".join(lines)) == []


def test_a_table_is_read_whole_for_one_reason():
    query = read(tpch.QUERIES[16], tpch.SCHEMAS)
    of_keys = touched_plan(query, ("p_brand", "p_type", "p_size"), tpch.SCHEMAS)

    assert of_keys.read_whole == (("part", "no equality links it to supplier"),)
    assert rows_of_any_keys(query, of_keys).read_whole == (("supplier", "NOT IN looks at all of it"),)


def test_no_change_touches_nothing():
    assert plan("SELECT id FROM o", "id", changed={"c"}) == TouchedPlan((), None, ("id",))
    assert plan(queries.QUERIES["count_of_counts"], "n", changed={"c"}) == TouchedPlan((), None, ("n",))


@for_each(
    "text, error",
    [
        ("SELECT o.id, o.cust IN (SELECT id FROM c) AS key FROM o", NotFollowedError),
        ("SELECT id, position('x' IN st) AS key FROM o", NotFollowedError),
        ("SELECT id AS other FROM o", ViewError),
    ],
)
def test_no_step_can_compute_a_key(text: str, error: type[Exception]):
    with pytest.raises(error):
        plan(text, "key")


def test_a_condition_that_is_not_written_again_is_dropped():
    steps = plan("SELECT id FROM o WHERE position('splits' IN st) > 1", "id").steps

    assert "split" not in "".join(part for step in steps for part in step.sql if isinstance(part, str)).lower()


def test_a_use_without_limits_makes_a_table_whole():
    text = "WITH t AS (SELECT id, amt FROM o) SELECT a.id, b.amt FROM t a JOIN t b ON a.amt > b.amt"
    query = read(text, queries.TABLES)
    touched = touched_plan(query, ("id",), {"o"})
    rows = rows_plan(query, touched, KeyFacts(str(touched.touched), frozenset({"id"}), lambda _, __: False))

    assert [part for part in rows.text if isinstance(part, SourceRows)] == [
        SourceRows("o", Image.NOW, ("id", "cust", "day", "amt", "st"))
    ]
    assert "".join(part for part in rows.text if isinstance(part, str)) == text.replace("FROM o", "FROM  AS `o`")


def test_an_update_of_a_left_item_does_not_touch_the_rows_without_it():
    """Whether it has a match depends on the columns of its ON alone; their changes are looked up in the other table."""
    steps = plan(queries.QUERIES["left_coalesce"], "seg", changed={"c"}).steps
    rows = [part for step in steps for part in step.sql if isinstance(part, SourceRows)]

    assert rows == [
        SourceRows("c", Image.MOVED, ("id", "seg")),
        SourceRows("c", Image.MOVED, ("id",)),
        SourceRows("o", Image.NOW, ("cust",), ((Restriction("touched_3", (("`cust`", "id_6"),), null_safe=False),),)),
    ]


def test_a_condition_of_a_left_item_that_is_not_written_again_still_counts():
    text = """
        SELECT o.id, t.seg FROM o
        LEFT JOIN (SELECT id, seg, position('splits' IN seg) AS size FROM c) t ON o.cust = t.id AND t.size > 1"""
    steps = plan(text, "seg", changed={"c"}).steps

    assert SourceRows("c", Image.MOVED, ("id", "seg")) in [part for step in steps for part in step.sql]
    assert "split" not in "".join(part for step in steps for part in step.sql if isinstance(part, str)).lower()


KEYS = {"o": ("id",), "c": ("id",), "i": ("oid", "item")}


@for_each(
    "text, key",
    [
        ("SELECT id, amt FROM o WHERE amt > 1", ("id",)),
        ("SELECT o.id, c.seg FROM o JOIN c ON o.cust = c.id", ("id",)),
        ("SELECT o.id, c.seg FROM o LEFT JOIN c ON o.cust = c.id", ("id",)),
        ("SELECT o.cust, i.item, i.oid AS o FROM o JOIN i ON o.id = i.oid", ("o", "item")),
        ("SELECT o.id, c.id AS cid FROM o JOIN c ON o.day = c.nat", ("id", "cid")),
        ("SELECT o.id, c.seg FROM o JOIN c ON o.day = c.nat", None),
        ("SELECT st, count(*) AS n FROM o GROUP BY st", ("st",)),
        ("SELECT count(*) AS n FROM o GROUP BY st", None),
        ("SELECT count(*) AS n FROM o", ()),
        ("SELECT DISTINCT st, day FROM o", ("st", "day")),
        ("SELECT id FROM o UNION ALL SELECT id FROM c", None),
        ("SELECT cust AS k FROM o EXCEPT SELECT id FROM c", ("k",)),
        ("SELECT cust, day FROM o QUALIFY row_number() OVER (PARTITION BY cust ORDER BY day) = 1", ("cust",)),
        ("SELECT region FROM n", None),
    ],
)
def test_the_key_follows_from_the_text(text: str, key: tuple[str, ...] | None):
    assert table_key(read(text, queries.TABLES), KEYS) == key
