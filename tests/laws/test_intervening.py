"""A commit just before which a rival committed: it is written again if the rival changed rows that it is about."""

from functools import partial

import pytest
from pyspark.sql import DataFrame

from lakehouse import Changes, Overwrite, Policy, Table
from lakehouse.commit.outcome import Committed
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.delta.policy import Retry
from lakehouse.errors import UnsettledError
from tests.support.interleave import rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import KEYED, SRC, copy, ready, whole

pytestmark = pytest.mark.slow
ROWS = [(1, "p", 10), (2, "q", 20)]
BY_GROUP = Table(key="id", partition_by="g")
P, Q = PartitionKey("p", {"g": "p"}, {}), PartitionKey("q", {"g": "q"}, {})


def test_a_run_that_found_nothing_to_write_is_judged_by_its_rivals_too(lake: Lake, classic: None) -> None:
    """The rows are right when they are compared, but no longer when the position is committed."""
    lake.create("src", ROWS, SRC)
    one = Slice((P,))
    lake.materialize(copy, BY_GROUP, slice=one)
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    earlier, rows = ready(lake, copy, BY_GROUP, slice=one)
    lake.sql("UPDATE {src} SET v = 10 WHERE id = 1")
    later, none = ready(lake, copy, BY_GROUP, slice=one)
    with (
        rivals(lake.spark, lambda: earlier.commit(rows, lake.retry, NO_WAIT), before="snapshot"),
        raises_code("OVERTAKEN"),
    ):
        later.commit(none, lake.retry, NO_WAIT)
    lake.materialize(copy, BY_GROUP, slice=one)  # as Dagster does after this error
    assert lake.rows("copy") == ROWS[:1]


def test_a_run_of_another_partition_that_slips_in_is_nothing_to_mend(lake: Lake, classic: None) -> None:
    """Its mark shows that; a table without a feed does not show whose rows were changed."""
    table = Table(key="id", partition_by="g", properties={"delta.enableChangeDataFeed": "false"})
    lake.create("src", ROWS, SRC)
    for partition in (P, Q):
        lake.materialize(copy, table, slice=Slice((partition,)))
    lake.sql("UPDATE {src} SET v = v + 1")
    one, ps = ready(lake, copy, table, slice=Slice((P,)))
    other, qs = ready(lake, copy, table, slice=Slice((Q,)))
    with rivals(lake.spark, lambda: other.commit(qs, lake.retry, NO_WAIT), before="snapshot"):
        assert isinstance(one.commit(ps, lake.retry, NO_WAIT), Committed)
    assert lake.version("copy") == 3
    assert lake.rows("copy") == lake.rows("src")


def test_an_overwrite_whose_rival_slipped_in_is_written_again(lake: Lake, classic: None) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(whole, KEYED)
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    step, write = ready(lake, whole, KEYED)
    with rivals(lake.spark, partial(lake.sql, "UPDATE {whole} SET v = 99 WHERE id = 2"), before="snapshot"):
        outcome = step.commit(write, lake.retry, NO_WAIT)
    assert isinstance(outcome, Committed)
    assert lake.rows("whole") == [(1, "p", 11), (2, "q", 20)]


def test_a_rival_that_slips_in_where_a_snapshot_input_moved_is_written_over(lake: Lake, classic: None) -> None:
    def joined(src: Changes, dim: DataFrame) -> Overwrite:
        return Overwrite(src.source.join(dim, "g"))

    lake.create("src", ROWS, SRC)
    lake.create("dim", [("p", 1), ("q", 2)], "g string, w int")
    lake.materialize(joined, KEYED)
    lake.sql("UPDATE {dim} SET w = 3 WHERE g = 'q'")
    step = lake.begin(joined, KEYED)
    write = joined(**lake.read(step, joined))  # type: ignore[arg-type]
    with rivals(lake.spark, partial(lake.sql, "UPDATE {joined} SET w = 99 WHERE id = 1"), before="snapshot"):
        step.commit(write, lake.retry, NO_WAIT)
    assert {row.id: row.w for row in lake.frame("joined").collect()} == {1: 1, 2: 3}


def test_a_rival_that_slips_in_is_not_overruled_where_the_table_says_so(lake: Lake, classic: None) -> None:
    lake.create("src", ROWS, SRC)
    table = Table(key="id", policy=Policy(on_same_rows="fail"))
    lake.materialize(whole, table)
    lake.sql("UPDATE {src} SET v = 11")
    step, write = ready(lake, whole, table)
    with (
        rivals(lake.spark, partial(lake.sql, "UPDATE {whole} SET v = 99 WHERE id = 2"), before="snapshot"),
        pytest.raises(UnsettledError, match=r"is committed as version 2, .* changed the same rows"),
    ):
        step.commit(write, Retry(), NO_WAIT)


def test_what_a_full_refresh_could_not_set_right_the_next_run_does(lake: Lake, classic: None) -> None:
    """Just before its commit a rival changes a row whose key is in no range; and the run does not write again."""
    lake.create("src", ROWS, SRC)
    table = Table(key="id", policy=Policy(on_same_rows="fail"))
    lake.materialize(copy, table)
    lake.sql("UPDATE {copy} SET v = 666 WHERE id = 2")
    full, write = ready(lake, copy, table, compare="a full refresh was asked for")
    with (
        rivals(lake.spark, partial(lake.sql, "UPDATE {copy} SET v = 99 WHERE id = 1"), before="snapshot"),
        pytest.raises(UnsettledError, match="the next run reads the same range again"),
    ):
        full.commit(write, Retry(), NO_WAIT)
    lake.materialize(copy, table)
    assert lake.rows("copy") == lake.rows("src")
