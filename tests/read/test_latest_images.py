"""Rows from the feed: if the key is unique they are the source's own; otherwise they are looked up in the source."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse import Append, Changes, Merge, Read, Table
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.read.content import rows_after
from lakehouse.read.touched import Touched
from lakehouse.spark.driver_rows import Local
from tests.support.lake import Lake
from tests.support.slow import slow

SRC = "id int, k string, v int"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30), (None, None, 40)]


def copy(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def copy_of_both(src: Changes) -> Merge:
    touched = src.touched("id", "k")
    return Merge(touched.rows, touched)


def log(src: Changes) -> Append:
    return Append(src.appended())


def test_a_feed_without_rows_tells_that_there_are_none(spark: SparkSession) -> None:
    """A commit that is not quiet may still be empty: its writer recorded no counts."""
    feed = spark.createDataFrame([], f"{SRC}, _change_type string, _commit_version long, _commit_timestamp timestamp")
    told = rows_after(Local.empty(feed), ("id",), ["id", "k", "v"])
    assert told is not None
    assert (told.rows, told.schema.names) == (0, ["id", "k", "v"])


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[DataFrame]]:
    """The frames in which touched keys were looked up."""
    frames: list[DataFrame] = []
    restricted = Touched.restrict

    def counted(self: Touched, frame: DataFrame) -> DataFrame:
        frames.append(frame)
        return restricted(self, frame)

    # Nothing that a step reports shows whether equal rows were looked up in the source.
    monkeypatch.setattr(Touched, "restrict", counted)
    return frames


def read(lake: Lake, source: str, *keys: str, **options: Any) -> tuple[Changes, Touched]:
    """The changes and touched keys that an asset finds now if it has read `source` up to `after`."""
    step = lake.begin(copy, Table(key="id"), name="reader")
    changes = step.changes(lake.source(source), Read(start=options.pop("after"), **options), lake.ref)
    return changes, changes.touched(*keys)


def held(lake: Lake, source: str, *keys: Any, column: int = 0) -> list[tuple[Any, ...]]:
    """The source's rows with these keys."""
    return [row for row in lake.rows(source) if row[column] in keys]


def tells(changes: Changes, touched: Touched, lookups: list[DataFrame], due: list[tuple[Any, ...]]) -> bool:
    """Whether the rows come from the feed; wherever they come from, they must be those that are due."""
    lookups.clear()
    found = sorted(map(tuple, touched.rows.collect()), key=repr)
    told = not lookups
    assert found == due
    assert touched.rows.schema == changes.source.schema
    return told


@pytest.mark.parametrize(
    ("statements", "keys"),
    [
        pytest.param(
            ["UPDATE {src} SET v = v + 1 WHERE id <= 2", "UPDATE {src} SET v = v + 1 WHERE id = 1"],
            (1, 2),
            id="update",
        ),
        pytest.param(
            ["INSERT INTO {src} REPLACE WHERE id > 0 VALUES (1, 'a', 10), (4, 'd', 1)"], (1, 2, 3, 4), id="overwrite"
        ),
        slow(
            ["UPDATE {src} SET id = 9 WHERE id = 1", "INSERT INTO {src} VALUES (1, 'again', 0)"],
            (1, 9),
            id="another key",
        ),
        slow(
            ["DELETE FROM {src} WHERE id = 1", "UPDATE {src} SET v = NULL WHERE id = 2", "OPTIMIZE {src}"],
            (1, 2),
            id="delete",
        ),
        slow(["INSERT INTO {src} VALUES (5, 'e', 1)", "DELETE FROM {src} WHERE id = 5"], (5,), id="come and gone"),
    ],
)
def test_the_newest_image_of_a_unique_key_is_its_row(
    lake: Lake, lookups: list[DataFrame], statements: list[str], keys: tuple[int, ...]
) -> None:
    lake.create("src", ROWS, SRC)
    lake.keys["src"] = ("ID",)
    lake.trust_key = True
    for statement in statements:
        lake.sql(statement)
    assert tells(*read(lake, "src", "id", after=0), lookups, held(lake, "src", *keys))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "key", "keys"),
    [
        slow("RESTORE TABLE {src} TO VERSION AS OF 1", ("id",), (1, 2, 3, None), id="restored"),
        slow("UPDATE {src} SET v = 0 WHERE id = 1", (), (1, 2), id="no key is declared"),
        slow("UPDATE {src} SET v = 0 WHERE k = 'a'", ("k",), ("a", "b"), id="the declared key is none"),
        slow("ALTER TABLE {src} SET TBLPROPERTIES ('words' = 'some')", ("id",), (2,), id="another schema"),
        pytest.param("DELETE FROM {src} WHERE id IS NULL", ("id",), (2, None), id="a key that is NULL"),
        slow("INSERT INTO {src} VALUES (7, CAST(X'FF' AS STRING), 1)", ("id",), (2, 7), id="text that is no UTF-8"),
    ],
)
def test_where_the_feed_may_not_tell_a_row_the_source_is_asked(
    lake: Lake, lookups: list[DataFrame], statement: str, key: tuple[str, ...], keys: tuple[Any, ...]
) -> None:
    lake.create("src", ROWS, SRC)
    lake.keys["src"] = key
    lake.trust_key = True
    lake.sql("UPDATE {src} SET v = 1 WHERE id = 2")
    lake.sql("UPDATE {src} SET v = 2 WHERE id = 2")
    lake.sql(statement)
    due = held(lake, "src", *keys, column=1 if key == ("k",) else 0)
    assert not tells(*read(lake, "src", *(key or ("id",)), after=1), lookups, due)


@pytest.mark.slow
def test_a_key_that_is_only_declared_is_no_reason_to_take_rows_from_the_feed(
    lake: Lake, lookups: list[DataFrame]
) -> None:
    lake.create("src", ROWS, SRC)
    lake.keys["src"] = ("id",)
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    assert not tells(*read(lake, "src", "id", after=0), lookups, held(lake, "src", 1))


@pytest.mark.slow
def test_days_that_java_s_calendar_lacks_are_read_from_the_source(lake: Lake, lookups: list[DataFrame]) -> None:
    lake.sql(
        "CREATE TABLE {src} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS "
        "SELECT 1 AS id, DATE'1582-10-10' AS day",
        src=lake.ref("src").identifier,
    )
    lake.keys["src"] = ("id",)
    lake.trust_key = True
    lake.sql("INSERT INTO {src} VALUES (2, DATE'2026-01-01')")
    assert tells(*read(lake, "src", "id", after=0), lookups, held(lake, "src", 2))
    lake.sql("INSERT INTO {src} VALUES (3, DATE'1582-10-10')")
    assert not tells(*read(lake, "src", "id", after=1), lookups, held(lake, "src", 3))


@pytest.mark.slow
def test_commits_that_are_left_out_may_have_changed_the_row(lake: Lake, lookups: list[DataFrame]) -> None:
    lake.create("src", ROWS, SRC)
    lake.keys["src"] = ("id",)
    lake.trust_key = True
    lake.sql("UPDATE {src} SET v = 1 WHERE id = 2")
    lake.sql("DELETE FROM {src} WHERE id = 2")
    assert not tells(*read(lake, "src", "id", after=0, exclude_operations=("DELETE",)), lookups, [])


@pytest.mark.slow
def test_an_asset_keeps_its_key_and_a_statement_of_somebody_else_does_not(lake: Lake, lookups: list[DataFrame]) -> None:
    lake.create("src", ROWS, SRC)
    lake.keys["copy"] = ("id",)
    lake.materialize(copy, Table(key="id"))
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    lake.materialize(copy, Table(key="id"))
    assert tells(*read(lake, "copy", "id", after=0), lookups, [(1, "a", 0)])
    lake.sql("INSERT INTO {copy} VALUES (2, 'twice', 0)")
    twice = [(2, "b", 20), (2, "twice", 0)]
    assert not tells(*read(lake, "copy", "id", after=0), lookups, [(1, "a", 0), *twice])
    assert not tells(*read(lake, "copy", "id", after=1), lookups, twice)


@pytest.mark.slow
def test_rows_that_were_compared_by_another_key_promise_nothing(lake: Lake, lookups: list[DataFrame]) -> None:
    """The newest image of id 1 is a delete, and yet there is a row: by the key at that time there were two."""
    lake.create("src", [(1, "a", 10), (1, "b", 20), (2, "c", 30)], SRC)
    lake.keys["copy"] = ("id",)
    lake.materialize(copy_of_both, Table(key=("id", "k")), name="copy", code_version="1")
    lake.sql("DELETE FROM {src} WHERE k = 'b'")
    lake.materialize(copy_of_both, Table(key=("id", "k")), name="copy", code_version="1")
    lake.materialize(copy, Table(key="id"), code_version="2")
    assert not tells(*read(lake, "copy", "id", after=0), lookups, [(1, "a", 10)])


@pytest.mark.slow
def test_a_run_of_one_partition_knows_nothing_of_the_others(lake: Lake, lookups: list[DataFrame]) -> None:
    """Even where Delta has no partitions, because the asset had none when its table was created."""
    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    lake.keys["copy"] = ("id",)
    lake.materialize(copy, Table(key="id"))
    lake.sql("UPDATE {src} SET k = 'b' WHERE id = 1")
    for k in "ba":
        one = Slice((PartitionKey(k, {"k": k}, {}),))
        lake.materialize(copy, Table(key="id", partition_by="k"), slice=one)
    assert not tells(*read(lake, "copy", "id", after=0), lookups, [(1, "b", 10)])


@pytest.mark.slow
def test_appended_rows_may_repeat_a_key_whatever_their_table_declares(lake: Lake, lookups: list[DataFrame]) -> None:
    lake.create("src", ROWS, SRC)
    lake.keys["log"] = ("id",)
    lake.materialize(log, Table(key="id"))
    lake.insert("src", [(1, "again", 0)])
    lake.materialize(log, Table(key="id"))
    assert not tells(*read(lake, "log", "id", after=0), lookups, [(1, "a", 10), (1, "again", 0)])


def test_a_key_may_be_in_several_partitions(lake: Lake, lookups: list[DataFrame]) -> None:
    table = lake.ref("src").identifier
    lake.sql(
        f"CREATE TABLE {table} ({SRC}) USING delta PARTITIONED BY (k) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    lake.keys["src"] = ("id",)
    lake.trust_key = True
    lake.insert("src", [(1, "a", 1)])
    lake.insert("src", [(1, "b", 2)])
    assert not tells(*read(lake, "src", "id", after=1), lookups, [(1, "a", 1), (1, "b", 2)])
