"""Whichever way a run of a view takes, the rows are its query's, and its readers find no change in an equal row."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakehouse import Aggregate, Changes, History, Merge, Table, View
from lakehouse.delta.limits import Limits, in_force
from lakehouse.writes.overwrite import refuse_split_keys
from tests.support.lake import Lake

WAYS = {
    "by keys": Limits(),
    "compared": Limits(changes_to_count=0, changes_of_view=0.0),
    "replaced": Limits(changes_to_count=0, changes_of_view=0.0, compared_rows=-1),
}
SCHEMA = "id int, k string, v double, c char(3), at struct<day: date, n: int>"
VALUES = ("0.0D", "-0.0D", "double('NaN')", "NULL", "1.5D", "2.5D")
PARTS = ("NULL", "named_struct('day', DATE'2024-01-01', 'n', NULL)", "named_struct('day', NULL, 'n', 1)")
TIMES = ("__START_AT", "__END_AT")


def kept(orders: Changes) -> View:
    return View("SELECT id, k, v, c, at, v * 2 AS twice FROM orders WHERE k IS NULL OR k <> 'gone'")


def counted(kept: Changes) -> View:
    return View("SELECT k, count(*) AS n, max(v) AS top, count(at.n) AS parts FROM kept GROUP BY k")


def ranked(kept: Changes) -> View:
    return View("SELECT *, row_number() OVER (PARTITION BY k ORDER BY v, id) AS place FROM kept")


def copied(kept: Changes) -> Merge:
    touched = kept.touched("id")
    return Merge(touched.rows, touched)


def summed(kept: Changes) -> Aggregate:
    return Aggregate(kept, "k", "n", {"ids": "id"})


def past(kept: Changes) -> History:
    return History(kept)


QUERIES: dict[Callable[..., Any], str] = {
    counted: "SELECT k, count(*) AS n, max(v) AS top, count(at.n) AS parts FROM {kept} GROUP BY k",
    ranked: "SELECT *, row_number() OVER (PARTITION BY k ORDER BY v, id) AS place FROM {kept}",
    copied: "SELECT * FROM {kept}",
    summed: "SELECT k, count(*) AS n, sum(id) AS ids FROM {kept} GROUP BY k",
}
KEYS = {kept: "id", counted: "k", ranked: "id", copied: "id", summed: "k", past: "id"}


def row(random: Random, number: int) -> str:
    key = random.choice(("'a'", "'b'", "'gone'", "NULL"))
    return f"({number}, {key}, {random.choice(VALUES)}, {random.choice(('NULL', repr('a'), repr('b  ')))}, {random.choice(PARTS)})"


def edit(random: Random, first: int) -> str:
    one = random.randrange(12)
    return random.choice(
        (
            f"UPDATE {{orders}} SET v = {random.choice(VALUES)} WHERE id % 3 = {one % 3}",
            f"UPDATE {{orders}} SET k = {random.choice(('NULL', repr('a'), repr('gone')))} WHERE id = {one}",
            f"UPDATE {{orders}} SET at = {random.choice(PARTS)} WHERE id >= {one}",
            f"DELETE FROM {{orders}} WHERE id = {one}",
            f"UPDATE {{orders}} SET v = v WHERE id > {one}",
            "INSERT INTO {orders} VALUES " + ", ".join(row(random, first + i) for i in range(3)),
        )
    )


def shown(lake: Lake, query: str, *without: str) -> list[str]:
    """The rows as texts, in which NaN is equal to itself and -0.0 differs from 0.0."""
    frame = lake.spark.sql(query.format(kept=lake.ref("kept").identifier)).drop(*without)
    return sorted(map(str, frame.collect()))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_each_way_gives_the_same_rows_also_to_readers(lake: Lake, seed: int) -> None:
    random = Random(seed)
    lake.create("orders", [], SCHEMA)
    lake.sql("INSERT INTO {orders} VALUES " + ", ".join(row(random, i) for i in range(12)))
    states, taken = list[dict[Any, str]](), set[str]()
    for step in range(7):
        for number in range(random.randrange(1, 3)) if step else ():
            lake.sql(edit(random, 12 + 10 * step + 3 * number))
        way = random.choice(list(WAYS)) if step else "by keys"
        before = lake.version("kept") if step else -1
        with in_force(WAYS[way]):
            lake.materialize(kept, Table(key="id"))
        if lake.version("kept") > before:
            taken.add(str(lake.commits("kept")[-1].operation))
            states.append({each["id"]: str(each) for each in lake.frame("kept").collect()})
        expected = "SELECT id, k, v, c, at, v * 2 AS twice FROM {orders} WHERE k IS NULL OR k <> 'gone'"
        assert shown(lake, "SELECT * FROM {kept}") == sorted(map(str, lake.sql(expected))), (step, way)
        for reader, query in QUERIES.items():
            if step == 6 or random.random() < 0.5:
                with in_force(WAYS[random.choice(list(WAYS))]):
                    lake.materialize(reader, Table(key=KEYS[reader]))
                found = shown(lake, f"SELECT * FROM {lake.ref(reader.__name__).identifier}")
                assert found == shown(lake, query), (step, way, reader.__name__)
    lake.materialize(past, Table(key="id"))
    assert any("Overwrite" in each or "WRITE" in each for each in taken), taken
    intervals = {each[0]: each[1] for each in lake.sql("SELECT id, count(*) FROM {past} GROUP BY id")}
    assert intervals == versions(states)


def test_a_replacement_finds_a_key_with_two_rows_whatever_its_type(lake: Lake) -> None:
    random = Random(1)
    numbers = ["NULL", *map(str, (-(2**31), -65, -64, -63, -1, 0, 1, 63, 64, 65, 2**31 - 1))]
    for kind in ("tinyint", "int", "bigint", "string", "decimal(20,0)", "double"):
        fitting = numbers if kind != "tinyint" else [each for each in numbers if len(each) < 5]
        for doubled in (False, True):
            keys = random.sample([(a, b) for a in fitting for b in "xy"], 12)
            rows = [*keys, random.choice(keys)] if doubled else keys
            values = ", ".join(f"(CAST({a} AS {kind}), '{b}')" for a, b in rows)
            frame = lake.spark.sql(f"SELECT * FROM VALUES {values} AS t (A, b)")
            try:
                refuse_split_keys(frame, ("b", "a"))
                is_refused = False
            except PySparkException:
                is_refused = True
            assert is_refused is doubled, (kind, rows)


def versions(states: list[dict[Any, str]]) -> dict[Any, int]:
    """How many different rows each key had one after the other, by the states of the table that its history reads."""
    counts, before = dict[Any, int](), dict[Any, str]()
    for state in states:
        for key in state:
            if state[key] != before.get(key):
                counts[key] = counts.get(key, 0) + 1
        before = state
    return counts
