"""A key predicate holds for rows with the keys, for no others where it says so, and says few ranges."""

import re
import sqlite3
from datetime import date
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.key_predicate import LISTED, LISTED_TOGETHER, RANGES, is_literal, key_predicate

numbers = st.none() | st.integers(-50, 50)
words = st.none() | st.text("ab'é", max_size=3)


def holding(sql: str, rows: list[tuple], width: int) -> list[tuple]:
    """The rows for which another database, too, says that the predicate holds."""
    with sqlite3.connect(":memory:") as base:
        names = ", ".join("abc"[:width])
        base.execute(f"CREATE TABLE t ({names})")
        base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * width)})", rows)
        return base.execute(f"SELECT {names} FROM t WHERE {sql.replace(chr(92) + chr(39), chr(39) * 2)}").fetchall()


@given(st.sets(numbers), st.lists(numbers, max_size=30))
def test_one_column_of_numbers(keys: set, rows: list):
    predicate = key_predicate(["a"], [(key,) for key in keys])
    assert predicate.is_exact
    assert holding(predicate.sql, [(row,) for row in rows], 1) == [(row,) for row in rows if row in keys]


@given(st.sets(words), st.lists(words, max_size=30))
def test_one_column_of_texts(keys: set, rows: list):
    predicate = key_predicate(["a"], [(key,) for key in keys])
    assert holding(predicate.sql, [(row,) for row in rows], 1) == [(row,) for row in rows if row in keys]


@given(st.sets(st.tuples(numbers, words), max_size=40), st.lists(st.tuples(numbers, words), max_size=30))
def test_two_columns(keys: set, rows: list):
    predicate = key_predicate(["a", "b"], sorted(keys, key=repr))
    assert predicate.is_exact
    assert holding(predicate.sql, rows, 2) == [row for row in rows if row in keys]


@given(st.sets(st.integers(0, 10**6), min_size=LISTED + 1, max_size=LISTED + 5))
def test_of_many_keys_only_ranges_are_said_and_each_key_is_in_one(keys: set):
    predicate = key_predicate(["a"], [(key,) for key in keys])
    assert not predicate.is_exact
    assert "IN" not in predicate.sql
    assert predicate.sql.count("BETWEEN") + predicate.sql.count("=") <= RANGES
    assert len(holding(predicate.sql, [(key,) for key in keys], 1)) == len(keys)


def test_of_many_keys_of_two_columns_only_ranges_are_said():
    keys = [(index, str(index)) for index in range(LISTED_TOGETHER + 1)]
    predicate = key_predicate(["a", "b"], keys)
    assert not predicate.is_exact
    assert holding(predicate.sql, keys, 2) == keys


def test_far_keys_do_not_share_a_range():
    predicate = key_predicate(["a"], [(key,) for start in (0, 10**6, 10**9) for key in range(start, start + 30)])
    assert "BETWEEN 0 AND 29" in re.sub(r"`a` ", "", predicate.sql)
    assert not holding(predicate.sql.split(" AND (`a` IN")[0], [(500,), (10**8,)], 1)


def test_a_prefix_stands_before_every_column():
    assert key_predicate(["a", "b"], [(1, None)], "t.").sql.count("t.`") == 4


def test_without_keys_no_row_is_meant():
    assert key_predicate(["a"], []).sql == "FALSE"


def test_dates_and_decimals_are_said_in_their_own_type():
    assert key_predicate(["d"], [(date(2013, 1, 1),)]).sql == "`d` = DATE'2013-01-01'"
    assert key_predicate(["d"], [(Decimal("1.50"),)]).sql == "`d` = 1.50BD"


def test_a_type_whose_equality_is_not_that_of_its_text_is_no_literal():
    assert is_literal("decimal(10,2)")
    assert not any(map(is_literal, ("double", "float", "timestamp", "binary", "string collate UTF8_LCASE", "void")))
