"""When checks were last made, by the evaluations in a real Dagster instance; without Spark."""

from typing import Any

import dagster as dg
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dagster.definitions.findings import DIFFERING
from lakehouse.dagster.definitions.past_checks import (
    CHECK,
    LEFT_OUT,
    NEVER,
    PARTITION,
    MadeCheck,
    last_compared,
    last_made,
    longest_waiting,
)

KEY = dg.AssetKey("copies")
RECOMPUTE = dg.AssetCheckKey(KEY, CHECK)
COMPARED = {DIFFERING: 0}


def report(instance: dg.DagsterInstance, metadata: dict[str, Any], name: str = CHECK, *, passed: bool = True) -> None:
    instance.report_runless_asset_event(dg.AssetCheckEvaluation(KEY, name, passed=passed, metadata=metadata))


def test_the_last_time_that_a_check_was_made_is_not_that_of_a_run_which_left_it_out(
    instance: dg.DagsterInstance,
) -> None:
    assert last_made(instance, RECOMPUTE) is None
    report(instance, {LEFT_OUT: NEVER}, passed=False)
    assert last_made(instance, RECOMPUTE) is None, "an evaluation that says never is none"
    report(instance, COMPARED)
    report(instance, {}, "keys")
    first = last_made(instance, RECOMPUTE)
    assert first is not None
    report(instance, COMPARED | {LEFT_OUT: dg.MetadataValue.timestamp(first.at)}, passed=False)
    report(instance, {LEFT_OUT: "when its night was missed"}, passed=False)
    again = last_made(instance, RECOMPUTE)
    assert again is not None and again.at == first.at


def test_a_check_that_could_not_be_made_is_no_comparison(instance: dg.DagsterInstance) -> None:
    report(instance, {}, passed=False)
    assert last_made(instance, RECOMPUTE) is not None, "it does not wait: it was tried"
    assert last_compared(instance, KEY) is None
    report(instance, COMPARED)
    compared = last_compared(instance, KEY)
    report(instance, {}, passed=False)
    assert compared is not None and last_compared(instance, KEY) == compared


@given(partitions=st.lists(st.sampled_from("abcdef"), unique=True), past=st.lists(st.sampled_from("abcdefgh")))
def test_the_partition_that_is_compared_is_the_one_whose_check_is_oldest(partitions: list[str], past: list[str]):
    """A model in plain Python: a partition that was never checked is the oldest, the first one if there are several."""
    checks = [
        MadeCheck(0, dg.AssetCheckEvaluation(KEY, CHECK, passed=True, metadata={PARTITION: name})) for name in past
    ]
    newest_first = {name: -past.index(name) for name in partitions if name in past}
    expected = min(partitions, key=lambda name: newest_first.get(name, -len(past) - 1), default=None)
    assert longest_waiting(partitions, checks) == expected


@given(nights=st.integers(1, 30), partitions=st.lists(st.sampled_from("abcdef"), unique=True, min_size=1))
def test_each_partition_comes_before_any_comes_twice(nights: int, partitions: list[str]) -> None:
    past = list[MadeCheck]()
    for _ in range(nights):
        name = longest_waiting(partitions, past)
        past.insert(0, MadeCheck(0, dg.AssetCheckEvaluation(KEY, CHECK, passed=True, metadata={PARTITION: name or ""})))
    turns = [check.text(PARTITION) for check in past]
    assert all(
        len({*turns[at : at + len(partitions)]}) == len(turns[at : at + len(partitions)]) for at in range(nights)
    )
