"""A key that a source only declares decides nothing: what follows the source equals a recompute, whatever its rows."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import Aggregate, Changes, History, Merge, Table, scd
from tests.support.lake import Lake
from tests.support.slow import slow

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "0"))
LINES = "order_id INT, line INT, amount INT"
Line = tuple[int, int, int]
"""A line of an order; each line has its own number, so that an order may have several lines."""


def total_of(lines: Changes) -> Merge:
    touched = lines.touched("order_id")
    return Merge(touched.rows.groupBy("order_id").agg(F.sum("amount").alias("amount")), touched)


def lines_of(lines: Changes) -> Merge:
    touched = lines.touched("order_id")
    return Merge(touched.rows, touched)


def newest_of(lines: Changes) -> Merge:
    touched = lines.touched("order_id")
    return Merge(scd.type1(touched.rows, keys="order_id", sequence_by="line"), touched)


def sums_of(lines: Changes) -> Aggregate:
    return Aggregate(lines, by="order_id", count="lines", sums={"amount": "amount"})


def past_of(lines: Changes) -> History:
    return History(lines)


def total_of_copy(copy: Changes) -> Merge:
    touched = copy.touched("order_id")
    return Merge(touched.rows.groupBy("order_id").agg(F.sum("amount").alias("amount")), touched)


def totals(rows: list[Line]) -> list[tuple[Any, ...]]:
    sums = Counter[int]()
    for order, _, amount in rows:
        sums[order] += amount
    return sorted((order, sums[order]) for order in {order for order, _, _ in rows})


def summed(rows: list[Line]) -> list[tuple[Any, ...]]:
    of = defaultdict[int, list[int]](list)
    for order, _, amount in rows:
        of[order].append(amount)
    return sorted((order, len(amounts), sum(amounts)) for order, amounts in of.items())


def newest(rows: list[Line]) -> list[tuple[Any, ...]]:
    return sorted({order: (order, line, amount) for order, line, amount in sorted(rows)}.values())


@dataclass(frozen=True)
class Case:
    """An asset that follows `lines`, and what its table holds."""

    asset: Callable[..., Any]
    key: tuple[str, ...]
    holds: Callable[[list[Line]], list[tuple[Any, ...]]]


CASES = (
    Case(total_of, ("order_id",), totals),
    Case(lines_of, ("order_id", "line"), sorted),
    Case(newest_of, ("order_id",), newest),
    Case(sums_of, ("order_id",), summed),
    Case(past_of, ("order_id", "line"), sorted),
)


@dataclass(frozen=True)
class Put:
    """A line is added to an order, or gets another order and amount."""

    order: int
    line: int
    amount: int


@dataclass(frozen=True)
class Drop:
    """A line is removed."""

    line: int


edits = st.one_of(
    st.builds(Put, st.integers(1, 2), st.integers(1, 4), st.integers(1, 99)), st.builds(Drop, st.integers(1, 4))
)


def apply(lake: Lake, name: str, edit: Put | Drop, rows: list[Line]) -> list[Line]:
    """Another program's edit of a table, and the table's rows after it."""
    others = [row for row in rows if row[1] != edit.line]
    match edit:
        case Put(order, line, amount) if len(others) == len(rows):
            lake.insert(name, [(order, line, amount)])
            return [*rows, (order, line, amount)]
        case Put(order, line, amount):
            lake.sql(f"UPDATE {{{name}}} SET order_id = {order}, amount = {amount} WHERE line = {line}")
            return [*others, (order, line, amount)]
        case Drop(line):
            lake.sql(f"DELETE FROM {{{name}}} WHERE line = {line}")
            return others


def now(lake: Lake, case: Case) -> list[tuple[Any, ...]]:
    """The rows that the table holds now."""
    rows = lake.frame(case.asset.__name__)
    if case.asset is past_of:
        rows = rows.where("__END_AT IS NULL").select("order_id", "line", "amount")
    return sorted(map(tuple, rows.collect()))


@settings(
    max_examples=max(1, EXAMPLES),
    phases=list(Phase) if EXAMPLES else [Phase.explicit],
    deadline=None,
    derandomize="LAKEHOUSE_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(st.lists(edits, min_size=1, max_size=3), min_size=1, max_size=3))
@example(steps=[[Put(1, 1, 11)], [Drop(2), Put(2, 2, 5)]])
@pytest.mark.parametrize("cases", [CASES[:1], slow(CASES[1:])], ids=["a total", "the others"])
def test_a_source_whose_declared_key_is_none_is_followed_as_it_is(
    spark: SparkSession, tmp_path: Path, cases: tuple[Case, ...], steps: list[list[Put | Drop]]
) -> None:
    lake = Lake(spark, tmp_path / uuid4().hex, keys={"lines": ("order_id",)})
    rows = [(1, 1, 10), (1, 2, 20), (2, 3, 30)]
    lake.create("lines", rows, LINES)
    for case in cases:
        lake.materialize(case.asset, Table(key=case.key))
    for step in steps:
        for edit in step:
            rows = apply(lake, "lines", edit, rows)
        for case in cases:
            note(f"{step} -> {case.asset.__name__}")
            lake.materialize(case.asset, Table(key=case.key))
            assert now(lake, case) == case.holds(rows), (case.asset.__name__, step)


def lines_in(lake: Lake, name: str) -> list[Line]:
    return [(row[0], row[1], row[2]) for row in lake.rows(name)]


def copy(lines: Changes) -> Merge:
    touched = lines.touched("order_id")
    return Merge(touched.rows, touched)


@pytest.mark.slow
@settings(
    max_examples=max(1, EXAMPLES),
    phases=list(Phase) if EXAMPLES else [Phase.explicit],
    deadline=None,
    derandomize="LAKEHOUSE_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(st.lists(st.tuples(st.booleans(), edits), min_size=1, max_size=3), min_size=1, max_size=4))
@example(
    steps=[
        [(True, Put(1, 8, 1))],  # the other program doubles a key that the asset has written
        [(False, Put(2, 2, 99))],  # the asset writes another key,
        [(True, Put(1, 8, 2)), (False, Put(2, 2, 98))],  # both write between two reads,
        [(False, Put(1, 1, 7))],  # and the asset writes the doubled one again.
    ]
)
def test_an_assets_table_that_another_program_writes_too_is_followed_as_it_is(
    spark: SparkSession, tmp_path: Path, steps: list[list[tuple[bool, Put | Drop]]]
) -> None:
    lake = Lake(spark, tmp_path / uuid4().hex, keys={"lines": ("order_id",), "copy": ("order_id",)})
    rows: list[Line] = [(1, 1, 10), (2, 2, 20)]
    lake.create("lines", rows, LINES)
    tables = [(copy, Table(key="order_id")), (total_of_copy, Table(key="order_id"))]
    for asset, table in tables:
        lake.materialize(asset, table)
    for step in steps:
        for of_copy, edit in step:
            if of_copy:
                apply(lake, "copy", edit, lines_in(lake, "copy"))
                continue
            # The key stays unique in the source: the number of a line is that of its order.
            own = Put(edit.order, edit.order, edit.amount) if isinstance(edit, Put) else edit
            rows = apply(lake, "lines", own, rows)
            lake.materialize(copy, Table(key="order_id"))
        lake.materialize(total_of_copy, Table(key="order_id"))
        assert lake.rows("total_of_copy") == totals(lines_in(lake, "copy")), step
