"""A history that plain Python folds from the states of its source, to compare `History` with."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.lake import Lake

Values = tuple[Any, ...]
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  (Spark's session is in UTC)


@dataclass(frozen=True)
class State:
    """The source after one commit: the time of the commit, and the values of each entity."""

    at: Any
    rows: Mapping[Any, Values]


def history_of(states: Iterable[State], tracked: Sequence[int]) -> list[tuple[Any, ...]]:
    """The rows of the history: (entity, start, end, values), in order.

    Args:
        states: The states of the source, the oldest first.
        tracked: The positions of the tracked values in `State.rows`.
    """
    closed: list[tuple[Any, ...]] = []
    current: dict[Any, tuple[Any, Values]] = {}
    for state in states:
        for entity in current.keys() | state.rows.keys():
            before, after = current.get(entity), state.rows.get(entity)
            if before is not None and after is not None and _same(before[1], after, tracked):
                current[entity] = (before[0], after)
                continue
            if before is not None:
                closed.append((entity, before[0], state.at, *before[1]))
                del current[entity]
            if after is not None:
                current[entity] = (state.at, after)
    rows = [*closed, *((entity, start, None, *values) for entity, (start, values) in current.items())]
    return sorted(rows, key=repr)


def _same(before: Values, after: Values, tracked: Sequence[int]) -> bool:
    return all(before[place] == after[place] for place in tracked)


def states_of(lake: Lake, name: str) -> list[State]:
    """The states of a table, version by version, read by Delta's time travel; the first column is the key."""
    states: list[State] = []
    last = -1
    for commit in lake.commits(name):
        last = max(last + 1, commit.timestamp)
        rows = lake.spark.read.option("versionAsOf", commit.version).format("delta").load(str(lake.root / name))
        at = EPOCH + dt.timedelta(milliseconds=last)
        states.append(State(at, {row[0]: tuple(row)[1:] for row in rows.collect()}))
    return states
