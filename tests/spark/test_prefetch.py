"""The target's snapshot is fetched while the changes are read, and a step never depends on that."""

from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

import lakehouse.materialization
import lakehouse.spark.table_version
from benchmarks.harness.meter import Meter
from lakehouse import Changes, Merge, Table
from lakehouse.commit.outcome import Committed
from lakehouse.spark.table_version import TableRef, prefetch
from tests.support.lake import Lake

KEYED = Table(key="id")


def copied(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def joined(src: Changes, dim: Changes) -> Merge:
    touched = src.touched("id") | dim.touched("k").via(src.source, "id")
    return Merge(touched.of(src.source).join(dim.source, "k", "left"), touched)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose snapshots were fetched in advance."""
    names: list[str] = []

    def watched(spark: SparkSession, ref: TableRef) -> Thread:
        names.append(ref.name)
        return prefetch(spark, ref)

    # The fetch runs in a thread of its own, whose notices no listener gets.
    monkeypatch.setattr(lakehouse.materialization, "prefetch", watched)
    return names


def test_who_needs_the_table_finds_its_log_replayed(lake: Lake) -> None:
    if not hasattr(lake.spark, "sparkContext"):
        pytest.skip("the counters are those of a JVM in this process")
    meter = Meter(lake.spark)
    lake.create("src", [(1, 10), (2, 20)], "id INT, v INT")
    shuffled: list[float] = []
    for key in (1, 2):
        lake.sql(f"UPDATE {{src}} SET v = v + 1 WHERE id = {key}")
        if key == 2:
            prefetch(lake.spark, lake.ref("src")).join()
            meter.settle()
        with meter.lap("read"):
            lake.frame("src").where("id = 1").collect()
        (lap,) = meter.settle()
        shuffled.append(lap.cost.shuffled)
    alone, behind = shuffled
    assert alone > 0, "a replay sorts the log's actions by path"
    assert behind == 0


@pytest.mark.slow
def test_it_is_fetched_once_and_where_spark_has_changes_to_read(lake: Lake, fetched: list[str]) -> None:
    lake.create("src", [(1, 10), (2, 20)], "id INT, k INT")
    lake.create("dim", [(10, "a"), (20, "b")], "k INT, v STRING")
    lake.materialize(joined, KEYED)
    assert not fetched, "there was no table"
    lake.materialize(joined, KEYED)
    assert not fetched, "there was nothing to read"
    lake.sql("UPDATE {src} SET k = 20 WHERE id = 1")
    lake.sql("UPDATE {dim} SET v = 'c' WHERE k = 20")
    lake.materialize(joined, KEYED)
    assert fetched == ["joined"], "of two sources that had changed"
    lake.sql("OPTIMIZE {src}")
    lake.materialize(joined, KEYED)
    assert fetched == ["joined"], "no row had changed"


def test_a_step_neither_waits_for_it_nor_fails_with_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create("src", [(1, 10)], "id INT, v INT")
    lake.materialize(copied, KEYED)
    lake.insert("src", [(2, 20)])
    asked, over = Event(), Event()

    def hanging(_: SparkSession, __: TableRef) -> None:
        asked.set()
        over.wait()

    # A query of Spark cannot be made to hang until the test lets it go on.
    monkeypatch.setattr(lakehouse.spark.table_version, "_replay", hanging)
    outcome = lake.materialize(copied, KEYED)
    assert asked.is_set()
    over.set()
    assert isinstance(outcome, Committed)
    assert lake.rows("copied") == [(1, 10), (2, 20)]


def test_what_goes_wrong_in_it_is_left_to_who_needs_the_table(lake: Lake) -> None:
    prefetch(lake.spark, lake.ref("nowhere")).join()  # an error in a thread would fail this test
