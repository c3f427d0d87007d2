"""Steps run directly: images of a source, which of them cancel, and keys as literals, as ranges and as semi-joins."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse import Changes, Merge, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.read.changes import read_of
from lakehouse.read.content import Feed, SourceRead
from lakehouse.spark.driver_rows import Local, small
from lakehouse.views.on_spark.key_conditions import restrict
from lakehouse.views.on_spark.running import Execution
from lakehouse.views.plan import Found, Image, Restriction, SourceRows, Step
from tests.support.for_each import for_each
from tests.support.lake import Lake

COLUMNS = "id int, k string, v double, at timestamp"
ZERO, MINUS = 0.0, -0.0


def follower(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def changes_of(lake: Lake) -> SourceRead:
    """What the follower of `src` reads next."""
    step = lake.begin(follower, Table(key="id"))
    changes = lake.read(step, follower)["src"]
    assert isinstance(changes, Changes)
    return read_of(changes)


def rows(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


@pytest.fixture
def read(lake: Lake) -> SourceRead:
    """Changes to six rows: one row is inserted, one deleted, two updated, and one updated to another value and back."""
    lake.create("src", [(i, "abc"[i % 3], ZERO, None) for i in range(6)], COLUMNS)
    lake.materialize(follower, Table(key="id"))
    lake.insert("src", [(6, None, ZERO, None)])
    lake.sql("DELETE FROM {src} WHERE id = 0")
    lake.sql("UPDATE {src} SET v = 1D WHERE id = 1")
    lake.sql("UPDATE {src} SET v = 1D WHERE id = 2")
    lake.sql("UPDATE {src} SET v = 0D WHERE id = 2")
    lake.sql("UPDATE {src} SET v = -0D WHERE id = 3")
    return changes_of(lake)


def moved(read: SourceRead, *columns: str) -> list[str]:
    execution = Execution(read.source.sparkSession, {"src": read}, {})
    return rows(execution.frame(("SELECT * FROM ", SourceRows("src", Image.MOVED, columns))))


def lazily(read: SourceRead) -> SourceRead:
    """The same changes, not collected at the driver."""
    assert isinstance(read.content, Feed)
    return SourceRead(read.source_at, read.range, Feed(read.content.frame, commits=read.commits), read.commits)


def test_what_moved_is_net_and_tells_apart_what_a_query_can(read: SourceRead) -> None:
    """An update that was taken back is no change, and a change of the sign of zero is one."""
    by_id = ["(0,)", "(6,)"]
    by_value = ["(0, 0.0)", "(1, 0.0)", "(1, 1.0)", "(3, -0.0)", "(3, 0.0)", "(6, 0.0)"]
    for one in (read, lazily(read)):
        assert moved(one, "id") == by_id
        assert moved(one, "id", "v") == by_value
        assert moved(one, "k") == ["('a',)", "(None,)"]
        assert moved(one) == []  # as many rows as before


@pytest.mark.slow
def test_columns_that_cannot_be_told_apart_are_not_netted(lake: Lake) -> None:
    lake.spark.sql(
        f"CREATE TABLE {lake.ref('src').identifier} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
        f"AS SELECT 1 AS id, map('a', 1) AS m"
    )
    lake.materialize(follower, Table(key="id"))
    lake.sql("UPDATE {src} SET m = map('a', 2)")
    lake.sql("UPDATE {src} SET m = map('a', 1)")
    read = changes_of(lake)
    assert moved(read, "id") == []
    assert len(moved(read, "id", "m")) == 4


@pytest.mark.slow
def test_structs_and_arrays_are_netted_by_their_parts(lake: Lake) -> None:
    lake.spark.sql(
        f"CREATE TABLE {lake.ref('src').identifier} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
        f"AS SELECT id, named_struct('v', 0D, 'a', array(0D, NULL)) AS s FROM VALUES (1), (2) AS t (id)"
    )
    lake.materialize(follower, Table(key="id"))
    lake.sql("UPDATE {src} SET s = named_struct('v', 0D, 'a', array(-0D, NULL)) WHERE id = 1")
    lake.sql("UPDATE {src} SET s = NULL WHERE id = 2")
    lake.sql("UPDATE {src} SET s = named_struct('v', 0D, 'a', array(0D, NULL)) WHERE id = 2")
    assert len(moved(changes_of(lake), "id", "s")) == 2


@pytest.mark.slow
def test_steps_follow_each_other_and_braces_of_a_text_are_its_own(read: SourceRead, lake: Lake) -> None:
    execution = Execution(lake.spark, {"src": read, "same": read.source}, {"least": 3})
    gone, came = (SourceRows("src", image, ("id", "k", "v")) for image in (Image.GONE, Image.CAME))
    execution.run([Step("s1", ("SELECT DISTINCT id AS x, '{}' AS b FROM ", gone), ("x", "b"), "gone")])
    now = SourceRows("same", Image.NOW, ("id",), ((Restriction("s1", (("`id`", "x"),)),),))
    execution.run([Step("s2", ("SELECT id FROM ", now, " WHERE id >= :least"), ("id",), "still there")])
    assert rows(execution.frame(("SELECT * FROM ", Found("s1")))) == [f"({i}, '{{}}')" for i in (0, 1, 2, 3)]
    assert rows(execution.frame(("SELECT * FROM ", Found("s2")))) == ["(3,)"]
    assert rows(execution.frame(("SELECT max(id) FROM ", came))) == ["(6,)"]
    assert isinstance(execution.keys("s2"), Local)
    assert rows(execution.frame(("SELECT '{x}' AS b",))) == ["('{x}',)"]


WAYS = {
    "literals": Limits(),
    "ranges": Limits(key_ranges=1, listed_keys=0, listed_keys_together=0),
    "a semi-join": None,
}


@for_each("way", WAYS)
@for_each(
    "any_of, expected",
    [
        ((), [0, 1, 2, 3, None]),
        (((Restriction("few", (("`id`", "n"),)),),), [0, 3, None]),
        (((Restriction("few", (("id", "n"),), null_safe=False),),), [0, 3]),
        (((Restriction("few", (("id + 1", "n"),)),),), [2, None]),
        (((Restriction("few", (("id", "n"), ("k", "t"))),),), [0, None]),
        (((Restriction("few", (("id", "n"),)), Restriction("few", (("k", "t"),))),), [0, 3, None]),
        (((Restriction("few", (("id", "n"),)),), (Restriction("few", (("k", "t"),)),)), [0, 2, 3, None]),
        (((Restriction("none", (("id", "n"),)),),), []),
        (((Restriction("few", (("CAST(id AS STRING)", "n"),)),),), [0, 3, None]),
        (((Restriction("few", (("CASE WHEN id = 3 THEN '03' END", "n"),), null_safe=False),),), [3]),
    ],
)
def test_rows_have_one_of_the_keys_however_the_keys_are_said(
    spark: SparkSession, way: str, any_of: tuple[tuple[Restriction, ...], ...], expected: list[Any]
) -> None:
    frame = spark.sql("SELECT * FROM VALUES (0, 'a'), (1, 'x'), (2, 'c'), (3, 'a'), (NULL, NULL) AS t (id, k)")
    few = spark.sql("SELECT * FROM VALUES (0L, 'a'), (3L, 'c'), (NULL, NULL) AS t (n, t)")
    limits = WAYS[way]
    keys: dict[str, Local | DataFrame] = {"few": few, "none": few.limit(0)}
    if limits is not None:
        keys = {name: local for name, one in keys.items() if (local := small(one)) is not None}
    with in_force(limits or Limits()):
        found = restrict(frame, any_of, keys)
        assert sorted((row.id for row in found.collect()), key=repr) == sorted(expected, key=repr)
