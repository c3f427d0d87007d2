"""How far each table has read its sources, by the marks in its own commits."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.cuts import who_is_behind
from lakehouse.cursor.digests import Code
from lakehouse.cursor.find import LOOKED_BACK, find_cursor, newest_mark
from lakehouse.cursor.mark import Mark, Position, mark_in
from lakehouse.cursor.standings import Standings, Ways
from lakehouse.cursor.unread import TableState, Unbegun, Unread, backlog, unread_after
from lakehouse.delta.log import Head, Log
from lakehouse.errors import in_short
from lakehouse.upkeep.registration import limit_of

_THREADS = 16
"""How many logs are read at the same time, at most."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """How far a table has read one source.

    Args:
        source: The source's name.
        read: The version up to which it has been read.
        newest: The newest version of the source; None if its log is not among those that are read.
        unread: How many versions that may have changed a row have not been read.
        since: When the oldest unread version was committed, in milliseconds since the epoch; None if there is none.
        until: When the table's limit as a reader ends, after which the source may remove the oldest unread version, in
            milliseconds since the epoch; None if nothing is unread, or if the source is read whole.
        is_snapshot: Whether each run reads the source whole.
        gap: Why its changes can no longer be read; None if they can.
        problem: Why its log cannot be read; None if it can.
    """

    source: str
    read: int
    newest: int | None
    unread: int = 0
    since: int | None = None
    until: int | None = None
    is_snapshot: bool = False
    gap: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class NewCode:
    """The code of a table's asset is no longer the code that computed the table's rows.

    Args:
        why: Which code has changed, as a clause.
        rows: How many rows the table has, all of which its next run compares; None if its log does not record it, or if
            the table's partitions are compared one by one.
        partitions: The partitions that wait, each for its own next run; empty if the table has none.
    """

    why: str
    rows: int | None
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableStatus:
    """Where a table stands.

    Args:
        name: Its name.
        version: Its newest version; None if there is no table yet, or if its log cannot be read.
        written: When that version was committed, in milliseconds since the epoch.
        run: The run that last wrote it with a mark; None if no run did.
        partitions: The partitions that the run wrote; empty if the table has none, or no run wrote it.
        reads: How far it had read each source after that run.
        problem: Why its log cannot be read; None if it can.
        new_code: What waits to be compared because the code changed; None if nothing does, or if the code is unknown.
        rows: How many rows it has; None if its log does not record it.
        disagreement: Over what the inputs that it has read disagree, or which table it waits for so that they agree, as
            a clause; None if there is neither.
    """

    name: str
    version: int | None
    written: int | None
    run: str | None = None
    partitions: tuple[str, ...] = ()
    reads: tuple[SourcePosition, ...] = ()
    problem: str | None = None
    new_code: NewCode | None = None
    rows: int | None = None
    disagreement: str | None = None

    @property
    def state(self) -> TableState:
        if self.problem is not None or any(reading.problem for reading in self.reads):
            return TableState.UNREADABLE
        if self.version is None:
            return TableState.MISSING
        if self.run is None:
            return TableState.SOURCE
        followed = [reading for reading in self.reads if not reading.is_snapshot]
        if any(reading.gap for reading in followed):
            return TableState.GAP
        if self.partitions and followed:
            return TableState.BY_PARTITION
        if any(reading.unread for reading in followed):
            return TableState.BEHIND
        return TableState.UNKNOWN if any(reading.newest is None for reading in followed) else TableState.UP_TO_DATE


def table_statuses(logs: Mapping[str, Log], codes: Mapping[str, Code] | None = None) -> list[TableStatus]:
    """The status of each table that exists; a log that cannot be read has no effect on the status of other tables."""

    def look(name: str) -> TableStatus | None:
        try:
            return table_status(name, logs, None if codes is None else codes.get(name))
        except Exception as error:  # one log may be damaged, and the others are still read
            return TableStatus(name, None, None, problem=in_short(error))

    with ThreadPoolExecutor(_THREADS) as threads:
        return [status for status in threads.map(look, logs) if status is not None]


def table_status(name: str, logs: Mapping[str, Log], code: Code | None = None) -> TableStatus | None:
    """Where a table stands; None if there is no table."""
    log = logs[name]
    head = log.head()
    if head is None:
        return None
    newest = next(log.commits(head.version, head.version), None)
    written = 0 if newest is None else newest.timestamp
    mark, rows = newest_mark(log, head, name), log.live_rows(head.version)
    if mark is None:
        return TableStatus(name, head.version, written, rows=rows)
    cursor = find_cursor(log, head, name, mark.partitions[:1])
    readings = tuple(_reading(name, source, at, cursor, logs) for source, at in sorted(mark.reads.items()))
    newest = cursor.mark if isinstance(cursor, Known) else None
    waits = None if code is None or newest is None else _new_code(name, log, head, newest, code, rows)
    written_by = (mark.run, mark.partitions, readings)
    return TableStatus(name, head.version, written, *written_by, new_code=waits, rows=rows)


def disagreements(
    statuses: Iterable[TableStatus], logs: Mapping[str, Log], agreeing: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The tables whose inputs disagree, or that wait so that they agree, each with a clause, by the marks alone.

    Args:
        statuses: Where the tables stand.
        logs: The log of each table, by its name.
        agreeing: The tables whose inputs are to agree, which wait until they do.
    """
    written = [status for status in statuses if status.reads]
    reads = {status.name: [reading.source for reading in status.reads] for status in written}
    partitioned = frozenset(status.name for status in written if status.partitions)
    standings = Standings(Ways(reads, partitioned=partitioned), logs.get)
    for name, inputs in reads.items():
        standing = standings.newest(name) if standings.ways.common(name) else None
        if standing is None:
            continue
        if standing.torn:
            yield name, f"holds a state that its sources never had: {standing.why_inexact}"
        elif name in agreeing:
            newest = {each: at for each in inputs if (at := standings.newest(each)) is not None}
            yield from ((name, f"waits for {each}") for each in [*who_is_behind(newest)][:1])


def _reading(name: str, source: str, at: Position, cursor: Cursor, logs: Mapping[str, Log]) -> SourcePosition:
    """How far the table has read a source; its newest mark has the given position."""
    try:
        log = logs.get(source)
        head = None if log is None else log.head()
        if log is None or head is None:
            problem = None if log is None else "there is no table of this name any more"
            return SourcePosition(source, at.version, None, is_snapshot=at.is_snapshot, problem=problem)
        if at.is_snapshot:
            unread = unread_after(at, log, source, head)
            return SourcePosition(source, at.version, head.version, unread.versions, unread.since, is_snapshot=True)
        match backlog(cursor, log, source, head):
            case Unbegun(reason=reason):
                return SourcePosition(source, at.version, head.version, gap=reason)
            case Unread(position=position, versions=versions, since=since, gap=gap):
                until = None if since is None else since + int(limit_of(head, name).total_seconds() * 1000)
                return SourcePosition(source, position.version, head.version, versions, since, until, gap=gap)
    except Exception as error:  # what the table has read is still known
        return SourcePosition(source, at.version, None, is_snapshot=at.is_snapshot, problem=in_short(error))


def _new_code(name: str, log: Log, head: Head, newest: Mark, code: Code, rows: int | None) -> NewCode | None:
    """What part of a table waits to be compared because its asset's code has changed; None if nothing does."""
    if not newest.partitions:
        why = code.why_other(newest.code)
        return None if why is None else NewCode(why, rows)
    marks = dict[str, Mark]()
    for mark in map(mark_in, islice(log.commits(head.version), LOOKED_BACK)):
        if mark is not None and mark.asset == name:
            marks = dict.fromkeys(mark.partitions, mark) | marks
    waiting = {partition: why for partition, mark in sorted(marks.items()) if (why := code.why_other(mark.code))}
    return NewCode(next(iter(waiting.values())), None, tuple(waiting)) if waiting else None
