"""`on_failure="quarantine"`: rows that the table does not take are in a table of their own until they are corrected."""

from functools import partial
from typing import Any

import pytest
from pyspark.sql import functions as F

from lakehouse import Changes, Expect, Merge, Table, View
from lakehouse.delta.limits import Limits, in_force
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.errors import WriteError
from lakehouse.spark.progress import listening
from tests.support.interleave import after
from tests.support.judged import all_rows, copies, create_source, largest, log
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import committed, ready
from tests.support.slow import slow

pytestmark = pytest.mark.anywhere
POSITIVE = Expect("v > 0", "quarantine")
TABLE = Table(key="id", expect=POSITIVE)
UNIQUE = Table(key="id", expect=(POSITIVE, Expect.unique_key()))
WAYS = pytest.mark.parametrize("limits", [Limits(), slow(Limits(driver_rows=0))])


@pytest.fixture
def source(lake: Lake) -> Lake:
    create_source(lake)
    return lake


def quarantined(lake: Lake, name: str = "copies") -> list[tuple[Any, ...]]:
    """The rows of the quarantine without the column of the run."""
    return [row[:-1] for row in lake.rows(f"{name}_quarantine")]


@pytest.mark.slow
@WAYS
def test_a_row_is_in_the_quarantine_until_it_is_corrected(source: Lake, limits: Limits) -> None:
    with in_force(limits):
        source.materialize(copies, TABLE, run="first")
        assert source.rows("copies") == [(1, "a", 5), (4, "c", 9)]
        assert source.rows("copies_quarantine") == [
            (2, "a", -1, ["v_gt_0"], 1, "first"),
            (3, "b", None, ["v_gt_0"], 1, "first"),
        ]
        source.sql("UPDATE {src} SET v = 7 WHERE id = 2")
        source.sql("UPDATE {src} SET v = 0 WHERE id = 1")
        source.sql("UPDATE {src} SET g = 'b' WHERE id = 3")
        source.materialize(copies, TABLE, run="second")
        assert source.rows("copies") == [(2, "a", 7), (4, "c", 9)]
        assert source.rows("copies_quarantine") == [
            (1, "a", 0, ["v_gt_0"], 1, "second"),
            (3, "b", None, ["v_gt_0"], 1, "first"),
        ]
        source.sql("DELETE FROM {src} WHERE id IN (1, 3)")
        source.materialize(copies, TABLE)
        assert quarantined(source) == []


def chancy(src: Changes) -> Merge:
    """Its rows differ each time that they are computed, and not only in another plan, as with `rand()`."""
    touched = src.touched("id")
    by_chance = "IF(crc32(reflect('java.util.UUID', 'randomUUID')) % 2 = 0, 1, -1)"
    return Merge(touched.rows.withColumn("v", F.expr(by_chance)), touched)


@pytest.mark.parametrize("limits", [Limits(), Limits(driver_rows=0)])
def test_what_is_judged_is_what_is_written_also_if_rows_are_computed_by_chance(source: Lake, limits: Limits) -> None:
    source.insert("src", [(id_, "d", 1) for id_ in range(10, 60)])
    ids = sorted(row[0] for row in source.rows("src"))
    with in_force(limits):
        for _ in range(2):
            source.materialize(chancy, TABLE)
            taken, rejected = source.rows("chancy"), quarantined(source, "chancy")
            assert sorted(row[0] for row in (*taken, *rejected)) == ids
            assert {row[2] for row in taken} == {1} and {row[2] for row in rejected} == {-1}
            source.sql("UPDATE {src} SET v = v + 1")


def by_group(src: Changes) -> Merge:
    touched = src.touched("g")
    return Merge(touched.rows, touched)


def computed_key(src: Changes) -> View:
    """The library chooses the columns by which changes are followed; the cheapest ones are not those of the key."""
    return View("SELECT id AS row, concat('<', g, '>') AS place, v FROM src")


def by_row(src: Changes) -> View:
    return View("SELECT id AS row, concat('<', g, '>') AS place, v FROM src", touch="row")


def test_keys_touched_by_other_columns_cannot_be_asked_whether_they_are_unique(source: Lake) -> None:
    """A run would see only some of the rows of a key."""
    with raises_code("WRITE", match=r"touched \(g\).*touched\('id'\)"):
        source.materialize(by_group, UNIQUE)
    with raises_code("VIEW_SPLIT_KEYS", match=r"touch \(row\).*key \(place\)"):
        source.materialize(by_row, Table(key="place", expect=Expect.unique_key()))
    source.materialize(by_group, TABLE)


@pytest.mark.slow
@WAYS
def test_a_key_touched_by_other_columns_has_one_row_in_the_quarantine(source: Lake, limits: Limits) -> None:
    """A run would see only some of the rejected rows of a key, and number them differently."""
    source.insert("src", [(2, "b", -2)])
    with in_force(limits), raises_code("BROKEN_PROMISE", match="more than one row with the key id=2"):
        source.materialize(by_group, TABLE)
    source.sql("DELETE FROM {src} WHERE id = 2 AND g = 'b'")
    with in_force(limits):
        source.materialize(by_group, TABLE)
        assert [row[0] for row in quarantined(source, "by_group")] == [2, 3]
        source.insert("src", [(5, "a", -5)])
        source.materialize(by_group, TABLE)
    assert [row[0] for row in quarantined(source, "by_group")] == [2, 3, 5]


@pytest.mark.slow
def test_a_view_whose_key_is_computed_sees_all_rows_of_a_key(source: Lake) -> None:
    table = Table(key="place", expect=Expect.unique_key())
    source.insert("src", [(5, "c", 1), (6, "d", 2)])
    source.materialize(computed_key, table)
    assert source.rows("computed_key") == [(3, "<b>", None), (6, "<d>", 2)]
    source.insert("src", [(7, "a", 7), (8, "d", 8)])
    source.sql("DELETE FROM {src} WHERE id = 5")
    source.materialize(computed_key, table)
    assert source.rows("computed_key") == [(3, "<b>", None), (4, "<c>", 9)]
    assert [row[:2] for row in quarantined(source, "computed_key")] == [
        (1, "<a>"),
        (2, "<a>"),
        (6, "<d>"),
        (7, "<a>"),
        (8, "<d>"),
    ]


@pytest.mark.slow
def test_a_quarantine_is_written_only_if_a_row_of_it_differs(source: Lake) -> None:
    source.sql("DELETE FROM {src} WHERE id IN (2, 3)")
    source.materialize(copies, TABLE)
    assert quarantined(source) == [], "others can read it from the first run on"
    source.insert("src", [(5, "e", -5)])
    source.materialize(copies, TABLE)
    source.sql("UPDATE {src} SET v = 6 WHERE id = 1")
    source.materialize(copies, TABLE)
    source.sql("UPDATE {src} SET v = -5 WHERE id = 5")
    source.materialize(copies, TABLE)
    assert (source.version("copies"), source.version("copies_quarantine")) == (3, 1)


@pytest.mark.slow
def test_a_view_that_no_change_reaches_keeps_what_goes_with_it(source: Lake) -> None:
    table = Table(key="g", expect=POSITIVE)
    source.materialize(largest, table)
    source.sql("UPDATE {src} SET id = 9 WHERE id = 4")
    version = source.version("largest")
    source.materialize(largest, table)
    assert source.version("largest") == version + 1, "the position moved, and no row"
    assert source.begin(largest, table).run.together is None


@pytest.mark.slow
def test_a_run_that_fails_behind_the_commit_of_its_quarantine_says_so(source: Lake) -> None:
    source.materialize(copies, TABLE)
    source.sql("ALTER TABLE {copies} ADD CONSTRAINT small CHECK (v < 100)")
    source.sql("UPDATE {src} SET v = 100 WHERE id = 1")
    source.sql("UPDATE {src} SET v = -5 WHERE id = 4")
    step, write = ready(source, copies, TABLE)
    sentence = r"version 1 of 'copies_quarantine' was written: the quarantine is ahead"
    with listening(step.hear), raises_code("DELTA_REFUSED", match=sentence):
        step.commit(write, source.retry, NO_WAIT)


@pytest.mark.slow
def test_a_quarantine_that_loses_its_commit_is_planned_again(source: Lake) -> None:
    source.materialize(copies, TABLE)
    source.sql("UPDATE {src} SET v = -5 WHERE id = 1")
    source.sql("UPDATE {src} SET v = 5 WHERE id = 2")
    step, write = ready(source, copies, TABLE)
    rival = partial(source.sql, "OPTIMIZE {copies_quarantine}")
    with after("plan", rival), listening(step.hear):
        committed(step.commit(write, source.retry, NO_WAIT))
    assert source.rows("copies") == [(2, "a", 5), (4, "c", 9)]
    assert [row[0] for row in quarantined(source)] == [1, 3]
    assert len(step.quarantine) == 1


@pytest.mark.slow
def test_upkeep_of_a_quarantine_has_nothing_compared(source: Lake) -> None:
    source.materialize(copies, TABLE)
    source.sql("UPDATE {src} SET v = -5 WHERE id = 1")
    source.materialize(copies, TABLE)
    source.sql("UPDATE {src} SET v = 5 WHERE id = 2")
    source.materialize(copies, TABLE)
    rows, version = source.rows("copies_quarantine"), source.version("copies_quarantine")
    for statement in ("OPTIMIZE {q}", "REORG TABLE {q} APPLY (PURGE)", "VACUUM {q}"):
        source.sql(statement.replace("{q}", "{copies_quarantine}"))
    assert source.version("copies_quarantine") > version
    source.sql("UPDATE {src} SET v = 1 WHERE id = 1")
    assert source.begin(copies, TABLE).run.together is None, "the position of the table is believed"
    source.materialize(copies, TABLE)
    assert [row[0] for row in rows] == [1, 3]
    assert [row[0] for row in quarantined(source)] == [3]


def slice_of(*groups: str) -> Slice:
    return Slice(tuple(PartitionKey(group, {"g": group}, {}) for group in groups))


@pytest.mark.slow
@pytest.mark.parametrize("asset", [all_rows, copies])
def test_a_run_of_a_partition_leaves_the_quarantine_of_the_others(source: Lake, asset: Any) -> None:
    name, table = asset.__name__, Table(key="id", partition_by="g", expect=POSITIVE)
    source.materialize(asset, table, slice=slice_of("a"))
    assert [row[0] for row in quarantined(source, name)] == [2]
    source.sql("UPDATE {src} SET v = 1 WHERE id = 2")
    source.materialize(asset, table, slice=slice_of("b"))
    assert [row[0] for row in quarantined(source, name)] == [2, 3]
    source.materialize(asset, table, slice=slice_of("a"))
    assert [row[0] for row in quarantined(source, name)] == [3]
    assert [row[0] for row in source.rows(name)] == [1, 2]


@pytest.mark.slow
def test_each_partition_notices_that_the_quarantine_was_made_again(source: Lake) -> None:
    import shutil

    table = Table(key="id", partition_by="g", expect=POSITIVE)
    for group in ("a", "b"):
        source.materialize(copies, table, slice=slice_of(group))
    shutil.rmtree(source.root / "copies_quarantine")
    source.materialize(copies, table, slice=slice_of("b"))
    assert [row[0] for row in quarantined(source)] == [3], "the new quarantine is at the version that partition a knows"
    source.sql("UPDATE {src} SET v = 6 WHERE id = 1")
    assert "is another table than the one" in str(source.begin(copies, table, slice=slice_of("a")).run.together)
    source.materialize(copies, table, slice=slice_of("a"))
    assert [row[0] for row in quarantined(source)] == [2, 3]


@pytest.mark.slow
def test_a_column_that_a_result_gets_is_in_the_quarantine_too(source: Lake) -> None:
    source.materialize(copies, TABLE)
    source.sql("ALTER TABLE {src} ADD COLUMN w int")
    source.sql("UPDATE {src} SET w = 1 WHERE id IN (1, 2)")
    source.materialize(copies, TABLE)
    assert source.frame("copies_quarantine").where("id = 2").select("w").first() == (1,)
    assert [row[0] for row in quarantined(source)] == [2, 3]


@pytest.mark.slow
def test_a_quarantine_whose_column_was_dropped_is_compared(source: Lake) -> None:
    """Otherwise rows that no change touched would have no value there."""
    table = Table(key="id", expect=POSITIVE, properties={"delta.columnMapping.mode": "name"})
    source.materialize(copies, table)
    for act in ("DROP COLUMN g", "ADD COLUMN g STRING"):
        source.sql(f"ALTER TABLE {{copies_quarantine}} {act}")
    source.sql("UPDATE {src} SET v = 7 WHERE id = 1")
    source.materialize(copies, table)
    assert source.sql("SELECT id, g FROM {copies_quarantine} ORDER BY id") == [(2, "a"), (3, "b")]


def test_a_quarantine_takes_no_place_that_is_taken(source: Lake) -> None:
    source.create("copies_quarantine", [(1,)], "id int")
    with raises_code("FOREIGN_TABLE"):
        source.materialize(copies, TABLE)
    assert not source.exists("copies")


def renamed(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.withColumnRenamed("g", "__broken"), touched)


def test_a_column_of_the_quarantine_itself_is_refused_in_a_result(source: Lake) -> None:
    with pytest.raises(WriteError, match="is a column that its quarantine has itself"):
        source.materialize(renamed, TABLE)


@pytest.mark.parametrize(("asset", "table"), [(log, TABLE), (all_rows, Table(expect=POSITIVE))])
def test_there_is_no_quarantine_of_an_append_and_none_without_a_key(source: Lake, asset: Any, table: Table) -> None:
    with raises_code("DEFINITION"):
        source.materialize(asset, table)


@pytest.mark.slow
def test_a_key_that_fails_the_run_names_each_key(source: Lake) -> None:
    source.insert("src", [(1, "b", 6), (None, "d", 1)])
    with pytest.raises(WriteError, match=r"3 of 6 rows break the expectation unique_key \(UNIQUE KEY\)"):
        source.materialize(copies, Table(key="id", expect=Expect.unique_key("fail")))
    assert not source.exists("copies")
