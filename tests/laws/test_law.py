"""Running the changes in any number of steps gives what one full recompute gives."""

import os
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.commit.outcome import Committed
from lakehouse.delta.limits import MEASURED, Limits, in_force
from lakehouse.read.feed_reader import Feeds
from tests.support.assets import CASES, Case, archive
from tests.support.lake import Lake
from tests.support.model import Delete, Insert, MergeRows, Model, Move, Rekey, Update, edits, rows
from tests.support.slow import slow
from tests.support.ways_of_comparing import comparisons_by_scan, replace_in_one_pass

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "0"))
histories = st.lists(st.lists(edits, min_size=1, max_size=3), min_size=1, max_size=3)


def in_order(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=repr)


@pytest.fixture(params=["as planned", slow("in one pass"), slow("by rows")])
def way(request: pytest.FixtureRequest, spark: SparkSession) -> Generator[list[str]]:
    """How rows are compared and replaced: as planned, or as if they were too many or their keys had no literals.

    Yields:
        The statements of the test's commits, for the test to fill.
    """
    vectors = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
    statements = list[str]()
    with pytest.MonkeyPatch.context() as patched:
        comparisons = comparisons_by_scan(patched)
        if request.param == "in one pass":
            replace_in_one_pass(patched)
            spark.conf.set(vectors, "true")
        with in_force(Limits(one_task_keys=0) if request.param == "by rows" else MEASURED):
            yield statements
        if request.param == "in one pass":
            spark.conf.unset(vectors)
    if request.param == "by rows":
        assert comparisons
    else:
        assert {"as planned": "ReplaceRows", "in one pass": "ReplaceMatched"}[request.param] in statements


@pytest.mark.core
@pytest.mark.parametrize("cases", [CASES[::3], slow(CASES[1::3] + CASES[2::3])], ids=["a third", "the others"])
@settings(
    max_examples=max(1, EXAMPLES),
    phases=list(Phase) if EXAMPLES else [Phase.explicit],
    deadline=None,
    derandomize="LAKEHOUSE_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(start=rows(), history=histories)
@example(
    start=((1, "a", 10), (2, "b", 20), (None, None, 30)),
    history=[
        [Update(1, 99), Delete(2), Insert((2, "a", 5))],
        [Rekey(1, 4), Move(2, None), MergeRows(((4, "c", 7), (5, "a", None))), Delete(5)],
    ],
)
def test_reading_changes_in_any_steps_equals_reading_everything_once(
    way: list[str],
    spark: SparkSession,
    tmp_path: Path,
    cases: Sequence[Case],
    start: tuple[Any, ...],
    history: list[list[Any]],
) -> None:
    lake = Lake(spark, tmp_path / uuid4().hex, keys={"src": ("id",)}, trust_key=True)
    lake.root.mkdir()
    model, feeds = Model(lake), Feeds()
    model.create(start)
    for case in cases:
        lake.materialize(case.asset, case.table)
    lake.materialize(archive)
    for step in history:
        for edit in step:
            model.apply(edit)
        for case in cases:
            note(f"{step} -> {case}")
            outcome = lake.materialize(case.asset, case.table, feeds=feeds)
            way.extend([type(outcome.statement).__name__] if isinstance(outcome, Committed) else [])
            expected = in_order(case.oracle(model.src.values(), model.dim.values()))
            assert lake.rows(repr(case)) == expected
    lake.materialize(archive)
    assert replayed(lake) == in_order(list(model.src.values()))
    shutil.rmtree(lake.root)


def replayed(lake: Lake) -> list[tuple[Any, ...]]:
    """The source according to its archived feed: inserts and post-images less deletes and pre-images."""
    sign = "CASE WHEN change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"
    counted = lake.sql(f"SELECT id, k, v, SUM({sign}) AS n FROM {{archive}} GROUP BY id, k, v HAVING SUM({sign}) <> 0")
    return in_order([tuple(row)[:3] for row in counted for _ in range(row.n)])
