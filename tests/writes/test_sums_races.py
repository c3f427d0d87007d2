"""Others write to the table while changes are added to its sums, and partitions have sums of their own."""

import pytest

from lakehouse.commit.outcome import AlreadyApplied, Committed, Unchanged
from lakehouse.errors import StaleInputsError
from tests.commit.test_superseded import of
from tests.support.aggregated_source import BY_G, IN_G, MEDDLED, ROWS, due, recomputes, rows, sums
from tests.support.interleave import before, raises, rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import SRC, committed, ready

__all__ = ["recomputes", "rows"]  # fixtures


@pytest.mark.slow
@pytest.mark.parametrize("meddle", MEDDLED)
def test_rows_that_slip_in_between_the_comparison_and_the_commit_do_not_stay_in_a_sum(rows: Lake, meddle: str) -> None:
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    step, write = ready(rows, sums, BY_G)
    with before("execute", lambda: rows.sql(meddle)):
        assert isinstance(step.commit(write, rows.retry, NO_WAIT), Committed)
    held = {row[0]: row for row in rows.rows("sums")}
    assert held["a"] == ("a", 2, 42)
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


@pytest.mark.slow
@pytest.mark.parametrize("meddle", MEDDLED)
def test_a_commit_that_died_behind_rows_that_slipped_in_is_mended_by_the_next_run(rows: Lake, meddle: str) -> None:
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    step, write = ready(rows, sums, BY_G)
    died = before("find in the log", raises(KeyboardInterrupt()))
    with before("execute", lambda: rows.sql(meddle)), died, pytest.raises(KeyboardInterrupt):
        step.commit(write, rows.retry, NO_WAIT)
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


@pytest.mark.slow
@pytest.mark.parametrize("meddle", MEDDLED)
def test_an_attempt_lost_to_a_rival_is_not_added_to_the_rivals_rows(rows: Lake, meddle: str) -> None:
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    step, write = ready(rows, sums, BY_G)
    with rivals(rows.spark, lambda: rows.sql(meddle)):
        outcome = committed(step.commit(write, rows.retry, NO_WAIT))
    assert outcome.lost
    assert rows.rows("sums") == due(rows)
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'b'")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


@pytest.mark.slow
def test_a_twin_that_read_less_does_not_make_the_other_add_twice(rows: Lake) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    shorter, less = ready(rows, sums, BY_G)
    rows.sql("UPDATE {src} SET v = v + 1")
    longer, more = ready(rows, sums, BY_G)
    assert isinstance(shorter.commit(less, rows.retry, NO_WAIT), Committed)
    with pytest.raises(StaleInputsError):
        longer.commit(more, rows.retry, NO_WAIT)
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


@pytest.mark.slow
def test_a_run_that_is_repeated_adds_nothing(rows: Lake) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G, run="one")
    rows.insert("src", [(8, "b", 80)])
    rows.materialize(sums, BY_G, run="two", aliases=frozenset({"one"}))
    assert rows.rows("sums") == due(rows)
    step, write = ready(rows, sums, BY_G)
    rows.insert("src", [(7, "b", 70)])
    other = rows.materialize(sums, BY_G)
    assert isinstance(other, Committed)
    assert isinstance(step.commit(write, rows.retry, NO_WAIT), Unchanged | AlreadyApplied)
    assert rows.rows("sums") == due(rows)


@pytest.mark.slow
def test_partitions_have_sums_of_their_own(lake: Lake, recomputes: list[str]) -> None:
    lake.create("src", ROWS, SRC)
    for partitions in (("a",), ("b",)):
        lake.materialize(sums, IN_G, slice=of(*partitions))
    recomputes.clear()
    for turn, partitions in enumerate([("a",), ("b",), ("a",), ("a",), ("b",)]):
        lake.sql("UPDATE {src} SET v = v + 1")
        lake.insert("src", [(10 + turn, "b", turn)])
        lake.materialize(sums, IN_G, slice=of(*partitions))
        held = {g: row for g, *row in lake.rows("sums")}
        assert all(held[g] == row for g, *row in due(lake) if g in partitions)
    lake.materialize(sums, IN_G, slice=of("a"))
    assert not recomputes
    assert lake.rows("sums") == due(lake)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["INSERT INTO {src} VALUES (3, '', 20)", "UPDATE {src} SET g = '' WHERE id = 1"])
def test_a_group_of_the_empty_text_is_refused_where_the_table_is_partitioned_by_it(lake: Lake, change: str) -> None:
    lake.create("src", [(1, None, 10), (2, None, 20), (3, "a", 1)], "id int, g string, v int")
    lake.materialize(sums, IN_G)
    before = lake.rows("sums")
    lake.sql(change)
    with raises_code("BROKEN_PROMISE", match="an empty text in column g"):
        lake.materialize(sums, IN_G)
    assert lake.rows("sums") == before


@pytest.mark.slow
def test_a_table_that_is_partitioned_by_its_groups_is_added_to(lake: Lake, recomputes: list[str]) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(sums, IN_G)
    for change in (
        "UPDATE {src} SET v = v + 1 WHERE g = 'a'",
        "DELETE FROM {src} WHERE g = 'b'",
        "UPDATE {src} SET g = 'b' WHERE id = 1",
    ):
        lake.sql(change)
        lake.materialize(sums, IN_G)
        assert lake.rows("sums") == due(lake)
    assert not recomputes
