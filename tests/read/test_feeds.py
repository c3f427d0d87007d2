"""A feed is read once in a run, whoever asks for it, and never taken for that of other commits."""

import shutil
from collections.abc import Callable, Generator
from dataclasses import replace

import pytest

from lakehouse import Changes, Merge, Read, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.read.feed_reader import Feeds
from lakehouse.spark.progress import Doing, Notice, listening
from tests.support.lake import Lake

pytestmark = pytest.mark.anywhere

Rows = list[tuple[str, int, int]]


def copied(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


@pytest.fixture
def reads() -> Generator[list[Notice]]:
    """The feeds that were read from the table."""
    seen = list[Notice]()

    def listen(notice: Notice) -> None:
        if notice == Doing("reading the changes of src"):
            seen.append(notice)

    with listening(listen):
        yield seen


@pytest.fixture
def changed(lake: Lake) -> Callable[..., Rows]:
    """A source of three versions; the fixture reads its changes since one of them as another asset of the run."""
    feeds = Feeds()
    lake.create("src", [(1, 10), (2, 20)], "id INT, v INT")
    lake.insert("src", [(3, 30)])
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")

    def since(version: int, where: str | None = None, exclude: tuple[str, ...] = ()) -> Rows:
        step, source = lake.begin(copied, Table(key="id"), name=f"reader {version}", feeds=feeds), lake.source("src")
        if where is not None:
            source = replace(source, at=replace(source.at, where=where))
        changes = step.changes(source, Read(start=version, exclude_operations=exclude), lake.ref)
        return sorted((row._change_type, row.id, row.v) for row in changes.feed.collect())

    return since


def test_changes_say_whether_everything_or_nothing_is_in_them(lake: Lake) -> None:
    lake.create("src", [(1, 10), (2, 20)], "id INT, v INT")

    def found() -> tuple[bool, bool]:
        changes = lake.begin(copied, Table(key="id")).changes(lake.source("src"), Read(), lake.ref)
        return changes.is_initial, changes.is_empty

    assert found() == (True, False)
    lake.materialize(copied, Table(key="id"))
    assert found() == (False, True)
    lake.sql("DELETE FROM {src} WHERE id = 1")
    assert found() == (False, False)


WHOLE = [("insert", 3, 30), ("update_postimage", 1, 11), ("update_preimage", 1, 10)]


def test_the_second_reader_of_the_same_commits_reads_no_table(
    changed: Callable[..., Rows], reads: list[Notice]
) -> None:
    assert changed(0) == changed(0) == WHOLE
    assert len(reads) == 1


@pytest.mark.slow
def test_other_commits_are_another_feed(changed: Callable[..., Rows], reads: list[Notice], lake: Lake) -> None:
    assert changed(0) == WHOLE
    assert changed(1) == WHOLE[1:]
    assert changed(0, where="id = 1") == WHOLE[1:]
    assert len(reads) == 3
    assert changed(0, exclude=("WRITE",)) == WHOLE[1:]
    assert len(reads) == 3, "what is left are the commits that were read on their own before"
    lake.sql("DELETE FROM {src} WHERE id = 2")
    assert changed(0) == [("delete", 2, 20), *WHOLE]
    assert len(reads) == 4


@pytest.mark.slow
def test_each_piece_of_a_feed_in_pieces_is_its_own(changed: Callable[..., Rows], lake: Lake) -> None:
    lake.sql("DELETE FROM {src} WHERE id = 2")
    assert changed(0, exclude=("UPDATE",)) == [("delete", 2, 20), ("insert", 3, 30)]


def test_a_feed_may_be_in_many_pieces(lake: Lake) -> None:
    """A chain of unions would be a message that is nested more deeply than a server accepts."""
    lake.create("src", [(1, 10)], "id INT, v INT")
    assert lake.source("src").at.unite([lake.spark.range(1)] * 600).columns == ["id"]


def test_pinned_rows_are_never_those_of_another_table_at_the_same_version(lake: Lake) -> None:
    lake.create("src", [(1, 10)], "id INT, v INT")
    rows = lake.source("src").at.rows()
    assert rows.columns == ["id", "v"]
    shutil.rmtree(lake.root / "src")
    lake.create("src", [(2, 20)], "id INT, v INT")
    with pytest.raises(Exception, match=r"DELTA_STATE_RECOVER_ERROR|FILE_NOT_EXIST"):
        rows.collect()


def test_a_table_that_took_the_place_of_another_has_a_feed_of_its_own(
    changed: Callable[..., Rows], reads: list[Notice], lake: Lake
) -> None:
    assert changed(0) == WHOLE
    lake.sql("CREATE OR REPLACE TABLE {src} (id INT, v INT) USING delta")
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    lake.insert("src", [(7, 70)])
    assert changed(lake.version("src") - 1) == [("insert", 7, 70)]
    assert len(reads) == 2


def test_a_column_that_came_later_is_in_the_rows_of_a_later_reader(changed: Callable[..., Rows], lake: Lake) -> None:
    assert changed(0) == WHOLE
    lake.sql("ALTER TABLE {src} ADD COLUMN w INT")
    assert changed(0) == WHOLE


def test_newer_feeds_take_the_room_of_older_ones(changed: Callable[..., Rows], reads: list[Notice]) -> None:
    with in_force(Limits(kept_feed_bytes=1)):
        assert changed(0) == changed(0) == WHOLE
    assert len(reads) == 2


@pytest.mark.slow
def test_assets_of_one_run_that_read_one_source_hold_what_they_should(lake: Lake, reads: list[Notice]) -> None:
    lake.create("src", [(1, 10), (2, 20)], "id INT, v INT")
    names = ["first", "second", "third"]
    for name in names:
        lake.materialize(copied, Table(key="id"), name=name)
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.insert("src", [(3, 30)])
    feeds = Feeds()
    for name in names:
        lake.materialize(copied, Table(key="id"), name=name, feeds=feeds)
        assert lake.rows(name) == [(2, 20), (3, 30)]
    assert len(reads) == 1
