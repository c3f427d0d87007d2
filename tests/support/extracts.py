"""Deliveries of full extracts, and what a table kept from them must hold, folded in plain Python.

`LAKEHOUSE_HISTORIES` is how many more histories the slow tests draw.
"""

import copy
import datetime as dt
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from lakehouse import Snapshot
from tests.support.lake import Lake

HISTORIES = range(1_000, 1_000 + int(os.environ.get("LAKEHOUSE_HISTORIES", "0")))
"""The seeds of these further histories."""

Values = dict[str, Any]
SCHEMA = {"id": "BIGINT", "g": "STRING", "a": "INT", "b": "STRING"}
GROUPS = ("x", "y", "z", None)


@dataclass(frozen=True)
class Delivery:
    """One extract.

    Args:
        version: Its version.
        rows: The values of each key, in the delivered columns only.
        scope: The scope, as a `Snapshot` takes it.
    """

    version: Any
    rows: Mapping[Any, Values]
    scope: tuple[str, ...] | Mapping[str, tuple[Any, ...]] = ()
    lacking: tuple[str, ...] = ()

    def is_in_scope(self, values: Values) -> bool:
        """Whether a stored row would be in the extract if it still existed."""
        match self.scope:
            case ():
                return True
            case Mapping():
                return all(values[name] in listed for name, listed in self.scope.items())
            case names:
                return any(all(values[n] == row[n] for n in names) for row in self.rows.values())

    @property
    def places(self) -> Any:
        """The values of its scope; equal for two deliveries of the same scope."""
        match self.scope:
            case Mapping():
                return {name: set(map(str, values)) for name, values in self.scope.items()}
            case (name,):
                return {name: {str(row[name]) for row in self.rows.values()}}
            case _:
                return {}

    def frame(self, lake: Lake) -> DataFrame:
        columns = [name for name in SCHEMA if name not in self.lacking]
        rows = [tuple(({"id": key} | values)[name] for name in columns) for key, values in self.rows.items()]
        return lake.values(rows, ", ".join(f"{name} {SCHEMA[name]}" for name in columns))

    def snapshot(self, lake: Lake, **options: Any) -> Snapshot:
        return Snapshot(self.frame(lake), version=self.version, scope=self.scope, **options)


@dataclass
class Row:
    """A row of a history: from when, until when, and its values."""

    start: Any
    end: Any
    values: Values


@dataclass(frozen=True)
class Before:
    """What a table held before a delivery of its newest version, and the values of the delivery's scope."""

    places: Any
    current: dict[Any, Values]
    past: dict[Any, list[Row]]


class UnknownPastError(Exception):
    """What a key had before is not known, because another scope was delivered as well."""


@dataclass
class Kept:
    """The table of type 1 and the history of type 2 after the deliveries so far.

    Args:
        tracked: The tracked columns.
    """

    tracked: tuple[str, ...] = ("g", "a", "b")
    newest: Any = None
    before: list["Before"] = field(default_factory=list)
    current: dict[Any, Values] = field(default_factory=dict)
    past: dict[Any, list[Row]] = field(default_factory=dict)

    def deliver(self, delivery: Delivery, *, restate: bool = False) -> None:
        if self.newest is not None and delivery.version < self.newest and not restate:
            return
        if delivery.version != self.newest or restate:
            self.before = []
        back = self._given_back(delivery)
        self.before.append(Before(delivery.places, dict(self.current), copy.deepcopy(self.past)))
        self._type_2(delivery, restate=restate)
        self.past |= {key: copy.deepcopy(rows) for key, (_, rows) in back.items()}
        kept = {key: values for key, values in self.current.items() if not delivery.is_in_scope(values)}
        self.current = kept | {
            key: self._whole(delivery, row, self.current.get(key)) for key, row in delivery.rows.items()
        }
        self.current |= {key: values for key, (values, _) in back.items()}
        self.newest = delivery.version

    def _given_back(self, delivery: Delivery) -> dict[Any, tuple[Values, list[Row]]]:
        """The values and rows that keys had before deliveries of this scope and version took them over."""
        gone = {k for k, row in self.current.items() if delivery.is_in_scope(row)} - delivery.rows.keys()
        back, is_other = dict[Any, tuple[Values, list[Row]]](), False
        for before in reversed(self.before if delivery.scope else []):
            is_other |= before.places != delivery.places
            gone &= before.current.keys()
            taken = {key for key in gone if not delivery.is_in_scope(before.current[key])}
            if taken and is_other:
                raise UnknownPastError
            back |= {key: (before.current[key], before.past[key]) for key in taken}
            gone -= taken
        return back

    def _whole(self, delivery: Delivery, row: Values, stored: Values | None) -> Values:
        return row | {name: None if stored is None else stored[name] for name in delivery.lacking}

    def _type_2(self, delivery: Delivery, *, restate: bool) -> None:
        at = delivery.version
        in_scope = {
            key
            for key, rows in self.past.items()
            if any(row.end is None and delivery.is_in_scope(row.values) for row in rows)
        }
        for key in set(self.past) if restate else in_scope | delivery.rows.keys():
            rows = [row for row in self.past.get(key, []) if row.start < at]
            base = next((row for row in rows if row.end is None or row.end >= at), None)
            row = delivery.rows.get(key)
            if row is None:
                if base is not None:
                    base.end = at
            else:
                values = self._whole(delivery, row, None if base is None else base.values)
                if base is not None and all(base.values[name] == values[name] for name in self.tracked):
                    base.end, base.values = None, values
                else:
                    if base is not None:
                        base.end = at
                    rows.append(Row(at, None, values))
            self.past[key] = rows
        for key in delivery.rows.keys() - self.past.keys():
            self.past[key] = [Row(at, None, self._whole(delivery, delivery.rows[key], None))]

    def type_1(self) -> list[tuple[Any, ...]]:
        return sorted(((key, *(row[n] for n in ("g", "a", "b"))) for key, row in self.current.items()), key=repr)

    def type_2(self) -> list[tuple[Any, ...]]:
        rows = [
            (key, row.start, row.end, *(row.values[name] for name in ("g", "a", "b")))
            for key, each in self.past.items()
            for row in each
        ]
        return sorted(rows, key=repr)


def number(each: int) -> Any:
    """The version of the nth delivery, as a number."""
    return each


def day(each: int) -> Any:
    """The same as a day."""
    return dt.date(2026, 1, 1) + dt.timedelta(days=each)


def moment(each: int) -> Any:
    """The same as a moment."""
    return dt.datetime(2026, 1, 1, 12) + dt.timedelta(hours=each)  # noqa: DTZ001  (Spark's session is in UTC)


def drawn(chance: random.Random, kept: Kept, version_of: Callable[[int], Any], *, keys: int, first: bool) -> Delivery:
    """A delivery after those that `kept` knows: mostly newer, some again, some older.

    Args:
        chance: Draws the delivery.
        kept: What the table holds.
        version_of: Gives the version of the nth delivery.
        keys: How many keys there are.
        first: Whether it is the table's first delivery, which has every column.
    """
    numbers = {version_of(number): number for number in range(100)}
    newest = -1 if first else numbers[kept.newest]
    step = 1 if first else chance.choice([0, 1, 1, 1, 1, 2, -1])
    scope: Any = () if first else chance.choice([(), (), ("g",), {"g": tuple(chance.sample(GROUPS, 2))}])
    lacking = () if first else chance.choice([(), (), ("a",), ("b",)])
    groups = scope["g"] if isinstance(scope, dict) else chance.sample(GROUPS, 2) if scope else GROUPS
    rows: dict[Any, Values] = {}
    for key in range(keys):
        stored = kept.current.get(key)
        if stored is not None and stored["g"] in groups and chance.random() < 0.6:
            row = dict(stored)
        elif chance.random() < 0.4:
            row = {"g": chance.choice(groups), "a": chance.choice([1, 2, None]), "b": chance.choice(["p", "q", None])}
        else:
            continue
        if chance.random() < 0.2:
            row["b"] = chance.choice(["p", "q", "r"])
        rows[key] = {name: value for name, value in row.items() if name not in lacking}
    if not rows:
        rows[0] = {n: v for n, v in {"g": groups[0], "a": 1, "b": "p"}.items() if n not in lacking}
    return Delivery(version_of(max(0, newest + step)), rows, scope, lacking)
