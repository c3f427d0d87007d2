"""Columns with types or names that SQL text would not preserve keep them through feed, comparison and commit."""

import datetime as dt

import pytest

from lakehouse import Append, Changes, Merge, Overwrite, Table
from lakehouse.delta.commit_info import NO_ROWS
from lakehouse.spark.types import partition_types
from tests.support.lake import Lake
from tests.support.slow import slow

FEED = "'delta.enableChangeDataFeed' = 'true'"


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def log(src: Changes) -> Append:
    return Append(src.appended())


@pytest.mark.slow
def test_a_nested_field_that_may_not_be_null_stays_so_through_a_merge(lake: Lake) -> None:
    columns = "id int, s struct<a: int NOT NULL>, m map<string, int>"
    for name in ("src", "kept"):
        (lake.root / name).mkdir()
        lake.sql(f"CREATE OR REPLACE TABLE {{{name}}} ({columns}) USING delta TBLPROPERTIES ({FEED})")
    lake.sql("INSERT INTO {src} SELECT 1, named_struct('a', 1), map('x', 1)")
    lake.materialize(kept, Table(key="id"))
    lake.sql("INSERT INTO {src} SELECT 2, named_struct('a', 2), map('x', 2)")
    lake.sql("UPDATE {src} SET s = named_struct('a', 3) WHERE id = 1")
    lake.materialize(kept, Table(key="id"))
    assert [(row["id"], row["s"]["a"]) for row in lake.frame("kept").orderBy("id").collect()] == [(1, 3), (2, 2)]


@pytest.mark.slow
def test_spark_says_of_a_partition_column_that_it_is_a_char(lake: Lake) -> None:
    (lake.root / "src").mkdir()
    lake.sql("CREATE OR REPLACE TABLE {src} (id INT, shop CHAR(4)) USING delta PARTITIONED BY (shop)")
    lake.sql("INSERT INTO {src} VALUES (1, 'a')")
    assert partition_types(lake.frame("src").schema)["shop"] == "char(4)"
    assert partition_types(lake.frame("src").where("shop = 'a'").schema)["shop"] == "char(4)"


def test_a_dollar_and_braces_in_a_nested_name_are_part_of_the_name(lake: Lake) -> None:
    (lake.root / "src").mkdir()
    properties = f"{FEED}, 'delta.columnMapping.mode' = 'name'"
    (lake.root / "log").mkdir()
    for name in ("src", "log"):
        lake.spark.conf.set("spark.sql.variable.substitute", "false")
        try:
            lake.sql(
                f"CREATE OR REPLACE TABLE {{{name}}} (id int, s struct<`${{{{usd}}}}`: int>) USING delta "
                f"TBLPROPERTIES ({properties})"
            )
        finally:
            lake.spark.conf.unset("spark.sql.variable.substitute")
    lake.sql("INSERT INTO {src} SELECT 1, struct(7)")
    lake.materialize(log)
    assert lake.frame("log").schema["s"].dataType.simpleString() == "struct<${usd}:int>"
    assert [tuple(row["s"]) for row in lake.frame("log").collect()] == [(7,)]


@pytest.mark.slow
def test_an_instant_stays_one_where_the_session_takes_timestamp_for_local_time(lake: Lake) -> None:
    (lake.root / "src").mkdir()
    lake.sql(f"CREATE OR REPLACE TABLE {{src}} (id int, at timestamp_ltz) USING delta TBLPROPERTIES ({FEED})")
    lake.sql("INSERT INTO {src} SELECT 1, TIMESTAMP_LTZ'2013-01-01 00:00:00'")
    lake.materialize(kept, Table(key="id"))
    lake.spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        lake.sql("INSERT INTO {src} SELECT 2, TIMESTAMP_LTZ'2013-01-02 00:00:00'")
        lake.materialize(kept, Table(key="id"))
    finally:
        lake.spark.conf.unset("spark.sql.timestampType")
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert dict(lake.frame("kept").dtypes) == {"id": "int", "at": "timestamp"}
    first, second = dt.datetime(2013, 1, 1, tzinfo=dt.UTC), dt.datetime(2013, 1, 2, 5, tzinfo=dt.UTC)
    due = [(1, first.timestamp() * 1_000_000), (2, second.timestamp() * 1_000_000)]
    for name in ("src", "kept"):
        assert sorted(map(tuple, lake.frame(name).selectExpr("id", "unix_micros(at)").collect())) == due


@pytest.mark.slow
@pytest.mark.parametrize("declared", [Table(key="id"), slow(Table())], ids=["with a key", "without a key"])
def test_a_text_for_a_char_column_is_compared_as_spark_pads_it(lake: Lake, declared: Table) -> None:
    def trimmed(src: Changes) -> Overwrite:
        return Overwrite(src.source)

    lake.create("src", [(1, "a", 1), (2, "abc", 2), (3, None, 3)], "id int, k string, v int")
    (lake.root / "trimmed").mkdir()
    lake.sql(f"CREATE OR REPLACE TABLE {{trimmed}} (id int, k char(3), v int) USING delta TBLPROPERTIES ({FEED})")
    lake.materialize(trimmed, declared, compare="the table is adopted")
    written = lake.version("trimmed")
    lake.sql("UPDATE {src} SET v = 4 WHERE id = 3")
    lake.materialize(trimmed, declared)
    assert lake.version("trimmed") == written + 1
    lake.materialize(trimmed, declared, compare="once more")
    assert lake.commits("trimmed")[-1].rows == NO_ROWS
    assert [tuple(row) for row in lake.frame("trimmed").orderBy("id").collect()] == [
        (1, "a  ", 1),
        (2, "abc", 2),
        (3, None, 4),
    ]
