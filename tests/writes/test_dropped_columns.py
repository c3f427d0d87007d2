"""A history keeps the columns that its source drops: their past, and the values of rows that go on."""

import datetime as dt

import pytest

from lakehouse import Changes, History, Read, Table
from lakehouse.cursor.mark import Mark
from lakehouse.errors import WriteError
from tests.support.assets import log
from tests.support.lake import Lake
from tests.support.model import SRC
from tests.support.raises import raises_code

KEYED = Table(key="id", properties={"delta.columnMapping.mode": "name"})
ROWS = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]


def past(src: Changes) -> History:
    return History(src)


def named(src: Changes) -> History:
    return History(src, track=("k", "v"))


def told(lake: Lake) -> list[tuple[object, ...]]:
    rows = lake.frame("past").selectExpr("id", "k", "v", "__END_AT IS NULL AS current").collect()
    return sorted(map(tuple, rows), key=repr)


def source(lake: Lake) -> None:
    lake.create("src", ROWS, SRC, delta__columnMapping__mode="name")
    lake.materialize(past, KEYED)


@pytest.mark.slow
def test_a_dropped_column_stays_and_is_null_in_rows_that_begin_from_then_on(lake: Lake) -> None:
    source(lake)
    lake.sql("ALTER TABLE {src} DROP COLUMN v")
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    lake.sql("UPDATE {src} SET k = 'b' WHERE id = 2")
    lake.materialize(past, KEYED)
    rows = [(1, "a", 10, False), (1, "z", None, True), (2, "b", 20, True), (3, "c", 30, True)]
    assert told(lake) == rows
    mark = Mark.from_json(lake.commits("past")[-1].user_metadata)
    assert mark is not None and mark.definition is not None and "dropped v" in mark.definition

    lake.sql("UPDATE {src} SET k = 'y' WHERE id = 3")
    lake.materialize(past, KEYED)
    assert told(lake) == [*rows[:3], (3, "c", 30, False), (3, "y", None, True)]


@pytest.mark.slow
def test_rows_that_had_values_in_a_dropped_column_are_not_restated(lake: Lake) -> None:
    lake.create("src", ROWS, SRC, delta__columnMapping__mode="name")
    mapped, reads = Table(properties=KEYED.properties), {"src": Read(archive="kept")}
    lake.materialize(log, mapped, name="kept")
    lake.materialize(past, KEYED, reads=reads)
    lake.sql("UPDATE {src} SET k = 'y' WHERE id = 3")
    moment = dt.datetime.fromtimestamp(lake.commits("src")[-1].timestamp / 1000, dt.UTC).isoformat()
    lake.materialize(log, mapped, name="kept")
    lake.materialize(past, KEYED, reads=reads)
    for table in ("src", "kept"):
        lake.sql(f"ALTER TABLE {{{table}}} DROP COLUMN v")
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    lake.materialize(log, mapped, name="kept")
    lake.materialize(past, KEYED, reads=reads)
    with raises_code("RESTATE_REFUSED", match="no longer has v"):
        lake.materialize(past, KEYED, reads=reads, restate_from=moment)


@pytest.mark.slow
def test_a_comparison_ends_no_row_because_a_column_was_dropped(lake: Lake) -> None:
    source(lake)
    lake.sql("ALTER TABLE {src} DROP COLUMN v")
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    lake.materialize(past, KEYED, gap="the feed was vacuumed")
    assert told(lake) == [(1, "a", 10, False), (1, "z", None, True), (2, "b", 20, True), (3, "c", 30, True)]


@pytest.mark.slow
def test_a_column_of_the_name_of_a_dropped_one_is_taken_as_it_is_now_on_request(lake: Lake) -> None:
    source(lake)
    lake.sql("ALTER TABLE {src} DROP COLUMN v")
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    lake.materialize(past, KEYED)
    lake.sql("ALTER TABLE {src} ADD COLUMN v INT")
    lake.sql("UPDATE {src} SET v = 5 WHERE id = 2")
    with raises_code("SCHEMA", match=r"v: 'src' had dropped.*lakehouse/go_on_from/past=now"):
        lake.materialize(past, KEYED)
    lake.materialize(past, KEYED, go_on_from="now")
    assert [row[:3] for row in told(lake) if row[3]] == [(1, "z", None), (2, "b", 5), (3, "c", None)]


@pytest.mark.slow
def test_a_renamed_column_is_not_taken_for_a_dropped_one(lake: Lake) -> None:
    """Otherwise the current rows that no change touched would have no value under the new name."""
    source(lake)
    lake.sql("ALTER TABLE {src} RENAME COLUMN v TO u")
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    with raises_code("SCHEMA", match=r"RENAME COLUMN `v` TO <its new name>"):
        lake.materialize(past, KEYED)
    lake.sql("ALTER TABLE {past} RENAME COLUMN v TO u")
    lake.materialize(past, KEYED)
    current = lake.frame("past").where("__END_AT IS NULL").select("id", "k", "u").collect()
    assert sorted(map(tuple, current)) == [(1, "z", 10), (2, "b", 20), (3, "c", 30)]


@pytest.mark.slow
def test_a_dropped_column_that_is_tracked_by_its_name_is_refused(lake: Lake) -> None:
    lake.create("src", ROWS, SRC, delta__columnMapping__mode="name")
    lake.materialize(named, KEYED)
    lake.sql("ALTER TABLE {src} DROP COLUMN v")
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    with pytest.raises(WriteError, match="tracks v, which 'src' no longer has"):
        lake.materialize(named, KEYED)


@pytest.mark.slow
@pytest.mark.parametrize("acts", [("DROP COLUMN v", "ADD COLUMN v INT"), ("DROP COLUMN v",)], ids=["again", "gone"])
def test_a_history_whose_own_column_was_dropped_is_refused_until_it_is_told_to_go_on(
    lake: Lake, acts: tuple[str, ...]
) -> None:
    """Otherwise the current rows that no change touched would have no value in the column."""
    source(lake)
    for act in acts:
        lake.sql(f"ALTER TABLE {{past}} {act}")
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    with pytest.raises(WriteError, match=r"DROP COLUMNS.*lakehouse/go_on_from/past=now"):
        lake.materialize(past, KEYED)
    lake.materialize(past, KEYED, go_on_from="now")
    assert [row[:3] for row in told(lake) if row[3]] == [(1, "z", 10), (2, "b", 20), (3, "c", 30)]
    lake.sql("UPDATE {src} SET k = 'y' WHERE id = 2")
    lake.materialize(past, KEYED)
    assert [row[:3] for row in told(lake) if row[3]] == [(1, "z", 10), (2, "y", 20), (3, "c", 30)]
