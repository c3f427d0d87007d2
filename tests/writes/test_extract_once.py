"""An extract is taken once, whoever else delivers: twins, older runs that commit late, runs whose answer was lost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakehouse import History, Snapshot, Table
from lakehouse.commit.outcome import AlreadyApplied, Committed, Unchanged
from lakehouse.errors import StaleInputsError
from tests.support.interleave import after, raises
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.slow import slow

KEYED = Table(key="id")
FIRST, SECOND = [(1, "a"), (2, "b")], [(1, "c"), (3, "d")]


def current(lake: Lake, version: int, rows: list[tuple[Any, ...]]) -> Callable[[], Any]:
    def table() -> Snapshot:
        return Snapshot(lake.values(rows, "id BIGINT, k STRING"), version=version)

    return table


def past(lake: Lake, version: int, rows: list[tuple[Any, ...]]) -> Callable[[], Any]:
    def table() -> History:
        return History(Snapshot(lake.values(rows, "id BIGINT, k STRING"), version=version))

    return table


HELD = {
    current: [(1, "c"), (3, "d")],
    past: [(1, 1, 2, "a"), (1, 2, None, "c"), (2, 1, 2, "b"), (3, 2, None, "d")],
}


@pytest.mark.parametrize("write", [slow(current), past])
def test_an_extract_is_taken_once(lake: Lake, write: Callable[..., Callable[[], Any]]) -> None:
    older, newer = write(lake, 1, FIRST), write(lake, 2, SECOND)
    lake.materialize(older, KEYED)
    late, twin, run = (lake.begin(asset, KEYED) for asset in (older, newer, newer))
    assert isinstance(run.commit(newer(), lake.retry, NO_WAIT), Committed)
    for step, asset in ((late, write(lake, 1, SECOND)), (twin, newer)):
        with raises_code("OVERTAKEN"):
            step.commit(asset(), lake.retry, NO_WAIT)
    assert isinstance(lake.materialize(newer, KEYED, run=run.run.run_id), AlreadyApplied | Unchanged)
    assert isinstance(lake.materialize(newer, KEYED), Unchanged)
    with raises_code("OLDER_EXTRACT"):
        lake.materialize(older, KEYED)
    assert lake.rows("table") == HELD[write] and lake.version("table") == 1


@pytest.mark.slow
@pytest.mark.parametrize("write", [current, past])
def test_an_extract_whose_answer_was_lost_is_found_in_the_log(
    lake: Lake, write: Callable[..., Callable[[], Any]]
) -> None:
    lake.materialize(write(lake, 1, FIRST), KEYED)
    with after("execute", raises(ConnectionResetError("Answer from Java side is empty"))):
        outcome = lake.materialize(write(lake, 2, SECOND), KEYED)
    assert isinstance(outcome, Committed) and outcome.recovered
    assert lake.rows("table") == HELD[write] and lake.version("table") == 1


@pytest.mark.slow
@pytest.mark.parametrize("write", [current, past])
def test_runs_at_the_same_moment_take_an_extract_once(lake: Lake, write: Callable[..., Callable[[], Any]]) -> None:
    lake.materialize(write(lake, 1, FIRST), KEYED)

    def attempt(_: int) -> str:
        try:
            return type(lake.materialize(write(lake, 2, SECOND), KEYED)).__name__
        except StaleInputsError as error:
            if error.code != "OVERTAKEN":
                raise
            return "overtaken"

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(attempt, range(4)))
    assert outcomes.count("Committed") == 1, outcomes
    assert lake.rows("table") == HELD[write] and lake.version("table") == 1
