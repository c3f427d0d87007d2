"""How the commits of a table look, its readers, and the conflicts of its writers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from lakehouse.cli.pages.screen import (
    GOOD,
    QUIET,
    WAITING,
    WRONG,
    ago,
    assemble,
    count,
    grid,
    short,
    table_name,
)
from lakehouse.delta.commit_info import Rows, count_of

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


def changes_page(name: str, newest: int, changes: Sequence[Change], now: float) -> RenderableType:
    """The commits of a table, newest first.

    Args:
        name: Its name.
        newest: Its newest version.
        changes: The commits, in any order.
        now: The present, in seconds since the epoch.
    """
    shown = sorted(changes, key=lambda change: -change.version)
    numbers = ("Version", "When", "Inserted", "Updated", "Deleted")
    table = grid(
        "Version", "When", "Operation", *numbers[2:], "Made by", right=numbers, folding=("Operation", "Made by")
    )
    for change in shown:
        rows = change.rows
        counts = zip((rows.inserted, rows.updated, rows.deleted), SIGNS_OF_ROWS, strict=True)
        cells = [_count(number, style) for number, (_, style) in counts]
        table.add_row(str(change.version), ago(change.committed, now), change.operation, *cells, _made_by(change))
    of = f"{count_of(len(shown), 'commit')}, and the table is at version {newest}"
    return Group(table_name(name) + Text(f"  {of}", QUIET), Text(), table)


def _made_by(change: Change) -> Text:
    return assemble(("another program", QUIET)) if change.run is None else Text(f"run {short(change.run)}")


def _count(number: int | None, style: str) -> Text:
    if number is None:
        return assemble(("?", QUIET))
    return assemble((count(number), style)) if number else Text()


def rows_page(name: str, version: int, rows: Sequence[Mapping[str, Any]], most: int) -> RenderableType:
    """Rows of a table.

    Args:
        name: Its name.
        version: Its version.
        rows: The rows, each with all columns.
        most: How many rows were asked for.
    """
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
    """Which writers of one table can conflict.

    Args:
        headings: What each column says.
        rows: A line for each pair of writers.
        warnings: What is to be said of each writer, by its name.
        answers: Whose answers they are.
    """
    titles = [heading.capitalize() for heading in headings]
    table = grid(*titles, folding=titles)
    for row in rows:
        table.add_row(*row)
    return Group(table, Text(), *_sentences(warnings), Text(answers))


def _sentences(warnings: Mapping[str, Sequence[str]]) -> Iterator[Text]:
    for name, sentences in warnings.items():
        for sentence in sentences:
            yield assemble((f"{name}: ", WAITING), sentence)
