"""Many rows that differ replace the table's rows in one pass, and the table is the same as after a MERGE."""

import re
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

import pytest

from lakehouse import Changes, Merge, Policy, Read, Retry, Table
from lakehouse.commit.outcome import Committed, Outcome
from lakehouse.cursor.mark import rows_of
from lakehouse.delta.commit_info import Rows
from lakehouse.delta.limits import MEASURED, Limits, in_force
from lakehouse.difference import by_key as keyed
from lakehouse.difference.statements import DeleteMatched, Insert, MarkOnly, MergeRows, ReplaceMatched
from lakehouse.read.changes import read_of
from lakehouse.read.content import Feed
from lakehouse.read.touched import Touched
from tests.support.interleave import rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.slow import all_but, slow
from tests.support.ways_of_comparing import comparisons_by_scan

pytestmark = pytest.mark.anywhere

COUNT = MEASURED.listed_keys + 200
NUMBERS = range(0, 3 * COUNT, 3)
"""More keys than are listed, and none next to another, so that no range covers them either."""
TABLES = {
    "files are rewritten": Table(key="id", properties={"delta.enableDeletionVectors": "false"}),
    "with deletion vectors": Table(key="id"),
}


def copy(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def filled(lake: Lake, keys: Iterable[int] = NUMBERS) -> None:
    lake.create("src", [(key, 0) for key in keys], "id int, v int")


def followed(lake: Lake, table: Table = TABLES["with deletion vectors"]) -> Outcome:
    """A step, after which the copy equals its source."""
    outcome = lake.materialize(copy, table)
    assert lake.rows("copy") == lake.rows("src")
    return outcome


def statement_of(outcome: Outcome) -> object:
    assert isinstance(outcome, Committed)
    return outcome.statement


def images(lake: Lake) -> list[tuple[Any, ...]]:
    version = lake.version("copy")
    feed = lake.source("copy").at.feed(version, version)
    return sorted(map(tuple, feed.groupBy("_change_type").count().collect()))


@pytest.mark.parametrize("table", all_but(("with deletion vectors",), TABLES))
def test_updates_and_inserts_are_one_commit_that_leaves_the_other_rows_alone(lake: Lake, table: Table) -> None:
    filled(lake)
    followed(lake, table)
    lake.sql("UPDATE {src} SET v = 1 WHERE id < 3300")
    lake.insert("src", [(1, 7), (4, 7)])
    outcome = followed(lake, table)
    assert isinstance(outcome, Committed)
    assert isinstance(outcome.statement, ReplaceMatched)
    assert outcome.statement.counts == Rows(2, 1100, 0)
    assert lake.version("copy") == 1
    assert images(lake) == [("delete", 1100), ("insert", 1102)]
    assert outcome.commit.rows == Rows(1102, 0, 1100), "as Delta counts"
    assert rows_of(outcome.commit) == Rows(2, 1100, 0)


@pytest.mark.slow
def test_few_deletes_go_with_the_rows_that_are_written_and_many_are_merged(lake: Lake) -> None:
    filled(lake)
    followed(lake)
    lake.sql("UPDATE {src} SET v = 1 WHERE id >= 300")
    lake.sql("DELETE FROM {src} WHERE id IN (0, 9, 300)")
    outcome = followed(lake)
    assert isinstance(outcome, Committed)
    assert isinstance(outcome.statement, ReplaceMatched)
    assert outcome.statement.counts == Rows(0, COUNT - 101, 3)
    assert images(lake) == [("delete", COUNT - 98), ("insert", COUNT - 101)]
    lake.insert("copy", [(3, 99), (12, 99), (10_000, 99)])  # keys that the table holds twice, by another program
    lake.sql("UPDATE {src} SET v = 2 WHERE id <> 12")
    lake.sql("DELETE FROM {src} WHERE id = 12")
    lake.insert("src", [(10_000, 1)])
    assert isinstance(statement_of(followed(lake)), ReplaceMatched)
    with in_force(Limits(broadcast_rows=1)):
        lake.sql("UPDATE {src} SET v = 3 WHERE id >= 9")
        lake.insert("src", [(1, 7), (4, 7)])
        assert isinstance(statement_of(followed(lake)), ReplaceMatched)
    lake.sql("DELETE FROM {src} WHERE id > 15")
    lake.sql("UPDATE {src} SET v = 4")
    assert isinstance(statement_of(followed(lake)), MergeRows), "the keys cannot be said"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "limits"),
    [
        pytest.param(None, Limits(), id="NULL"),
        slow(-1, Limits(broadcast_rows=1), id="no NULL, more rows than are broadcast"),
    ],
)
def test_deletes_alone_are_one_delete_of_their_keys(lake: Lake, key: int | None, limits: Limits) -> None:
    filled(lake)
    lake.insert("src", [(key, 0)])
    followed(lake)
    lake.insert("copy", [(9, 99)])  # a second row with this key, by another program
    lake.sql("DELETE FROM {src} WHERE id > 6 OR id < 0 OR id IS NULL")
    with in_force(limits):
        outcome = followed(lake)
    assert isinstance(outcome, Committed)
    assert isinstance(outcome.statement, DeleteMatched)
    assert outcome.statement.nulls is (key is None)
    assert outcome.commit.rows == Rows(0, 0, COUNT - 1)
    assert len(str(outcome.commit.parameters)) < 1_000, "the keys are not said in the log"
    assert images(lake) == [("delete", COUNT - 1)]


@pytest.mark.slow
def test_rows_that_a_rival_deleted_in_the_same_moment_are_no_foreign_application_id(lake: Lake) -> None:
    """Delta then commits nothing, and raises nothing."""
    filled(lake)
    followed(lake)
    lake.sql("DELETE FROM {src} WHERE id > 6")
    step = lake.begin(copy, TABLES["with deletion vectors"])
    write = copy(**lake.read(step, copy))
    with (
        rivals(lake.spark, lambda: lake.sql("DELETE FROM {copy} WHERE id > 6"), before="snapshot"),
        raises_code("CONFLICT", match="last to DELETE"),
    ):
        step.commit(write, Retry(attempts=1), NO_WAIT)
    assert isinstance(lake.materialize(copy, TABLES["with deletion vectors"]), Committed)
    assert lake.rows("copy") == lake.rows("src")


@pytest.mark.slow
def test_keys_without_literals_need_none_while_nothing_is_deleted(lake: Lake) -> None:
    lake.create("src", [], "id struct<x: int>, v int")
    lake.sql("INSERT INTO {src} VALUES (named_struct('x', 1), 0), (named_struct('x', 2), 0), (NULL, 0)")
    lake.materialize(copy, TABLES["with deletion vectors"])
    lake.sql("UPDATE {src} SET v = 1 WHERE id IS NULL OR id.x = 2")
    assert isinstance(statement_of(lake.materialize(copy, TABLES["with deletion vectors"])), ReplaceMatched)
    assert [*map(tuple, lake.sql("SELECT id.x, v FROM {copy} ORDER BY 2, 1"))] == [(1, 0), (None, 1), (2, 1)]
    lake.sql("UPDATE {src} SET v = 2 WHERE id.x = 1")
    lake.sql("DELETE FROM {src} WHERE id IS NULL")
    assert isinstance(statement_of(lake.materialize(copy, TABLES["with deletion vectors"])), MergeRows)


def pairs(src: Changes) -> Merge:
    touched = src.touched("a.b", "s")
    return Merge(touched.rows, touched)


@pytest.mark.slow
def test_a_key_of_several_columns_whatever_they_are_called(lake: Lake) -> None:
    """With NULL in either column, and with one column whose name Spark has to quote."""
    rows = [("x", 1, 0), ("x", None, 0), (None, None, 0), ("it's", 1, 0)]
    lake.create("src", rows, "`a.b` string, s bigint, `c``d` int", delta__enableDeletionVectors="true")
    table = Table(key=["a.b", "s"])
    lake.materialize(pairs, table)
    lake.sql("DELETE FROM {src}")
    lake.insert("src", [("x", None, 1), (None, None, 1)])
    with in_force(Limits(listed_keys=3)):  # four keys differ, and two of them are deleted
        outcome = lake.materialize(pairs, table)
    assert isinstance(statement_of(outcome), ReplaceMatched)
    assert lake.rows("pairs") == [("x", None, 1), (None, None, 1)]


@pytest.mark.parametrize(
    "table",
    [
        slow(Table(key="id", partition_by="v"), id="others may write other partitions"),
        slow(Table(key="id", policy=Policy(statement="merge")), id="asked for"),
        slow(TABLES["files are rewritten"], id="files are written again anyway"),
    ],
)
def test_where_it_is_not_to_be_it_is_a_merge(lake: Lake, table: Table) -> None:
    filled(lake)
    followed(lake, table)
    lake.sql("UPDATE {src} SET v = 1")
    assert isinstance(statement_of(followed(lake, table)), MergeRows)


@pytest.mark.slow
def test_an_engine_that_does_not_know_the_option_is_not_given_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine would ignore the option, and replace the whole table."""
    # Each supported Delta knows the option, so the code is made to look for another one.
    monkeypatch.setattr(keyed, "REPLACE_ON", "spark.databricks.delta.replaceOn.of.another.version")
    filled(lake)
    followed(lake)
    lake.sql("UPDATE {src} SET v = 1 WHERE id > 6")
    assert isinstance(statement_of(followed(lake)), MergeRows)


@pytest.fixture
def few_rows_at_the_driver() -> Generator[None]:
    with in_force(Limits(driver_rows=100)):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows_at_the_driver")
def test_rows_too_many_for_the_driver_are_counted_where_they_are(lake: Lake) -> None:
    filled(lake)
    followed(lake)
    lake.insert("src", [(key + 1, 0) for key in NUMBERS])
    assert isinstance(statement_of(followed(lake)), Insert)
    lake.sql("UPDATE {src} SET v = 1 WHERE id > 300")
    replaced = statement_of(followed(lake))
    assert isinstance(replaced, ReplaceMatched)
    assert "<=>" in replaced.on, "whether a key is NULL is not known"
    assert replaced.counts == Rows(0, 2 * COUNT - 201, 0)
    lake.sql("UPDATE {src} SET v = 2 - v WHERE id > 300")  # equal to the rows before
    outcome = followed(lake)
    assert isinstance(outcome, Committed)
    assert isinstance(outcome.statement, MarkOnly)
    lake.sql("DELETE FROM {src} WHERE id > 3000")
    lake.sql("UPDATE {src} SET v = 3 WHERE id > 300")
    merged = statement_of(followed(lake))
    assert isinstance(merged, MergeRows)
    assert not merged.few


@pytest.mark.slow
def test_keys_of_a_known_number_are_sent_to_the_join(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """The changes are not at the driver and have no statistics, so otherwise Spark would shuffle the table."""
    lake.create("src", [(key, 0) for key in range(9)], "id int, v int")
    followed(lake)

    def changes() -> Changes:
        with in_force(Limits(driver_rows=1)):
            return lake.begin(copy, Table(key="id")).changes(lake.source("src"), Read(), lake.ref)

    def is_sent(touched: Touched, rows: int = MEASURED.broadcast_rows) -> bool:
        with in_force(Limits(driver_rows=1, broadcast_rows=rows)):
            touched.of(lake.frame("src")).explain("extended")
        return "strategy=broadcast" in capsys.readouterr().out

    lake.sql("UPDATE {src} SET v = 1 WHERE id < 3")
    lake.sql("INSERT INTO {src} VALUES (10, 0)")
    found = changes()
    assert found.touched("id").touched.most == 2 * 3 + 1
    assert is_sent(found.touched("id"))
    assert isinstance(read_of(found).content, Feed)
    archived = Changes(replace(read_of(found), content=replace(read_of(found).content, commits=())))
    assert archived.touched("id").touched.most is None, "an archive's rows are not counted"
    assert not is_sent(found.touched("id"), rows=6)
    lake.sql("RESTORE TABLE {src} TO VERSION AS OF 0")
    assert changes().touched("id").touched.most is None, "a RESTORE does not say how many rows it changed"


@pytest.mark.slow
def test_rows_that_were_only_added_are_looked_for_by_their_keys(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the commits of the source show, the table may already hold these rows."""
    comparisons = comparisons_by_scan(monkeypatch)
    lake.keys["src"] = ("id",)
    lake.trust_key = True
    filled(lake)
    followed(lake)
    lake.sql(f"INSERT INTO {{src}} SELECT CAST(id + 1 AS INT), 0 FROM range(0, {3 * COUNT}, 3)")
    assert isinstance(statement_of(followed(lake)), Insert)
    assert not comparisons
    lake.sql("INSERT INTO {copy} VALUES (5, 99)")  # by another program
    lake.sql(f"INSERT INTO {{src}} SELECT CAST(id + 2 AS INT), 0 FROM range(0, {3 * COUNT}, 3)")
    assert isinstance(statement_of(followed(lake)), ReplaceMatched)
    lake.sql("UPDATE {src} SET v = 1 WHERE id < 3000")
    followed(lake)
    assert len(comparisons) == 2


@pytest.mark.slow
def test_of_many_files_not_all_are_opened_for_few_rows(lake: Lake) -> None:
    lake.create("src", [(key, 0) for key in range(0, 60, 3)], "id int, v int")
    followed(lake)
    for first in (60, 120):
        lake.insert("src", [(key, 0) for key in range(first, first + 60, 3)])
        followed(lake)
    no_list = Limits(listed_keys=1, key_ranges=1, opened_files=0)
    with in_force(no_list):
        lake.sql("UPDATE {src} SET v = 1 WHERE id IN (3, 63)")
        assert isinstance(statement_of(followed(lake)), MergeRows)
        lake.sql("UPDATE {src} SET v = 2")
        assert isinstance(statement_of(followed(lake)), ReplaceMatched), "each file has rows that differ"


@pytest.mark.slow
def test_the_rows_that_are_looked_for_lie_in_the_ranges_of_the_keys(lake: Lake) -> None:
    """Parquet skips what is outside the ranges, although no predicate names all of the keys."""
    filled(lake)
    followed(lake)
    lake.sql("UPDATE {src} SET v = 1 WHERE id >= 9")
    statement = statement_of(followed(lake))
    assert isinstance(statement, ReplaceMatched)
    assert_ends_near(statement.on, "__lakehouse_table", NUMBERS[-1])
    lake.sql("DELETE FROM {src} WHERE id >= 6")
    statement = statement_of(followed(lake))
    assert isinstance(statement, DeleteMatched)
    assert statement.within is not None
    assert_ends_near(statement.within, "t", NUMBERS[-1])


def assert_ends_near(condition: str, table: str, last: int) -> None:
    """Checks that the range holds the last key, and little beyond it: its ends are rounded."""
    end = re.search(rf"{table}\.`id` <= (\d+)\)", condition)
    assert end is not None and last <= int(end[1]) <= 1.1 * last


@pytest.mark.slow
def test_its_feed_tells_a_reader_what_changed(lake: Lake) -> None:
    """Two hops: the reader follows a table that was changed in one pass several times, then by few keys."""

    def reader(copy: Changes) -> Merge:
        touched = copy.touched("id")
        return Merge(touched.rows, touched)

    lake.keys["copy"] = ("id",)
    filled(lake)
    for turn in range(3):
        lake.sql(f"UPDATE {{src}} SET v = {turn} WHERE id % 2 = 0")
        lake.sql(f"DELETE FROM {{src}} WHERE id = {6 * turn}")
        followed(lake)
        lake.materialize(reader, TABLES["with deletion vectors"])
        assert lake.rows("reader") == lake.rows("src")
    lake.sql("UPDATE {src} SET v = 9 WHERE id < 30")
    followed(lake)
    lake.materialize(reader, TABLES["with deletion vectors"])
    assert lake.rows("reader") == lake.rows("src")
