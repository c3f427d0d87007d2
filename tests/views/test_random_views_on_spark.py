"""Random queries over random changes, as views on Delta: after every step each table is what its query gives.

The rules are tried on far more queries in DuckDB (test_views_follow.py). Here Spark decides what a text means: it
interprets a run over so few rows, and compiles the query with which the table is compared.
LAKEHOUSE_EXAMPLES sets how many queries there are, with new seeds each time; LAKEHOUSE_SEED sets the first seed.
"""

import os
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakehouse import Policy, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors.views import ViewError
from lakehouse.views.query import read
from lakehouse.views.view_text import NotFollowedError
from tests.support.lake import Lake
from tests.support.random_queries import SCHEMAS, WiderQueries
from tests.support.views import Kept

pytestmark = [pytest.mark.slow, pytest.mark.anywhere, pytest.mark.timeout(0)]
EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "8"))
START = int(os.environ.get("LAKEHOUSE_SEED", Random().randrange(10**6) if "LAKEHOUSE_EXAMPLES" in os.environ else 0))
BY_KEYS = Policy(refresh="incremental")
"""Never computes all rows because many are touched."""


def row_of(random: Random, table: str) -> tuple[int | None, ...]:
    return tuple(None if random.random() < 0.15 else random.randrange(6) for _ in SCHEMAS[table])


def edits(random: Random, table: str) -> Iterator[str]:
    """Statements that change some rows of a table."""
    one, other = random.choices(list(SCHEMAS[table]), k=2)
    yield f"UPDATE {{{table}}} SET {one} = {random.randrange(6)} WHERE {other} = {random.randrange(6)}"
    yield f"DELETE FROM {{{table}}} WHERE {other} = {random.randrange(6)} AND {one} > 1"
    values = ", ".join(str(tuple(row_of(random, table))).replace("None", "NULL") for _ in range(3))
    yield f"INSERT INTO {{{table}}} VALUES {values}"
    yield f"UPDATE {{{table}}} SET {one} = NULL WHERE {other} <=> {random.choice(['NULL', '2'])}"


def random_views(lake: Lake, start: int) -> Iterator[Kept]:
    """Views that Spark computes and whose changes can be followed: the rows of a random query, each with its count."""
    for seed in range(start, start + EXAMPLES):
        sql = WiderQueries(Random(seed)).query(1 + seed % 2)
        try:
            columns = [output.name for output in read(sql, SCHEMAS).outputs]
            counted = f"SELECT {', '.join(columns)}, count(*) AS times FROM ({sql}) GROUP BY {', '.join(columns)}"
            _ = lake.spark.sql(counted).schema
        except (ViewError, NotFollowedError, PySparkException):
            continue
        yield Kept(f"v{seed}", counted, tuple(columns))
        yield Kept(f"w{seed}", whole_of(seed, counted, columns), tuple(columns))


def whole_of(seed: int, sql: str, columns: list[str]) -> str:
    """A query with the same key that keys do not follow, or follow only below its LIMIT."""
    names = ", ".join(columns)
    return (
        f"{sql} ORDER BY times DESC, {names} LIMIT {3 + seed % 5}",
        f"SELECT {names} FROM ({sql}) ORDER BY times DESC, {names} LIMIT {2 + seed % 5}",
        f"{sql} ORDER BY {names} LIMIT 3 OFFSET 1",
        f"SELECT {names}, rank() OVER (ORDER BY times) AS r FROM ({sql})",
        f"SELECT {names}, sum(times) OVER () AS n FROM ({sql})",
        f"FROM ({sql}) |> WHERE times > 0",
    )[seed % 6]


def test_the_tables_are_what_random_queries_say(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(START)
    for table, columns in SCHEMAS.items():
        schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        lake.create(table, [row_of(random, table) for _ in range(14)], schema)
        lake.frame(table).createOrReplaceTempView(table)
    views = list(random_views(lake, START))
    wrong = list[Any]()
    for step in range(4):
        for table in SCHEMAS if step else ():
            lake.sql(random.choice(list(edits(random, table))))
        for table in SCHEMAS:
            lake.frame(table).createOrReplaceTempView(table)
        for view in views:
            with in_force(Limits(whole_rows=0)):
                lake.materialize(view.asset, Table(key=view.key, policy=BY_KEYS))
            expected = sorted(map(tuple, lake.spark.sql(view.sql).collect()), key=repr)
            if lake.rows(view.name) != expected:
                wrong.append((step, view.name, view.sql))
    by_keys = sum("the rows of touched keys" in said for said in lake.said)
    with capsys.disabled():
        sys.stdout.write(f"\n{len(views)} views of {EXAMPLES} queries from seed {START}: {by_keys} steps by keys\n")
    assert not wrong, f"views from seed {START}"
    assert by_keys
