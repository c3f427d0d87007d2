"""Which work a table needs, by stated rules about what its log says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse.delta.commit_info import count_of
from lakehouse.delta.log import Head, Log
from lakehouse.upkeep.past_files import PastFile, past_of
from lakehouse.upkeep.readers import Readers
from lakehouse.upkeep.registration import TIME_TRAVEL

if TYPE_CHECKING:
    from lakehouse.delta.file_log import FileLog

FREED = "lakehouse_upkeep"
"""In the `userMetadata` of a VACUUM of upkeep: the last version whose past files the VACUUM removed."""


class UpkeepWork(Enum):
    """What upkeep does to a table, in the order in which it does it, by Delta's statement."""

    COMPACT = "OPTIMIZE"
    PURGE = "REORG TABLE ... APPLY (PURGE)"
    FREE = "VACUUM"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that the newest version uses.

    Args:
        bytes: How large it is.
        rows: How many rows are in it; None if its statistics do not say.
        partition: The values of the partition columns, as text.
    """

    bytes: int
    rows: int | None
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """From when on work is due. No rule changes a row.

    Args:
        small_bytes: A file is small below this size.
        small_files: Small files that can be merged, from which on they are, if they are also a share of all files.
        small_share: That share.
        deleted_share: The share of deleted rows from which on files are rewritten without them.
        freed_share: The bytes of past files that nobody needs, as a share of the table, from which on they are removed.
        freed_age: Such files are removed in any case if they are older than this.
    """

    small_bytes: int = 16_000_000
    small_files: int = 16
    small_share: float = 0.5
    deleted_share: float = 0.1
    freed_share: float = 0.1
    freed_age: timedelta = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Task:
    """Work that is due, and why, as a clause."""

    work: UpkeepWork
    why: str


def tasks(
    live: Sequence[LiveFile], live_rows: int | None, unneeded: Sequence[PastFile], now: int, rules: Rules
) -> tuple[Task, ...]:
    """The work that is due, in order; empty of a table that needs nothing.

    Args:
        live: The files of the newest version.
        live_rows: How many rows it has; None if its log does not say.
        unneeded: The past files that no reader needs and that have not been removed yet.
        now: Milliseconds since the epoch.
        rules: The rules.
    """
    whys = {
        UpkeepWork.COMPACT: _why_compact(live, rules),
        UpkeepWork.PURGE: _why_purge(live, live_rows, rules),
        UpkeepWork.FREE: _why_free(live, unneeded, now, rules),
    }
    return tuple(Task(work, why) for work, why in whys.items() if why is not None)


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """What a table needs.

    Args:
        table: Its name.
        tasks: The work that is due, in order.
        live: The files of its newest version.
        unneeded: The past files that no reader needs and that have not been removed yet.
        horizon: The last version whose past nobody needs.
        by_inventory: Whether its past files are removed by a list, because it keeps its past longer than it promises.
    """

    table: str
    tasks: tuple[Task, ...]
    live: tuple[LiveFile, ...]
    unneeded: tuple[PastFile, ...]
    horizon: int
    by_inventory: bool


def upkeep_of(log: "FileLog", readers: Readers, rules: Rules, oldest: int = 0) -> TableUpkeep | None:
    """What a table needs, by its log alone; None if this process cannot list its files.

    Args:
        log: Its log.
        readers: Its readers.
        rules: From when on work is due.
        oldest: The oldest commit that is looked at. Past files that only earlier commits name are not among the result.

    Raises:
        UnreadableLogError: Its log cannot be read.
    """
    head = readers.head
    files = log.live_files(head.version)
    if files is None:
        return None
    live = tuple(LiveFile(*file) for file in files)
    past = past_of(log.entries_after(max(freed_upto(log, head, oldest), oldest - 1), head.version))
    unneeded = readers.unneeded_files(past)
    due = tasks(live, log.live_rows(head.version), unneeded, readers.now, rules)
    by_inventory = TIME_TRAVEL in head.properties
    return TableUpkeep(readers.table, due, live, unneeded, readers.horizon(past), by_inventory)


def freed_upto(log: Log, head: Head, oldest: int = 0) -> int:
    """The last version whose past files upkeep has removed, by its newest VACUUM that came to its end; -1 if none.

    Args:
        log: The log of the table.
        head: Where the table stands.
        oldest: The oldest commit that is looked at.
    """
    for commit in log.commits(head.version, oldest):
        if commit.operation == "VACUUM END" and commit.parameters.get("status") == "COMPLETED":
            version = _freed_version(commit.user_metadata)
            if version is not None:
                return version
    return -1


def _freed_version(metadata: str | None) -> int | None:
    try:
        return int(json.loads(metadata or "")[FREED])
    except (ValueError, KeyError, TypeError):
        return None


def _why_compact(live: Sequence[LiveFile], rules: Rules) -> str | None:
    """Small files count only if their partition has another one, because files of two partitions cannot be merged."""
    small = dict[str, int]()
    for file in live:
        if file.bytes < rules.small_bytes:
            small[file.partition] = small.get(file.partition, 0) + 1
    mergeable = sum(number for number in small.values() if number > 1)
    if mergeable < max(rules.small_files, rules.small_share * len(live)):
        return None
    return f"{mergeable:,} of {count_of(len(live), 'file')} are small"


def _why_purge(live: Sequence[LiveFile], live_rows: int | None, rules: Rules) -> str | None:
    rows = [file.rows for file in live]
    written = sum(number or 0 for number in rows)
    if live_rows is None or None in rows or written == 0 or written - live_rows < rules.deleted_share * written:
        return None
    return f"{written - live_rows:,} of {count_of(written, 'row')} in its files are deleted"


def _why_free(live: Sequence[LiveFile], unneeded: Sequence[PastFile], now: int, rules: Rules) -> str | None:
    if not unneeded:
        return None
    past, used = sum(file.bytes for file in unneeded), sum(file.bytes for file in live)
    oldest = timedelta(milliseconds=now - min(file.removed for file in unneeded))
    if past < rules.freed_share * used and oldest < rules.freed_age:
        return None
    return f"{count_of(len(unneeded), 'file')} ({past / 1e6:,.1f} MB) that nobody needs"
