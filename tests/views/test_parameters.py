"""Values of named parameters stand in the text as literals, and nothing else of the text is another."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.errors.views import ViewError
from lakehouse.views.on_spark.parameters import with_values


@pytest.mark.parametrize(
    ("sql", "expected"),
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


@pytest.mark.parametrize(
    ("value", "expected"),
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
    with pytest.raises(ViewError, match="is a list, which is no literal"):
        with_values(":x", {"x": [1]})
