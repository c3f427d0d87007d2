"""A source whose columns change between two reads: what the feed still gives, and where all rows are read instead."""

import shutil
from dataclasses import replace

import pytest

from lakehouse import Append, Changes, History, Merge, Policy, Read, Table
from lakehouse.read.changes import read_of
from lakehouse.read.content import Everything, Feed
from tests.support.assets import copy
from tests.support.lake import Lake
from tests.support.model import SRC
from tests.support.raises import raises_code
from tests.support.slow import all_but, slow

pytestmark = pytest.mark.anywhere

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


@pytest.mark.slow
def test_a_renamed_and_a_dropped_column_split_the_feed(lake: Lake) -> None:
    lake.create("src", ROWS, SRC, delta__columnMapping__mode="name")

    def narrow(src: Changes) -> Merge:
        touched = src.touched("id")
        name = "k" if "k" in touched.rows.columns else "grp"
        return Merge(touched.rows.selectExpr("id", f"{name} AS k"), touched)

    lake.materialize(narrow, Table(key="id"))
    lake.sql("UPDATE {src} SET k = 'x' WHERE id = 1")
    lake.sql("ALTER TABLE {src} RENAME COLUMN k TO grp")
    lake.sql("UPDATE {src} SET grp = 'y' WHERE id = 2")
    lake.sql("ALTER TABLE {src} DROP COLUMN v")
    lake.sql("DELETE FROM {src} WHERE id = 3")
    step = lake.begin(narrow, Table(key="id"))
    changes = lake.read(step, narrow)["src"]
    assert isinstance(changes, Changes) and isinstance(read_of(changes).content, Feed)
    assert read_of(changes).content.via == "the feed in 3 pieces"
    images = {(row.id, row.grp, row["_change_type"]) for row in changes.feed.collect()}
    assert (1, "x", "update_postimage") in images and (3, "a", "delete") in images
    lake.materialize(narrow, Table(key="id"))
    assert lake.rows("narrow") == [(1, "x"), (2, "y")]


@pytest.mark.slow
def test_an_archive_with_other_columns_than_the_source_does_not_answer(lake: Lake) -> None:
    """It would give no values for the columns that it lacks."""

    def narrow(src: Changes) -> Append:
        return Append(src.log().drop("v"))

    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id"))
    lake.materialize(narrow)
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    lake.materialize(narrow)
    shutil.rmtree(lake.root / "src" / "_change_data")
    found = lake.begin(copy, Table(key="id")).changes(lake.source("src"), Read(archive="narrow"), lake.ref)
    assert isinstance(read_of(found).content, Everything)


def past(src: Changes) -> History:
    return History(src)


@pytest.mark.slow
def test_texts_of_a_length_beside_a_widened_column_fit_once_the_tables_are_widened(lake: Lake) -> None:
    wide = "'delta.enableTypeWidening' = 'true'"
    lake.sql(
        f"CREATE TABLE {lake.ref('src').identifier} (id INT, c CHAR(4), w VARCHAR(4), v INT) USING delta "
        f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', {wide})"
    )
    lake.sql("INSERT INTO {src} VALUES (1, 'a', 'a', 10), (2, 'b', 'b', 20)")
    for asset in (copy, past):
        lake.materialize(asset, Table(key="id"))
    lake.sql("ALTER TABLE {src} ALTER COLUMN v TYPE bigint")
    lake.sql("UPDATE {src} SET w = 'bbbb', v = 5000000000 WHERE id = 2")
    for asset in (copy, past):
        with raises_code("SCHEMA", match=r"ALTER COLUMN `v` TYPE bigint"):
            lake.materialize(asset, Table(key="id"))
        lake.sql(f"ALTER TABLE {{{asset.__name__}}} SET TBLPROPERTIES ({wide})")
        lake.sql(f"ALTER TABLE {{{asset.__name__}}} ALTER COLUMN v TYPE bigint")
        lake.materialize(asset, Table(key="id"))
    now = [(1, "a   ", "a", 10), (2, "b   ", "bbbb", 5_000_000_000)]
    assert lake.rows("copy") == now
    held = [(row.id, row.c, row.w, row.v, row["__END_AT"] is None) for row in lake.frame("past").collect()]
    assert sorted(held) == sorted([(*now[0], True), (2, "b   ", "b", 20, False), (*now[1], True)])


@pytest.mark.parametrize("statement", ["merge", slow("auto")])
def test_keys_of_a_length_are_merged_and_deleted(lake: Lake, statement: str) -> None:
    """Delta's MERGE itself fails over a condition on a column that Spark pads."""
    table = Table(key="id", policy=Policy(statement=statement))  # type: ignore[arg-type]
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lake.sql(f"CREATE TABLE {lake.ref('src').identifier} (id CHAR(3), v INT) USING delta {feed}")
    lake.sql("INSERT INTO {src} VALUES ('a', 1), ('bcd', 2), (NULL, 3), ('e', 4)")
    for act in (
        "UPDATE {src} SET v = 5 WHERE id = 'a' OR id IS NULL",
        "DELETE FROM {src} WHERE id = 'bcd'",
        "INSERT INTO {src} VALUES ('f', 6)",
        "UPDATE {src} SET id = concat(rtrim(id), 'x') WHERE v < 6",
    ):
        lake.materialize(copy, table)
        lake.sql(act)
    lake.materialize(copy, table)
    assert lake.rows("copy") == [("ax ", 5), ("ex ", 4), ("f  ", 6), (None, 5)]


def test_a_history_with_a_key_of_a_length_goes_on_from_now(lake: Lake) -> None:
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lake.sql(f"CREATE TABLE {lake.ref('src').identifier} (id CHAR(3), v INT) USING delta {feed}")
    lake.sql("INSERT INTO {src} VALUES ('a', 1)")
    lake.materialize(past, Table(key="id"))
    lake.sql("UPDATE {src} SET v = 2")
    lake.materialize(past, Table(key="id"), go_on_from="now")
    held = [(row.id, row.v, row["__END_AT"] is None) for row in lake.frame("past").collect()]
    assert sorted(held) == [("a  ", 1, False), ("a  ", 2, True)]


def narrowed(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.select("id", "v"), touched)


def mapped(lake: Lake) -> None:
    lake.create("src", [(1, 10, 100), (2, 20, 200)], "id int, v int, w int", delta__columnMapping__mode="name")


FIELDS = {
    "dropped": ["DROP COLUMN s.a"],
    "added": ["ADD COLUMN s.c INT", "SET TBLPROPERTIES ('x' = 'y')"],
    "in another order": ["ALTER COLUMN s.b FIRST"],
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", all_but(("in another order",), FIELDS))
def test_fields_within_a_column_that_changed_are_read_from_all_rows(lake: Lake, changes: list[str]) -> None:
    """A cast goes by position: values would silently get the names of other fields."""

    def field(src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.selectExpr("id", "s.b AS b"), touched)

    def log_of_field(src: Changes) -> Append:
        return Append(src.appended().selectExpr("id", "s.b AS b"))

    lake.create("src", [(1,), (2,)], "id int", delta__columnMapping__mode="name")
    lake.sql("ALTER TABLE {src} ADD COLUMN s STRUCT<a: INT, b: INT>")
    lake.materialize(field, Table(key="id"))
    lake.materialize(log_of_field)
    lake.sql("INSERT INTO {src} SELECT 3, named_struct('a', 5, 'b', 6)")
    for change in changes:
        lake.sql(f"ALTER TABLE {{src}} {change}")
    lake.sql("INSERT INTO {src} (id) VALUES (4)")
    lake.materialize(field, Table(key="id"))
    assert lake.rows("field") == [(1, None), (2, None), (3, 6), (4, None)]
    with raises_code("GAP", match="fields within column s were changed"):
        lake.materialize(log_of_field)


@pytest.mark.slow
def test_the_partitions_of_a_run_are_found_in_rows_from_before_their_column_had_its_name(lake: Lake) -> None:
    mapped(lake)
    start = lake.version("src")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.sql("ALTER TABLE {src} RENAME COLUMN w TO part")
    lake.sql("UPDATE {src} SET v = 12 WHERE id = 1")
    lake.sql("UPDATE {src} SET v = 21 WHERE id = 2")
    source = lake.source("src")
    source = replace(source, at=replace(source.at, where="part IN (100)"))
    found = lake.begin(narrowed, Table(key="id")).changes(source, Read(start=start), lake.ref)
    assert sorted((row.id, row.v) for row in found.feed.collect()) == [(1, 10), (1, 11), (1, 11), (1, 12)]
