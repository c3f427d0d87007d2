"""How these look: the commits, rows and readers of a table, two versions that differ, and conflicts of writers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from lakehouse.cli.pages.screen import (
    GOOD,
    NAME,
    QUIET,
    WAITING,
    WRONG,
    ago,
    assemble,
    count,
    grid,
    short,
    span,
    table_name,
)
from lakehouse.cursor.unread import TableState
from lakehouse.delta.commit_info import Rows, count_of
from lakehouse.status.lakehouse_status import Holder
from lakehouse.upkeep.readers import HeldBack, Reader, ReaderKind, Readers
from lakehouse.upkeep.registration import time_travel

if TYPE_CHECKING:
    from lakehouse.difference.between_versions import RowDiff, VersionDiff


SIGNS_OF_ROWS = (("+", GOOD), ("~", WAITING), ("-", WRONG))
"""The sign and the style of rows that were inserted, updated and deleted."""


@dataclass(frozen=True, slots=True)
class Change:
    """One commit."""

    version: int
    committed: int
    operation: str
    rows: Rows
    run: str | None


def changes_page(name: str, newest: int, changes: Sequence[Change], now: float) -> RenderableType:
    """The commits of a table, newest first."""
    shown = sorted(changes, key=lambda change: -change.version)
    numbers = ("Version", "When", "Inserted", "Updated", "Deleted")
    table = grid(
        "Version", "When", "Operation", *numbers[2:], "Made by", right=numbers, folding=("Operation", "Made by")
    )
    for change in shown:
        rows = change.rows
        counts = zip((rows.inserted, rows.updated, rows.deleted), SIGNS_OF_ROWS, strict=True)
        cells = [_count(number, style) for number, (_, style) in counts]
        by = assemble(("another program", QUIET)) if change.run is None else Text(f"run {short(change.run)}")
        table.add_row(str(change.version), ago(change.committed, now), change.operation, *cells, by)
    of = f"{count_of(len(shown), 'commit')}, and the table is at version {newest}"
    return Group(table_name(name) + Text(f"  {of}", QUIET), Text(), table)


def _count(number: int | None, style: str) -> Text:
    if number is None:
        return assemble(("?", QUIET))
    return assemble((count(number), style)) if number else Text()


def rows_page(name: str, version: int, rows: Sequence[Mapping[str, Any]], most: int) -> RenderableType:
    """Rows of a table."""
    names = list(rows[0]) if rows else []
    table = grid(*names, right=[each for each in names if isinstance(rows[0][each], int | float)], folding=names)
    for row in rows:
        table.add_row(*(assemble(("NULL", QUIET)) if value is None else Text(str(value)) for value in row.values()))
    more = " --limit shows more, if there are more." if len(rows) == most else ""
    title = table_name(name) + Text(f"  version {version}: {count_of(len(rows), 'row')}.{more}", QUIET)
    return Group(title, *[Text(), table] * bool(rows))


def conflicts_page(
    headings: Sequence[str], rows: Sequence[Sequence[str]], warnings: Mapping[str, Sequence[str]], answers: str
) -> RenderableType:
    """Which writers of one table can conflict."""
    titles = [heading.capitalize() for heading in headings]
    table = grid(*titles, folding=titles)
    for row in rows:
        table.add_row(*row)
    return Group(table, Text(), *_sentences(warnings), Text(answers))


def _sentences(warnings: Mapping[str, Sequence[str]]) -> Iterator[Text]:
    for name, sentences in warnings.items():
        for sentence in sentences:
            yield assemble((f"{name}: ", WAITING), sentence)


_SIGNS: Mapping[str, tuple[str, str]] = {"insert": ("+", GOOD), "update": ("~", WAITING), "delete": ("-", WRONG)}
_WIDEST = 40
"""A longer value is cut on the page; the JSON document has all of it."""


def diff_page(table: str, versions: tuple[int, int], diff: "VersionDiff", way: str) -> RenderableType:
    """What two versions of a table hold differently."""
    title = table_name(table) + Text(f"  version {versions[0]} → {versions[1]}: {diff.counts.sentence}")
    page: list[RenderableType] = [title, assemble((f"by {way}", QUIET))]
    for sign, names in (("+", diff.added), ("-", diff.dropped)):
        page += [Text(f"{sign} column {name}") for name in names]
    if diff.rows:
        page += [Text(), _table(diff)]
    more = diff.counts.total - len(diff.rows)
    if more > 0:
        page += [Text(), assemble((f"{count_of(more, 'more row')}. --limit shows more.", QUIET))]
    return Group(*page)


def _table(diff: "VersionDiff") -> RenderableType:
    first = "Key" if any(row.key for row in diff.rows) else "Row"
    table = grid("", first, "Column", "Before", "After", folding=(first, "Column", "Before", "After"))
    for row in diff.rows:
        sign, style = _SIGNS[row.change]
        key = _key(row)
        for place, (name, before, after) in enumerate(_values(row)):
            named = (assemble((sign, style)), key) if place == 0 else ("", "")
            table.add_row(*named, name, before, after)
    return table


def _key(row: "RowDiff") -> Text:
    named = ", ".join(f"{name}={_cut(value)}" for name, value in row.key.items())
    return assemble((named or row.change, NAME))


def _values(row: "RowDiff") -> Iterator[tuple[str, Text, Text]]:
    """Name, old value and new value of each column that is shown; a row that shows none has one empty line."""
    before, after = row.before or {}, row.after or {}
    names = list(row.after if row.after is not None else before)
    if not names:
        yield "", Text(), Text()
    for name in names:
        old = Text() if row.before is None else _value(before.get(name))
        new = Text() if row.after is None else _value(after.get(name))
        yield name, old, new


def _value(value: str | None) -> Text:
    return assemble(("NULL", QUIET)) if value is None else Text(_cut(value))


def _cut(value: str | None) -> str:
    text = "NULL" if value is None else value.replace("\n", "\\n")
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def readers_page(readers: Readers, listed: Sequence[tuple[Reader, HeldBack]]) -> RenderableType:
    """The readers of a table."""
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
    """What a reader holds back, and for how long, as a sentence."""
    until = "" if holder.until is None else f" for {span(holder.until / 1000 - now)} more"
    files = f"{count_of(holder.files, 'file')} ({size(holder.bytes)})"
    return f"{holder.reader} holds back {files} of {holder.table}{until}: lakehouse readers {holder.table}"


def amount(back: HeldBack) -> str:
    """What is held back, in words; empty if nothing is."""
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
    """What a reader needs, in words; empty if the reader has read everything.

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
