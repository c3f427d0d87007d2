"""How the difference of two versions looks: a line for each value that differs, under the key of its row."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from lakehouse.cli.pages.screen import GOOD, NAME, QUIET, WAITING, WRONG, assemble, grid, table_name
from lakehouse.delta.commit_info import count_of

if TYPE_CHECKING:
    from lakehouse.difference.between_versions import RowDiff, VersionDiff

_SIGNS: Mapping[str, tuple[str, str]] = {"insert": ("+", GOOD), "update": ("~", WAITING), "delete": ("-", WRONG)}
_WIDEST = 40
"""A longer value is cut; the document has all of it."""


def diff_page(table: str, versions: tuple[int, int], diff: "VersionDiff", way: str) -> RenderableType:
    """What two versions of a table hold differently.

    Args:
        table: Its name.
        versions: The earlier and the later version.
        diff: What differs.
        way: By what that was found.
    """
    title = table_name(table) + Text(f"  version {versions[0]} → {versions[1]}: {diff.counts.sentence}")
    page: list[RenderableType] = [title, assemble((f"by {way}", QUIET))]
    for sign, names in (("+", diff.added), ("-", diff.dropped)):
        page += [Text(f"{sign} column {name}") for name in names]
    if diff.rows:
        page += [Text(), _table(diff)]
    if diff.counts.total > sum(row.copies for row in diff.rows):
        more = diff.counts.total - sum(row.copies for row in diff.rows)
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
    return assemble((named or row.change, NAME), (f"  {row.copies} times" if row.copies > 1 else ""))


def _values(row: "RowDiff") -> Iterator[tuple[str, Text, Text]]:
    """Name, old value and new value of each column that is shown; a row without other columns has one empty line."""
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
