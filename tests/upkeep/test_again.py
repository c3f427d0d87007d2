"""When a mark is committed again: by real logs whose times are set back; no Spark."""

import json
import time
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.harness.earlier import set_back
from lakehouse.cursor.mark import Mark
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.upkeep.due import Rules, UpkeepWork, position_to_renew, upkeep_of
from lakehouse.upkeep.readers import readers_of
from tests.support.daily import run_day
from tests.support.marked_tables import append, run

NEVER = Rules(small_files=1_000_000, freed_share=1e9, freed_age=timedelta(days=1_000))


def log_of(root: Path, table: str = "copies") -> FileLog:
    return FileLog(Location(f"{root}/{table}"), table)


def due(root: Path, table: str = "copies") -> list[str]:
    log = log_of(root, table)
    readers = readers_of(table, {table: log}, int(time.time() * 1000))
    assert readers is not None
    needed = upkeep_of(log, readers, NEVER)
    assert needed is not None
    assert all(task.work is UpkeepWork.MARK for task in needed.tasks)
    return [task.why for task in needed.tasks]


def properties(root: Path, **named: str) -> None:
    named = {name.replace("__", "."): value for name, value in named.items()}
    DeltaTable(str(root / "copies")).alter.set_table_properties(named)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    append(tmp_path, "orders", 1)
    run(tmp_path, "copies", "orders")
    return tmp_path


def test_a_mark_is_due_once_it_is_half_as_old_as_the_log_may_become(root: Path) -> None:
    set_back(root / "copies", 14)
    assert due(root) == []
    set_back(root / "copies", 2)
    assert due(root) == ["the newest mark is 16 days old, and the log is kept for 30 days"]


def test_the_log_says_how_long_it_is_kept(root: Path) -> None:
    set_back(root / "copies", 16)
    properties(root, delta__logRetentionDuration="interval 60 days")
    assert due(root) == []
    properties(root, delta__logRetentionDuration="interval 4 days")
    assert due(root) == ["the newest mark is 16 days old, and the log is kept for 4 days"]
    properties(root, delta__enableExpiredLogCleanup="false")
    assert due(root) == []


def test_commits_without_rows_behind_it_change_nothing(root: Path) -> None:
    run(root, "copies", "orders")
    DeltaTable(str(root / "copies")).optimize.compact()
    set_back(root / "copies", 20)
    assert len(due(root)) == 1


def test_a_table_that_somebody_else_has_changed_since_is_left_to_its_next_run(root: Path) -> None:
    """That run looks at the commits between the mark and itself; with a newer mark it would not see them."""
    append(root, "copies", 7)
    set_back(root / "copies", 20)
    assert due(root) == []


def test_after_a_change_of_columns_the_next_run_has_to_see_it(root: Path) -> None:
    """A new mark would be planned after the change, which is a commit without rows."""
    version = DeltaTable(str(root / "copies")).version() + 1
    parameters = {"oldColumnPath": "id", "newColumnPath": "number"}
    renaming = {"timestamp": int(time.time() * 1000), "operation": "RENAME COLUMN", "operationParameters": parameters}
    (root / f"copies/_delta_log/{version:020}.json").write_text(json.dumps({"commitInfo": renaming}))
    set_back(root / "copies", 20)
    assert due(root) == []


def test_a_table_of_partitions_has_a_position_for_each(root: Path) -> None:
    run_day(root, "2013-01-01")
    set_back(root / "daily", 20)
    assert due(root, "daily") == []


@pytest.mark.parametrize("is_edited", [False, True])
def test_an_archive_that_was_edited_before_its_newest_mark_is_left_alone(tmp_path: Path, *, is_edited: bool) -> None:
    """A new mark would be planned after the edit, and then the edit would go unnoticed."""
    append(tmp_path, "orders", 1)
    run(tmp_path, "copies", "orders", log_after=-1)
    if is_edited:
        append(tmp_path, "copies", 7)
    run(tmp_path, "copies", "orders", log_after=-1, planned_at=0, compared=False)
    set_back(tmp_path / "copies", 20)
    assert len(due(tmp_path)) == (0 if is_edited else 1)


def test_the_mark_says_what_it_said_and_that_it_compared_nothing(root: Path) -> None:
    log = log_of(root)
    head = log.head()
    assert head is not None
    standing = position_to_renew(log, head, "copies")
    assert standing is not None
    before, after = standing[0].mark, standing[0].again("upkeep", "try", head.version)
    other = {field.name for field in fields(Mark) if getattr(before, field.name) != getattr(after, field.name)}
    assert other == {"epoch", "run", "attempt", "base", "compared"}
    assert (after.epoch, after.base, after.compared) == (before.epoch + 1, head.version, False)
    assert after.application_id == before.application_id
    lost = replace(standing[0], mark=replace(before, lost_to=(0,)))
    assert lost.again("upkeep", "try", head.version).lost_to == (), "the attempts of that run are told once"
