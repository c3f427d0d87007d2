"""Upkeep of tables of a lake, as the command does it, without definitions."""

import time

from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import Rules, TableUpkeep, upkeep_of
from lakehouse.upkeep.readers import ReaderState, readers_of
from lakehouse.upkeep.steps import steps_of
from tests.support.lake import Lake

EAGER = Rules(small_files=2, small_in_partition=2, deleted_share=0.01, freed_share=0.0)
"""Rules by which almost everything is due."""


def log_of(lake: Lake, table: str) -> FileLog:
    return FileLog(Location(str(lake.root / table)), table)


def look(lake: Lake, table: str, rules: Rules = EAGER) -> tuple[TableUpkeep, list[ReaderState]]:
    """What a table needs, and what its readers need of it."""
    logs = {each.name: log_of(lake, each.name) for each in lake.root.iterdir() if (each / "_delta_log").is_dir()}
    readers = readers_of(table, logs, int(time.time() * 1000))
    assert readers is not None
    needed = upkeep_of(logs[table], readers, rules)
    assert needed is not None
    return needed, [reader.state(readers.now) for reader in readers.readers]


def carry_out(lake: Lake, needed: TableUpkeep) -> None:
    worker = Worker(lake.spark, lake.ref(needed.table), "upkeep")
    assert worker.carry_out(needed, steps_of(needed.tasks).now) == ()
