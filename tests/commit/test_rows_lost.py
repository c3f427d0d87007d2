"""Rows that a plan had computed are lost with their executor: the write is planned again, from the same inputs."""

from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse import Changes, Merge, Retry, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.difference import by_key
from tests.support.lake import Lake
from tests.support.raises import raises_code

SRC = "id int, v int"


def followed(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def losing(monkeypatch: pytest.MonkeyPatch, lake: Lake, times: int) -> list[int]:
    """Lets the JVM forget the rows of a local checkpoint, as it does when their executor dies, up to `times` times."""
    losses = list[int]()
    computed: Any = by_key.compute_once

    def compute_once(frame: DataFrame, **few: bool) -> Any:
        rows = computed(frame, **few)
        blocks = lake.spark.sparkContext._jsc.getPersistentRDDs()
        if len(losses) < times and not blocks.isEmpty():
            losses.append(len(blocks))
            for block in blocks.values():
                block.unpersist(True)
        return rows

    # Rows are lost between the comparison that computed them and the statement that writes them.
    monkeypatch.setattr(by_key, "compute_once", compute_once)
    return losses


@pytest.fixture
def moved(lake: Lake) -> Lake:
    lake.create("src", [(n, n) for n in range(20)], SRC)
    lake.materialize(followed, Table(key="id"))
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id < 15")
    return lake


@pytest.mark.slow
def test_a_run_whose_computed_rows_are_lost_computes_them_again(moved: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = losing(monkeypatch, moved, 2)
    with in_force(Limits(driver_rows=10)):
        moved.materialize(followed, Table(key="id"))
    assert len(losses) == 2
    assert "Rows computed for followed were lost with their executor. They are computed again." in moved.told
    assert moved.rows("followed") == moved.rows("src")


@pytest.mark.slow
def test_rows_that_are_lost_each_time_end_the_run_and_nothing_is_written(
    moved: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = moved.version("followed")
    losing(monkeypatch, moved, 99)
    with in_force(Limits(driver_rows=10)), raises_code("COMPUTE", match="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"):
        moved.materialize(followed, Table(key="id"), retry=Retry(attempts=2, wait_initial=0, wait_max=0))
    assert moved.version("followed") == before
