"""Which work a table needs, by stated rules about what its log records; and how much of the work one run does."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.since_base import is_untouched
from lakehouse.cursor.unread import DAY, commits_last
from lakehouse.cursor.walk import readable_mark
from lakehouse.delta.commit_info import UPKEEP, count_of
from lakehouse.delta.growth import LiveFile
from lakehouse.delta.log import Head, Log, as_interval, log_kept
from lakehouse.upkeep.readers import PastFile, Readers, past_of
from lakehouse.upkeep.registration import TIME_TRAVEL

if TYPE_CHECKING:
    from lakehouse.delta.file_log import FileLog

FREED = "lakehouse_upkeep"
"""In the `userMetadata` of a VACUUM of upkeep: the last version whose past files the VACUUM removed."""
_MERGED_BELOW = 1 << 30
"""OPTIMIZE merges files smaller than this (Delta: `optimize.maxFileSize`)."""


class UpkeepWork(Enum):
    """What upkeep does to a table, in the order in which it does it, by Delta's statement."""

    MARK = "append of no rows"
    COMPACT = "OPTIMIZE"
    PURGE = "REORG TABLE ... APPLY (PURGE)"
    FREE = "VACUUM"


@dataclass(frozen=True, slots=True)
class Rules:
    """The thresholds at which work is due. No rule changes a row.

    Args:
        small_bytes: A file with fewer bytes is small.
        small_files: The number of small files in a table, of those that can be merged, from which on OPTIMIZE is due.
        small_in_partition: The number of small files in a partition from which on they can be merged.
        small_share: The share of the partition's files that must be small, too.
        deleted_share: The share of deleted rows in a partition from which on its files are rewritten without them.
        deleted_bytes: The number of bytes that these files must have, too; a reader who reads fewer gains nothing.
        freed_share: The size of the unneeded past files, as a share of the table, from which on they are removed.
        freed_age: The age of the oldest unneeded past file from which on they are removed in any case.
    """

    small_bytes: int = 16_000_000
    small_files: int = 16
    small_in_partition: int = 4
    small_share: float = 0.5
    deleted_share: float = 0.1
    deleted_bytes: int = 1_000_000
    freed_share: float = 0.1
    freed_age: timedelta = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class DuePart:
    """A partition, or a table without partitions, whose files are to be rewritten."""

    where: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Task:
    """Work that is due, why, as a clause, and on which parts of the table; none if on the whole table."""

    work: UpkeepWork
    why: str
    parts: tuple[DuePart, ...] = ()


def tasks(live: Sequence[LiveFile], unneeded: Sequence[PastFile], now: int, rules: Rules) -> tuple[Task, ...]:
    """The work on the files of a table that is due, in order; empty if the table needs nothing.

    The past files are those that no reader needs and that have not been removed yet.
    """
    by_partition = dict[str, list[LiveFile]]()
    for file in live:
        by_partition.setdefault(file.partition, []).append(file)
    compact = _compact(by_partition, rules)
    merged = set[str]() if compact is None else {part.where for part in compact.parts}
    # OPTIMIZE also rewrites files with more than a twentieth of their rows deleted.
    rest = {partition: files for partition, files in by_partition.items() if partition not in merged}
    return tuple(filter(None, (compact, _purge(rest, rules), _free(live, unneeded, now, rules))))


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """What a table needs.

    Args:
        table: Its name.
        tasks: The work that is due, in order.
        live: The files of its newest version.
        unneeded: The past files that no reader needs and that have not been removed yet.
        horizon: The last version whose past no reader needs.
        by_inventory: Whether its past files are removed by a list, because it keeps its past longer than it promises.
        position: The commit whose mark is due again, and the table's version at which it is; None if no mark is due.
        last: When its newest OPTIMIZE, REORG or VACUUM was made, in milliseconds since the epoch; 0 if there is none.
    """

    table: str
    tasks: tuple[Task, ...]
    live: tuple[LiveFile, ...]
    unneeded: tuple[PastFile, ...]
    horizon: int
    by_inventory: bool
    position: tuple[Known, int] | None = None
    last: int = 0


def upkeep_of(log: "FileLog", readers: Readers, rules: Rules, oldest: int = 0) -> TableUpkeep | None:
    """What a table needs, by its log alone; None if this process cannot list its files.

    The log is read back to the oldest commit given; past files that only earlier commits name are missing.
    """
    head = readers.head
    live = log.live_files(head.version)
    if live is None:
        return None
    done = past_upkeep(log, head, oldest)
    past = past_of(log.entries_after(max(done.freed_upto, oldest - 1), head.version))
    unneeded = readers.unneeded_files(past)
    position, mark = _mark(log, head, readers)
    return TableUpkeep(
        readers.table,
        (*mark, *tasks(live, unneeded, readers.now, rules)),
        tuple(live),
        unneeded,
        readers.horizon(past),
        by_inventory=TIME_TRAVEL in head.properties,
        position=None if position is None else (position, head.version),
        last=done.last,
    )


@dataclass(frozen=True, slots=True)
class PastUpkeep:
    """What the log of a table records of its upkeep.

    Args:
        last: When its newest OPTIMIZE, REORG or VACUUM was made, in milliseconds since the epoch; 0 if there is none.
        freed_upto: The last version whose past files upkeep has removed, by its newest VACUUM that came to its end; -1
            if none.
    """

    last: int = 0
    freed_upto: int = -1


def past_upkeep(log: Log, head: Head, oldest: int = 0) -> PastUpkeep:
    """What the log of a table records of its upkeep, back to the newest VACUUM of upkeep."""
    last = 0
    for commit in log.commits(head.version, oldest):
        if commit.operation in UPKEEP:
            last = last or commit.timestamp
        if commit.operation == "VACUUM END" and commit.parameters.get("status") == "COMPLETED":
            version = _freed_version(commit.user_metadata)
            if version is not None:
                return PastUpkeep(last, version)
    return PastUpkeep(last)


def _freed_version(metadata: str | None) -> int | None:
    try:
        return int(json.loads(metadata or "")[FREED])
    except (ValueError, KeyError, TypeError):
        return None


def position_to_renew(log: Log, head: Head, asset: str) -> tuple[Known, int] | None:
    """The position of a table as its newest own commit records it, and when that commit was made.

    None if there is none, or if the next run has to look at what came after that commit: another program changed rows
    or columns, or the commit does not hold. None for an archive that is no longer as its runs left it: after a new
    mark, no run would see the rival's commit, and the archive would count as whole. None also for a table with
    partitions, which has a position for each; and for a table whose marks hold no position that a run could lose.

    Returns:
        The position, and milliseconds since the epoch.
    """
    for commit in log.commits(head.version):
        mark = readable_mark(commit, asset)
        if mark is not None:
            if mark.partitions or not (mark.extract or any(not at.is_snapshot for at in mark.reads.values())):
                return None
            cursor = find_cursor(log, head, asset)
            if not isinstance(cursor, Known) or cursor.version != commit.version or cursor.stale_base:
                return None
            is_edited = mark.log_after is not None and not is_untouched(cursor, log, head)
            return None if is_edited else (cursor, commit.timestamp)
        if commit.concerns_readers:
            return None
    return None


def _mark(log: Log, head: Head, readers: Readers) -> tuple[Known | None, tuple[Task, ...]]:
    """The position that log cleanup could remove before the next run records it again, and the work against that."""
    if head.properties.get("delta.enableExpiredLogCleanup", "true").lower() == "false":
        return None, ()
    standing = position_to_renew(log, head, readers.table)
    if standing is None:
        return None, ()
    position, at = standing
    if readers.now - at < commits_last(head):
        return None, ()
    retention = as_interval(log_kept(head)).removeprefix("interval ")
    why = f"the newest mark is {count_of((readers.now - at) // DAY, 'day')} old, and the log is kept for {retention}"
    return position, (Task(UpkeepWork.MARK, why),)


def _compact(by_partition: Mapping[str, Sequence[LiveFile]], rules: Rules) -> Task | None:
    """Counts small files by partition, because files of two partitions cannot be merged."""
    small, parts = 0, list[DuePart]()
    for partition, files in by_partition.items():
        number = sum(file.bytes < rules.small_bytes for file in files)
        if number >= max(rules.small_in_partition, rules.small_share * len(files)):
            small += number
            parts.append(DuePart(partition, sum(file.bytes for file in files if file.bytes < _MERGED_BELOW)))
    if small < rules.small_files:
        return None
    every = sum(len(files) for files in by_partition.values())
    where = _in_partitions(parts, by_partition)
    return Task(UpkeepWork.COMPACT, f"{small:,} of {count_of(every, 'file')} are small{where}", tuple(parts))


def _purge(by_partition: Mapping[str, Sequence[LiveFile]], rules: Rules) -> Task | None:
    written, deleted, parts = 0, 0, list[DuePart]()
    for partition, files in by_partition.items():
        counts = [(file.rows, file.deleted) for file in files]
        rows, deletions = (sum(number or 0 for number in numbers) for numbers in zip(*counts, strict=True))
        part = DuePart(partition, sum(file.bytes for file in files if file.deleted))
        is_much = 0 < deletions >= rules.deleted_share * rows and part.bytes >= rules.deleted_bytes
        if is_much and all(None not in count for count in counts):
            written, deleted = written + rows, deleted + deletions
            parts.append(part)
    if not parts:
        return None
    where = _in_partitions(parts, by_partition)
    return Task(UpkeepWork.PURGE, f"{deleted:,} of {count_of(written, 'row')}{where} are deleted", tuple(parts))


def _in_partitions(parts: Sequence[DuePart], by_partition: Mapping[str, object]) -> str:
    return "" if parts[0].where == "" else f" in {len(parts):,} of {count_of(len(by_partition), 'partition')}"


def _free(live: Sequence[LiveFile], unneeded: Sequence[PastFile], now: int, rules: Rules) -> Task | None:
    if not unneeded:
        return None
    past, used = sum(file.bytes for file in unneeded), sum(file.bytes for file in live)
    oldest = timedelta(milliseconds=now - min(file.removed for file in unneeded))
    if past < rules.freed_share * used and oldest < rules.freed_age:
        return None
    return Task(UpkeepWork.FREE, f"{count_of(len(unneeded), 'file')} ({past / 1e6:,.1f} MB) that no reader needs")


_PARTS, _BYTES = 100, 8_000_000_000
"""The most partitions that one statement rewrites, and the most bytes if it has more than one partition; the time is
checked between statements."""


@dataclass(frozen=True, slots=True)
class UpkeepStep:
    """One statement of upkeep: its work, which partitions it is on, how many, and their bytes."""

    work: UpkeepWork
    where: str = ""
    parts: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one run, and those for which its limit leaves no room."""

    now: tuple[UpkeepStep, ...]
    rest: tuple[UpkeepStep, ...] = ()


def steps_of(tasks: Sequence[Task], max_bytes: int | None = None, rewritten: int = 0) -> Steps:
    """The steps of the work that is due: the smallest partitions first, as far as a limit allows.

    If a rewrite is left for a later run, so is VACUUM: the table then counts as one whose upkeep is long ago, and comes
    first in a night, when its largest part fits.

    Args:
        tasks: The work.
        max_bytes: How many bytes one run rewrites; None for all. A part that is larger alone, such as a table without
            partitions, is rewritten if nothing else is in the same run.
        rewritten: How many bytes the run has rewritten of other tables.
    """
    now, later = list[UpkeepStep](), list[UpkeepStep]()
    for task in tasks:
        if not task.parts:
            waits = task.work is UpkeepWork.FREE and later
            (later if waits else now).append(UpkeepStep(task.work))
            continue
        fitting, rest = list[DuePart](), list[DuePart]()
        for part in sorted(task.parts, key=lambda part: (part.bytes, part.where)):
            fits = not rest and (max_bytes is None or rewritten == 0 or rewritten + part.bytes <= max_bytes)
            (fitting if fits else rest).append(part)
            rewritten += part.bytes if fits else 0
        now.extend(_steps(task.work, fitting))
        later.extend(_steps(task.work, rest))
    return Steps(tuple(now), tuple(later))


def _steps(work: UpkeepWork, parts: Sequence[DuePart]) -> Iterator[UpkeepStep]:
    batch = list[DuePart]()
    for part in parts:
        if batch and (len(batch) == _PARTS or sum(each.bytes for each in batch) + part.bytes > _BYTES):
            yield _step(work, batch)
            batch = []
        batch.append(part)
    if batch:
        yield _step(work, batch)


def _step(work: UpkeepWork, parts: Sequence[DuePart]) -> UpkeepStep:
    conditions = [part.where for part in parts if part.where]
    where = " OR ".join(f"({condition})" for condition in conditions) if len(conditions) > 1 else "".join(conditions)
    return UpkeepStep(work, where, len(conditions), sum(part.bytes for part in parts))


def what_is_left(steps: Sequence[UpkeepStep]) -> str:
    """What is left for the next run, as the end of a sentence."""
    works = dict.fromkeys(step.work for step in steps)
    return ", ".join(_in_short(work, [step for step in steps if step.work is work]) for work in works)


def _in_short(work: UpkeepWork, steps: Sequence[UpkeepStep]) -> str:
    parts, written = sum(step.parts for step in steps), sum(step.bytes for step in steps)
    of = f" of {count_of(parts, 'partition')}" if parts else ""
    return f"{work.value}{of} ({written / 1e6:,.1f} MB)" if written else f"{work.value}{of}"
