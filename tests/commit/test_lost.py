"""An attempt that was lost to a rival: either another attempt follows, or an error, and then nothing is written.

Requirements on every change of the code; tests/commit/test_rivals.py has the rest.
"""

from functools import partial

import pytest
from delta.exceptions import ConcurrentAppendException
from pyspark.sql import functions as F

from lakehouse import Append, Changes, Policy, Retry, Table
from lakehouse.commit.rivals import ConflictKind
from lakehouse.delta.policy import Clock
from tests.support.interleave import before, rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import COPIED, KEYED, SRC, committed, copy, log, own, ready


@pytest.mark.slow
def test_a_write_gives_up_after_its_attempts_and_nothing_is_written(moved_lake: Lake) -> None:
    step, write = ready(moved_lake)
    another = [partial(moved_lake.insert, "copy", [(90 + n, "z", n)]) for n in range(2)]
    with rivals(moved_lake.spark, *another), raises_code("CONFLICT", match="Nothing was written") as raised:
        step.commit(write, Retry(attempts=2, wait_initial=0), NO_WAIT)
    assert raised.value.attempts == 2
    assert "WRITE (version 3)" in str(raised.value) and "(1, 3]" in str(raised.value)
    assert own(moved_lake, step) == []
    assert moved_lake.rows("copy")[:4] == [(1, "a", 10), (2, "b", 20), (3, "a", 30), (4, "c", 40)]
    moved_lake.materialize(copy, KEYED)
    assert moved_lake.rows("copy")[:3] == COPIED


@pytest.mark.slow
def test_a_write_gives_up_after_its_deadline_and_nothing_is_written(moved_lake: Lake) -> None:
    """The time of all attempts counts together: after 150 seconds another one is made, after 300 none."""
    time = [1000.0]

    def lost() -> None:
        time[0] += 150
        moved_lake.insert("copy", [(90, "z", 0)])
        raise ConcurrentAppendException("a rival has appended")

    clock = Clock(now=lambda: time[0], sleep=lambda _: None, random=lambda: 0.0)
    step, write = ready(moved_lake)
    with before("execute", *[lost] * 9), raises_code("CONFLICT", match="Nothing was written") as raised:
        step.commit(write, Retry(deadline=300), clock)
    assert (raised.value.attempts, raised.value.seconds) == (2, 300)
    assert own(moved_lake, step) == []
    assert moved_lake.rows("copy")[:4] == [(1, "a", 10), (2, "b", 20), (3, "a", 30), (4, "c", 40)]


@pytest.mark.slow
def test_a_rival_in_rows_that_cannot_be_told_is_an_error_where_the_table_says_so(moved_lake: Lake) -> None:
    moved_lake.sql("ALTER TABLE {copy} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    step, write = ready(moved_lake, table=Table(key="id", policy=Policy(on_same_rows="fail")))
    with (
        rivals(moved_lake.spark, partial(moved_lake.sql, "UPDATE {copy} SET v = 99 WHERE id = 1")),
        raises_code("CONFLICT", match=r"It changed rows that the log does not name, and on_same_rows='fail'"),
    ):
        step.commit(write, moved_lake.retry, NO_WAIT)
    assert own(moved_lake, step) == [] and moved_lake.rows("copy")[0] == (1, "a", 99)


@pytest.mark.slow
def test_a_rival_in_the_same_rows_is_an_error_where_the_table_says_so(moved_lake: Lake) -> None:
    step, write = ready(moved_lake, table=Table(key="id", policy=Policy(on_same_rows="fail")))
    with (
        rivals(
            moved_lake.spark,
            partial(moved_lake.sql, "UPDATE {copy} SET v = 31 WHERE id = 3"),
            partial(moved_lake.sql, "UPDATE {copy} SET v = 99 WHERE id = 1"),
        ),
        raises_code("CONFLICT", match=r"on_same_rows='fail': decide which of the two owns the rows") as raised,
    ):
        step.commit(write, moved_lake.retry, NO_WAIT)
    assert raised.value.attempts == 2  # the rival of another row did not end the run
    assert own(moved_lake, step) == [] and moved_lake.rows("copy")[0] == (1, "a", 99)


def test_a_column_that_a_rival_added_is_named_and_nothing_is_written(moved_lake: Lake) -> None:
    step, write = ready(moved_lake)
    with (
        rivals(moved_lake.spark, partial(moved_lake.sql, "ALTER TABLE {copy} ADD COLUMN w int")),
        raises_code("SCHEMA", match="w: "),
    ):
        step.commit(write, moved_lake.retry, NO_WAIT)
    assert own(moved_lake, step) == []


def test_a_column_that_a_rival_added_and_the_result_has_is_no_hindrance(lake: Lake) -> None:
    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(log)
    lake.insert("src", [(2, "b", 20)])

    def wider(src: Changes) -> Append:
        return Append(src.log().select("id", "v", "change_type", F.lit(7).alias("w")))

    step, write = ready(lake, wider, Table(), name="log")
    with rivals(lake.spark, partial(lake.sql, "ALTER TABLE {log} ADD COLUMN w int")):
        outcome = committed(step.commit(write, lake.retry, NO_WAIT))
    assert [lost.conflict.kind for lost in outcome.lost] == [ConflictKind.METADATA]
    assert lake.rows("log") == [(1, 10, "insert", None), (2, 20, "insert", 7)]
