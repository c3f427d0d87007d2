"""Where a whole lakehouse stands, by real logs: what is reported, and how much is read for that."""

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.harness.earlier import set_back
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.status.lakehouse_status import (
    COMMITS_TOLD,
    Declarations,
    Holder,
    LakehouseStatus,
    TableReport,
    lakehouse_status,
)
from lakehouse.upkeep.due import UpkeepWork
from tests.support.marked_tables import append, run

DAY = 86_400_000


def logs_of(root: Path) -> dict[str, FileLog]:
    names = sorted(log.parent.relative_to(root).as_posix() for log in root.rglob("_delta_log"))
    return {name: FileLog(Location(f"{root}/{name}"), name) for name in names}


def look(root: Path, declarations: Declarations | None = None) -> LakehouseStatus:
    return lakehouse_status(logs_of(root), int(time.time() * 1000), declarations)


def of(lakehouse: LakehouseStatus, name: str) -> TableReport:
    return next(table for table in lakehouse.tables if table.status.name == name)


def properties(table: Path, **named: str) -> None:
    named = {name.replace("__", "."): value for name, value in named.items()}
    DeltaTable(str(table)).alter.set_table_properties(named, raise_if_not_exists=False)


def test_readers_deadlines_and_what_is_held_back_are_those_of_the_source(tmp_path: Path) -> None:
    append(tmp_path, "orders", 1, 2)
    keeps = {"delta__deletedFileRetentionDuration": "interval 30 days", "lakehouse__timeTravel": "interval 2 days"}
    properties(tmp_path / "orders", **keeps)
    run(tmp_path, "gold/copies", "orders")
    DeltaTable(str(tmp_path / "orders")).delete("id = 1")
    set_back(tmp_path / "orders", 6)
    lakehouse = look(tmp_path)
    (reading,) = of(lakehouse, "gold/copies").status.reads
    assert reading.since is not None and reading.until == reading.since + 30 * DAY
    assert [each.reader.name for each in of(lakehouse, "orders").readers] == ["gold/copies"]
    (holder,) = lakehouse.holders
    assert isinstance(holder, Holder)
    assert (holder.table, holder.reader, holder.files, holder.until) == ("orders", "gold/copies", 2, reading.until)
    declared = Declarations(readers={"orders": {"bi": timedelta(days=9)}}, unreadable={"orders": {"there": "by name"}})
    names = [each.reader.name for each in of(look(tmp_path, declared), "orders").readers]
    assert names == ["gold/copies", "there", "bi"]


def test_upkeep_is_due_of_tables_that_runs_write_and_of_no_other(tmp_path: Path) -> None:
    for row in range(20):
        append(tmp_path, "orders", row)
        run(tmp_path, "copies", "orders")
    lakehouse = look(tmp_path)
    assert [task.work for task in of(lakehouse, "copies").due] == [UpkeepWork.COMPACT]
    assert of(lakehouse, "orders").due == (), "no run wrote it"
    assert of(look(tmp_path, Declarations(written={"orders"})), "copies").due == (), (
        "no asset of the definitions writes it"
    )


def test_past_files_that_nobody_needs_are_due_once_they_are_older_than_what_is_promised(tmp_path: Path) -> None:
    append(tmp_path, "orders", 1)
    for _ in range(3):
        run(tmp_path, "copies", "orders")
    DeltaTable(str(tmp_path / "copies")).optimize.compact()
    assert of(look(tmp_path), "copies").due == ()
    set_back(tmp_path / "copies", 8)
    (task,) = of(look(tmp_path), "copies").due
    assert task.work is UpkeepWork.FREE and task.why.startswith("3 files ")


def test_a_table_is_opened_once_however_many_tables_and_readers_there_are(
    tmp_path: Path, log_work: Counter[str]
) -> None:
    append(tmp_path, "orders", 1)
    for place in range(40):
        run(tmp_path, f"t{place}", "orders" if place < 20 else f"t{place - 20}")
    assert len(look(tmp_path).tables) == 41
    assert 41 <= log_work["opened"] <= 41 + 16, "two threads may open one table side by side"
    assert log_work["files"] <= 41 * 3 + 40 * 8, "three looks at the newest commit of each, and a few for each reader"


def test_of_a_long_log_the_newest_commits_are_read(tmp_path: Path, log_work: Counter[str]) -> None:
    append(tmp_path, "orders", 1)
    run(tmp_path, "copies", "orders")
    log = tmp_path / "copies" / "_delta_log"
    commits = 3 * COMMITS_TOLD
    action = '{"commitInfo":{"timestamp":1,"operation":"OPTIMIZE"}}'
    for version in range(1, commits):
        (log / f"{version:020}.json").write_text(action)
    run(tmp_path, "copies", "orders")
    log_work.clear()
    lakehouse = look(tmp_path)
    assert of(lakehouse, "copies").status.version == commits
    assert COMMITS_TOLD <= log_work["files"] <= 3 * COMMITS_TOLD + 40, (
        "once for lost attempts, and twice for past files"
    )
