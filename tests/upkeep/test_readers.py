"""Which reader holds back which files, by real logs whose times are set back; no Spark."""

import json
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.harness.earlier import set_back
from lakehouse.cli.main import main
from lakehouse.cursor.unread import TableState
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import Head
from lakehouse.upkeep.readers import HeldBack, Reader, ReaderKind, Readers, TablePast, past_of, readers_of
from tests.support.daily import run_day
from tests.support.marked_tables import append, run

DAY = 86_400_000
NOW = int(time.time() * 1000)


def log_of(lake: Path, table: str) -> FileLog:
    return FileLog(Location(f"{lake}/{table}"), table)


def look(lake: Path, table: str = "orders", **declared: timedelta) -> tuple[Readers, TablePast]:
    logs = {each.name: log_of(lake, each.name) for each in lake.iterdir()}
    readers = readers_of(table, logs, NOW, declared)
    assert readers is not None
    return readers, past_of(log_of(lake, table).entries_after(-1, readers.head.version))


def properties(lake: Path, table: str, **named: str) -> None:
    named = {name.replace("__", "."): value for name, value in named.items()}
    DeltaTable(str(lake / table)).alter.set_table_properties(named, raise_if_not_exists=False)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """`orders`: rows 1 to 3 (0 to 2), without row 1 (3), without row 2 (4). `copies` has read up to 3."""
    for row in (1, 2, 3):
        append(tmp_path, "orders", row)
    properties(
        tmp_path, "orders", delta__deletedFileRetentionDuration="interval 30 days", lakehouse__timeTravel="7 days"
    )
    DeltaTable(str(tmp_path / "orders")).delete("id = 1")
    run(tmp_path, "copies", "orders")
    DeltaTable(str(tmp_path / "orders")).delete("id = 2")
    return tmp_path


def test_a_reader_within_its_limit_holds_back_what_came_after_its_position(lake: Path) -> None:
    set_back(lake / "orders", 20)
    readers, past = look(lake)
    (copies,) = readers.readers
    assert (copies.name, copies.kind, copies.read, copies.unread) == ("copies", ReaderKind.TABLE, 4, 1)
    assert copies.state(NOW) is TableState.BEHIND
    removed_by = {file.version for file in past.files}
    assert removed_by == {4, 5}
    assert readers.horizon(past) == 4
    assert [file.version for file in readers.unneeded_files(past)] == [4, 4], "a data file, and a file of changed rows"
    held = readers.held_by(copies, past)
    assert held.files == 2 and held.bytes > 0
    assert copies.until is not None and abs(copies.until - (NOW + 10 * DAY)) < DAY / 10


def test_a_reader_beyond_its_limit_holds_nothing_back(lake: Path) -> None:
    set_back(lake / "orders", 31)
    readers, past = look(lake)
    (copies,) = readers.readers
    assert copies.state(NOW) is TableState.ASLEEP
    assert readers.held_by(copies, past) == HeldBack()
    assert readers.horizon(past) == readers.head.version


def test_what_everybody_is_promised_is_no_readers_doing(lake: Path) -> None:
    set_back(lake / "orders", 3)
    readers, past = look(lake)
    assert readers.held_by(readers.readers[0], past) == HeldBack()
    assert readers.horizon(past) == -1, "nothing is older than seven days"
    assert not readers.may_hold_back


def test_a_limit_of_its_own_decides_for_a_table_too(lake: Path) -> None:
    properties(lake, "orders", **{"lakehouse.readers.copies": "14 days"})
    set_back(lake / "orders", 20)
    readers, _ = look(lake)
    assert [reader.state(NOW) for reader in readers.readers] == [TableState.ASLEEP]
    assert [reader.limit for reader in readers.readers] == [timedelta(days=14)]


def test_a_registered_reader_keeps_all_that_is_younger_than_its_limit(lake: Path) -> None:
    properties(lake, "orders", **{"lakehouse.readers.bi": "14 days"})
    run(lake, "copies", "orders")
    set_back(lake / "orders", 10)
    readers, past = look(lake)
    copies, bi = readers.readers
    assert (copies.state(NOW), bi.state(NOW)) == (TableState.UP_TO_DATE, TableState.UNKNOWN)
    assert (readers.held_by(copies, past).files, readers.held_by(bi, past).files) == (0, 4)
    assert readers.horizon(past) == -1
    set_back(lake / "orders", 10)
    later, past = look(lake)
    assert later.held_by(later.readers[1], past) == HeldBack() and later.horizon(past) == later.head.version


def test_a_partitioned_reader_keeps_its_limit(lake: Path) -> None:
    run_day(lake, "2013-01-02")
    set_back(lake / "orders", 10)
    readers, past = look(lake)
    daily = next(reader for reader in readers.readers if reader.name == "daily")
    assert (daily.kind, daily.state(NOW)) == (ReaderKind.PARTITIONS, TableState.BY_PARTITION)
    assert readers.held_by(daily, past).files == 4


def test_a_table_whose_log_cannot_be_read_may_be_a_reader(lake: Path) -> None:
    append(lake, "damaged", 1)
    (lake / "damaged" / "_delta_log" / f"{0:020}.json").write_text("{ no json")
    set_back(lake / "orders", 10)
    readers, past = look(lake)
    assert [reader.kind for reader in readers.readers if reader.problem] == [ReaderKind.UNKNOWN]
    assert readers.horizon(past) == -1


def test_a_reader_whose_source_was_replaced_holds_nothing(lake: Path) -> None:
    other = Reader("x", ReaderKind.TABLE, timedelta(days=7), read=3, first=4, since=NOW - DAY, gap="it was replaced")
    assert other.state(NOW) is TableState.GAP


def test_a_clock_that_was_behind_and_a_commit_without_a_time_make_no_file_older() -> None:
    """Otherwise their files would be removed at once, although every reader was promised them."""
    remove = {"remove": {"path": "a", "deletionTimestamp": NOW}}
    told = [{"commitInfo": {"timestamp": NOW}}, {"add": {"path": "a", "size": 1}}, {"add": {"path": "b", "size": 1}}]
    behind = [{"commitInfo": {"timestamp": NOW - 90 * DAY}}, {"remove": {"path": "b"}}]
    for first, removed in ((told, [remove]), ([{"add": {"path": "a", "size": 1}}], [remove]), (told, behind)):
        entries = [(version, [json.dumps(action) for action in each]) for version, each in enumerate((first, removed))]
        (file,) = past_of(entries).files
        assert file.removed == NOW


def test_a_reader_under_the_former_name_of_its_source_keeps_what_it_may_read(lake: Path) -> None:
    (lake / "orders").rename(lake / "renamed")
    readers, _ = look(lake, "renamed")
    assert [(reader.kind, reader.state(NOW)) for reader in readers.readers if reader.name == "copies"] == [
        (ReaderKind.UNKNOWN, TableState.UNKNOWN)
    ]


def test_a_restored_file_is_in_use_again(lake: Path) -> None:
    DeltaTable(str(lake / "orders")).restore(3)
    _, past = look(lake)
    data = [file for file in past.files if not file.path.startswith("_change_data/")]
    assert data == [], "the version that was restored uses every file of rows"


def test_the_command_says_who_holds_what_back(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_back(lake / "orders", 20)
    assert main(["readers", "orders", "--root", str(lake)]) == 0
    text = capsys.readouterr().out
    assert "copies" in text and "holds for 9 d" in text and "2 files, " in text
    assert main(["status", "--root", str(lake)]) == 0
    assert "copies holds back 2 files (" in capsys.readouterr().out
    assert main(["status", "--root", str(lake), "--json"]) == 0
    (holder,) = json.loads(capsys.readouterr().out)["held_back"]
    assert (holder["table"], holder["reader"], holder["files"]) == ("orders", "copies", 2)


def test_a_limit_that_the_table_does_not_keep_is_known() -> None:
    """For a registered reader it is what was set since; for a declared reader, what every reader is promised."""
    properties = {"lakehouse.readers.bi": "14 days", "delta.deletedFileRetentionDuration": "interval 9 days"}
    registered = Reader("bi", ReaderKind.REGISTERED, timedelta(days=14))
    readers = Readers("orders", Head(1, "id", properties, ()), (registered,), 0)
    assert readers.kept_for(registered) == timedelta(days=9)
    promising = replace(
        readers, head=replace(readers.head, properties={**properties, "lakehouse.timeTravel": "7 days"})
    )
    assert promising.kept_for(replace(registered, is_declared=True)) == timedelta(days=7)
