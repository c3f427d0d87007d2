"""Queries to the table about a result at the driver give what comparing both in one plan gives."""

import os
from collections.abc import Callable, Sequence
from datetime import date
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from lakehouse.difference.row_comparison import HELD, difference, local_difference, with_promises
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import SomeKeys
from lakehouse.spark.driver_rows import Local, collect_all
from tests.support.for_each import for_each
from tests.support.raises import raises_code

pytestmark = pytest.mark.anywhere

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "0"))
SCHEMA = "k int, j string, v double, a array<int>, d date"
KEY = ("k", "j")
TOUCHED = (0, 1, 2, 3, None)
NAN, DAY = float("nan"), date(2024, 2, 29)

TEXTS = ("x", "X", "ü", "gone", None)

ks, js = st.sampled_from(TOUCHED), st.sampled_from(TEXTS)
values = st.tuples(
    st.sampled_from((0.5, NAN, None)), st.sampled_from(([], [1], [1, None], None)), st.sampled_from((DAY, None))
)
row = st.tuples(ks, js, values).map(lambda drawn: (drawn[0], drawn[1], *drawn[2]))
result = st.lists(row, max_size=12, unique_by=lambda drawn: drawn[:2])
table = st.lists(row, max_size=12)


def local(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str = SCHEMA) -> Local:
    return collect_all(spark.createDataFrame(list(rows), schema))


def of_keys(columns: tuple[str, ...], rows: Local) -> Touched:
    return Touched(columns, SomeKeys(columns, rows), None, ())


def touched(spark: SparkSession, keys: Sequence[int | None] = TOUCHED) -> Touched:
    """Touched keys that are only a part of the table's key."""
    return of_keys(("k",), local(spark, [(key,) for key in keys], "k int"))


def touched_by_key(spark: SparkSession) -> Touched:
    return of_keys(("J", "k"), local(spark, list(product(TEXTS, TOUCHED)), "J string, k int"))


def told(frame: DataFrame) -> list[str]:
    """The rows of a difference; what the table holds in some columns is given as a set."""
    columns = [column for column in frame.columns if column != HELD]
    held = ["array_sort(array_distinct(transform(`__lakehouse_held`, h -> h.d)))"] if HELD in frame.columns else []
    return sorted(str(tuple(found)) for found in frame.selectExpr(*columns, *held).collect())


@settings(
    max_examples=max(1, EXAMPLES),
    phases=list(Phase) if EXAMPLES else [Phase.explicit],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(rows=result, held=table, with_held=st.booleans())
@pytest.mark.parametrize("by", [touched, touched_by_key])
@example(
    rows=[
        (0, "x", 0.5, [1], None),
        (0, "X", 0.5, [1], None),
        (1, None, NAN, None, None),
        (None, "ü", None, [1, None], None),
        (None, None, None, None, None),
        (2, "x", 1.0, [], None),
    ],
    held=[
        (0, "x", 0.5, [1], None),  # equal
        (0, "X", 0.5, [2], None),  # different values
        (1, None, NAN, None, None),  # equal; a part of the key is NULL
        (None, "ü", None, [1, None], None),
        (2, "x", 1.0, [], None),  # equal, and in the table twice
        (2, "x", 1.0, [], DAY),
        (3, "gone", 1.0, [], None),
        (3, "gone", 2.0, [], DAY),  # one deleted key
        (None, "gone", 1.0, [], None),
        (0, None, 1.0, [], None),
    ],
    with_held=True,
)
@example(rows=[], held=[(0, "x", 0.5, [1], None)], with_held=False)
@example(rows=[(0, "x", 0.5, [1], None)], held=[], with_held=True)
@example(rows=[(0, "x", 0.5, [1], None)], held=[(0, None, 0.5, [1], None), (0, "X", 0.5, [1], None)], with_held=False)
def test_it_is_the_difference(
    spark: SparkSession,
    by: Callable[[SparkSession], Touched],
    rows: list[tuple[Any, ...]],
    held: list[tuple[Any, ...]],
    *,
    with_held: bool,
) -> None:
    existing = spark.createDataFrame(held, SCHEMA)
    beside = ("d",) if with_held else ()
    mine, keys = local(spark, rows), by(spark)
    found = local_difference("a", mine, existing, KEY, keys, partition_columns=beside)
    expected = difference(with_promises("a", mine.frame, keys), existing, KEY, partition_columns=beside)
    assert found is not None
    assert told(found.frame) == told(expected)
    assert found.rows == len(found.arrow) == found.frame.count()
    assert found.frame.dtypes == expected.dtypes


@for_each("by", [touched, touched_by_key])
def test_where_nothing_is_left_only_the_key_is_read(spark: SparkSession, by: Callable[[SparkSession], Touched]) -> None:
    poisoned = spark.range(1).selectExpr(
        "CAST(id AS INT) AS k",
        "'x' AS j",
        "CAST(raise_error('read') AS DOUBLE) AS v",
        "array(1) AS a",
        "current_date() AS d",
    )
    found = local_difference("a", local(spark, []), poisoned, KEY, by(spark))
    assert found is not None
    assert found.arrow.to_pylist() == [
        {"k": 0, "j": "x", "v": None, "a": None, "d": None, "__lakehouse_operation": "delete"}
    ]


BROKEN = {
    "outside": ([(7, "x", 0.5, [1], None)], "k=7, which is not among its touched keys"),
    "outside, NULL": ([(None, "x", 0.5, [1], None)], "k=NULL, which is not among"),
    "twice": ([(0, "x", 0.5, [1], None), (1, "x", 0.5, [1], None), (0, "x", 1.0, [], None)], "the key k=0, j=x"),
    "twice, NULL": ([(0, None, 0.5, [1], None), (0, None, 0.5, [1], None)], "the key k=0, j=NULL"),
}


@for_each("rows, said", BROKEN.values())
def test_a_broken_promise_is_an_error(spark: SparkSession, rows: list[tuple[Any, ...]], said: str) -> None:
    existing = spark.createDataFrame([], SCHEMA)
    with raises_code("BROKEN_PROMISE", match=said):
        local_difference("a", local(spark, rows), existing, KEY, touched(spark, (0, 1)))


def test_keys_without_literals_are_left_to_spark(spark: SparkSession) -> None:
    """Two such keys may be equal to Spark and not to Python: arrays, and bytes that are not valid text."""
    rows = local(spark, [(0, "x", 0.5, [1], None)])
    existing = spark.createDataFrame([(0, "\ufffd", 0.5, [1], None)], SCHEMA)
    assert local_difference("a", rows, existing.limit(0), ("a",), touched(spark)) is None
    assert local_difference("a", local(spark, [(0, "\ufffd", 0.5, [1], None)]), existing, KEY, touched(spark)) is None
    assert local_difference("a", rows, existing, KEY, touched(spark)) is None, "a key that only the table holds"
    other = of_keys(("k",), local(spark, [(0,)], "k bigint"))
    assert local_difference("a", rows, existing.limit(0), KEY, touched(spark)) is not None
    assert local_difference("a", rows, existing.limit(0), KEY, other) is None
