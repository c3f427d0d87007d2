"""Upkeep of the tables of a lake, as the command does it, without definitions."""

import time
from collections.abc import Callable
from typing import Any

from lakehouse import Changes, Table
from lakehouse.cursor.unread import TableState
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import Rules, TableUpkeep, steps_of, upkeep_of
from lakehouse.upkeep.readers import Readers, readers_of
from tests.support.lake import NO_WAIT, Lake

EAGER = Rules(small_files=2, small_in_partition=2, deleted_share=0.01, deleted_bytes=0, freed_share=0.0)
"""Rules by which almost everything is due."""


def log_of(lake: Lake, table: str) -> FileLog:
    return FileLog(Location(str(lake.root / table)), table)


def readers_now(lake: Lake, table: str) -> Readers:
    logs = {each.name: log_of(lake, each.name) for each in lake.root.iterdir() if (each / "_delta_log").is_dir()}
    readers = readers_of(table, logs, int(time.time() * 1000))
    assert readers is not None
    return readers


def states(lake: Lake, table: str) -> dict[str, TableState]:
    """The state of each reader of a table."""
    readers = readers_now(lake, table)
    return {reader.name: reader.state(readers.now) for reader in readers.readers}


def look(lake: Lake, table: str, rules: Rules = EAGER) -> TableUpkeep:
    """The upkeep that a table needs."""
    needed = upkeep_of(log_of(lake, table), readers_now(lake, table), rules)
    assert needed is not None
    return needed


def carry_out(lake: Lake, needed: TableUpkeep, count: int | None = None) -> None:
    """Does what is due, or its first steps."""
    worker = Worker(lake.spark, lake.ref(needed.table), "upkeep")
    assert worker.carry_out(needed, steps_of(needed.tasks).now[:count]) == ()


def compares(lake: Lake, asset: Callable[..., Any], table: Table, name: str | None = None) -> bool:
    """Runs an asset that follows one table; returns whether it read all of that table, because it could not read on."""
    step = lake.begin(asset, table, name=name or asset.__name__)
    inputs = lake.read(step, asset)
    step.commit(asset(**inputs), lake.retry, NO_WAIT)
    (changes,) = inputs.values()
    assert isinstance(changes, Changes)
    return changes.is_initial
