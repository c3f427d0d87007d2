"""A History is the fold of its source's versions, however the changes are cut into ranges."""

import datetime as dt
import random
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse import Changes, History, Merge, Read, Table
from lakehouse.commit.outcome import Committed
from lakehouse.cursor.mark import Mark
from lakehouse.difference.statements import MarkOnly
from lakehouse.errors import WriteError
from lakehouse.read.touched_keys import FromFeed
from lakehouse.writes.write import complete, plan
from tests.support.extracts import HISTORIES
from tests.support.history_model import EPOCH, history_of, states_of
from tests.support.lake import Lake, cleaned
from tests.support.model import SRC, Delete, Insert, MergeRows, Model, Optimize, Overwrite, Rekey, Update
from tests.support.raises import raises_code
from tests.support.slow import slow

KEYED = Table(key="id")


def tracked(src: Changes) -> History:
    return History(src, track="k")


def whole(src: Changes) -> History:
    return History(src)


def held(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    rows = lake.frame(name).select("id", "__START_AT", "__END_AT", "k", "v").collect()
    return sorted((tuple(row) for row in rows), key=repr)


def expected(lake: Lake, asset: Any) -> list[tuple[Any, ...]]:
    return history_of(states_of(lake, "src"), [0] if asset is tracked else [0, 1])


def edit(chance: random.Random) -> Any:
    key, group, value = chance.choice([0, 1, 2, 3, None]), chance.choice("abc"), chance.randrange(3)
    kinds = [
        Insert((key, group, value)),
        Update(key, value),
        Delete(key),
        Rekey(key, chance.randrange(4)),
        MergeRows(((key, group, value), (9, "a", value))),
        Overwrite(((key, group, value), (8, "b", 1))),
        Optimize(),
    ]
    return chance.choice(kinds)


@pytest.mark.core
@pytest.mark.parametrize("seed", [1, *map(slow, range(2, 7)), *map(slow, HISTORIES)])
def test_a_history_is_the_fold_of_its_sources_versions_however_ranges_are_cut(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    lake = Lake(spark, tmp_path / uuid4().hex)
    lake.root.mkdir()
    model = Model(lake)
    model.create(((1, "a", 1), (2, "b", 2), (None, None, 3)))
    for _ in range(3):
        for _ in range(chance.randrange(1, 4)):
            model.apply(edit(chance))
        if chance.random() < 0.3:
            lake.sql(f"RESTORE {{src}} TO VERSION AS OF {chance.randrange(lake.version('src') + 1)}")
            model.src = {row[0]: row for row in lake.rows("src")}
        for asset in (tracked, whole):
            if chance.random() < 0.7:
                lake.materialize(asset, KEYED)
                assert held(lake, asset.__name__) == expected(lake, asset), asset.__name__
    for asset in (tracked, whole):
        lake.materialize(asset, KEYED)
        assert held(lake, asset.__name__) == expected(lake, asset), asset.__name__
    shutil.rmtree(lake.root)


@pytest.mark.slow
def test_a_range_that_is_read_twice_changes_nothing(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    lake.materialize(tracked, KEYED)
    stale = lake.begin(tracked, KEYED, name="tracked")
    lake.sql("UPDATE {src} SET k = 'c' WHERE id = 1")
    lake.sql("UPDATE {src} SET k = 'd' WHERE id = 1")
    lake.sql("DELETE FROM {src} WHERE id = 2")
    lake.materialize(tracked, KEYED)
    before = held(lake, "tracked")
    inputs = lake.read(stale, tracked)
    run, write = complete(lambda: lake.spark, stale.run, tracked(**inputs))
    again = plan(lake.spark, run, write, lake.source("tracked").head)
    assert again == MarkOnly() and before == expected(lake, tracked)


@pytest.mark.slow
def test_a_gap_ends_and_begins_by_comparison_and_says_after_which_moment(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2), (3, "c", 3)], SRC)
    lake.materialize(tracked, KEYED)
    lake.sql("UPDATE {src} SET k = 'z' WHERE id = 1")
    lake.sql("DELETE FROM {src} WHERE id = 2")
    lake.insert("src", [(4, "d", 4)])
    lake.materialize(tracked, KEYED, gap="the feed was vacuumed")
    first, last = (EPOCH + dt.timedelta(milliseconds=lake.commits("src")[i].timestamp) for i in (0, -1))
    columns = ["id", "k", "__START_AT", "__START_AT_EARLIEST", "__END_AT", "__END_AT_EARLIEST"]
    rows = sorted(tuple(row) for row in lake.frame("tracked").select(*columns).collect())
    assert rows == [
        (1, "a", first, None, last, first),
        (1, "z", last, first, None, None),
        (2, "b", first, None, last, first),
        (3, "c", first, None, None, None),
        (4, "d", last, first, None, None),
    ]
    lake.sql("UPDATE {src} SET k = 'y' WHERE id = 1")
    lake.materialize(tracked, KEYED)
    ends = lake.sql("SELECT __START_AT_EARLIEST, __END_AT_EARLIEST FROM {tracked} WHERE id = 1 AND k IN ('z', 'y')")
    assert sorted(map(tuple, ends), key=repr) == [(None, None), (first, None)]


@pytest.mark.slow
def test_what_cannot_be_computed_anew_is_refused_with_a_way_on(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1)], SRC)
    lake.materialize(tracked, KEYED)
    lake.sql("UPDATE {src} SET k = 'b'")
    before = held(lake, "tracked")
    with raises_code("REFRESH_REFUSED", match="without the run tag"):
        lake.materialize(tracked, KEYED, compare="a full refresh was asked for")
    with raises_code("TRACK_CHANGED", match="has tracked k and is to track all columns"):
        lake.materialize(whole, KEYED, name="tracked")
    with pytest.raises(WriteError, match="would leave changes out"):
        lake.materialize(tracked, KEYED, reads={"src": Read(exclude_operations=("DELETE",))})
    with raises_code("DEFINITION", match="cannot be partitioned"):
        lake.materialize(tracked, Table(key="id", partition_by="k"), name="other")
    with raises_code("MISSING_KEY"):
        lake.materialize(tracked, name="other")
    assert held(lake, "tracked") == before
    lake.materialize(tracked, KEYED, code_version="2")
    assert held(lake, "tracked") == expected(lake, tracked)


@pytest.mark.slow
def test_a_person_who_was_erased_from_a_history_by_hand_does_not_come_back(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    lake.materialize(whole, KEYED)
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.materialize(whole, KEYED)
    lake.sql("DELETE FROM {whole} WHERE id = 1")
    lake.sql("UPDATE {src} SET v = 3 WHERE id = 2")
    lake.materialize(whole, KEYED)
    assert sorted((row[0], row[2] is None, row[4]) for row in held(lake, "whole")) == [(2, False, 2), (2, True, 3)]


def test_two_rows_of_one_entity_in_one_version_are_refused(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1)], SRC)
    lake.materialize(tracked, KEYED)
    lake.insert("src", [(2, "b", 1), (2, "b", 2)])
    with raises_code("BROKEN_PROMISE", match="more than one row with id=2 in one version"):
        lake.materialize(tracked, KEYED)


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, slow(True)])
def test_two_rows_of_one_entity_that_came_in_two_versions_are_refused(lake: Lake, *, together: bool) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 1)], SRC)
    lake.materialize(tracked, KEYED)
    lake.sql("UPDATE {src} SET k = 'c' WHERE id = 2")
    if not together:
        lake.materialize(tracked, KEYED)
    before = held(lake, "tracked")
    lake.insert("src", [(2, "b", 2)])
    with raises_code("BROKEN_PROMISE", match="more than one row with id=2 in one version"):
        lake.materialize(tracked, KEYED)
    assert held(lake, "tracked") == before


@pytest.mark.slow
@pytest.mark.parametrize("mended", ["DELETE FROM {src} WHERE id = 2 AND v = 2", slow("DELETE FROM {src} WHERE id = 2")])
def test_a_history_goes_on_from_a_source_that_has_one_row_again(lake: Lake, mended: str) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 1)], SRC)
    lake.materialize(tracked, KEYED)
    lake.insert("src", [(2, "b", 2)])
    with raises_code("BROKEN_PROMISE", match="lakehouse/go_on_from/tracked=now"):
        lake.materialize(tracked, KEYED, go_on_from="now")
    for statement in (mended, "UPDATE {src} SET k = 'c' WHERE id = 1"):
        lake.sql(statement)
    with raises_code("BROKEN_PROMISE", match="more than one row with id=2 in one version"):
        lake.materialize(tracked, KEYED)

    lake.materialize(tracked, KEYED, go_on_from="now", run="decided")
    rows = lake.frame("tracked").where("__END_AT IS NULL").select("id", "k", "v").collect()
    assert sorted(map(tuple, rows)) == lake.rows("src")
    ended = {row.k for row in lake.frame("tracked").where("__END_AT IS NOT NULL").collect()}
    assert ended == ({"a"} if len(rows) == 2 else {"a", "b"})
    mark = Mark.from_json(lake.commits("tracked")[-1].user_metadata)
    assert mark is not None and mark.decided == "went on from now"

    lake.sql("UPDATE {src} SET k = 'd' WHERE id = 1")
    outcome = lake.materialize(tracked, KEYED)
    assert isinstance(outcome, Committed) and len(lake.frame("tracked").where("id = 1").collect()) == 3


def test_a_history_that_goes_on_from_now_takes_no_table_of_another_program(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1)], SRC)
    lake.create("tracked", [(1, "a", 1)], SRC)
    with raises_code("FOREIGN_TABLE"):
        lake.materialize(tracked, KEYED, go_on_from="now")


@pytest.mark.slow
def test_a_history_begins_with_the_rows_of_now_where_its_source_had_a_row_twice(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 1)], SRC)
    lake.insert("src", [(2, "b", 2)])
    with raises_code("BROKEN_PROMISE", match="more than one row with id=2 in one version"):
        lake.materialize(tracked, KEYED, go_on_from="now")
    lake.sql("DELETE FROM {src} WHERE id = 2 AND v = 1")
    with raises_code("BROKEN_PROMISE", match=r"id=2 in one version.*lakehouse/go_on_from/tracked=now: .*none of the"):
        lake.materialize(tracked, KEYED)
    assert not lake.exists("tracked")

    lake.materialize(tracked, KEYED, go_on_from="now")
    now = EPOCH + dt.timedelta(milliseconds=lake.commits("src")[-1].timestamp)
    assert held(lake, "tracked") == [(1, now, None, "a", 1), (2, now, None, "b", 2)]
    mark = Mark.from_json(lake.commits("tracked")[-1].user_metadata)
    assert mark is not None and mark.decided == "went on from now"
    lake.sql("UPDATE {src} SET k = 'd' WHERE id = 1")
    lake.materialize(tracked, KEYED)
    by_time = sorted(held(lake, "tracked"), key=lambda row: row[:2])
    assert [row[3] for row in by_time] == ["a", "d", "b"]


@pytest.mark.slow
def test_a_reader_of_a_history_takes_rows_from_its_feed_by_the_rows_key(lake: Lake) -> None:
    def named(tracked: Changes) -> Merge:
        touched = tracked.touched("id", "__START_AT")
        assert touched.is_everything or touched.from_feed is not FromFeed.KEYS
        return Merge(touched.rows.select("id", "__START_AT", "__END_AT", "k"), touched)

    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    lake.keys["tracked"] = ("id",)
    for statement in ("", "UPDATE {src} SET k = 'c' WHERE id = 1", "DELETE FROM {src} WHERE id = 2"):
        _ = statement and lake.sql(statement)
        lake.materialize(tracked, KEYED)
        lake.materialize(named, Table(key=("id", "__START_AT")))
    rows = lake.frame("tracked").select("id", "__START_AT", "__END_AT", "k").collect()
    assert sorted(map(tuple, lake.frame("named").collect()), key=repr) == sorted(map(tuple, rows), key=repr)


@pytest.mark.slow
def test_the_past_begins_where_a_column_of_the_source_has_the_fields_that_it_has_now(lake: Lake) -> None:
    lake.spark.sql(
        f"CREATE TABLE {lake.ref('src').identifier} (id INT, v INT, s STRUCT<a: INT>) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.checkpointInterval' = '3')"
    )
    lake.sql("INSERT INTO {src} VALUES (1, 1, named_struct('a', 1))")
    cleaned(lake, "src")
    lake.sql("ALTER TABLE {src} ADD COLUMN s.b INT")
    lake.sql("UPDATE {src} SET s.b = 7")
    lake.materialize(whole, KEYED)
    rows = [(row.id, row.s.a, row.s.b) for row in lake.frame("whole").where("__END_AT IS NULL").collect()]
    assert rows == [(1, 1, 7)]
