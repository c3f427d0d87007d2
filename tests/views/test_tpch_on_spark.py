"""The queries of TPC-H as views on Delta: after edits of all tables at once, each table is what its query gives.

No statistics give the number of rows of a table, so most keys touched is not a reason to compute all.
For the same reason Spark compiles each run; it interprets the query with which the table is compared (`Lake.sql`).
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.delta.limits import Limits, in_force
from tests.support.lake import Lake
from tests.support.switched_off import switched_off
from tests.support.views import Kept
from tests.support.warehouse import KEYS, Warehouse
from tests.views import tpch
from tests.views.tpch import DECLARED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROUNDS, SEED = 3, 21
STATISTICS = "spark.databricks.delta.stats.collect"

HOW = {
    **dict.fromkeys((14, 17), ("its result is one row of all rows",)),
    **dict.fromkeys((6, 19), ("its one row, from what it was", "what went cannot be taken from what it was")),
    **dict.fromkeys((11, 13), ("is computed from many rows",)),
    **dict.fromkeys((15, 22), ("is computed from many rows", "the rows of touched keys")),
}
"""What a run computes, where that is not always the rows of touched keys."""


@dataclass(frozen=True)
class Rounds:
    """The directories of the tables at the beginning and after each round of edits."""

    directories: tuple[Path, ...]

    def bring(self, number: int, lake: Lake) -> None:
        """Brings the tables of a lake to a round: commits are copied, as if the edits had been made there."""
        shutil.copytree(self.directories[number], lake.root, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def rounds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    root = tmp_path_factory.mktemp("warehouse")
    lake = Lake(spark, root / "now")
    warehouse, directories = Warehouse(Random(SEED)), list[Path]()
    for number in range(ROUNDS + 1):
        before = {table: dict(rows) for table, rows in warehouse.rows.items()}
        if number == 0:
            create(lake, warehouse)
        else:
            warehouse.edit(2)
            commit(lake, warehouse, before)
        directories.append(root / str(number))
        shutil.copytree(lake.root, directories[-1])
    return Rounds(tuple(directories))


def create(lake: Lake, warehouse: Warehouse) -> None:
    for table, rows in warehouse.rows.items():
        lake.create(table, [tuple(row.values()) for row in rows.values()], ddl(table))


def commit(lake: Lake, warehouse: Warehouse, before: dict[str, dict[Any, Any]]) -> None:
    """One commit for each table that differs: rows updated, deleted and inserted."""
    for table, was in before.items():
        now = warehouse.rows[table]
        gone = [(*row.values(), True) for key, row in was.items() if key not in now]
        came = [(*row.values(), False) for key, row in now.items() if was.get(key) != row]
        if not gone + came:
            continue
        lake.values(gone + came, f"{ddl(table)}, gone boolean").createOrReplaceTempView("edits")
        same = " AND ".join(f"t.{name} = e.{name}" for name in KEYS[table])
        lake.sql(
            f"MERGE INTO {{{table}}} t USING edits e ON {same} WHEN MATCHED AND e.gone THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    lake.spark.catalog.dropTempView("edits")


def ddl(table: str) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in tpch.SCHEMAS[table].items())


@pytest.fixture
def without_statistics(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(STATISTICS, "false")
    yield
    spark.conf.unset(STATISTICS)


@pytest.mark.parametrize("number", tpch.QUERIES)
def test_the_table_of_a_query_follows_every_round(
    lake: Lake, rounds: Rounds, without_statistics: None, number: int
) -> None:
    held = list[list[tuple[Any, ...]]]()
    for each, (rows, expected) in enumerate(follow(lake, rounds, number)):
        assert rows == expected, (number, each)
        held.append(rows)
    first, *steps = (said for said in lake.said if " computes " in said)  # a slow machine reports more
    assert first.endswith("because there is no table yet."), first
    how = HOW.get(number, ("the rows of touched keys",))
    moved = [said for said in steps if "computes nothing, because no change reaches a row" not in said]
    assert moved and all(any(words in said for words in how) for said in moved), steps
    assert any(before != after for before, after in pairwise(held)), "no edit moved a row"


def test_a_rule_that_is_switched_off_gives_wrong_rows(lake: Lake, rounds: Rounds, without_statistics: None) -> None:
    """Without the rule deleted rows touch no key: an order priority keeps its count when its only order is deleted."""
    with switched_off("planning", "Image.MOVED", "Image.CAME"):
        assert not all(rows == expected for rows, expected in follow(lake, rounds, 4))


def follow(lake: Lake, rounds: Rounds, number: int) -> Iterator[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]]:
    """After each round, the rows of a query's table and those that the query gives."""
    lake.keys = KEYS
    view = Kept(f"q{number}", tpch.QUERIES[number], DECLARED.get(number, ()))
    for each in range(ROUNDS + 1):
        rounds.bring(each, lake)
        with in_force(Limits(whole_rows=0)):
            lake.materialize(view.asset, view.table)
        yield lake.rows(view.name), recomputed(lake, view)


def recomputed(lake: Lake, view: Kept) -> list[tuple[Any, ...]]:
    """The result of the query over the tables' present rows, by views of the session."""
    for table in view.tables:
        lake.frame(table).createOrReplaceTempView(table)
    rows = [tuple(row) for row in lake.sql(view.sql)]
    for table in view.tables:
        lake.spark.catalog.dropTempView(table)
    return sorted(rows, key=repr)
