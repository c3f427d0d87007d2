"""Who reads a table, how far, what each reader holds back of the table's past, and until when."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from lakehouse.cursor.find import find_cursor, newest_mark
from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import TableState, Unbegun, Unread, backlog, unread_after
from lakehouse.delta.log import Head, Log, feed_retention
from lakehouse.errors import in_short
from lakehouse.upkeep.past_files import PastFile, TablePast
from lakehouse.upkeep.registration import limit_of, registered_limits, time_travel

_THREADS = 16
"""So many logs are read side by side."""


class ReaderKind(Enum):
    """How a reader is known.

    TABLE: by the marks of its table. PARTITIONS: the same, but each partition has a position of its own. SNAPSHOT: by a
    mark that says it reads the table whole. REGISTERED: by name, so nobody knows how far it is. UNKNOWN: it may be a
    reader: its log cannot be read, or it has read the table under another name.
    """

    TABLE = "table"
    PARTITIONS = "partitions"
    SNAPSHOT = "snapshot"
    REGISTERED = "registered"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader of a table.

    Args:
        name: The asset key of its table, or the name that it is registered by.
        kind: How it is known.
        limit: How long it may be behind.
        read: The version up to which it has read; None if nobody knows.
        unread: How many versions that may have changed a row it has not read.
        first: The oldest of them; None if there is none, or if nobody knows.
        since: When that was committed, in milliseconds since the epoch.
        gap: Why it cannot read on from its position; None if it can.
        problem: Why nobody knows whether it is a reader; None if that is known.
        is_declared: Whether the code location names it, and no property of the table.
    """

    name: str
    kind: ReaderKind
    limit: timedelta
    read: int | None = None
    unread: int = 0
    first: int | None = None
    since: int | None = None
    gap: str | None = None
    problem: str | None = None
    is_declared: bool = False

    def state(self, now: int) -> TableState:
        """How far it is."""
        match self.kind:
            case ReaderKind.PARTITIONS:
                return TableState.BY_PARTITION
            case ReaderKind.REGISTERED | ReaderKind.UNKNOWN:
                return TableState.UNKNOWN
            case ReaderKind.TABLE if self.gap is not None:
                return TableState.GAP
            case ReaderKind.TABLE if self.first is not None:
                return TableState.ASLEEP if self.until is not None and self.until < now else TableState.BEHIND
            case ReaderKind.TABLE | ReaderKind.SNAPSHOT:
                return TableState.UP_TO_DATE

    @property
    def until(self) -> int | None:
        """When its limit ends, in milliseconds since the epoch; None if it waits for no change, or holds by time."""
        return None if self.since is None else self.since + _millis(self.limit)

    def oldest_needed(self, past: TablePast, now: int) -> int | None:
        """The oldest version whose files its next run may read; None if that run needs nothing of the past."""
        match self.state(now):
            case TableState.UP_TO_DATE | TableState.GAP | TableState.ASLEEP:
                return None  # it reads the newest version, or nothing
            case TableState.BEHIND:
                return self.first
            case _:
                return past.first_since(now - _millis(self.limit))


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Files that one reader alone, or with others, keeps from being removed."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of a table.

    Args:
        table: Its name.
        head: Where it stands.
        readers: Its readers.
        now: When they were looked at, in milliseconds since the epoch.
    """

    table: str
    head: Head
    readers: tuple[Reader, ...]
    now: int

    @property
    def promised_since(self) -> int:
        """The time since which every version can be read, whoever the readers are: milliseconds since the epoch."""
        return self.now - _millis(time_travel(self.head))

    def kept_for(self, reader: Reader) -> timedelta:
        """For how long changes stay readable for a reader; shorter than its limit if somebody has set that."""
        longest = feed_retention(self.head)
        return min(time_travel(self.head), longest) if reader.is_declared else longest

    @property
    def may_hold_back(self) -> bool:
        """Whether a reader needs anything that is older than what everybody is promised."""
        states = [(reader, reader.state(self.now)) for reader in self.readers]
        by_time = (reader.limit for reader, state in states if state in (TableState.BY_PARTITION, TableState.UNKNOWN))
        waits = (reader.since for reader, state in states if state is TableState.BEHIND)
        promised = time_travel(self.head)
        return any(limit > promised for limit in by_time) or any((at or 0) < self.promised_since for at in waits)

    def held_by(self, reader: Reader, past: TablePast) -> HeldBack:
        """What a reader holds back: files that nobody was promised any more, and that the reader needs."""
        oldest = reader.oldest_needed(past, self.now)
        if oldest is None:
            return HeldBack()
        files = [file for file in past.files if file.removed < self.promised_since and file.version >= oldest]
        return HeldBack(len(files), sum(file.bytes for file in files))

    def horizon(self, past: TablePast) -> int:
        """The last version whose past nobody needs: past files that no later commit names may be removed."""
        by_readers = (reader.oldest_needed(past, self.now) for reader in self.readers)
        needed = (self.head.version + 1, past.first_since(self.promised_since), *by_readers)
        return min(version for version in needed if version is not None) - 1

    def unneeded_files(self, past: TablePast) -> tuple[PastFile, ...]:
        """The past files that nobody needs any more."""
        horizon = self.horizon(past)
        return tuple(file for file in past.files if file.version <= horizon)


def readers_of(
    table: str,
    logs: Mapping[str, Log],
    now: int,
    declared: Mapping[str, timedelta] | None = None,
    unreadable: Mapping[str, str] | None = None,
) -> Readers | None:
    """The readers of a table, by the marks of other tables and by its own properties; None if there is no table.

    Args:
        table: Its name.
        logs: The log of each table that may read it, and its own, by name.
        now: Milliseconds since the epoch.
        declared: The limit of each reader that the code location names.
        unreadable: Why the logs of tables that read it cannot be read here, by name.

    Raises:
        UnreadableLogError: Its own log cannot be read.
    """
    log = logs[table]
    head = log.head()
    if head is None:
        return None

    def look(name: str) -> Reader | None:
        try:
            return _reader(name, logs[name], table, log, head)
        except Exception as error:  # one log may be odd, and whether it is a reader's is then unknown
            return Reader(name, ReaderKind.UNKNOWN, limit_of(head, name), problem=in_short(error))

    with ThreadPoolExecutor(_THREADS) as threads:
        looks = [*threads.map(look, (name for name in logs if name != table))]
    tables = {reader.name: reader for reader in looks if reader is not None}
    for name, why in (unreadable or {}).items():
        tables.setdefault(name, Reader(name, ReaderKind.UNKNOWN, limit_of(head, name), problem=why))
    return Readers(table, head, (*tables.values(), *_readers_by_name(head, declared or {}, tables)), now)


def _readers_by_name(head: Head, declared: Mapping[str, timedelta], tables: Iterable[str]) -> list[Reader]:
    """The readers that are known by name alone."""
    tables, registered = set(tables), registered_limits(head.properties)
    named = [Reader(name, ReaderKind.REGISTERED, limit) for name, limit in registered.items() if name not in tables]
    return named + [
        Reader(name, ReaderKind.REGISTERED, limit, is_declared=True)
        for name, limit in sorted(declared.items())
        if name not in tables and name not in registered
    ]


def _reader(name: str, log: Log, source: str, source_log: Log, source_head: Head) -> Reader | None:
    """A table as a reader of a source; None if its newest mark does not name the source."""
    head = log.head()
    mark = None if head is None else newest_mark(log, head, name)
    if head is None or mark is None:
        return None
    limit, position = limit_of(source_head, name), mark.reads.get(source)
    if position is None:
        # An `Append` finds a renamed source by its table id, and reads on there.
        renamed = (was for was, at in mark.reads.items() if at.table == source_head.table_id and not at.is_snapshot)
        was, what = next(renamed, None), "it has read this table under the name"
        return None if was is None else Reader(name, ReaderKind.UNKNOWN, limit, problem=f"{what} '{was}'")
    if position.is_snapshot:
        return _at(name, ReaderKind.SNAPSHOT, limit, unread_after(position, source_log, source, source_head))
    if mark.partitions:
        return Reader(name, ReaderKind.PARTITIONS, limit)
    match backlog(find_cursor(log, head, name), source_log, source, source_head):
        case Unbegun(reason=reason):
            return Reader(name, ReaderKind.TABLE, limit, read=position.version, gap=reason)
        case Unread() as unread:
            return _at(name, ReaderKind.TABLE, limit, unread)


def _at(name: str, kind: ReaderKind, limit: timedelta, unread: Unread) -> Reader:
    first = min(unread.changes or (), key=lambda commit: commit.version, default=None)
    version = None if first is None else first.version
    read: Position = unread.position
    return Reader(name, kind, limit, read.version, unread.versions, version, unread.since, unread.gap)


def _millis(span: timedelta) -> int:
    return int(span.total_seconds() * 1000)
