"""Tables with a name in Spark's catalog instead of a path: the same laws, the log read through SQL."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse import Append, Changes, Merge, Read, Table
from lakehouse.commit.outcome import AlreadyApplied, Committed, Unchanged
from lakehouse.difference.statements import Create, Insert, ReplaceRows
from tests.support.catalog_lake import Named, named
from tests.support.lake import NO_WAIT
from tests.support.raises import raises_code

pytestmark = pytest.mark.anywhere

FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Named]:
    with named(spark, tmp_path) as lake:
        lake.keys["src"] = ("id",)
        rows = "SELECT id, k, v FROM VALUES (1,'a',1), (2,'b',2) t(id, k, v)"
        lake.sql(f"CREATE TABLE {{src}} USING delta {FEED} AS {rows}")
        yield lake


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.where("v > 0"), touched)


def archive(src: Changes) -> Append:
    return Append(src.log().select("id", "v", "change_type"))


def copy(src: DataFrame) -> DataFrame:
    return src


KEYED = Table(key="id")


@pytest.mark.slow
def test_named_tables_are_created_followed_overwritten_and_restored_as_tables_at_a_path_are(lake: Named) -> None:
    first = lake.materialize(kept, KEYED)
    assert isinstance(first, Committed) and isinstance(first.statement, Create)
    for asset in (archive, copy):
        lake.materialize(asset)
    table_id = lake.source("copy").head.table_id
    lake.sql("UPDATE {src} SET v = -1 WHERE id = 1")
    lake.sql("INSERT INTO {src} VALUES (3, 'c', 3)")
    replaced, added = lake.materialize(kept, KEYED), lake.materialize(archive)
    assert isinstance(replaced, Committed) and isinstance(replaced.statement, ReplaceRows)
    assert isinstance(added, Committed) and isinstance(added.statement, Insert)
    assert lake.rows("kept") == [(2, "b", 2), (3, "c", 3)]
    assert isinstance(lake.materialize(kept, KEYED), Unchanged) and lake.version("kept") == 1
    lake.materialize(copy)
    assert lake.rows("copy") == lake.rows("src")
    assert lake.source("copy").head.table_id == table_id, "it was not replaced"
    lake.sql("RESTORE TABLE {kept} TO VERSION AS OF 0")
    lake.materialize(kept, KEYED)
    assert lake.rows("kept") == [(2, "b", 2), (3, "c", 3)]
    lake.sql("INSERT INTO {src} VALUES (4, 'd', 4)")
    twins = [lake.begin(archive) for _ in range(2)]
    writes = [archive(**lake.read(twin, archive)) for twin in twins]  # type: ignore[arg-type]
    twins[0].commit(writes[0], lake.retry, NO_WAIT)
    assert isinstance(twins[1].commit(writes[1], lake.retry, NO_WAIT), AlreadyApplied)
    assert [row[0] for row in lake.rows("archive")] == [1, 1, 1, 2, 3, 4]


@pytest.mark.slow
def test_each_piece_of_a_named_tables_feed_is_its_own(lake: Named) -> None:
    reads = {"src": Read(exclude_operations=("UPDATE",))}
    lake.materialize(archive, reads=reads)
    lake.sql("INSERT INTO {src} VALUES (3, 'c', 3)")
    lake.sql("UPDATE {src} SET v = v + 10")
    lake.sql("DELETE FROM {src} WHERE id = 2")
    lake.materialize(archive, reads=reads)
    told = {(1, 1, "insert"), (2, 2, "insert"), (3, 3, "insert"), (2, 12, "delete")}
    assert {*lake.rows("archive")} == told and len(lake.rows("archive")) == len(told)


def test_a_commit_is_told_its_time_where_clocks_are_set_back(lake: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    then = 1_793_514_600  # half past one in New York, the second time
    for file in (lake.directory("src") / "_delta_log").glob("*.json"):
        os.utime(file, (then, then))
    lake.sql("REFRESH TABLE {src}")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert lake.commits("src")[0].timestamp == then * 1000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_named_table_of_somebody_else_is_not_written(lake: Named) -> None:
    lake.sql("CREATE TABLE {kept} (id int, k string, v int) USING delta")
    lake.sql("INSERT INTO {kept} VALUES (9, 'z', 9)")
    with raises_code("FOREIGN_TABLE"):
        lake.materialize(kept, KEYED)
    assert lake.rows("kept") == [(9, "z", 9)]


def test_a_view_is_refused_for_it_has_no_versions(lake: Named) -> None:
    lake.sql("CREATE VIEW {kept} AS SELECT * FROM {src}")

    def seen(kept: DataFrame) -> DataFrame:
        return kept

    with raises_code("VIEW", match=r"'kept' is a view .* no versions that a run could pin.*Nothing was written"):
        lake.materialize(seen)
    lake.sql("DROP VIEW {kept}")


def test_a_name_in_a_schema_that_is_not_there_is_refused(lake: Named) -> None:
    lake.elsewhere["kept"] = "nowhere"
    with raises_code("NO_SCHEMA", match=r"`nowhere`\.`kept`.*Nothing was written"):
        lake.materialize(kept, KEYED)


@pytest.mark.slow
def test_a_directory_left_by_a_writer_that_died_does_not_keep_a_named_table_from_being_created(lake: Named) -> None:
    debris = lake.directory("kept")
    debris.mkdir()
    (debris / f"part-00000-{uuid4()}-c000.snappy.parquet").write_bytes(b"half a fi")
    assert isinstance(lake.materialize(kept, KEYED), Committed)
    assert lake.rows("kept") == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.slow
def test_a_table_that_the_catalog_has_forgotten_is_not_replaced_and_goes_on_once_it_is_registered(lake: Named) -> None:
    lake.materialize(archive)
    lake.sql("UPDATE {src} SET v = 5 WHERE id = 1")
    lake.materialize(archive)
    before, other = lake.rows("archive"), f"{lake.schema}_other"
    shutil.copytree(lake.directory("archive"), lake.root / "other" / "archive")
    lake.elsewhere["archive"] = other
    lake.spark.sql(f"CREATE SCHEMA {other} LOCATION '{lake.root / 'other'}'")
    with raises_code("PLACE_TAKEN", match="at version 1") as refused:
        lake.materialize(archive)
    lake.sql(f"CREATE TABLE {{archive}} USING delta LOCATION '{refused.value.where}'")
    assert isinstance(lake.materialize(archive), Unchanged)
    assert lake.rows("archive") == before
    lake.spark.sql(f"DROP SCHEMA {other} CASCADE")
