"""How the commits of a table look, its readers, and the conflicts of its writers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from lakehouse.cli.pages.screen import (
    GOOD,
    QUIET,
    WAITING,
    WRONG,
    Layouts,
    ago,
    assemble,
    count,
    grid,
    indent,
    short,
    table_name,
)
from lakehouse.delta.commit_info import Rows, count_of

_BAR = 12
"""The columns of a bar."""
_NOTHING = "-"
"""Stands in the column of what avoids a conflict, if there is no conflict to avoid."""
SIGNS_OF_ROWS = (("+", GOOD), ("~", WAITING), ("-", WRONG))
"""The sign and the style of rows that were inserted, updated and deleted."""


@dataclass(frozen=True, slots=True)
class Change:
    """One commit.

    Args:
        version: Its version.
        committed: When, in milliseconds since the epoch.
        operation: The operation, as Delta calls it.
        rows: What it did to rows.
        run: The run that made it; None if it carries no mark.
    """

    version: int
    committed: int
    operation: str
    rows: Rows
    run: str | None


def changes_page(table: str, newest: int, changes: Sequence[Change], now: float) -> RenderableType:
    """The commits of a table, newest first.

    Args:
        table: Its name.
        newest: Its newest version.
        changes: The commits, in any order.
        now: The present, in seconds since the epoch.
    """
    shown = sorted(changes, key=lambda change: -change.version)
    most = max((change.rows.total for change in shown), default=0)
    wide = grid(
        *("Version", "When", "Operation", "Inserted", "Updated", "Deleted", "", "Made by"),
        right=("Version", "When", "Inserted", "Updated", "Deleted"),
    )
    stacked: list[RenderableType] = []
    for change in shown:
        rows, made = change.rows, _made_by(change)
        counts = (rows.inserted, rows.updated, rows.deleted)
        cells = [_count(number, style) for number, (_, style) in zip(counts, SIGNS_OF_ROWS, strict=True)]
        when = ago(change.committed, now)
        wide.add_row(str(change.version), when, change.operation, *cells, _bar(counts, most), made)
        stacked.append(assemble(f"{change.version}  {change.operation}  ", (when, QUIET), "  ", made))
        stacked.append(indent(Text("? rows" if rows.images is None and not rows.total else rows.sentence)))
    of = f"{count_of(len(shown), 'commit')}, and the table is at version {newest}"
    return Group(table_name(table) + Text(f"  {of}", QUIET), Text(), Layouts(wide, Group(*stacked)))


def _made_by(change: Change) -> Text:
    return assemble(("another program", QUIET)) if change.run is None else Text(f"run {short(change.run)}")


def _count(number: int | None, style: str) -> Text:
    if number is None:
        return assemble(("?", QUIET))
    return assemble((count(number), style)) if number else Text()


def _bar(counts: Sequence[int | None], most: int) -> Text:
    """How many rows of each kind, beside those of the other commits; a kind that occurs has a column at least."""
    bar = Text()
    for number, (sign, style) in zip(counts, SIGNS_OF_ROWS, strict=True):
        if number and most:
            bar.append(sign * max(1, round(_BAR * number / most)), style)
    return bar


def conflicts_page(
    headings: Sequence[str], rows: Sequence[Sequence[str]], warnings: Mapping[str, Sequence[str]], answers: str
) -> RenderableType:
    """Which writers of one table can conflict.

    Args:
        headings: What each column says.
        rows: A line for each pair of writers.
        warnings: What is to be said of each writer, by its name.
        answers: Whose answers they are.
    """
    wide = grid(*(heading.capitalize() for heading in headings))
    stacked: list[RenderableType] = []
    for writer, pairs in groupby(rows, key=lambda row: row[0]):
        stacked.append(table_name(writer))
        for _, rival, verdict, avoided, why in pairs:
            wide.add_row(writer, rival, verdict, avoided, why)
            stacked.append(indent(Text(f"{verdict} with {rival}")))
            lines = [(headings[3], avoided)] * (avoided != _NOTHING) + [(headings[4], why)]
            stacked += [indent(assemble((f"{heading}: {what}", QUIET)), 4) for heading, what in lines]
    return Group(Layouts(wide, Group(*stacked)), Text(), *_sentences(warnings), Text(answers))


def _sentences(warnings: Mapping[str, Sequence[str]]) -> Iterator[Text]:
    for name, sentences in warnings.items():
        for sentence in sentences:
            yield assemble((f"{name}: ", WAITING), sentence)
