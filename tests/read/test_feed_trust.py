"""A source whose layout was changed: its feed gives deleted rows as they never were, so everything is compared."""

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

SRC = "id int, g string, v int"


def counted(src: Changes) -> Merge:
    touched = src.touched("g")
    return Merge(touched.rows.groupBy("g").agg(F.count("*").alias("n"), F.sum("v").alias("v")), touched)


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


def held(lake: Lake) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql("SELECT g, count(*), sum(v) FROM {src} GROUP BY g"))


def put(lake: Lake, rows: DataFrame, *by: str) -> None:
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    (writer.partitionBy(*by) if by else writer).save(str(lake.root / "src"))


@pytest.mark.slow
def test_a_portion_that_ends_before_its_source_was_laid_out_anew_is_not_read_by_the_new_layout(lake: Lake) -> None:
    """Delta would give the rows of version 1 without g, because a partition column is not in the files."""
    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(counted, Table(key="g"))
    lake.insert("src", [(2, "b", 20)])
    put(lake, lake.frame("src"), "g")
    lake.materialize(counted, Table(key="g"), reads={"src": Read(max_versions=1)})
    assert lake.rows("counted") == held(lake) == [("a", 1, 10), ("b", 1, 20)]


@pytest.mark.slow
def test_nor_is_one_that_ends_far_before_it(lake: Lake) -> None:
    """The commits after a portion are not all read; it is noticed all the same that the layout has changed by now."""
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
