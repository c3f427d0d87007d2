"""What touched keys answer for: keys that are computed, rows that concern every key, and inputs that were not asked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Aggregate, Append, Changes, Merge, Overwrite, Table, scd, touched_by
from lakehouse.errors import ReadError, WriteError
from tests.support.lake import Lake
from tests.support.model import DIM, SRC
from tests.support.raises import raises_code
from tests.support.slow import slow

EVENTS = "id int, at int, op string, v int"
TRUNCATE = "op = 'T'"


def current(events: Changes) -> Merge:
    touched = events.touched("id", also=TRUNCATE)
    rows = scd.type1(
        touched.rows,
        "id",
        "at",
        apply_as_deletes="op = 'D'",
        apply_as_truncates=TRUNCATE,
        except_column_list=["op", "at"],
    )
    return Merge(rows, touched)


def from_a_frame(events: Changes) -> Merge:
    touched = events.touched("id", also=TRUNCATE)
    rows = scd.type1(
        touched.of(events.source), "id", "at", apply_as_truncates=TRUNCATE, except_column_list=["op", "at"]
    )
    return Merge(rows, touched)


def lowered(events: Changes) -> Merge:
    touched = events.touched("id", op="lower(op)", also="op = 't'")
    rows = scd.type1(touched.rows, ["id", "op"], "at", apply_as_truncates="op = 't'", except_column_list=["at"])
    return Merge(rows, touched)


@pytest.mark.slow
def test_a_truncate_is_among_the_rows_of_a_frame_that_has_its_columns(lake: Lake):
    lake.create("events", [(1, 1, "U", 10)], EVENTS)
    lake.materialize(from_a_frame, Table(key="id"))
    lake.insert("events", [(9, 3, "T", None)])
    lake.materialize(from_a_frame, Table(key="id"))
    assert lake.rows("from_a_frame") == []
    lake.insert("events", [(1, 2, "U", 20)])  # late, from before the truncate
    lake.materialize(from_a_frame, Table(key="id"))
    assert lake.rows("from_a_frame") == []


@pytest.mark.slow
def test_a_condition_is_about_the_column_that_the_keys_compute(lake: Lake):
    lake.create("events", [(1, 1, "U", 10)], EVENTS)
    lake.materialize(lowered, Table(key=("id", "op")))
    lake.insert("events", [(9, 3, "T", None)])
    lake.materialize(lowered, Table(key=("id", "op")))
    assert lake.rows("lowered") == []


def forgetful(events: Changes) -> Merge:
    touched = events.touched("id")
    return Merge(scd.type1(touched.rows, "id", "at", apply_as_truncates=TRUNCATE), touched)


def restricted(events: Changes) -> Merge:
    touched = events.touched("id")
    return Merge(touched.of(scd.type1(events.source, "id", "at", apply_as_truncates=TRUNCATE)), touched)


def narrowed(events: Changes) -> Merge:
    touched = events.touched("id")
    now = scd.type1(touched.rows, "id", "at", apply_as_truncates=TRUNCATE)
    return Merge(replace(now, rows=now.rows.select("id", "v")), touched)


@pytest.mark.slow
def test_a_truncate_touches_every_key_and_holds_for_events_that_arrive_later(lake: Lake):
    lake.create("events", [(1, 1, "U", 10), (2, 5, "U", 20)], EVENTS)
    declared = Table(key="id")
    lake.materialize(current, declared)
    lake.insert("events", [(None, 3, "T", None)])
    lake.materialize(current, declared)
    assert lake.rows("current") == [(2, 20)]
    lake.insert("events", [(1, 2, "U", 11), (3, 4, "U", 30)])
    step = lake.begin(current, declared)
    inputs: dict[str, Any] = lake.read(step, current)
    assert not current(**inputs).touched.is_everything, "the later events touch their own keys"
    assert [field.metadata for field in lake.frame("current").schema.fields] == [{}, {}], (
        "what a result says of its rows"
    )
    lake.materialize(current, declared)
    assert lake.rows("current") == [(2, 20), (3, 30)]


@pytest.mark.slow
def test_rows_that_concern_every_key_are_there_for_keys_that_are_no_literals(lake: Lake):
    lake.create("events", [(1.5, 1), (None, 3), (2.5, 4)], "id double, at int")
    lake.materialize(counted, Table(key="id"))
    lake.insert("events", [(1.5, 5)])
    lake.materialize(counted, Table(key="id"))
    assert lake.rows("counted") == [(1.5, 3), (2.5, 2)]


def counted(events: Changes) -> Merge:
    """How many rows each key has, and one more for each row that concerns every key."""
    touched = events.touched("id", also="id IS NULL")
    every = touched.rows.where("id IS NULL").agg(F.count("*").alias("more"))
    own = touched.rows.where("id IS NOT NULL").groupBy("id").agg(F.count("*").alias("n"))
    return Merge(own.crossJoin(every).selectExpr("id", "CAST(n + more AS INT) AS n"), touched)


def test_truncates_of_rows_that_need_not_hold_them_are_refused(lake: Lake):
    lake.create("events", [(1, 1, "U", 10)], EVENTS)
    for asset in (forgetful, restricted, narrowed):
        with raises_code("EVENT_OPTION", match="TRUNCATES_MISSING") as refused:
            lake.materialize(asset, Table(key="id"))
        assert f"also={TRUNCATE!r}" in str(refused.value)
        assert not lake.exists(asset.__name__)


def test_touched_without_a_column_is_refused(lake: Lake):
    lake.create("src", [(1, "a", 10)], SRC)

    def nothing(src: Changes) -> Merge:
        touched = src.touched(also="v = 10")
        return Merge(touched.rows, touched)

    with pytest.raises(ReadError, match="needs the columns"):
        lake.materialize(nothing, Table(key="id"))


def one_side(src: Changes, dim: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.of(src.source.join(dim.source, "k")), touched)


def both_sides(src: Changes, dim: Changes) -> Merge:
    touched = src.touched("id") | dim.touched("k").via(src.source, "id")
    return Merge(touched.of(src.source.join(dim.source, "k")), touched)


def appended(src: Changes, dim: Changes) -> Append:
    return Append(src.appended().join(dim.source, "k"))


def net_and_feed(src: Changes, dim: Changes) -> Append:
    _ = dim.net("k")
    return Append(src.feed.select("id", "k", "v"))


def first_and_then(src: Changes) -> Append:
    return Append(src.source if src.is_initial else src.appended())


def summed(src: Changes, dim: Changes) -> Aggregate:
    return Aggregate(src, "k", "n")


def overwritten(src: Changes, dim: Changes) -> Overwrite:
    return Overwrite(src.source)


def test_an_input_whose_changes_nobody_asked_for_is_refused(lake: Lake):
    """Before anything is written. An append that only looks up an input is refused once that input changes later."""
    lake.create("src", [(1, "a", 10)], SRC)
    lake.create("dim", [("a", "A", 1)], DIM)

    def is_refused(asset: Callable[..., Any], key: str | None, remedy: str):
        with raises_code("LOST_CHANGES", match=remedy) as refused:
            lake.materialize(asset, Table(key=key))
        assert (refused.value.source, refused.value.answered) == ("dim", ("src",))

    for asset, key, remedy in ((one_side, "id", "Unite its keys"), (summed, "k", "about the keys of both")):
        is_refused(asset, key, remedy)
        assert not lake.exists(asset.__name__)
    lake.materialize(appended)
    lake.insert("src", [(2, "a", 20)])
    lake.sql("UPDATE {dim} SET name = 'B' WHERE k = 'a'")
    is_refused(appended, None, r"log\(\) of that input")
    assert len(lake.commits("appended")) == 1


@pytest.mark.slow
def test_inputs_that_were_asked_are_not_refused(lake: Lake):
    lake.create("src", [(1, "a", 10)], SRC)
    lake.create("dim", [("a", "A", 1)], DIM)
    for number in (2, 3):
        for asset in (both_sides, net_and_feed, overwritten):
            lake.materialize(asset, Table(key="id") if asset is both_sides else Table())
            assert len(lake.rows(asset.__name__)) == number - 1
        lake.insert("src", [(number, "a", 20)])


@pytest.mark.slow
def test_an_input_without_changes_need_not_be_asked(lake: Lake):
    """Otherwise a step that looks at one side only, because nothing else changed, would be refused."""
    lake.create("src", [(1, "a", 10)], SRC)
    lake.create("dim", [("a", "A", 1)], DIM)
    lake.materialize(both_sides, Table(key="id"), name="joined")
    lake.insert("src", [(2, "a", 20)])
    lake.materialize(one_side, Table(key="id"), name="joined")
    assert len(lake.rows("joined")) == 2
    lake.sql("UPDATE {dim} SET name = 'B' WHERE k = 'a'")
    with raises_code("LOST_CHANGES"):
        lake.materialize(one_side, Table(key="id"), name="joined")


def test_the_source_of_a_first_read_is_its_changes(lake: Lake):
    lake.create("src", [(1, "a", 10)], SRC)
    for number in (2, 3):
        lake.materialize(first_and_then)
        lake.insert("src", [(number, "a", 20)])
    assert len(lake.rows("first_and_then")) == 2


@pytest.mark.parametrize("key", [slow("id"), None])
def test_an_overwrite_of_the_changes_alone_is_refused_if_no_row_has_changed_either(lake: Lake, key: str | None):
    def joined(src: Changes, dim: DataFrame) -> Overwrite:
        return Overwrite(src.appended().join(dim.select("k", "name"), "k"))

    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    lake.create("dim", [("a", "A", 1), ("b", "B", 1)], DIM)
    lake.materialize(joined, Table(key=key))
    assert len(lake.rows("joined")) == 2
    lake.sql("UPDATE {dim} SET name = 'C' WHERE k = 'a'")
    with pytest.raises(WriteError, match="overwrites its table and takes rows of the changes of 'src'"):
        lake.materialize(joined, Table(key=key))
    assert len(lake.rows("joined")) == 2


def of_touched_keys(src: Changes) -> DataFrame:
    return src.touched("id").rows


def of_computed_keys(src: Changes) -> DataFrame:
    return src.touched(even="id % 2").rows.drop("even")


def of_a_query(src: Changes) -> DataFrame:
    return touched_by("SELECT id FROM src", "id", src=src).of(src.touched("id").rows)


def of_the_log(src: Changes) -> DataFrame:
    return src.log()


def of_appended(src: Changes) -> DataFrame:
    assert src.source.columns, "to have looked at the source says nothing"
    return src.appended()


def of_the_source_with_keys(src: Changes) -> DataFrame:
    return src.touched("id").of(src.source)


@pytest.mark.parametrize(
    "rows", [(of_appended, of_touched_keys, of_computed_keys), slow((of_a_query, of_the_log, of_the_source_with_keys))]
)
def test_an_overwrite_of_rows_of_the_changes_alone_is_refused_because_all_other_rows_would_go(
    lake: Lake, rows: tuple[Callable[[Changes], DataFrame], ...]
):
    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    tables = [(way, key) for way in rows for key in (("id", None) if way is of_appended else (None,))]
    for is_first in (True, False):
        for way, key in tables:

            def newest(src: Changes) -> Overwrite:
                return Overwrite(way(src))  # noqa: B023  (it is called at once)

            name = f"{way.__name__}_{key}"
            if is_first:
                lake.materialize(newest, Table(key=key), name=name)
                continue
            words = rf"'{name}' overwrites its table and takes rows of the changes of 'src' \(0, 1\]"
            with pytest.raises(WriteError, match=words):
                lake.materialize(newest, Table(key=key), name=name)
            assert [row[0] for row in lake.rows(name)] == [1, 2]
        lake.insert("src", [(3, "c", 30)])


@pytest.mark.slow
def test_an_overwrite_of_the_whole_input_may_count_touched_keys(lake: Lake):
    def newest(src: Changes) -> Overwrite:
        assert src.touched("id").keys.count() > 1
        return Overwrite(src.source)

    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    for number in (3, 4):
        lake.materialize(newest, Table(key="id"))
        lake.insert("src", [(number, "c", 30), (number + 10, "c", 30)])
    lake.materialize(newest, Table(key="id"))
    assert len(lake.rows("newest")) == 6


def test_an_overwrite_of_earlier_rows_of_its_own_and_changes_is_refused_too(lake: Lake):
    """Dagster hands an asset its earlier partitions only, so the earlier changes of this partition are not among them."""

    def summed_up(src: Changes, summed_up: DataFrame) -> Overwrite:
        return Overwrite(summed_up.union(src.appended()))

    lake.create("src", [(1, "a", 10)], SRC)
    lake.create("summed_up", [], SRC)
    lake.materialize(summed_up, Table(key="id"))
    lake.insert("src", [(2, "b", 20)])
    with pytest.raises(WriteError, match="'summed_up' overwrites its table and takes rows of the changes of 'src'"):
        lake.materialize(summed_up, Table(key="id"))
    assert [row[0] for row in lake.rows("summed_up")] == [1]


def visits(web: Changes, shop: Changes) -> Merge:
    touched = web.touched("UserCode") | shop.touched("USERCODE")
    both = web.source.select("UserCode", "v").union(shop.source.select("usercode", "v"))
    return Merge(touched.of(both).groupBy("UserCode").agg(F.count("*").alias("n")), touched)


@pytest.mark.slow
def test_names_of_a_key_that_differ_in_case_are_the_same_columns(lake: Lake):
    lake.create("web", [("a", 1), ("b", 1)], "UserCode string, v int")
    lake.create("shop", [("b", 1)], "USERCODE string, v int")
    lake.materialize(visits, Table(key="usercode"))
    lake.insert("web", [("a", 2)])
    lake.insert("shop", [("c", 2)])
    lake.materialize(visits, Table(key="usercode"))
    assert lake.rows("visits") == [("a", 2), ("b", 2), ("c", 1)]
    lake.sql("DELETE FROM {shop} WHERE usercode = 'b'")
    lake.materialize(visits, Table(key="usercode"))
    assert lake.rows("visits") == [("a", 2), ("b", 1), ("c", 1)]
