"""Random events of a few keys, and the rows that follow from them, folded in plain Python event by event."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id bigint, at bigint, n int, op string, a string, b int, s struct<x: int, y: struct<z: string>>"
COLUMNS = ("id", "a", "b", "s")
"""The columns that tests keep; the other columns describe the event itself."""
_ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.int64()),
        ("n", pa.int32()),
        ("op", pa.string()),
        ("a", pa.string()),
        ("b", pa.int32()),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))])),
    ]
)


@dataclass(frozen=True)
class Event:
    """An event: upsert (U), delete (D) or truncate (T, without a key).

    Args:
        id: The key.
        at: The first field of the sequence.
        n: The second field of the sequence.
        op: What the event does.
        a: A text.
        b: A number.
        s: The fields x and y.z; None means that the struct is NULL.
    """

    id: int | None
    at: int
    n: int
    op: str
    a: str | None = None
    b: int | None = None
    s: tuple[int | None, str | None] | None = None

    @property
    def sequence(self) -> tuple[int, int]:
        return self.at, self.n

    @property
    def row(self) -> dict[str, Any]:
        s = None if self.s is None else {"x": self.s[0], "y": {"z": self.s[1]}}
        return {"id": self.id, "at": self.at, "n": self.n, "op": self.op, "a": self.a, "b": self.b, "s": s}

    @property
    def is_upsert(self) -> bool:
        return self.op == "U"


def random_events(random: Random, ids: Sequence[int], *, each: int = 10, truncates: int = 0) -> list[Event]:
    """Events in random order: one in five deletes, one upsert in ten is repeated; upserts of one sequence are equal."""
    upserts: dict[tuple[int, int, int], Event] = {}
    events: list[Event] = []
    for id_ in ids:
        for _ in range(random.randint(1, each)):
            at, n = random.randint(1, each), random.randint(0, 1)
            if random.random() < 0.2:
                events.append(Event(id_, at, n, "D", random.choice(["gone", None])))
                continue
            upsert = upserts.setdefault((id_, at, n), _upsert(random, id_, at, n))
            events += [upsert] * random.choice([1] * 9 + [2])
    events += [Event(None, random.randint(1, each), random.randint(0, 1), "T") for _ in range(truncates)]
    random.shuffle(events)
    return events


def _upsert(random: Random, id_: int, at: int, n: int) -> Event:
    s = random.choice([None, (random.choice([1, 2, None]), random.choice(["p", None]))])
    return Event(id_, at, n, "U", random.choice(["r", "g", None]), random.choice([1, 2, None]), s)


def frame(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist([event.row for event in events], schema=_ARROW))


@dataclass
class Row:
    """A row of a key's past: its values, and the interval in which they were current."""

    values: dict[str, Any]
    start: tuple[int, int]
    end: tuple[int, int] | None = None


def history(events: Iterable[Event], *, tracked: Sequence[str] = COLUMNS, ignored: Sequence[str] = ()) -> list[Row]:
    """The rows of one key's past.

    Args:
        events: The key's events, in any order.
        tracked: The columns whose change begins a row.
        ignored: The columns in which NULL leaves a value as it was.
    """
    rows: list[Row] = []
    current: Row | None = None
    ordered = sorted(events, key=lambda event: event.sequence)
    for sequence, same in groupby(ordered, key=lambda event: event.sequence):
        of_sequence = list(same)
        if not all(event.is_upsert for event in of_sequence):
            if current is not None:
                current.end = sequence
            current = None
            continue
        values = _values(of_sequence[0])
        for name in ignored:
            values[name] = _inherited(values[name], current.values[name] if current else None)
        if current is not None and all(values[name] == current.values[name] for name in tracked):
            current.values = values
            continue
        if current is not None:
            current.end = sequence
        current = Row(values, sequence)
        rows.append(current)
    return rows


def _values(event: Event) -> dict[str, Any]:
    return {"id": event.id, "a": event.a, "b": event.b, "s": event.s}


def _inherited(value: Any, before: Any) -> Any:
    """A value, or the earlier value where it is NULL; a struct field by field, and NULL if all of its fields are."""
    if not isinstance(value, tuple) and not isinstance(before, tuple):
        return before if value is None else value
    fields = tuple(
        old if new is None else new for new, old in zip(value or (None, None), before or (None, None), strict=True)
    )
    return None if fields == (None, None) else fields


def after_truncates(events: Iterable[Event]) -> list[Event]:
    """The events of keys, without those that a truncate of the same or a later sequence removes."""
    listed = list(events)
    low = max((event.sequence for event in listed if event.op == "T"), default=(0, -1))
    return [event for event in listed if event.op != "T" and event.sequence > low]


def past(events: Iterable[Event], **options: Any) -> list[tuple[Any, ...]]:
    """The rows of type 2 of every key, sorted."""
    return sorted(
        ((*row.values.values(), row.start, row.end) for rows in _by_key(events, options) for row in rows), key=repr
    )


def present(events: Iterable[Event], **options: Any) -> list[tuple[Any, ...]]:
    """The rows of type 1 of every key, sorted."""
    return sorted(
        (
            tuple(row.values.values())
            for rows in _by_key(after_truncates(events), options)
            for row in rows
            if not row.end
        ),
        key=repr,
    )


def _by_key(events: Iterable[Event], options: dict[str, Any]) -> list[list[Row]]:
    ordered = sorted(events, key=lambda event: event.id or 0)
    return [history(of_key, **options) for _, of_key in groupby(ordered, key=lambda event: event.id)]


def shown(rows: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a result, sorted, in the form of `past` and `present`: structs are tuples of their leaves."""
    return sorted((tuple(map(_plain, row.values())) for row in rows.toArrow().to_pylist()), key=repr)


def _plain(value: Any) -> Any:
    match value:
        case {"x": x, "y": y}:
            return (x, None if y is None else y["z"])
        case {"at": at, "n": n}:
            return (at, n)
        case _:
            return value
