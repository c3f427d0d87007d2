"""A history that is restated from its archive is the fold of its source's versions again."""

import datetime as dt
import shutil
from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse import Append, Changes, History, Read, Table
from lakehouse.commit.outcome import Committed
from lakehouse.cursor.mark import Mark
from tests.support.history_model import EPOCH, history_of, states_of
from tests.support.lake import Lake
from tests.support.model import SRC
from tests.support.raises import raises_code

KEYED = Table(key="id")
ARCHIVED = {"src": Read(archive="log")}


def log(src: Changes) -> Append:
    return Append(src.log())


def tracked(src: Changes) -> History:
    return History(src, track="k")


def held(lake: Lake) -> list[tuple[Any, ...]]:
    rows = lake.frame("tracked").select("id", "__START_AT", "__END_AT", "k", "v").collect()
    return sorted((tuple(row) for row in rows), key=repr)


def moment(lake: Lake, version: int) -> str:
    return (EPOCH + dt.timedelta(milliseconds=lake.commits("src")[version].timestamp)).isoformat()


@pytest.mark.slow
def test_a_history_is_restated_from_a_moment_on_in_one_commit_that_says_so(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2), (3, "c", 3)], SRC)
    lake.materialize(log)
    lake.materialize(tracked, KEYED, reads=ARCHIVED)
    for statement in (
        "UPDATE {src} SET k = 'z' WHERE id = 1",
        "DELETE FROM {src} WHERE id = 2",
        "UPDATE {src} SET v = 9 WHERE id = 3",
        "UPDATE {src} SET k = 'y' WHERE id = 1",
    ):
        lake.sql(statement)
    lake.materialize(tracked, KEYED, reads=ARCHIVED, gap="the feed was vacuumed")
    due = history_of(states_of(lake, "src"), [0])
    assert held(lake) != due, "a comparison cannot know when rows ended"
    with raises_code("RESTATE_REFUSED", match="does not hold every change up to version 4"):
        lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from=moment(lake, 1))
    lake.materialize(log)
    lake.sql("UPDATE {tracked} SET k = 'wrong' WHERE id = 1 AND __END_AT IS NULL")
    before = lake.version("tracked")
    with raises_code("RESTATE_REFUSED", match="the archive begins later"):
        lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from="2001-01-01")
    with raises_code("RESTATE_REFUSED", match="no archive of 'src'"):
        lake.materialize(tracked, KEYED, restate_from=moment(lake, 1))
    with raises_code("RESTATE_REFUSED", match="no time in the form"):
        lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from="yesterday")
    assert lake.version("tracked") == before
    outcome = lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from=moment(lake, 1))
    assert isinstance(outcome, Committed) and lake.version("tracked") == before + 1
    mark = Mark.from_json(lake.commits("tracked")[-1].user_metadata)
    assert mark is not None and mark.decided == f"restated from {moment(lake, 1)}"
    assert held(lake) == due
    assert not lake.sql(
        "SELECT 1 FROM {tracked} WHERE __START_AT_EARLIEST IS NOT NULL OR __END_AT_EARLIEST IS NOT NULL"
    )
    lake.sql("INSERT INTO {src} VALUES (4, 'd', 4)")
    lake.materialize(tracked, KEYED, reads=ARCHIVED)
    came = EPOCH + dt.timedelta(milliseconds=lake.commits("src")[-1].timestamp)
    assert held(lake) == sorted([*due, (4, came, None, "d", 4)], key=repr)


@pytest.mark.slow
def test_a_moment_after_the_position_is_refused_because_changes_before_it_are_unread(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    lake.materialize(log)
    lake.materialize(tracked, KEYED, reads=ARCHIVED)
    lake.sql("UPDATE {src} SET k = 'y' WHERE id = 2")
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    lake.materialize(log)
    with raises_code("RESTATE_REFUSED", match="has read version 0, which is from before; materialize it first"):
        lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from=moment(lake, 2))
    lake.materialize(tracked, KEYED, reads=ARCHIVED)
    assert held(lake) == history_of(states_of(lake, "src"), [0])


@pytest.mark.slow
def test_a_row_that_the_archive_does_not_explain_is_neither_lost_nor_held_again(lake: Lake) -> None:
    """The first read goes back to the oldest version with a feed, and rows that are older than that begin there."""
    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    lake.materialize(log)
    lake.sql("UPDATE {src} SET k = 'y' WHERE id = 2")
    lake.materialize(log)
    DeltaTable(str(lake.root / "src")).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    shutil.rmtree(lake.root / "src" / "_change_data")
    lake.insert("src", [(3, "c", 3)])
    lake.materialize(log)
    lake.materialize(tracked, KEYED, reads=ARCHIVED)
    before = held(lake)
    first = min(row[1] for row in before)
    with raises_code("RESTATE_REFUSED", match="the archive does not contain the change"):
        lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from=first.isoformat())
    assert held(lake) == before


@pytest.mark.slow
def test_what_held_at_a_moment_between_two_comparisons_is_not_made_up(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    lake.materialize(log)
    lake.materialize(tracked, KEYED, reads=ARCHIVED)
    for change in ("k = 'b' WHERE id = 1", "v = 9 WHERE id = 2", "k = 'c' WHERE id = 1"):
        lake.sql(f"UPDATE {{src}} SET {change}")
    lake.materialize(tracked, KEYED, reads=ARCHIVED, gap="the feed was vacuumed")
    lake.materialize(log)
    before = held(lake)
    for version in (2, 3):
        with raises_code("RESTATE_REFUSED", match="the change may have come before"):
            lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from=moment(lake, version))
    assert held(lake) == before
    lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from=moment(lake, 1))
    assert held(lake) == history_of(states_of(lake, "src"), [0])


@pytest.mark.slow
def test_a_history_of_some_partitions_is_restated_from_these_alone(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    lake.materialize(log)
    pinned = lake.source

    def some(name: str) -> Any:
        source = pinned(name)
        return replace(source, at=replace(source.at, where="id = 1", mapped="m"))

    lake.source = some  # type: ignore[method-assign]
    lake.materialize(tracked, KEYED, reads=ARCHIVED)
    lake.sql("UPDATE {src} SET k = 'y'")
    lake.source = pinned  # type: ignore[method-assign]
    lake.materialize(log)
    lake.source = some  # type: ignore[method-assign]
    lake.materialize(tracked, KEYED, reads=ARCHIVED)
    lake.materialize(tracked, KEYED, reads=ARCHIVED, restate_from=moment(lake, 1))
    assert {row[0] for row in held(lake)} == {1}
