"""Rivals that commit at the worst moment: what each of them costs, and what is reported about it."""

from functools import partial
from typing import Any, NamedTuple

import pytest

from lakehouse import Retry, Table
from lakehouse.commit.rivals import Changed, ConflictKind
from lakehouse.delta.log import Head
from lakehouse.delta.policy import Clock
from lakehouse.difference.statements import ReplaceMatched, ReplaceRows
from lakehouse.spark.progress import listening
from tests.support.interleave import rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import COPIED, KEYED, SRC, committed, copy, log, own, ready
from tests.support.ways_of_comparing import replace_in_one_pass

pytestmark = pytest.mark.race


class Lost(NamedTuple):
    """A rival that defeats the first attempt, what is found out about it, and the rows at the end."""

    statement: str
    kind: ConflictKind
    operation: str
    changed: Changed
    rows: list[tuple[Any, ...]]


LOST = {
    "blind append": Lost(
        "INSERT INTO {copy} VALUES (9, 'z', 9)", ConflictKind.FILES, "WRITE", Changed.OTHER_ROWS, [*COPIED, (9, "z", 9)]
    ),
    "OPTIMIZE": Lost("OPTIMIZE {copy}", ConflictKind.FILES, "OPTIMIZE", Changed.OTHER_ROWS, COPIED),
    "UPDATE of another row": Lost(
        "UPDATE {copy} SET v = 31 WHERE id = 3",
        ConflictKind.FILES,
        "UPDATE",
        Changed.OTHER_ROWS,
        [(1, "a", 11), (3, "a", 31), (4, "c", 40)],
    ),
    "UPDATE of the same row": Lost(
        "UPDATE {copy} SET v = 99 WHERE id = 1", ConflictKind.FILES, "UPDATE", Changed.SAME_ROWS, COPIED
    ),
    "SET TBLPROPERTIES": Lost(
        "ALTER TABLE {copy} SET TBLPROPERTIES ('a' = 'b')",
        ConflictKind.METADATA,
        "SET TBLPROPERTIES",
        Changed.OTHER_ROWS,
        COPIED,
    ),
}


@pytest.fixture(params=["few keys", "in one pass"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """How the rows that differ are replaced: by the literals of their keys, or by a join with the table."""
    if request.param == "few keys":
        return ReplaceRows
    replace_in_one_pass(monkeypatch)
    # Switching vectors on would be a commit, and the versions of the rivals are counted from the unchanged table.
    monkeypatch.setattr(Head, "has_vectors", True)
    return ReplaceMatched


@pytest.mark.parametrize("rival", LOST.values(), ids=LOST)
def test_a_statement_that_lost_to_a_rival_is_committed_once_after_it(moved_lake: Lake, rival: Lost, way: type) -> None:
    step, write = ready(moved_lake)
    with rivals(moved_lake.spark, partial(moved_lake.sql, rival.statement)), listening(moved_lake.hear):
        outcome = committed(step.commit(write, moved_lake.retry, NO_WAIT))
    assert isinstance(outcome.statement, way)
    (lost,) = outcome.lost
    assert (lost.conflict.kind, lost.changed) == (rival.kind, rival.changed)
    assert [(c.operation, c.version) for c in lost.rivals] == [(rival.operation, 2)]
    assert own(moved_lake, step) == [outcome.commit.version] == [3]
    assert moved_lake.rows("copy") == rival.rows
    (sentence,) = moved_lake.told
    assert sentence.startswith(f"Attempt 1 to commit copy lost to {rival.operation} (version 2)")
    assert rival.changed.value in sentence and "Attempt 2 in 0.0 s" in sentence


def test_each_lost_attempt_waits_longer_and_is_told_with_all_its_rivals(moved_lake: Lake) -> None:
    step, write = ready(moved_lake)
    waits = list[float]()
    ticks = iter(range(1000))
    clock = Clock(now=lambda: float(next(ticks)), sleep=waits.append, random=lambda: 0.0)
    one = partial(moved_lake.insert, "copy", [(9, "z", 9)])

    def two() -> None:
        one()
        moved_lake.sql("UPDATE {copy} SET v = 99 WHERE id = 1")

    with rivals(moved_lake.spark, one, two, one), listening(moved_lake.hear):
        outcome = committed(step.commit(write, Retry(attempts=4, wait_initial=1, wait_max=3), clock))
    assert waits == [1, 2, 3]
    assert [[c.version for c in lost.rivals] for lost in outcome.lost] == [[2], [4, 3], [5]]
    assert outcome.mark.lost_to == (2, 4, 5)
    assert [lost.changed for lost in outcome.lost] == [Changed.OTHER_ROWS, Changed.SAME_ROWS, Changed.OTHER_ROWS]
    assert all(lost.seconds > 0 for lost in outcome.lost)
    assert "UPDATE (version 4) and 1 more" in moved_lake.told[1] and "Attempt 3 in 2.0 s" in moved_lake.told[1]
    assert own(moved_lake, step) == [6]
    assert moved_lake.rows("copy") == [*COPIED, *[(9, "z", 9)] * 3]


def test_a_rival_that_replaces_the_rows_makes_the_inputs_stale(moved_lake: Lake) -> None:
    step, write = ready(moved_lake)
    overwrite = partial(moved_lake.sql, "INSERT OVERWRITE {copy} VALUES (7, 'q', 7)")
    with (
        rivals(moved_lake.spark, overwrite),
        raises_code("ROLLED_BACK", match=r"lost the position from which the run began .*The table is at version 2 now"),
    ):
        step.commit(write, moved_lake.retry, NO_WAIT)
    assert own(moved_lake, step) == []
    moved_lake.materialize(copy, KEYED)
    assert moved_lake.rows("copy") == COPIED


def test_what_is_no_hindrance_to_delta_costs_no_attempt(moved_lake: Lake) -> None:
    """Vectors are switched on meanwhile; other rows are deleted; and, for a blind append, rows are updated."""
    step, write = ready(moved_lake)
    vectors = "ALTER TABLE {copy} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    with rivals(moved_lake.spark, partial(moved_lake.sql, vectors)) as ran:
        assert committed(step.commit(write, moved_lake.retry, NO_WAIT)).lost == ()
    assert len(ran) == 1 and moved_lake.rows("copy") == COPIED

    moved_lake.sql("UPDATE {src} SET v = 12 WHERE id = 1")
    step, write = ready(moved_lake)
    with rivals(moved_lake.spark, partial(moved_lake.sql, "DELETE FROM {copy} WHERE id = 4")) as ran:
        assert committed(step.commit(write, moved_lake.retry, NO_WAIT)).lost == ()
    assert len(ran) == 1 and moved_lake.rows("copy") == [(1, "a", 12), (3, "a", 30)]

    moved_lake.materialize(log)
    moved_lake.insert("src", [(5, "e", 50)])
    step, write = ready(moved_lake, log, Table())
    with rivals(moved_lake.spark, partial(moved_lake.sql, "UPDATE {log} SET v = 0 WHERE id = 4")) as ran:
        assert committed(step.commit(write, moved_lake.retry, NO_WAIT)).lost == ()
    assert len(ran) == 1 and own(moved_lake, step) == [2]
    assert sorted(row[:2] for row in moved_lake.rows("log"))[-2:] == [(4, 0), (5, 50)]


class StaleBase(NamedTuple):
    """A rival that Delta's check does not see, because it commits before the transaction takes its snapshot."""

    statement: str
    commits: int
    rows: list[tuple[Any, ...]]


SLIPPED = {
    "same row": StaleBase("UPDATE {copy} SET v = 99 WHERE id = 1", 2, COPIED),
    "other row": StaleBase("UPDATE {copy} SET v = 31 WHERE id = 3", 1, [(1, "a", 11), (3, "a", 31), (4, "c", 40)]),
}


@pytest.mark.parametrize("rival", SLIPPED.values(), ids=SLIPPED)
def test_a_rival_between_our_comparison_and_delta_s_snapshot_is_seen(moved_lake: Lake, rival: StaleBase) -> None:
    step, write = ready(moved_lake)
    with rivals(moved_lake.spark, partial(moved_lake.sql, rival.statement), before="snapshot") as ran:
        committed(step.commit(write, moved_lake.retry, NO_WAIT))
    assert len(ran) == 1
    assert moved_lake.rows("copy") == rival.rows
    assert len(own(moved_lake, step)) == rival.commits


def test_a_key_that_a_rival_appends_beside_ours_is_there_once(lake: Lake) -> None:
    """Both appends are blind to Delta, so both commit; in the end the rows of touched keys are ours."""
    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(copy, KEYED)
    lake.insert("src", [(2, "b", 20)])
    step, write = ready(lake)
    with rivals(lake.spark, partial(lake.sql, "INSERT INTO {copy} VALUES (2, 'z', 99)")) as ran:
        committed(step.commit(write, lake.retry, NO_WAIT))
    assert len(ran) == 1
    assert lake.rows("copy") == [(1, "a", 10), (2, "b", 20)]
