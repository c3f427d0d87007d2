"""A key predicate holds for rows with the keys, for no others where it claims so, and names few ranges."""

import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import nan
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.delta.keys import KeyPredicate, KeySet, is_literal
from lakehouse.delta.limits import MEASURED, in_force
from lakehouse.delta.text import Literal, literal
from tests.support.for_each import for_each

numbers = st.none() | st.integers(-50, 50)
decimals = st.none() | st.decimals(-2, 2, places=1)
words = st.none() | st.text("ab'é", max_size=3)


def key_predicate(columns: list[str], keys: list[tuple], prefix: str = "", types: Sequence[str] = ()) -> KeyPredicate:
    return KeySet.of(columns, keys, types).predicate(prefix)


def holding(sql: str, rows: list[tuple], width: int) -> list[tuple]:
    """The rows for which the predicate holds in another database."""
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


@given(st.sets(decimals), st.lists(decimals, max_size=30))
def test_one_column_of_decimals(keys: set, rows: list):
    predicate = key_predicate(["a"], [(key,) for key in keys])
    assert predicate.is_exact
    said = predicate.sql.replace("BD", "")
    found = holding(said, [(None if row is None else float(row),) for row in rows], 1)
    assert found == [(None if row is None else float(row),) for row in rows if row in keys]


@given(st.sets(words), st.lists(words, max_size=30))
def test_one_column_of_texts(keys: set, rows: list):
    predicate = key_predicate(["a"], [(key,) for key in keys])
    assert holding(predicate.sql, [(row,) for row in rows], 1) == [(row,) for row in rows if row in keys]


@given(st.sets(st.tuples(numbers, words), max_size=40), st.lists(st.tuples(numbers, words), max_size=30))
def test_two_columns(keys: set, rows: list):
    predicate = key_predicate(["a", "b"], sorted(keys, key=repr))
    assert predicate.is_exact
    assert holding(predicate.sql, rows, 2) == [row for row in rows if row in keys]


@settings(max_examples=10)
@given(
    st.sets(
        st.integers(0, 10**6).map(lambda number: 2 * number),
        min_size=MEASURED.listed_keys + 1,
        max_size=MEASURED.listed_keys + 5,
    )
)
def test_of_many_keys_only_ranges_are_said_and_each_key_is_in_one(keys: set):
    predicate = key_predicate(["a"], [(key,) for key in keys])
    assert not predicate.is_exact
    assert "IN" not in predicate.sql
    assert predicate.sql.count(">=") + predicate.sql.count(" = ") <= MEASURED.key_ranges
    assert len(holding(predicate.sql, [(key,) for key in keys], 1)) == len(keys)


FIRST_DAY = 700_000
runs = st.tuples(st.integers(-3_000, 3_000), st.integers(1, 600))


@settings(max_examples=50)
@given(st.lists(runs, min_size=1, max_size=MEASURED.key_ranges + 2), st.sets(st.none()), st.sampled_from([int, date]))
def test_keys_given_out_in_a_row_are_exactly_their_ranges(runs: list, nulls: set, kind: type):
    numbers = {number for start, count in runs for number in range(start, start + count)}
    values = numbers if kind is int else {date.fromordinal(FIRST_DAY + number) for number in numbers}
    predicate = key_predicate(["a"], [(value,) for value in values | nulls])
    said = re.sub(r"DATE'(.*?)'", lambda day: str(date.fromisoformat(day[1]).toordinal() - FIRST_DAY), predicate.sql)
    rows = [(row,) for row in [*range(-3_100, 3_800), None]]
    found, due = holding(said, rows, 1), [row for row in rows if row[0] in numbers | nulls]
    assert set(due) <= set(found)
    assert not predicate.is_exact or found == due
    gaps = sum(number + 1 not in numbers for number in numbers)
    assert predicate.is_exact or gaps > MEASURED.key_ranges
    assert gaps > MEASURED.key_ranges or len(numbers) <= MEASURED.key_ranges or "IN" not in predicate.sql


def test_of_many_keys_of_two_columns_only_ranges_are_said():
    keys = [(index, str(index)) for index in range(MEASURED.listed_keys_together + 1)]
    predicate = key_predicate(["a", "b"], keys)
    assert not predicate.is_exact
    assert holding(predicate.sql, keys, 2) == keys


def test_keys_of_two_columns_are_lists_of_one_for_each_value_of_the_other():
    keys = [(index * 7, str(index % 3)) for index in range(MEASURED.listed_keys + 1)]
    assert not key_predicate(["a", "b"], keys).is_exact
    predicate = key_predicate(["a", "b"], keys[1:])
    assert predicate.is_exact
    assert predicate.sql.count(" IN (") == 3
    assert holding(predicate.sql, keys, 2) == keys[1:]


def test_far_keys_do_not_share_a_range():
    predicate = key_predicate(["a"], [(key,) for start in (0, 10**6, 10**9) for key in range(start, start + 30)])
    assert "(>= 0 AND <= 29)" in re.sub(r"`a` ", "", predicate.sql)
    assert not holding(predicate.sql.split(" AND (`a` IN")[0], [(500,), (10**8,)], 1)


@for_each("start", [0, -(10**5), 2**62])
def test_sets_of_scattered_keys_mostly_have_the_same_range(start: int):
    """Then the next set's step runs the code that Spark generated for the last one."""
    sets = [Random(seed).sample(range(start, start + 10**6), 2_000) for seed in range(20)]
    predicates = Counter(key_predicate(["a"], [(key,) for key in keys]).sql for keys in sets)
    assert all(sql.count(">=") == 1 for sql in predicates)
    assert predicates.most_common(1)[0][1] >= 15


@for_each("clusters", [17, 40, 100, 1_000])
def test_ranges_leave_out_nearly_what_the_widest_gaps_hold(clusters: int):
    """With this many clusters of neighbouring keys, 16 ranges can leave out 15 gaps."""
    length = 10**6 // clusters
    keys = [start * length + key for start in range(clusters) for key in range(0, 4_000 // clusters * 2, 2)]
    span, gaps = keys[-1] - keys[0], 15 * (length - 4_000 // clusters * 2)
    ends = re.findall(r">= (-?\d+) AND `a` <= (-?\d+)", key_predicate(["a"], [(key,) for key in keys]).sql)
    held = sum(int(high) - int(low) for low, high in ends)
    assert held <= 1.125 * (span - gaps) + span / 8


@for_each("kind, bits", [("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)])
def test_a_rounded_range_ends_where_its_type_ends(kind: str, bits: int):
    """A literal beyond that end would have another type, or would not exist."""
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    keys = [*range(least, least + 64, 2), *range(most - 64, most + 1, 2), least, most]
    with in_force(replace(MEASURED, key_ranges=1)):
        predicate = key_predicate(["a"], [(key,) for key in keys], types=[kind])
    assert predicate.sql.startswith(f"((`a` >= {literal(least, kind)} AND `a` <= {literal(most, kind)})) AND (`a` IN")


def test_a_prefix_stands_before_every_column():
    assert key_predicate(["a", "b"], [(1, None)], "t.").sql.count("t.`") == 4


def test_without_keys_no_row_is_meant():
    assert key_predicate(["a"], []).sql == "FALSE"


def test_dates_and_decimals_are_said_in_their_own_type():
    assert key_predicate(["d"], [(date(2013, 1, 1),)]).sql == "`d` = DATE'2013-01-01'"
    assert key_predicate(["d"], [(Decimal("1.50"),)]).sql == "`d` = 1.50BD"


@for_each("kind, said", [("tinyint", "5Y"), ("smallint", "5S"), ("int", "5"), ("bigint", "5L")])
def test_a_whole_number_is_of_its_column_s_type(kind: str, said: str):
    """A literal of another type would be cast, and Delta does not skip files by a cast."""
    assert key_predicate(["d"], [(5,)], types=[kind]).sql == f"`d` = {said}"
    assert (
        key_predicate(["d"], [(5,), (6,)], types=[kind]).sql == f"(`d` >= {said} AND `d` <= {said.replace('5', '6')})"
    )
    assert f"IN ({said}, " in key_predicate(["d"], [(5 * n,) for n in range(1, 40)], types=[kind]).sql
    assert key_predicate(["d", "e"], [(5, None)], "t.", [kind, "string"]).sql.count(f"= {said}") == 2


INSTANT = datetime(2024, 3, 31, 1, 30, 0, 123456, UTC)


@for_each(
    "value, kind, text",
    [
        (INSTANT, "timestamp", "TIMESTAMP'2024-03-31 01:30:00.123456+00:00'"),
        (INSTANT.replace(tzinfo=None), "timestamp_ntz", "TIMESTAMP_NTZ'2024-03-31 01:30:00.123456'"),
        (True, "boolean", "TRUE"),
        (b"\x00'\xff", "binary", "X'0027ff'"),
        (1e-300, "double", "1e-300D"),
        (0.10000000149011612, "float", "0.10000000149011612F"),
    ],
)
def test_every_type_with_an_equality_is_said_in_its_own_type(value: Literal, kind: str, text: str):
    assert is_literal(kind)
    assert key_predicate(["d"], [(value,)], types=[kind]).sql == f"`d` = {text}"


def test_instants_that_are_near_share_a_range_which_is_never_taken_for_all_of_them():
    near = [INSTANT + timedelta(seconds=n) for n in range(30)]
    predicate = key_predicate(["d"], [(at,) for at in [*near, INSTANT + timedelta(days=400)]], types=["timestamp"])
    assert predicate.is_exact and predicate.sql.count(">=") <= MEASURED.key_ranges and "IN (" in predicate.sql
    assert f"<= {literal(near[-1])}" in predicate.sql


def test_a_range_to_nan_holds_whatever_is_larger():
    """Spark orders NaN after every other number."""
    predicate = key_predicate(["d"], [(nan,), (1.0,)], types=["double"])
    assert predicate.sql == "`d` = 1.0D OR `d` = CAST('nan' AS DOUBLE)"


def test_a_type_whose_equality_is_not_that_of_its_text_is_no_literal():
    assert is_literal("decimal(10,2)")
    assert not any(map(is_literal, ("string collate UTF8_LCASE", "void", "array<int>", "struct<a:int>", "variant")))
