"""What a table must hold, in plain Python, given what its commits say they have read."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.reliability.delta_files import History, Row


@dataclass(frozen=True, slots=True)
class Span:
    """What one commit says it has read of one source.

    Args:
        history: The source.
        after: The last version that the table had read before; None where this commit starts anew.
        upto: The last version that it has read.
    """

    history: History
    after: int | None
    upto: int

    @property
    def rows(self) -> list[Row]:
        return self.history.rows(self.upto)


Law: TypeAlias = Callable[[list[Row] | None, Mapping[str, Span], list[Row]], str | None]
"""What is wrong with a table's rows, given its rows at the previous own commit and what has been read; None: nothing."""


def bag(rows: Iterable[Row]) -> Counter[frozenset[tuple[str, Any]]]:
    """Rows counted with their repetitions."""
    return Counter(frozenset(row.items()) for row in rows)


def equals(expected: Callable[[Mapping[str, list[Row]]], list[Row]]) -> Law:
    """The table is exactly this of its sources as far as it has read them."""

    def law(_before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
        return differs(expected({name: span.rows for name, span in spans.items()}), rows)

    return law


def appends(changes: Callable[[list[Row], list[Row], int], list[Row]]) -> Law:
    """The table is what it was, and for each version read the rows that `changes(before, after, version)` gives."""

    def law(before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
        (span,) = spans.values()
        held = list(before or [])
        if span.after is None:
            return differs([*held, *changes([], span.rows, span.upto)], rows)
        for version in range(span.after + 1, span.upto + 1):
            held += changes(span.history.rows(version - 1), span.history.rows(version), version)
        return differs(held, rows)

    return law


def differs(expected: list[Row], rows: list[Row]) -> str | None:
    """How the rows differ from the expected ones; None where they are the same bag."""
    lacks, extra = bag(expected) - bag(rows), bag(rows) - bag(expected)
    if not lacks and not extra:
        return None
    parts = [
        f"{sum(rows_.values())} rows {what}, {dict(next(iter(rows_)))} among them"
        for what, rows_ in (("are missing", lacks), ("are too many", extra))
        if rows_
    ]
    return " and ".join(parts)
