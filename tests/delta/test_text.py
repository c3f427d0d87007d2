"""Names and values in SQL text mean exactly themselves, whatever characters they contain."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.delta.text import Literal, literal, name_parts, quote, quote_all, same
from tests.support.for_each import for_each
from tests.support.spark_text import tokens

HOSTILE = [
    "a' OR '1'='1",
    "\\",
    "\\'",
    "x\\\\'",
    "''",
    "${env:HOME}",
    "\\u0027",
    "\\047",
    "a\nb",
    "`",
    "--",
    "%\\_",
    "日本",
    "",
]
texts = st.text("ab'\\`\"${}:;-%_u0027\n日", max_size=12)


@given(texts | st.sampled_from(HOSTILE))
@example("${system:user.name}")
@example("\\${a}")
def test_a_text_comes_out_of_its_literal_as_it_went_in(text: str):
    assert list(tokens(literal(text))) == [("string", text)]


@given(texts.filter(lambda name: "${" not in name) | st.sampled_from([h for h in HOSTILE if "${" not in h]))
def test_a_name_comes_out_of_its_quotes_as_it_went_in(name: str):
    assert list(tokens(quote(name))) == [("name", name)]


@for_each(
    "value, text",
    [
        (None, "NULL"),
        (True, "TRUE"),
        (False, "FALSE"),
        (1, "1"),
        (-7, "-7"),
        (Decimal("1.50"), "1.50BD"),
        (0.1, "0.1D"),
        (b"\x00'", "X'0027'"),
        (float("inf"), "CAST('inf' AS DOUBLE)"),
        (date(2013, 1, 9), "DATE'2013-01-09'"),
        (datetime(2013, 1, 9, 5, tzinfo=UTC), "TIMESTAMP'2013-01-09 05:00:00+00:00'"),
    ],
)
def test_a_value_is_a_literal_of_its_own_type(value: Literal, text: str):
    assert literal(value) == text


@for_each("value", ["NaN", "Infinity", "-Infinity"])
def test_a_decimal_that_sql_does_not_have_is_refused(value: str):
    with pytest.raises(ValueError, match="decimal"):
        literal(Decimal(value))


def test_several_names_are_quoted_each_behind_the_prefix():
    assert quote_all(["a", "b`c"], "t.") == "t.`a`, t.`b``c`"
    assert quote_all(()) == ""


def test_two_nulls_are_the_same():
    assert same("t.`a`", "s.`a`") == "t.`a` <=> s.`a`"
    assert same("t.`a`", "s.`a`", nulls=False) == "t.`a` = s.`a`"


names = st.lists(st.text("ab.` ", min_size=1, max_size=4), min_size=1, max_size=3)


@given(names)
def test_a_catalog_name_of_quoted_parts_has_these_parts(parts: list[str]):
    assert name_parts(".".join(map(quote, parts))) == tuple(parts)


@for_each(
    "name, parts",
    [
        ("flights", ("flights",)),
        ("main.silver.flights", ("main", "silver", "flights")),
        ("main.`silver.eu`.flights", ("main", "silver.eu", "flights")),
        ("", ()),
        ("main..flights", ()),
        (".flights", ()),
        ("flights.", ()),
        ("main.`flights", ()),
        ("main.fli`ghts", ()),
        ("``", ()),
    ],
)
def test_a_catalog_name_is_split_at_its_dots_or_is_none(name: str, parts: tuple[str, ...]):
    assert name_parts(name) == parts
