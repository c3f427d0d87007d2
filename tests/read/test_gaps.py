"""Where the feed cannot answer, the next fallback that is exact does: nothing is skipped, nothing is applied twice."""

import datetime as dt
import shutil
from collections.abc import Callable

import pytest

from lakehouse import Append, Changes, Merge, Table
from lakehouse.commit.outcome import Committed
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark
from lakehouse.difference.statements import ReplaceRows
from lakehouse.spark.diagnosis import why_unreadable
from tests.support.assets import copy, log
from tests.support.for_each import for_each
from tests.support.lake import Lake
from tests.support.model import DIM, SRC
from tests.support.raises import raises_code
from tests.support.slow import slow
from tests.support.spark_errors import py4j

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def vacuumed(lake: Lake) -> None:
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 2")
    shutil.rmtree(lake.root / "src" / "_change_data")


def feed_off_for_a_while(lake: Lake) -> None:
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    lake.sql("DELETE FROM {src} WHERE id = 2")
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    lake.insert("src", [(4, "c", 4)])


@pytest.mark.slow
def test_a_target_restored_to_a_time_catches_up(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id"))
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    lake.materialize(copy, Table(key="id"))
    first, second = (commit.timestamp for commit in lake.commits("copy"))
    at = dt.datetime.fromtimestamp((first + second) / 2000, dt.UTC)
    lake.sql(f"RESTORE TABLE {{copy}} TO TIMESTAMP AS OF '{at:%Y-%m-%d %H:%M:%S.%f}'")
    assert lake.rows("copy") == ROWS
    lake.materialize(copy, Table(key="id"))
    assert lake.rows("copy") == lake.rows("src")


@pytest.mark.slow
@pytest.mark.parametrize("gap", [vacuumed, slow(feed_off_for_a_while)], ids=lambda gap: gap.__name__)
def test_the_comparison_writes_only_rows_that_differ(lake: Lake, gap: Callable[[Lake], None]) -> None:
    lake.create("src", [*ROWS, *((n, "m", n) for n in range(10, 40))], SRC)
    lake.materialize(copy, Table(key="id"))
    gap(lake)
    outcome = lake.materialize(copy, Table(key="id"))
    assert isinstance(outcome, Committed)
    assert isinstance(outcome.statement, ReplaceRows)
    rows = outcome.statement.counts
    assert (rows.inserted or 0) + (rows.updated or 0) + (rows.deleted or 0) <= 3


def test_a_full_refresh_of_an_append_that_has_rows_is_refused(lake: Lake) -> None:
    """For an append without rows it is a first read."""
    lake.create("src", ROWS, SRC)
    lake.materialize(log, compare="a full refresh was asked for")
    before = lake.rows("log")
    assert [row[0] for row in before] == [1, 2, 3]
    lake.insert("src", [(4, "c", 40)])
    with raises_code("GAP", match=r"a full refresh was asked for.* An Append cannot take rows back"):
        lake.materialize(log, compare="a full refresh was asked for")
    assert lake.rows("log") == before
    lake.materialize(log)
    assert [row[0] for row in lake.rows("log")] == [1, 2, 3, 4], "the position is where it was"


@pytest.mark.slow
def test_a_position_keeps_its_commit_while_the_source_stays(lake: Lake) -> None:
    def both(src: Changes, dim: Changes) -> Merge:
        touched = src.touched("k") | dim.touched("k")
        return Merge(touched.of(src.source.join(dim.source, "k").select("k", "v", "name")), touched)

    lake.create("src", ROWS[:2], SRC)
    lake.create("dim", [("a", "A", 1), ("b", "B", 1)], DIM)
    lake.materialize(both, Table(key="k"))
    for statement in ("OPTIMIZE {src}", "UPDATE {dim} SET name = 'C'"):
        lake.sql(statement)
        lake.materialize(both, Table(key="k"))
    lake.sql("UPDATE {dim} SET name = 'D'")
    lake.materialize(both, Table(key="k"))
    mark = Mark.from_json(lake.commits("both")[-1].user_metadata)
    assert mark is not None
    assert {name: at.commit for name, at in mark.reads.items()} == {
        name: lake.commits(name)[-1].digest for name in ("src", "dim")
    }


@pytest.mark.slow
def test_a_shallow_clone_of_a_target_does_not_carry_its_position(lake: Lake) -> None:
    """What the clone has read is unknown, which is not the same as nothing."""
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id"))
    lake.sql(f"CREATE TABLE delta.`{lake.root}/clone` SHALLOW CLONE {{copy}}")
    lake.sql("UPDATE {src} SET v = 99 WHERE id = 1")
    with raises_code("GAP", match="a clone does not carry the position"):
        lake.materialize(copy, Table(key="id", on_gap="fail"), name="clone")
    lake.materialize(copy, Table(key="id"), name="clone")
    assert lake.rows("clone") == lake.rows("src")


@pytest.mark.slow
def test_marks_lost_to_log_cleanup_leave_the_epoch_to_go_on_from(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id"))
    for value in range(12):  # past a checkpoint
        lake.sql(f"ALTER TABLE {{copy}} SET TBLPROPERTIES ('a' = '{value}')")
    for version in range(5):
        for file in (lake.root / "copy" / "_delta_log").glob(f"*{version:020}*"):
            file.unlink()
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    lake.materialize(copy, Table(key="id"))
    assert lake.rows("copy") == lake.rows("src")
    mark = Mark.from_json(lake.commits("copy")[-1].user_metadata)
    assert mark is not None and (mark.generation, mark.epoch) == (FIRST_GENERATION, 2)


@pytest.mark.slow
def test_an_append_goes_on_from_a_source_that_has_another_name_now(lake: Lake) -> None:
    def log(moved: Changes) -> Append:
        return Append(moved.log())

    lake.create("src", ROWS, SRC)
    lake.materialize(globals()["log"])
    lake.insert("src", [(4, "c", 40)])
    shutil.move(lake.root / "src", lake.root / "moved")
    lake.materialize(log)
    lake.insert("moved", [(5, "c", 50)])
    lake.materialize(log)
    assert [row[0] for row in lake.rows("log")] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_an_append_does_not_take_a_copied_table_for_a_renamed_one(lake: Lake) -> None:
    def one(src: Changes) -> Append:
        return Append(src.appended())

    def both(src: Changes, twin: Changes) -> Append:
        return Append(src.appended().union(twin.appended()))

    lake.create("src", [(1, "a", 10)], SRC)
    shutil.copytree(lake.root / "src", lake.root / "twin")
    lake.materialize(one, name="kept")
    lake.insert("twin", [(2, "b", 20)])
    lake.materialize(both, name="kept")
    assert [row[0] for row in lake.rows("kept")] == [1, 1, 2]


@pytest.mark.slow
def test_an_append_remembers_a_source_that_it_has_not_read_for_a_while(lake: Lake) -> None:
    def both(src: Changes, dim: Changes) -> Append:
        return Append(src.appended().union(dim.appended()))

    def one(src: Changes) -> Append:
        return Append(src.appended())

    lake.create("src", ROWS, SRC)
    lake.create("dim", [(7, "d", 70)], SRC)
    lake.materialize(both, name="kept")
    lake.insert("src", [(4, "c", 40)])
    lake.insert("dim", [(8, "d", 80)])
    lake.materialize(one, name="kept")
    lake.materialize(both, name="kept")
    assert [row[0] for row in lake.rows("kept")] == [1, 2, 3, 4, 7, 8]


@for_each("cause", ["Permission denied", "Read-only file system", "Too many open files"])
def test_a_file_that_is_there_is_no_gap(cause: str) -> None:
    error = py4j(f"java.io.FileNotFoundException: /lake/copy/_change_data/part-0.parquet ({cause})")
    assert why_unreadable(error) is None
    assert why_unreadable(py4j("java.io.FileNotFoundException: File /lake/part-0 does not exist")) is not None
