"""The changes of a commit whose deletion vectors are too large for Delta's feed come from comparing two versions."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Read, Table
from lakehouse.cli.table_rows import diff_of
from lakehouse.cli.tables import NamedTable
from lakehouse.read.changes import read_of
from lakehouse.read.content import Feed
from tests.support.assets import log
from tests.support.catalog_lake import named
from tests.support.lake import Lake

pytestmark = pytest.mark.anywhere

COUNT = 440_000
"""Rows in one file: a vector that deletes a third of them, scattered, takes more than 64 KB in the feed."""


def summed(src: Changes) -> Merge:
    touched = src.touched("part")
    return Merge(touched.rows.groupBy("part").agg(F.count("*").alias("n"), F.sum("v").alias("total")), touched)


@pytest.fixture
def deleted(lake: Lake) -> Lake:
    return _deleted(lake)


def _deleted(lake: Lake) -> Lake:
    """A source whose version 2 is such a commit, and the tables that have read it up to version 0."""
    ids = lake.spark.range(0, COUNT, 1, 1).selectExpr("explode(array_repeat(id, IF(id = 4, 3, 1))) AS id")
    frame = ids.selectExpr("id", "id % 10 AS part", "1 AS v")
    feed, vectors = "delta.enableChangeDataFeed", "delta.enableDeletionVectors"
    writer = frame.write.format("delta").options(**{feed: "true", vectors: "true"})
    ref = lake.ref("src")
    writer.saveAsTable(ref.identifier) if ref.path is None else writer.save(ref.path)
    lake.materialize(summed, Table(key="part"))
    lake.sql("DELETE FROM {src} WHERE id = 3")
    lake.sql("DELETE FROM {src} WHERE id % 3 = 1")
    lake.sql("INSERT INTO {src} VALUES (-1, 3, 7), (-1, 3, 7)")
    return lake


@pytest.mark.slow
def test_delta_s_own_feed_fails(deleted: Lake) -> None:
    with pytest.raises(Exception, match="too long"):
        deleted.source("src").at.feed(2, 2).collect()


@pytest.mark.slow
def test_each_row_is_told_as_often_as_it_was_deleted_or_inserted(deleted: Lake) -> None:
    _is_told(deleted)


@pytest.mark.slow
def test_each_row_of_a_named_table_is_told_so_too(spark: SparkSession, tmp_path: Path) -> None:
    with named(spark, tmp_path) as lake:
        _is_told(_deleted(lake))


def _is_told(deleted: Lake) -> None:
    changes = deleted.begin(log).changes(deleted.source("src"), Read(start=0), deleted.ref)
    assert isinstance(read_of(changes).content, Feed) and read_of(changes).content.via is not None
    told = changes.feed.groupBy("_change_type", "_commit_version").agg(F.count("*"), F.sum("id"))
    gone = [*range(1, COUNT, 3), 4, 4]
    assert sorted(map(tuple, told.collect())) == [
        ("delete", 1, 1, 3),
        ("delete", 2, len(gone), sum(gone)),
        ("insert", 3, 2, -2),
    ]
    assert changes.feed.where("_commit_timestamp > '2020-01-01'").count() == len(gone) + 3
    assert changes.feed.columns == [*changes.source.columns, "_change_type", "_commit_version", "_commit_timestamp"]


@pytest.mark.slow
def test_what_follows_the_source_goes_on_from_its_position(deleted: Lake) -> None:
    deleted.materialize(summed, Table(key="part", on_gap="fail"))
    expected = deleted.sql("SELECT part, count(*), sum(v) FROM {src} GROUP BY part")
    assert deleted.rows("summed") == sorted(map(tuple, expected), key=repr)


@pytest.mark.slow
def test_an_archive_of_the_feed_holds_it(deleted: Lake) -> None:
    deleted.materialize(log, reads={"src": Read(start=0)})
    counted = deleted.sql("SELECT change_type, count(*) FROM {log} GROUP BY change_type")
    assert sorted(map(tuple, counted)) == [("delete", len(range(1, COUNT, 3)) + 3), ("insert", 2)]


def test_a_column_that_was_dropped_and_added_again_differs_in_each_row(lake: Lake) -> None:
    """No commit between the versions has rows."""
    lake.create("src", [(1, 10), (2, 20)], "id INT, v INT", delta__columnMapping__mode="name")
    before = lake.version("src")
    for act in ("DROP COLUMN v", "ADD COLUMN v INT"):
        lake.sql(f"ALTER TABLE {{src}} {act}")
    table = NamedTable.of_ref(lake.ref("src"), lambda: lake.spark)
    diff, way = diff_of(table, (before, lake.version("src")), ("id",), 10, lambda _: None)
    assert diff.counts.updated == 2 and diff.columns == {"v": 2}
    assert "the name of v was dropped or renamed" in way
