"""Keys that are computed from a row: no row is left out, whatever values the feed gives."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Table
from lakehouse.commit.commit import Committed
from lakehouse.spark.exactness import named_in
from tests.support.for_each import for_each
from tests.support.lake import Lake
from tests.support.model import SRC
from tests.support.slow import slow


@pytest.mark.slow
def test_a_key_may_be_computed_and_rows_have_it(lake: Lake):
    lake.create("src", [(1, " A", 10), (2, "a ", 20), (3, "b", 30)], SRC)
    declared = Table(key="k")
    lake.materialize(by_tidy_name, declared)
    lake.sql("UPDATE {src} SET v = 21 WHERE id = 2")
    lake.insert("src", [(4, "B", 40)])
    done = lake.materialize(by_tidy_name, declared)
    assert lake.rows("by_tidy_name") == [("a", 2, 31), ("b", 2, 70)]
    assert isinstance(done, Committed)


def by_tidy_name(src: Changes) -> Merge:
    touched = src.touched(k="lower(trim(k))")
    return Merge(touched.rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("v")), touched)


BY_MAP = "sha2(to_json(struct(id, tags)), 256)"


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", [slow(BY_MAP), "md5(CAST(name AS BINARY))"], ids=["of a map", "of a text that is no UTF-8"]
)
def test_a_key_that_is_computed_of_what_the_feed_may_tell_otherwise_leaves_out_no_row(lake: Lake, key: str):
    def by_hash(src: Changes) -> Merge:
        touched = src.touched(h=key)
        return Merge(touched.rows.select("h", "id"), touched)

    row = "SELECT {0} AS id, CAST(X'FF0{0}' AS STRING) AS name, map('z', {0}, 'b', 2, 'y', 3, 'a', 4, 'x', 5) AS tags"
    (lake.root / "src").mkdir()
    lake.sql(
        f"CREATE OR REPLACE TABLE {{src}} USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS {row.format(1)}"
    )
    lake.materialize(by_hash, Table(key="h"))
    lake.sql(f"INSERT INTO {{src}} {row.format(2)}")
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.materialize(by_hash, Table(key="h"))
    assert lake.rows("by_hash") == [tuple(row) for row in lake.sql(f"SELECT {key} AS h, id FROM {{src}}")]


@for_each(
    "text, names",
    [
        ("lower(trim(Name))", ["name"]),
        ("id * 2", ["id"]),
        ("void + ids", []),
        ("hash(*)", ["id", "name", "tags", "n`s"]),
        ("to_json(struct(src.*))", ["id", "name", "tags", "n`s"]),
        ("hash(id, *)", ["id", "name", "tags", "n`s"]),
        ("1 + 1", []),
        ("hex(`n``s`)", ["n`s"]),
    ],
)
def test_the_columns_that_an_expression_may_name_are_found_in_its_text(
    spark: SparkSession, text: str, names: list[str]
):
    frame = spark.createDataFrame([], "id int, name string, tags map<string, int>, `n``s` int")
    assert [column.name for column in named_in(frame, [text])] == names
