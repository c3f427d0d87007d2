"""A History of full extracts is the fold of these extracts, and its current rows are those of a Snapshot."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from lakehouse import History, Snapshot, Table
from lakehouse.commit.outcome import Committed, Outcome
from lakehouse.cursor.mark import Mark
from lakehouse.errors import WriteError
from tests.support.extracts import HISTORIES, Delivery, Kept, UnknownPastError, day, drawn, moment, number
from tests.support.lake import Lake
from tests.support.raises import raises_code
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "deliveries", "version_of", "track"),
    [
        (1, 3, number, ("g", "a")),
        slow(296, 6, number, ("g", "a")),
        slow(2, 6, day, None),
        slow(3, 6, moment, ("b",)),
        slow(4, 6, number, ()),
        *(slow(seed, 6, number, ("g", "a")) for seed in HISTORIES),
    ],
)
def test_the_history_is_the_fold_of_its_extracts(
    lake: Lake, seed: int, deliveries: int, version_of: Callable[[int], Any], track: Any
) -> None:
    chance, kept = random.Random(seed), Kept(("g", "a", "b") if track is None else track)
    for step in range(deliveries):
        delivery = drawn(chance, kept, version_of, keys=40, first=step == 0)
        before, was = (lake.version("past"), kept.type_2()) if step else (-1, [])
        restate = step > 0 and delivery.version < kept.newest and not delivery.scope and chance.random() < 0.8
        tags = {"restate_from": str(delivery.version)} if restate else {}
        try:
            kept.deliver(delivery, restate=restate)
        except UnknownPastError:
            with pytest.raises(WriteError, match="an extract of another scope"):
                taken(lake, delivery, track=track, on_older="ignore", tags=tags)
            continue
        outcome = taken(lake, delivery, track=track, on_older="ignore", tags=tags)
        assert held(lake) == kept.type_2(), delivery
        assert lake.version("past") == before + isinstance(outcome, Committed)
        if was == kept.type_2() and isinstance(outcome, Committed):
            assert outcome.commit.rows.total == 0
        found = mark(lake)
        assert (found.extract is not None and found.key == ("id", "__START_AT")) or step == 0


@pytest.mark.slow
def test_a_restated_extract_drops_what_came_later_and_later_extracts_follow_again(lake: Lake) -> None:
    moved = {1: ONE[1] | {"a": 9}, 2: ONE[2]}
    for version, rows in ((1, ONE), (3, moved), (5, {1: ONE[1]})):
        taken(lake, Delivery(version, rows))
    with raises_code("OLDER_EXTRACT", match="run tag lakehouse/restate_from/past="):
        taken(lake, Delivery(3, ONE))
    with pytest.raises(WriteError, match=r"is to be restated from 4, but its extract is 3\. .*restate_from/past=3"):
        taken(lake, Delivery(3, ONE), tags={"restate_from": "4"})
    with pytest.raises(WriteError, match="the extract has a scope"):
        taken(lake, Delivery(3, ONE, ("g",)), tags={"restate_from": "3"})
    with pytest.raises(WriteError, match="rows that begin or end after 3"):
        taken(lake, Delivery(3, ONE), tags={"allowed": frozenset({"version"})})
    assert isinstance(taken(lake, Delivery(3, ONE), tags={"restate_from": "3"}), Committed)
    assert held(lake) == [(key, 1, None, *row.values()) for key, row in ONE.items()]
    assert (mark(lake).decided, str(mark(lake).extract)) == ("restated from 3", "3")
    taken(lake, Delivery(5, {1: ONE[1]}))
    assert held(lake) == [(1, 1, None, "x", 1, "p"), (2, 1, 5, "y", 2, "q"), (3, 1, 5, "y", 3, "r")]


def test_a_history_of_extracts_that_cannot_be_kept_is_refused_and_nothing_is_written(lake: Lake) -> None:
    taken(lake, Delivery(1, ONE))
    version = lake.version("past")
    with raises_code("REFRESH_REFUSED", match="deliver its extracts again"):
        taken(lake, Delivery(2, ONE), tags={"compare": "a full refresh was asked for"})
    with raises_code("TRACK_CHANGED", match="has tracked a, g and is to track all columns"):
        taken(lake, Delivery(2, ONE), track=None)
    with raises_code("DEFINITION", match="cannot be partitioned"):
        taken(lake, Delivery(2, ONE), table=Table(key="id", partition_by="g"))
    with raises_code("COLUMN_MISSING", match="has no column status"):
        taken(lake, Delivery(2, ONE), track="status", tags={"name": "other"})
    with raises_code("DELETIONS_HELD_BACK", match="lacks 2 of the 3 rows"):
        taken(lake, Delivery(2, {1: ONE[1]}), max_deleted=0.5)
    with raises_code("BROKEN_PROMISE", match="more than one row with id=1"):
        lake.materialize(_of(lake, [(1, "x", 1), (1, "x", 2)], "id BIGINT, g STRING, a INT"), KEYED)
    with raises_code("SCHEMA", match="__END_AT: is a column of the source too"):
        lake.materialize(_of(lake, [(1, "x", 1)], "id BIGINT, g STRING, __END_AT INT"), KEYED)
    assert lake.version("past") == version and not lake.exists("other")


def _of(lake: Lake, rows: list[tuple[Any, ...]], schema: str) -> Callable[[], History]:
    def past() -> History:
        return History(Snapshot(lake.values(rows, schema), version=2), track=("g", "a"))

    return past


def test_a_table_of_one_type_is_not_written_as_the_other(lake: Lake) -> None:
    def kept() -> Snapshot:
        return Delivery(2, ONE).snapshot(lake)

    taken(lake, Delivery(1, ONE))
    with pytest.raises(WriteError, match="was kept by a History"):
        lake.materialize(kept, KEYED, name="past")
    lake.materialize(kept, KEYED)
    with pytest.raises(WriteError, match="was kept by a Snapshot, not by a History"):
        taken(lake, Delivery(3, ONE), tags={"name": "kept"})


def test_a_history_adopts_no_table_of_another_program_and_names_no_tag_that_would(lake: Lake) -> None:
    schema = "id BIGINT, __START_AT BIGINT, __END_AT BIGINT, g STRING, a INT, b STRING"
    lake.create("past", [(9, 1, None, "x", 1, "p")], schema)
    for tags in ({}, {"allowed": frozenset({"version"})}):
        with raises_code("FOREIGN_TABLE", match="A history does not adopt a table"):
            taken(lake, Delivery(1, ONE), tags=tags)
    assert held(lake) == [(9, 1, None, "x", 1, "p")]
