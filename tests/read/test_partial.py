"""Inputs that leave changes out, or take them in portions: what was left out comes in only where somebody asks for it."""

import shutil

import pytest
from pyspark.sql import functions as F

from lakehouse import Append, Changes, Merge, Read, Table
from lakehouse.commit.outcome import Committed
from tests.support.assets import copy, log
from tests.support.lake import Lake, aged, cleaned
from tests.support.model import SRC
from tests.support.raises import raises_code

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
KEYED = Table(key="id")
KEEPS = {"src": Read(exclude_operations="DELETE")}


def added(src: Changes) -> Append:
    return Append(src.appended())


def hashed(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.select("id", F.xxhash64("v").alias("h")), touched)


def test_rows_are_appended_although_others_were_deleted_that_are_left_out(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(added, reads=KEEPS)
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.insert("src", [(4, "c", 40)])
    lake.materialize(added, reads=KEEPS)
    assert lake.rows("added") == [*ROWS, (4, "c", 40)]


@pytest.fixture
def kept(lake: Lake) -> Lake:
    """A table that has kept a row which its source has deleted."""
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED, reads=KEEPS, code_version="1")
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.materialize(copy, KEYED, reads=KEEPS, code_version="1")
    assert lake.rows("copy") == ROWS
    return lake


@pytest.mark.slow
def test_changed_code_takes_back_nothing_that_was_kept_unless_it_is_asked_for(kept: Lake) -> None:
    with raises_code("GAP", match=r"is now 2 and was 1.* leaves changes out .*full_refresh"):
        kept.materialize(copy, KEYED, reads=KEEPS, code_version="2")
    assert kept.rows("copy") == ROWS
    kept.insert("src", [(4, "c", 40)])
    kept.materialize(copy, KEYED, reads=KEEPS, code_version="1")
    assert kept.rows("copy") == [*ROWS, (4, "c", 40)]
    kept.materialize(copy, KEYED, reads=KEEPS, code_version="2", compare="a full refresh was asked for")
    assert kept.rows("copy") == kept.rows("src")


@pytest.mark.slow
def test_a_gap_takes_back_nothing_that_was_kept_unless_it_is_asked_for(kept: Lake) -> None:
    kept.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    kept.insert("src", [(5, "e", 50)])
    kept.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    with raises_code("GAP", match="leaves changes out"):
        kept.materialize(copy, KEYED, reads=KEEPS, code_version="1")
    assert kept.rows("copy") == ROWS


@pytest.mark.slow
def test_an_archive_does_not_answer_where_changes_are_left_out_and_nothing_is_taken_back(lake: Lake) -> None:
    keeps = {"src": Read(exclude_operations="DELETE", archive="log")}
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    lake.materialize(copy, KEYED, reads=keeps)
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.sql("UPDATE {src} SET v = 21 WHERE id = 2")
    lake.materialize(log)
    shutil.rmtree(lake.root / "src" / "_change_data")
    with raises_code("GAP", match="leaves changes out"):
        lake.materialize(copy, KEYED, reads=keeps)
    assert lake.rows("copy") == ROWS


@pytest.mark.slow
def test_a_start_in_front_of_the_history_is_an_error_or_its_beginning(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    oldest = cleaned(lake, "src")
    with raises_code("START", match=f"begins later, at version {oldest}"):
        lake.materialize(log, reads={"src": Read(start=1)})
    lake.materialize(log, reads={"src": Read(start=1, clamp=True)})
    assert {row[-2] for row in lake.rows("log")} == {oldest}


def test_a_limit_counts_no_commit_without_rows(lake: Lake) -> None:
    """Alone it would be read at its own version, which Delta hands out for a week only."""
    lake.create("src", ROWS, SRC)
    lake.insert("src", [(4, "c", 40)])
    lake.materialize(copy, KEYED)
    lake.sql("OPTIMIZE {src}")
    aged(lake, "src")
    lake.insert("src", [(5, "d", 50)])
    lake.insert("src", [(6, "d", 60)])
    lake.materialize(copy, KEYED, reads={"src": Read(max_versions=1)})
    assert [row[0] for row in lake.rows("copy")] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_limit_counts_no_commit_without_rows_between_others_either(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED)
    for key in (4, 5, 6):
        lake.insert("src", [(key, "c", key)])
        lake.sql("OPTIMIZE {src}")
    two = Read(max_versions=2)
    lake.materialize(copy, KEYED, reads={"src": two})
    assert [row[0] for row in lake.rows("copy")] == [1, 2, 3, 4, 5]
    lake.materialize(copy, KEYED, reads={"src": two})
    assert lake.rows("copy") == lake.rows("src")


@pytest.mark.slow
def test_a_column_of_another_type_is_compared_for_no_commit_tells_what_it_does_to_a_hash(lake: Lake) -> None:
    lake.create("src", ROWS, SRC, delta__enableTypeWidening="true")
    lake.materialize(hashed, KEYED)
    lake.sql("ALTER TABLE {src} ALTER COLUMN v TYPE BIGINT")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.materialize(hashed, KEYED)
    assert lake.rows("hashed") == sorted(map(tuple, lake.sql("SELECT id, xxhash64(v) FROM {src}")), key=repr)


@pytest.mark.slow
def test_a_comment_is_no_other_type(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id", on_gap="fail"))
    lake.sql("ALTER TABLE {src} ALTER COLUMN v COMMENT 'a number'")
    lake.insert("src", [(4, "c", 40)])
    assert isinstance(lake.materialize(copy, Table(key="id", on_gap="fail")), Committed)
    assert lake.rows("copy") == [*ROWS, (4, "c", 40)]
