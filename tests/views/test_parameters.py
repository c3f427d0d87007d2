"""Values of named parameters are put into the text as literals, and the rest of the text stays the same."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from lakehouse import Policy, Table, View
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors.views import ViewError
from lakehouse.views.on_spark.key_conditions import with_values
from tests.support.for_each import for_each
from tests.support.lake import Lake
from tests.support.views import asset_of


@for_each(
    "sql, expected",
    [
        ("a >= :x", "a >=  3 "),
        ("a-:x", "a- 3 "),
        ("':x' || \":x\" || `:x` -- :x", "':x' || \":x\" || `:x` -- :x"),
        (r"'it\'s :x' = :x", r"'it\'s :x' =  3 "),
        (r"r'\' = :x", r"r'\' =  3 "),
        ("/* :x\n */ :x", "/* :x\n */  3 "),
        ("a::x", "a::x"),
        (":xy + :x", ":xy +  3 "),
        ("bar'a' :x", "bar'a'  3 "),
    ],
)
def test_a_parameter_is_a_token_of_its_own(sql: str, expected: str):
    assert with_values(sql, {"x": 3}) == expected


def test_two_colons_are_a_cast_and_name_no_parameter():
    query = "SELECT id, at::date AS day, 1::decimal(9, 2) AS one FROM t WHERE id > :least"
    checked = View(query, args={"least": 3}).check({"t": {"id": "int", "at": "timestamp"}}, {"t": ("id",)})
    assert checked.why_whole is None


@for_each(
    "value, expected",
    [
        ("it's", "'it\\'s'"),
        (None, "NULL"),
        (True, "TRUE"),
        (1.5, "1.5D"),
        (Decimal("1.50"), "1.50BD"),
        (date(2026, 1, 2), "DATE'2026-01-02'"),
        (b"\x01", "X'01'"),
    ],
)
def test_a_value_is_a_literal(value: Any, expected: str):
    assert with_values(":x", {"x": value}) == f" {expected} "


def test_a_value_that_is_no_literal_is_refused():
    with pytest.raises(ViewError, match="is a list, which is not a literal"):
        with_values(":x", {"x": [1]})


@for_each("value", ["today", " Now", "yesterday UTC", "12:00", " T7:05:00.25Z"])
def test_a_value_that_is_the_day_of_the_run_is_refused(value: str):
    with pytest.raises(ViewError, match=r"for a time on the day of the run, which no row holds: the parameter :d"):
        View("SELECT id FROM o WHERE day = :d", {"d": value}).check({"o": {"id": "int", "day": "date"}})


@pytest.mark.anywhere
def test_a_parameter_in_a_key_finds_the_rows_of_the_key(lake: Lake) -> None:
    lake.create("o", [(1, 1), (2, 2), (3, None)], "id int, cid int")
    lake.create("c", [(1, "x"), (2, None)], "id int, seg string")
    sql = "SELECT coalesce(c.seg, :none) AS seg, count(*) AS n FROM o LEFT JOIN c ON o.cid = c.id GROUP BY coalesce(c.seg, :none)"
    kept = asset_of("kept", sql, ("o", "c"), args={"none": "-"})
    for act in ("", "UPDATE {c} SET seg = 'y' WHERE id = 2", "INSERT INTO {o} VALUES (4, 9)"):
        if act:
            lake.sql(act)
        with in_force(Limits(whole_rows=0)):
            lake.materialize(kept, Table(key="seg", policy=Policy(refresh="incremental")))
    assert lake.rows("kept") == [("-", 2), ("x", 1), ("y", 1)]
    assert any("the rows of touched keys" in said for said in (*lake.said, *lake.told))
