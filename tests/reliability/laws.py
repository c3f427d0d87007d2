"""What a table must hold, in plain Python, given what its commits have read according to their marks."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.reliability.delta_files import History, Row


@dataclass(frozen=True, slots=True)
class Span:
    """What one commit has read of one source, according to its mark.

    Args:
        history: The source.
        after: The last version that the table had read before; None if this commit starts anew.
        upto: The last version that it has read.
    """

    history: History
    after: int | None
    upto: int

    @property
    def rows(self) -> list[Row]:
        return self.history.rows(self.upto)


START, END = "__START_AT", "__END_AT"
"""The interval of a row of a history: when its values began to hold, and when they ceased to; None while they hold."""

Law: TypeAlias = Callable[[list[Row] | None, Mapping[str, Span], list[Row]], str | None]
"""What is wrong with a table's rows, if anything, given its rows at the previous own commit and what has been read."""


def bag(rows: Iterable[Row]) -> Counter[frozenset[tuple[str, Any]]]:
    """Rows counted with their repetitions."""
    return Counter(frozenset(row.items()) for row in rows)


def equals(expected: Callable[[Mapping[str, list[Row]]], list[Row]]) -> Law:
    """The table holds exactly the `expected` rows of its sources, as far as it has read them."""

    def law(_before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
        return differs(expected({name: span.rows for name, span in spans.items()}), rows)

    return law


def appends(changes: Callable[[list[Row], list[Row], int], list[Row]]) -> Law:
    """The table keeps its rows, and gets the rows of `changes(before, after, version)` for each version read."""

    def law(before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
        (span,) = spans.values()
        held = list(before or [])
        if span.after is None:
            return differs([*held, *changes([], span.rows, span.upto)], rows)
        for version in range(span.after + 1, span.upto + 1):
            held += changes(span.history.rows(version - 1), span.history.rows(version), version)
        return differs(held, rows)

    return law


def folds(tracked: Sequence[str]) -> Law:
    """The table is the history of all versions of its source that it has read.

    Args:
        tracked: The columns of the source whose changes begin another row.
    """

    def law(_before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
        (span,) = spans.values()
        expected: list[Row] = []
        for version, at in span.history.moments(span.upto).items():
            expected = continued(expected, span.history.rows(version), at, tracked)
        return differs(expected, rows)

    return law


def takes(extract: Callable[[list[Row]], tuple[int, list[Row]]], tracked: Sequence[str]) -> Law:
    """The table is its earlier history, continued by the newest extract that it has read.

    Args:
        extract: Gives the number and the rows of the newest extract among the delivered rows.
        tracked: The columns of an extract whose changes begin another row.
    """

    def law(before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
        (span,) = spans.values()
        number, state = extract(span.rows)
        return differs(continued(before or [], state, number, tracked), rows)

    return law


def continued(rows: list[Row], state: list[Row], at: Any, tracked: Sequence[str]) -> list[Row]:
    """A history after one more state of its source: where a tracked column differs, one interval ends and one begins.

    Args:
        rows: The history before.
        state: All rows of the source from a moment on, one for each `id`.
        at: That moment.
        tracked: The columns whose changes begin another row.
    """
    now = {row["id"]: row for row in state}
    current = {row["id"]: row for row in rows if row[END] is None}
    stays = {key for key, row in current.items() if key in now and all(row[c] == now[key][c] for c in tracked)}
    return [
        *(row for row in rows if row[END] is not None),
        *(row | (now[key] if key in stays else {END: at}) for key, row in current.items()),
        *(row | {START: at, END: None} for key, row in now.items() if key not in stays),
    ]


def differs(expected: list[Row], rows: list[Row]) -> str | None:
    """How the rows differ from the expected ones; None if they are the same bag."""
    lacks, extra = bag(expected) - bag(rows), bag(rows) - bag(expected)
    if not lacks and not extra:
        return None
    parts = [
        f"{sum(rows_.values())} rows {what}, {dict(next(iter(rows_)))} among them"
        for what, rows_ in (("are missing", lacks), ("are too many", extra))
        if rows_
    ]
    return " and ".join(parts)
