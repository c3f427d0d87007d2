"""A History of full extracts is the fold of these extracts, and its current rows are those of a Snapshot."""

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pytest

from lakehouse import History, Table
from lakehouse.commit.outcome import Committed, Outcome
from lakehouse.cursor.mark import Mark
from tests.support.extracts import Delivery, Kept, drawn
from tests.support.lake import Lake
from tests.support.slow import slow

KEYED = Table(key="id")
COLUMNS = ("id", "__START_AT", "__END_AT", "g", "a", "b")
ONE = {1: {"g": "x", "a": 1, "b": "p"}, 2: {"g": "y", "a": 2, "b": "q"}, 3: {"g": "y", "a": 3, "b": "r"}}


def taken(
    lake: Lake,
    delivery: Delivery,
    *,
    track: Any = ("g", "a"),
    table: Table = KEYED,
    tags: Any = None,
    **options: Any,
) -> Outcome:
    """The outcome of a run that returns the history of the delivery."""

    def past() -> History:
        return History(delivery.snapshot(lake, **options), track=track)

    return lake.materialize(past, table, **(tags or {}))


def held(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.frame("past").select(*COLUMNS).collect()), key=repr)


def mark(lake: Lake) -> Mark:
    found = Mark.from_json(lake.commits("past")[-1].user_metadata)
    assert found is not None
    return found


def number(each: int) -> Any:
    return each


def day(each: int) -> Any:
    return dt.date(2026, 1, 1) + dt.timedelta(days=each)


def moment(each: int) -> Any:
    return dt.datetime(2026, 1, 1, 12) + dt.timedelta(hours=each)  # noqa: DTZ001  (Spark's session is in UTC)


@pytest.mark.parametrize(
    ("seed", "version_of", "track"),
    [(1, number, ("g", "a")), slow(2, day, None), slow(3, moment, ("b",)), slow(4, number, ())],
)
def test_the_history_is_the_fold_of_its_extracts(
    lake: Lake, seed: int, version_of: Callable[[int], Any], track: Any
) -> None:
    chance, kept = random.Random(seed), Kept(("g", "a", "b") if track is None else track)
    for step in range(7):
        delivery = drawn(chance, kept, version_of, keys=40, first=step == 0)
        before, was = (lake.version("past"), kept.type_2()) if step else (-1, [])
        restate = step > 0 and delivery.version < kept.newest and not delivery.scope and chance.random() < 0.8
        tags = {"restate_from": str(delivery.version)} if restate else {}
        outcome = taken(lake, delivery, track=track, on_older="ignore", tags=tags)
        kept.deliver(delivery, restate=restate)
        assert held(lake) == kept.type_2(), delivery
        assert lake.version("past") == before + isinstance(outcome, Committed)
        if was == kept.type_2() and isinstance(outcome, Committed):
            assert outcome.commit.rows.total == 0
        found = mark(lake)
        assert (found.extract is not None and found.key == ("id", "__START_AT")) or step == 0
