"""Keys that take columns of several sources: after any edits of both, the table is what a recompute gives."""

from random import Random

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Table, touched_by
from tests.support.lake import Lake
from tests.support.model import DIM, SRC

KEY = ("name", "k")


def pairs(src: DataFrame, dim: DataFrame) -> DataFrame:
    return src.join(dim, "k").selectExpr("name", "k", "v")


def by_name(src: Changes, dim: Changes) -> Merge:
    touched = touched_by(pairs, KEY, src, dim)
    rows = touched.of(pairs(src.source, dim.source)).groupBy(*KEY).agg(F.count("*").alias("n"), F.max("v").alias("top"))
    return Merge(rows, touched)


@pytest.mark.slow
def test_keys_of_two_sources_that_change_together_are_all_touched(lake: Lake):
    random = Random("two sources")
    lake.create("src", [(i, random.choice("abc"), i) for i in range(6)], SRC)
    lake.create("dim", [(k, k.upper(), 1) for k in "abc"], DIM)
    lake.materialize(by_name, Table(key=KEY))
    for number in range(2):
        lake.sql(f"UPDATE {{src}} SET k = '{random.choice('abc')}', v = v + 1 WHERE id % 3 = {number}")
        lake.sql(f"UPDATE {{dim}} SET name = 'N{number}' WHERE k = '{random.choice('abc')}'")
        if number == 1:
            lake.sql("DELETE FROM {dim} WHERE k = 'b'")
            lake.sql("DELETE FROM {src} WHERE id < 2")
        lake.materialize(by_name, Table(key=KEY))
        expected = lake.sql(
            "SELECT name, k, count(*) AS n, max(v) AS top FROM {src} JOIN {dim} USING (k) GROUP BY name, k"
        )
        assert lake.rows("by_name") == sorted((tuple(row) for row in expected), key=repr)


@pytest.mark.slow
def test_a_query_over_a_text_that_is_no_utf_8_leaves_out_no_key(lake: Lake):
    def hashed(src: DataFrame, dim: DataFrame) -> DataFrame:
        return src.join(dim, "k").selectExpr("md5(CAST(name AS BINARY)) AS h", "v")

    def by_hash(src: Changes, dim: Changes) -> Merge:
        touched = touched_by(hashed, "h", src, dim)
        rows = touched.of(hashed(src.source, dim.source)).groupBy("h").agg(F.sum("v").alias("v"))
        return Merge(rows, touched)

    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    lake.create("dim", [("a", "A", 1)], DIM)
    lake.materialize(by_hash, Table(key="h"))
    lake.sql("INSERT INTO {dim} SELECT 'b', CAST(X'FFFE' AS STRING), 1")
    lake.materialize(by_hash, Table(key="h"))
    assert sorted(row[1] for row in lake.rows("by_hash")) == [10, 20]
