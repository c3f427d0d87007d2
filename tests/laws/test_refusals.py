"""What a result or a table must not be: a clear error, and nothing written."""

from typing import Any

import pytest
from pyspark.sql import functions as F

from lakehouse import Append, Changes, Merge, Table
from lakehouse.delta.file_log import FileLog
from tests.support.assets import kept
from tests.support.for_each import for_each
from tests.support.lake import Lake
from tests.support.model import SRC
from tests.support.raises import raises_code

pytestmark = [pytest.mark.core, pytest.mark.anywhere]

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def outside(src: Changes) -> Merge:
    return Merge(src.source, src.touched("id"))


def twice(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.union(touched.rows), touched)


def retyped(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.withColumn("v", F.col("v").cast("string")), touched)


@pytest.fixture
def source(lake: Lake) -> Lake:
    lake.create("src", ROWS, SRC)
    return lake


def test_a_result_that_breaks_a_promise_or_does_not_fit_is_a_clear_error_and_nothing_is_written(source: Lake) -> None:
    results = {
        outside: ("BROKEN_PROMISE", r"id=\d, which is not among its touched keys"),
        twice: ("BROKEN_PROMISE", r"more than one row with the key id="),
        retyped: ("SCHEMA", "v: the table has int, the result string"),
    }
    for asset in results:
        source.materialize(kept, Table(key="id"), name=asset.__name__)
    source.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    for asset, (code, text) in results.items():
        with raises_code(code, match=text):
            source.materialize(asset, Table(key="id"))
        assert source.version(asset.__name__) == 0


def once(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def test_two_rows_with_one_key_are_refused_in_the_first_commit_too(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    with raises_code("BROKEN_PROMISE", match="more than one row"):
        lake.materialize(twice, Table(key="id"))
    assert not list((lake.root / "twice").glob("_delta_log/*.json"))
    lake.materialize(once, Table(key="id"), name="twice")  # the data files of the failed attempt do no harm
    assert lake.rows("twice") == ROWS


def by_group(src: Changes) -> Merge:
    touched = src.touched("k")
    return Merge(touched.rows.select("id", "k"), touched)


def test_a_key_that_lives_outside_the_touched_keys_is_not_overwritten(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(by_group, Table(key="id"))
    lake.insert("src", [(2, "c", 1)])  # id 2 is in group b, which is not touched
    with raises_code("BROKEN_PROMISE", match="outside the touched keys"):
        lake.materialize(by_group, Table(key="id"))
    assert lake.rows("by_group") == [(1, "a"), (2, "b"), (3, "a")]


def no_such_column(src: Changes) -> Merge:
    touched = src.touched("nope")
    return Merge(touched.rows, touched)


def touched_by_group(src: Changes) -> Merge:
    touched = src.touched("k")
    return Merge(touched.rows.select("id", "v"), touched)


def reserved(src: Changes) -> Append:
    return Append(src.feed)


def binary(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.withColumn("bytes", F.col("k").cast("binary")), touched)


def spaced(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.withColumn("order id", F.col("id")), touched)


def within(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.withColumn("s", F.struct(F.col("id").alias("a=b"))), touched)


def fails(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.withColumn("v", F.raise_error(F.lit("user code is wrong")).cast("int")), touched)


@for_each(
    "asset, table, code, text",
    [
        (no_such_column, Table(key="id"), "COLUMN_MISSING", "has no column nope. .*id, k, v"),
        (touched_by_group, Table(key="id"), "COLUMN_MISSING", "The result of 'touched_by_group' has no column k."),
        (reserved, Table(), "SCHEMA", "_change_type: is a column of Delta's change data feed"),
        (kept, Table(), "MISSING_KEY", r"Add metadata=Table\(key=...\)"),
        (kept, Table(key="uid"), "SCHEMA", "uid: is declared as key but is not in the result"),
        (kept, Table(key="id", partition_by="day"), "SCHEMA", "day: is declared as partition_by"),
        (binary, Table(key="id", partition_by="bytes"), "SCHEMA", r"bytes: is BINARY .*use hex\(\)"),
        (spaced, Table(key="id"), "SCHEMA", "order id: has a blank .*'delta.columnMapping.mode': 'name'"),
        (within, Table(key="id"), "SCHEMA", "s.a=b: has a blank"),
        (fails, Table(key="id"), "PLAN", "user code is wrong"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    source: Lake, asset: Any, table: Table, code: str, text: str
) -> None:
    with raises_code(code, match=text) as raised:
        source.materialize(asset, table)
    assert not list((source.root / asset.__name__).glob("_delta_log/*.json"))
    assert "\n\tat " not in str(raised.value)


def test_a_source_without_a_feed_is_refused_with_the_statement_that_enables_it(lake: Lake) -> None:
    lake.create("src", ROWS, SRC, delta__enableChangeDataFeed="false")
    with raises_code("CHANGE_FEED_DISABLED") as raised:
        lake.materialize(kept, Table(key="id"))
    lake.spark.sql(str(raised.value).partition("Enable it once: ")[2])
    lake.materialize(kept, Table(key="id"))
    lake.insert("src", [(4, "c", 1)])
    lake.materialize(kept, Table(key="id"))
    assert len(lake.rows("kept")) == 4


@pytest.mark.slow
def test_a_new_field_within_a_column_is_refused_with_the_statement_that_adds_it(lake: Lake) -> None:
    lake.create("src", [(1,)], "id int")
    lake.sql("ALTER TABLE {src} ADD COLUMNS (at struct<x: int>)")
    lake.sql("UPDATE {src} SET at = named_struct('x', 1)")
    lake.materialize(once, Table(key="id"))
    lake.sql("ALTER TABLE {src} ADD COLUMNS (at.y struct<z: int>)")
    lake.sql("INSERT INTO {src} VALUES (2, named_struct('x', 2, 'y', named_struct('z', 3)))")
    remedy = r"the table lacks at\.y\)\. .*ADD COLUMNS \(at\.y struct<z:int>\)\. The next run then writes its values"
    with raises_code("SCHEMA", match=remedy):
        lake.materialize(once, Table(key="id"))
    lake.sql("ALTER TABLE {once} ADD COLUMNS (at.y struct<z: int>)")
    lake.materialize(once, Table(key="id"))
    assert [row.asDict(recursive=True)["at"] for row in lake.frame("once").orderBy("id").collect()] == [
        {"x": 1, "y": None},
        {"x": 2, "y": {"z": 3}},
    ]


def added(src: Changes) -> Append:
    return Append(src.appended())


def test_appended_rows_of_a_source_that_updates_are_refused(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(added)
    lake.insert("src", [(4, "c", 1)])
    lake.materialize(added)
    assert len(lake.rows("added")) == 4
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    with raises_code("NOT_APPEND_ONLY", match=r"versions \(1, 2\]"):
        lake.materialize(added)


@pytest.mark.slow
def test_appended_rows_of_a_source_that_does_not_say_are_refused_while_they_are_read(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(added)
    lake.spark.conf.set("spark.databricks.delta.history.metricsEnabled", "false")
    try:
        lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    finally:
        lake.spark.conf.unset("spark.databricks.delta.history.metricsEnabled")
    with raises_code("BROKEN_PROMISE", match=r"appended to 'src', whose version 1 has changed others"):
        lake.materialize(added)
    assert len(lake.rows("added")) == 3


def test_a_table_with_somebody_elses_rows_is_not_taken_over(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.create("kept", [(7, "z", 7)], SRC)
    with raises_code("FOREIGN_TABLE", match="rows that another program committed"):
        lake.materialize(kept, Table(key="id"))
    assert lake.rows("kept") == [(7, "z", 7)]
    lake.materialize(kept, Table(key="id"), compare="a full refresh was asked for")
    assert lake.rows("kept") == ROWS


def test_a_property_that_expires_transactions_is_refused(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(kept, Table(key="id"))
    lake.sql("ALTER TABLE {kept} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 days')")
    with raises_code("UNSAFE_TABLE", match="UNSET TBLPROPERTIES"):
        lake.materialize(kept, Table(key="id"))


def test_a_table_that_only_spark_sees_at_the_path_is_not_replaced(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path without a scheme is on Spark's default file system, which may not be that of this process."""
    lake.create("src", ROWS, SRC)
    lake.create("once", [(7, "z", 70)], SRC)
    with monkeypatch.context() as patched:
        # Spark and this process share one file system here, so the table is hidden from this process.
        opened = FileLog._open
        patched.setattr(FileLog, "_open", lambda log: None if log._location.path.endswith("once") else opened(log))
        with raises_code("OTHER_FILE_SYSTEM", match="at version 0"):
            lake.materialize(once, Table(key="id"))
    assert lake.rows("once") == [(7, "z", 70)]
