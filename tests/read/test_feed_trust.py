"""A source that was laid out anew: its feed tells deleted rows as they never were, so everything is compared."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Read, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.read.changes import read_of
from tests.support.lake import Lake
from tests.support.slow import slow

SRC = "id int, g string, v int"


def counted(src: Changes) -> Merge:
    touched = src.touched("g")
    return Merge(touched.rows.groupBy("g").agg(F.count("*").alias("n"), F.sum("v").alias("v")), touched)


def counted_ids(src: Changes) -> Merge:
    touched = src.touched("g")
    return Merge(touched.rows.groupBy("g").agg(F.count("*").alias("n")), touched)


def test_a_source_that_a_stream_made_in_complete_mode_is_read_from_before_its_first_version(lake: Lake) -> None:
    frame = pa.table({"id": [1], "g": ["a"], "v": [10]})
    write_deltalake(str(lake.root / "src"), frame, configuration={"delta.enableChangeDataFeed": "true"})
    first = lake.root / "src" / "_delta_log" / f"{0:020}.json"
    told = first.read_text()
    assert '"operation":"CREATE TABLE"' in told or '"operation":"WRITE"' in told
    lines = [json.loads(line) for line in told.splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"] |= {"operation": "STREAMING UPDATE", "operationParameters": {"outputMode": "Complete"}}
    first.write_text("\n".join(map(json.dumps, lines)))
    early = Read(start=dt.datetime(2001, 1, 1, tzinfo=dt.UTC))
    lake.materialize(counted, Table(key="g"), reads={"src": early})
    assert lake.rows("counted") == [("a", 1, 10)]


def reasons(lake: Lake) -> str | None:
    source = lake.source("src")
    changes = lake.begin(counted, Table(key="g")).changes(source, Read(), lake.ref)
    return getattr(read_of(changes).content, "reason", None)


def held(lake: Lake) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql("SELECT g, count(*), sum(v) FROM {src} GROUP BY g"))


def put(lake: Lake, rows: DataFrame, *by: str) -> None:
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    (writer.partitionBy(*by) if by else writer).save(str(lake.root / "src"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "behind"), [(("g",), ()), *(slow(*each) for each in (((), ("g",)), (("g",), ("v",))))]
)
def test_rows_of_a_source_that_is_partitioned_otherwise(
    lake: Lake, before: tuple[str, ...], behind: tuple[str, ...]
) -> None:
    lake.create("src", [(0, "z", 0)], SRC)
    put(lake, lake.values([(1, "a", 10), (2, "b", 20)], SRC), *before)
    lake.materialize(counted, Table(key="g"))
    put(lake, lake.values([(1, "a", 10)], SRC), *behind)
    assert "may have changed its partitioning" in str(reasons(lake))
    lake.materialize(counted, Table(key="g"))
    assert lake.rows("counted") == held(lake) == [("a", 1, 10)]
    lake.sql("RESTORE TABLE {src} TO VERSION AS OF 1")
    lake.materialize(counted, Table(key="g"))
    assert lake.rows("counted") == held(lake) == [("a", 1, 10), ("b", 1, 20)]


@pytest.mark.parametrize("by", [pytest.param(["id"], id="by another column"), slow([], id="by none")])
def test_rows_of_a_source_that_a_writer_who_does_not_say_so_has_laid_out_anew(lake: Lake, by: list[str]) -> None:
    path, whole = str(lake.root / "src"), pa.table({"id": pa.array([1, 2], pa.int32()), "g": ["a", "b"]})
    write_deltalake(path, whole, partition_by=["g"], configuration={"delta.enableChangeDataFeed": "true"})
    there = counted_ids
    lake.materialize(there, Table(key="g"))
    write_deltalake(path, whole.slice(0, 1), mode="overwrite", schema_mode="overwrite", partition_by=by)
    lake.materialize(there, Table(key="g"))
    assert lake.rows("counted_ids") == [("a", 1)]


@pytest.mark.slow
def test_an_overwrite_that_changes_no_layout_is_read_from_the_feed(lake: Lake) -> None:
    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    lake.materialize(counted, Table(key="g"))
    put(lake, lake.values([(1, "a", 11), (3, "c", 30)], SRC))
    assert reasons(lake) is None
    lake.materialize(counted, Table(key="g"))
    lake.sql("RESTORE TABLE {src} TO VERSION AS OF 0")
    assert reasons(lake) is None
    lake.materialize(counted, Table(key="g"))
    assert lake.rows("counted") == held(lake)


@pytest.mark.slow
def test_a_portion_that_ends_before_its_source_was_laid_out_anew_is_not_read_by_the_new_layout(lake: Lake) -> None:
    """Delta would say that the rows of version 1 have no g: a partition's column is in no file."""
    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(counted, Table(key="g"))
    lake.insert("src", [(2, "b", 20)])
    put(lake, lake.frame("src"), "g")
    lake.materialize(counted, Table(key="g"), reads={"src": Read(max_versions=1)})
    assert lake.rows("counted") == held(lake) == [("a", 1, 10), ("b", 1, 20)]


@pytest.mark.slow
def test_nor_is_one_that_ends_far_before_it(lake: Lake) -> None:
    """Nobody reads all commits behind a portion; that the layout is another one by now is seen all the same."""
    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(counted, Table(key="g"))
    for number in (2, 3, 4):
        lake.insert("src", [(number, "b", 20)])
    put(lake, lake.frame("src"), "g")
    with in_force(Limits(commits_ahead=1)):
        lake.materialize(counted, Table(key="g"), reads={"src": Read(max_versions=1)})
    assert lake.rows("counted") == held(lake) == [("a", 1, 10), ("b", 3, 60)]


@pytest.mark.slow
def test_a_source_that_is_laid_out_anew_while_it_is_read_is_compared(lake: Lake) -> None:
    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(counted, Table(key="g"))
    lake.insert("src", [(2, "b", 20)])
    step, pinned = lake.begin(counted, Table(key="g")), lake.source("src")
    put(lake, lake.frame("src").where("id = 2"), "g")
    changes = step.changes(pinned, Read(), lake.ref)
    assert "version 2" in str(getattr(read_of(changes).content, "reason", None))
    assert sorted(tuple(row) for row in changes.source.collect()) == [(1, "a", 10), (2, "b", 20)]
