"""A slow reader and upkeep: its range stays readable within its limit; behind that upkeep goes on, and it recovers."""

import time
from datetime import timedelta
from urllib.parse import unquote

import pytest

from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.upkeep.carry_out import Worker, change_properties
from lakehouse.upkeep.due import Rules, TableUpkeep, UpkeepWork, freed_upto, upkeep_of
from lakehouse.upkeep.readers import ReaderState, readers_of
from lakehouse.upkeep.registration import register
from lakehouse.upkeep.steps import steps_of
from tests.support.lake import Lake
from tests.support.ready_runs import KEYED, SRC, copy
from tests.upkeep.earlier import set_back

EAGER = Rules(freed_share=0.0)


def log_of(lake: Lake, table: str) -> FileLog:
    return FileLog(Location(str(lake.root / table)), table)


def upkeep(lake: Lake) -> tuple[TableUpkeep, list[ReaderState]]:
    logs = {name: log_of(lake, name) for name in ("src", "copy")}
    readers = readers_of("src", logs, int(time.time() * 1000))
    assert readers is not None
    needed = upkeep_of(logs["src"], readers, EAGER)
    assert needed is not None
    return needed, [reader.state(readers.now) for reader in readers.readers]


def carry_out(lake: Lake, needed: TableUpkeep) -> None:
    worker = Worker(lake.spark, lake.ref("src"), "upkeep")
    assert worker.carry_out(needed, steps_of(needed.tasks).now) == ()


def present(lake: Lake) -> set[str]:
    root = lake.root / "src"
    return {file.relative_to(root).as_posix() for file in root.rglob("*") if file.suffix in (".parquet", ".bin")} - {
        file.relative_to(root).as_posix() for file in (root / "_delta_log").rglob("*")
    }


@pytest.mark.slow
def test_a_slow_reader_reads_its_range_and_one_beyond_its_limit_recovers(lake: Lake) -> None:
    lake.create("src", [(1, "a", 10), (2, "b", 20), (3, "c", 30)], SRC, **{"delta.enableDeletionVectors": "true"})
    lake.materialize(copy, KEYED)
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.sql("DELETE FROM {src} WHERE id = 2")
    lake.materialize(copy, KEYED)
    head = log_of(lake, "src").head()
    assert head is not None
    registered = register(head, "src", "copy", timedelta(days=40))
    change_properties(lake.spark, lake.ref("src"), registered)
    lake.insert("src", [(4, "d", 40)])
    lake.sql("UPDATE {src} SET v = 31 WHERE id = 3")

    set_back(lake.root / "src", 10)
    needed, states = upkeep(lake)
    assert states == [ReaderState.BEHIND] and needed.by_inventory
    assert [task.work for task in needed.tasks] == [UpkeepWork.FREE]
    before = present(lake)
    carry_out(lake, needed)
    assert before - present(lake) == {unquote(file.path) for file in needed.unneeded} != set()
    assert freed_upto(log_of(lake, "src"), log_of(lake, "src").head() or head) == needed.horizon
    assert upkeep(lake)[0].tasks == (), "what has been removed is not due again"

    lake.told.clear()
    lake.materialize(copy, KEYED)
    assert lake.rows("copy") == lake.rows("src") and lake.told == [], "it read its range, and compared nothing"

    lake.sql("UPDATE {src} SET v = 12 WHERE id = 1")
    lake.sql("DELETE FROM {src} WHERE id = 4")
    set_back(lake.root / "src", 60)
    needed, states = upkeep(lake)
    assert states == [ReaderState.ASLEEP]
    before = present(lake)
    carry_out(lake, needed)
    assert before > present(lake)
    lake.materialize(copy, KEYED)
    assert lake.rows("copy") == lake.rows("src")
