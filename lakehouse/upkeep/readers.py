"""Who reads a table, how far, and what each reader holds back: files that the newest version does not use.

Delta: PROTOCOL.md, "Add File and Remove File", "Add CDC File", "Deletion Vector Files".
"""

import json
from base64 import b85decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any
from uuid import UUID

from lakehouse.cursor.find import find_cursor, newest_mark
from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import TableState, Unbegun, Unread, backlog, unread_after
from lakehouse.delta.growth import Entry
from lakehouse.delta.location import scheme_of
from lakehouse.delta.log import Head, Log, feed_retention
from lakehouse.errors import in_short
from lakehouse.upkeep.registration import limit_of, registered_limits, time_travel

_UUID = 20
"""Characters of an encoded UUID at the end of the path of a deletion vector; a directory may come before it."""
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


@dataclass(frozen=True, slots=True)
class PastFile:
    """A file that the newest version of a table does not use: data, changed rows, or deleted rows.

    Args:
        path: Its path below the table, as the log writes it: encoded as in an address.
        bytes: How large it is; 0 if the log does not record it.
        version: The last commit that names the file. A reader that has read this commit does not need the file.
        removed: When that commit was made, in milliseconds since the epoch.
    """

    path: str
    bytes: int
    version: int
    removed: int


@dataclass(slots=True)
class _Named:
    """What the commits read so far record of a file."""

    bytes: int = 0
    version: int = -1
    removed: int = 0
    uses: set[str] = field(default_factory=set[str])
    """Why the newest version needs it: a data file with its vector, a vector with its data file."""


@dataclass(frozen=True, slots=True)
class TablePast:
    """What commits record of the past of a table."""

    files: tuple[PastFile, ...]
    times: Mapping[int, int]

    def first_since(self, time: int) -> int | None:
        """The first commit made at a time or later; None if there is none."""
        return min((version for version, at in self.times.items() if at >= time), default=None)


def past_of(entries: Iterable[Entry]) -> TablePast:
    """The past of a table by some of its commits.

    A file that only earlier commits named is not among its files. A deletion vector that earlier commits gave to
    another file may be among them although it is in use; VACUUM leaves out what is in use.

    The commits come oldest first, without a gap up to the newest.
    """
    named, times, at = dict[str, _Named](), dict[int, int](), 0
    for version, lines in entries:
        actions: list[dict[str, Any]] = [json.loads(line) for line in lines if '"path"' in line or "commitInfo" in line]
        at = times[version] = max(at, _committed_at(actions))  # a clock that was behind makes no file older
        for path, size, use, is_added in _uses_in(actions):
            file = named.setdefault(path, _Named())
            file.bytes, file.version, file.removed = max(file.bytes, size), version, at
            (file.uses.add if is_added else file.uses.discard)(use)
    past = (PastFile(path, file.bytes, file.version, file.removed) for path, file in named.items() if not file.uses)
    return TablePast(tuple(sorted(past, key=lambda file: (file.version, file.path))), times)


def _committed_at(actions: Sequence[Mapping[str, Any]]) -> int:
    """When a commit was made, in milliseconds since the epoch; without a record of it, when its files were removed."""
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), dict[str, Any]())
    removals = (action["remove"] for action in actions if "remove" in action)
    removed = max((removal.get("deletionTimestamp") or 0 for removal in removals), default=0)
    return int(info.get("inCommitTimestamp") or info.get("timestamp") or removed)


def _uses_in(actions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int, str, bool]]:
    """The files that a commit names, in order: path, bytes, what uses the file, and whether that use begins or ends."""
    # A commit that gives a file another vector removes the file and adds it.
    for kind in ("cdc", "remove", "add"):
        for action in (action[kind] for action in actions if kind in action):
            yield from ((path, size, use, kind == "add") for path, size, use in _files_of(action))


def _files_of(action: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """The files below the table that an action names: path, bytes, and what uses the file if the action adds it."""
    path, vector = str(action["path"]), _vector(action.get("deletionVector") or {})
    name = "" if vector is None else f"{vector[0]} {vector[2]}"
    if not path.startswith("/") and scheme_of(path) is None:  # a clone names files of another table
        yield path, int(action.get("size") or 0), name
    if vector is not None:
        yield vector[0], vector[1], f"{path} {vector[2]}"


def _vector(described: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """The file of a deletion vector below the table, the bytes up to its end, its offset; None if it is elsewhere."""
    if described.get("storageType") != "u":
        return None
    text, offset = str(described["pathOrInlineDv"]), int(described.get("offset") or 0)
    directory, encoded = text[:-_UUID], text[-_UUID:]
    file = f"deletion_vector_{UUID(bytes=b85decode(encoded.translate(_TO_B85)))}.bin"
    # A vector comes after its length and before a checksum; each of these has four bytes.
    return f"{directory}/{file}" if directory else file, offset + int(described["sizeInBytes"]) + 8, offset


_THREADS = 16
"""How many logs are read at the same time, at most."""


class ReaderKind(Enum):
    """How a reader is known.

    TABLE: by the marks of its table. PARTITIONS: the same, but each partition has a position of its own. SNAPSHOT: by a
    mark that shows that it reads the table whole. REGISTERED: by name, so how far it has read is not known. UNKNOWN: it
    may be a reader, because its log cannot be read, or because it has read the table under another name.
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
        read: The version up to which it has read; None if that is not known.
        unread: How many versions that may have changed a row it has not read.
        first: The oldest of these versions; None if there is none, or if it is not known.
        since: When that version was committed, in milliseconds since the epoch.
        gap: Why it cannot read on from its position; None if it can.
        problem: Why it is not known whether it is a reader; None if it is known.
        is_declared: Whether only the code location names it, and no property of the table.
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
        """How far it has read, as a state."""
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
        """When its limit ends, in milliseconds since the epoch; None if it waits for no change, or if time decides."""
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
    """The readers of a table."""

    table: str
    head: Head
    readers: tuple[Reader, ...]
    now: int

    @property
    def promised_since(self) -> int:
        """The time since which every version can be read, whoever the readers are: milliseconds since the epoch."""
        return self.now - _millis(time_travel(self.head))

    def kept_for(self, reader: Reader) -> timedelta:
        """For how long changes stay readable for a reader; shorter than its limit if the table is set so."""
        longest = feed_retention(self.head)
        return min(time_travel(self.head), longest) if reader.is_declared else longest

    @property
    def may_hold_back(self) -> bool:
        """Whether a reader may need anything older than what the table promises to every reader."""
        states = [(reader, reader.state(self.now)) for reader in self.readers]
        by_time = (reader.limit for reader, state in states if state in (TableState.BY_PARTITION, TableState.UNKNOWN))
        waits = (reader.since for reader, state in states if state is TableState.BEHIND)
        promised = time_travel(self.head)
        return any(limit > promised for limit in by_time) or any((at or 0) < self.promised_since for at in waits)

    def held_by(self, reader: Reader, past: TablePast) -> HeldBack:
        """What a reader holds back: files that the table no longer promises to all, and that this one needs."""
        oldest = reader.oldest_needed(past, self.now)
        if oldest is None:
            return HeldBack()
        files = [file for file in past.files if file.removed < self.promised_since and file.version >= oldest]
        return HeldBack(len(files), sum(file.bytes for file in files))

    def horizon(self, past: TablePast) -> int:
        """The last version whose past no reader needs: past files that no later commit names may be removed."""
        by_readers = (reader.oldest_needed(past, self.now) for reader in self.readers)
        needed = (self.head.version + 1, past.first_since(self.promised_since), *by_readers)
        return min(version for version in needed if version is not None) - 1

    def unneeded_files(self, past: TablePast) -> tuple[PastFile, ...]:
        """The past files that no reader needs any more."""
        horizon = self.horizon(past)
        return tuple(file for file in past.files if file.version <= horizon)


def readers_of(
    table: str,
    logs: Mapping[str, Log],
    now: int,
    declared: Mapping[str, timedelta] | None = None,
    unreadable: Mapping[str, str] | None = None,
) -> Readers | None:
    """The readers of a table, by the marks of other tables and by its own properties; None if there is no table."""
    log = logs[table]
    head = log.head()
    if head is None:
        return None

    def look(name: str) -> Reader | None:
        try:
            return _reader(name, logs[name], table, log, head)
        except Exception as error:  # one log may be damaged, and whether it is a reader's is then unknown
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
