"""Twins, creators, partitions side by side: rivals that are runs of the same asset; and errors that are not rivals."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Append, Changes, Merge, Table
from lakehouse.commit.outcome import AlreadyApplied
from lakehouse.commit.rivals import ConflictKind
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.errors import StaleInputsError
from lakehouse.spark.progress import listening
from tests.support.interleave import rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import COPIED, KEYED, SRC, committed, copy, log, own, ready, whole

pytestmark = pytest.mark.race


@pytest.mark.parametrize(("asset", "table"), [(copy, KEYED), (log, Table())], ids=["merge", "append"])
def test_a_twin_at_the_same_moment_has_done_our_work(moved_lake: Lake, asset: Any, table: Table) -> None:
    if asset is log:
        moved_lake.materialize(log)
        moved_lake.insert("src", [(5, "e", 50)])
    step, write = ready(moved_lake, asset, table)
    twin, same = ready(moved_lake, asset, table)
    with rivals(moved_lake.spark, lambda: twin.commit(same, moved_lake.retry, NO_WAIT)):
        outcome = step.commit(write, moved_lake.retry, NO_WAIT)
    assert isinstance(outcome, AlreadyApplied)
    assert outcome.mark.run == twin.run.run_id and [lost.conflict.kind for lost in outcome.lost] == [
        ConflictKind.SAME_ASSET
    ]
    assert (own(moved_lake, step), own(moved_lake, twin)) == ([], [outcome.commit.version])


def test_a_twin_that_read_less_makes_the_inputs_stale(moved_lake: Lake) -> None:
    twin, less = ready(moved_lake)
    moved_lake.insert("src", [(5, "e", 50)])
    step, write = ready(moved_lake)
    with (
        rivals(moved_lake.spark, lambda: twin.commit(less, moved_lake.retry, NO_WAIT)),
        pytest.raises(StaleInputsError, match=f"Run {twin.run.run_id} committed 'copy' as version 2"),
    ):
        step.commit(write, moved_lake.retry, NO_WAIT)
    assert own(moved_lake, step) == []
    moved_lake.materialize(copy, KEYED)
    assert moved_lake.rows("copy") == [*COPIED, (5, "e", 50)]


def test_a_thread_that_never_used_the_session_commits_too(moved_lake: Lake) -> None:
    """Spark keeps the active session per thread; without one it takes a path for a table that does not exist."""
    moved_lake.materialize(log)
    moved_lake.insert("src", [(5, "e", 50)])
    step, write = ready(moved_lake, log, Table())
    with ThreadPoolExecutor(1) as thread:
        assert committed(thread.submit(step.commit, write, moved_lake.retry, NO_WAIT).result()).lost == ()


class TestCreation:
    """Of two runs that create a table, the loser becomes an ordinary writer."""

    def test_a_twin_created_it(self, lake: Lake) -> None:
        lake.create("src", [(1, "a", 10)], SRC)
        step, write = ready(lake)
        twin, same = ready(lake)
        with rivals(lake.spark, lambda: twin.commit(same, lake.retry, NO_WAIT)):
            outcome = step.commit(write, lake.retry, NO_WAIT)
        assert isinstance(outcome, AlreadyApplied)
        assert [lost.conflict.kind for lost in outcome.lost] == [ConflictKind.PROTOCOL]
        assert (lake.rows("copy"), len(lake.commits("copy"))) == ([(1, "a", 10)], 1)

    def test_somebody_else_created_it_empty(self, lake: Lake) -> None:
        lake.create("src", [(1, "a", 10)], SRC)
        step, write = ready(lake)
        with rivals(lake.spark, lambda: lake.create("copy", [], SRC)):
            outcome = committed(step.commit(write, lake.retry, NO_WAIT))
        assert [lost.conflict.kind for lost in outcome.lost] == [ConflictKind.PROTOCOL]
        assert lake.rows("copy") == [(1, "a", 10)]

    def test_somebody_else_created_it_with_rows(self, lake: Lake) -> None:
        lake.create("src", [(1, "a", 10)], SRC)
        step, write = ready(lake)
        with (
            rivals(lake.spark, lambda: lake.create("copy", [(7, "q", 7)], SRC)),
            raises_code("FOREIGN_TABLE", match="another program committed"),
        ):
            step.commit(write, lake.retry, NO_WAIT)
        assert lake.rows("copy") == [(7, "q", 7)]


def one(g: str) -> Slice:
    return Slice((PartitionKey(g, {"g": g}, {}),))


def added(src: DataFrame) -> Append:
    return Append(src)


BY_G = Table(partition_by="g")
BY_G_KEYED = replace(BY_G, key="id")
SIDE_BY_SIDE = {
    "merge": (copy, BY_G_KEYED),
    "overwrite": (whole, BY_G),
    "append": (added, BY_G),
}


@pytest.mark.parametrize(("asset", "table"), SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_two_partitions_backfilled_side_by_side_do_not_conflict(lake: Lake, asset: Any, table: Table) -> None:
    rows = [(n, g, n) for n, g in enumerate("aabb")]
    lake.create("src", [(9, "c", 9), *rows], SRC)
    lake.materialize(asset, table, name="t", slice=one("c"))
    step, write = ready(lake, asset, table, name="t", slice=one("a"))
    beside, other = ready(lake, asset, table, name="t", slice=one("b"))
    with rivals(lake.spark, lambda: committed(beside.commit(other, lake.retry, NO_WAIT))) as ran:
        outcome = committed(step.commit(write, lake.retry, NO_WAIT))
    assert outcome.lost == () and len(ran) == 1
    assert [own(lake, beside), own(lake, step)] == [[1], [2]]
    assert lake.rows("t") == [*rows, (9, "c", 9)]


def test_a_rival_in_the_same_partition_is_named_with_it_and_one_elsewhere_costs_nothing(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    for g in "ab":
        lake.materialize(copy, BY_G_KEYED, slice=one(g))
    lake.sql("UPDATE {src} SET v = v + 10")
    lost = []
    for g in "ab":  # the same rival, first while we write the other partition, then ours
        step, write = ready(lake, table=BY_G_KEYED, slice=one(g))
        with (
            rivals(lake.spark, partial(lake.sql, "INSERT INTO {copy} VALUES (8, 'b', 8)")) as ran,
            listening(lake.hear),
        ):
            lost.append(committed(step.commit(write, lake.retry, NO_WAIT)).lost)
        assert len(ran) == 1
    assert lost[0] == ()
    assert [attempt.conflict.partition for attempt in lost[1]] == ["[g=b]"]
    assert len(lake.told) == 1 and "in [g=b]" in lake.told[0]
    assert lake.rows("copy") == [(1, "a", 11), (2, "b", 12), (8, "b", 8), (8, "b", 8)]


def test_two_partitions_that_create_the_table_together_both_write_it(lake: Lake) -> None:
    lake.create("src", [(1, "a", 1), (2, "b", 2)], SRC)
    step, write = ready(lake, table=BY_G_KEYED, slice=one("a"))
    beside, other = ready(lake, table=BY_G_KEYED, slice=one("b"))
    with rivals(lake.spark, lambda: beside.commit(other, lake.retry, NO_WAIT)):
        outcome = committed(step.commit(write, lake.retry, NO_WAIT))
    assert [lost.conflict.kind for lost in outcome.lost] == [ConflictKind.PROTOCOL]
    assert lake.rows("copy") == [(1, "a", 1), (2, "b", 2)]


NAMES_A_CONFLICT = "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] version 7"


def _fails(_):
    raise ValueError(NAMES_A_CONFLICT)


FAULTS = {
    "UDF": lambda v: F.udf(_fails, "int")(v),  # noqa: PLW0108  (a UDF is made where there is a session)
    "raise_error": lambda v: F.raise_error(F.lit(NAMES_A_CONFLICT)).cast("int"),
}


@pytest.mark.parametrize(
    ("fault", "appends"), [("UDF", True), ("raise_error", False)], ids=["while written", "while planned"]
)
def test_a_fault_of_the_asset_s_own_is_raised_at_once_whatever_it_says(
    moved_lake: Lake, fault: str, *, appends: bool
) -> None:
    def faulty_merge(src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.withColumn("v", FAULTS[fault]("v")), touched)

    def faulty_append(src: Changes) -> Append:
        return Append(src.log().select("id", FAULTS[fault]("v").alias("v"), "change_type"))

    if appends:
        moved_lake.materialize(log)
        moved_lake.insert("src", [(5, "e", 50)])
    asset, name, table = (faulty_append, "log", Table()) if appends else (faulty_merge, "copy", KEYED)
    before = moved_lake.rows(name)
    step, write = ready(moved_lake, asset, table, name=name)
    waits: list[float] = []
    clock = replace(NO_WAIT, sleep=waits.append)
    with listening(moved_lake.hear), raises_code("PLAN", match=f"result of '{name}'") as raised:
        step.commit(write, moved_lake.retry, clock)
    assert "ConcurrentAppendException" in str(raised.value) and raised.value.asset == name
    assert waits == moved_lake.told == []
    assert (moved_lake.rows(name), own(moved_lake, step)) == (before, [])
