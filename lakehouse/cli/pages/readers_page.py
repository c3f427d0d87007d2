"""How the readers of a table look: who, how far, what each holds back, until when."""

from collections.abc import Sequence
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from lakehouse.cli.pages.screen import QUIET, WAITING, WRONG, assemble, grid, span, table_name
from lakehouse.cursor.unread import TableState
from lakehouse.delta.commit_info import count_of
from lakehouse.status.reader_looks import Holder
from lakehouse.upkeep.readers import HeldBack, Reader, ReaderKind, Readers
from lakehouse.upkeep.registration import time_travel

_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def readers_page(readers: Readers, listed: Sequence[tuple[Reader, HeldBack]]) -> RenderableType:
    """The readers of a table.

    Args:
        readers: The readers.
        listed: Each of them, with what it holds back.
    """
    table = grid(
        *("Reader", "Read", "Unread", "Limit", "Holds back", "State"),
        right=("Read", "Unread", "Limit"),
        folding=("Holds back", "State"),
    )
    for reader, back in listed:
        if reader.kind is not ReaderKind.UNKNOWN:
            upto, unread = "" if reader.read is None else str(reader.read), str(reader.unread or "")
            limit, note = span(reader.limit.total_seconds()), reader_note(reader, readers.now)
            table.add_row(table_name(reader.name), upto, unread, limit, amount(back), note)
    page = [table, Text()] if table.row_count else []
    return Group(*page, *map(Text, _last_lines(readers, [reader for reader, _ in listed])))


def holding(holder: Holder, now: float) -> str:
    """What a reader holds back, and for how long, as a sentence.

    Args:
        holder: The reader.
        now: The present, in seconds since the epoch.
    """
    until = "" if holder.until is None else f" for {span(holder.until / 1000 - now)} more"
    files = f"{count_of(holder.files, 'file')} ({size(holder.bytes)})"
    return f"{holder.reader} holds back {files} of {holder.table}{until}: lakehouse readers {holder.table}"


def amount(back: HeldBack) -> str:
    """What is held back, in words; nothing if it is nothing."""
    return f"{count_of(back.files, 'file')}, {size(back.bytes)}" if back.files else ""


def size(count: int) -> str:
    """Bytes in their largest unit."""
    return next((f"{count / unit:.1f} {name}" for name, unit in _UNITS if count >= unit), f"{count} bytes")


def _last_lines(readers: Readers, listed: Sequence[Reader]) -> list[str]:
    number = sum(reader.kind is not ReaderKind.UNKNOWN for reader in listed)
    promised = span(time_travel(readers.head).total_seconds())
    lines = [
        f"{count_of(number, 'reader')} of {readers.table}, at version {readers.head.version}; time travel {promised}."
    ]
    lines += [f"{each.name} may be another: {each.problem}" for each in listed if each.kind is ReaderKind.UNKNOWN]
    retentions = [(each, readers.kept_for(each)) for each in listed]
    return lines + [_beyond(readers.table, each, time) for each, time in retentions if time < each.limit]


def _beyond(table: str, reader: Reader, retention: timedelta) -> str:
    return (
        f"{reader.name} may be behind for {span(reader.limit.total_seconds())}, but {table} keeps its changes for "
        f"{span(retention.total_seconds())} only."
    )


def reader_note(reader: Reader, now: int) -> Text:
    """What a reader needs, in words; nothing of a reader that has read everything.

    Args:
        reader: The reader.
        now: Milliseconds since the epoch.
    """
    match reader.state(now):
        case TableState.UP_TO_DATE:
            is_whole = reader.kind is ReaderKind.SNAPSHOT
            return assemble(("reads the newest version whole", QUIET)) if is_whole else Text()
        case TableState.GAP:
            return assemble((f"compares everything: {reader.gap}", WRONG))
        case TableState.ASLEEP:
            late = span((now - (reader.until or now)) / 1000)
            return assemble((f"asleep: its limit ended {late} ago, so it holds nothing back", WRONG))
        case TableState.BEHIND:
            remaining = span(((reader.until or now) - now) / 1000)
            return assemble((f"behind, holds for {remaining} more", WAITING))
        case TableState.BY_PARTITION:
            return assemble(("by partition: keeps all that is younger than its limit", QUIET))
        case _:
            of = "named in the code location" if reader.is_declared else "registered"
            return assemble((f"{of}: keeps all that is younger than its limit", QUIET))
