"""`Policy(refresh=...)`: under each word a table is what a recompute gives; the words differ in what is read for that."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse import Policy, Table
from lakehouse.commit.outcome import Committed, Unchanged
from lakehouse.delta.limits import Limits, in_force
from lakehouse.read.changes import Changes
from tests.support.assets import CASES, Case, copy, log, sums, totals
from tests.support.lake import Lake, cleaned
from tests.support.model import Delete, Insert, Model, Move, Update
from tests.support.raises import raises_code
from tests.support.slow import slow

START = ((1, "a", 10), (2, "b", 20), (None, None, 30))
HISTORY = [[Update(1, 99), Delete(2)], [Insert((2, "a", 5)), Move(1, None)], []]
EVERY_CHANGE_IS_MANY = Limits(changes_to_count=0, changes_of_row=0.01)
ALIKE: list[Case] = [case for case in CASES if case.asset.__name__ in ("totals", "sums", "latest")]


@pytest.fixture
def model(lake: Lake) -> Model:
    lake.keys, lake.trust_key = {"src": ("id",)}, True
    model = Model(lake)
    model.create(START)
    return model


def in_order(found: list[Any]) -> list[Any]:
    return sorted(found, key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["auto", slow("full"), slow("incremental"), slow("strict")])
def test_under_each_word_the_table_is_what_a_recompute_gives(lake: Lake, model: Model, word: Any) -> None:
    tables = [(case, replace(case.table, policy=Policy(refresh=word))) for case in ALIKE]
    with in_force(EVERY_CHANGE_IS_MANY):
        for step in [[], *HISTORY]:
            for edit in step:
                model.apply(edit)
            for case, table in tables:
                lake.materialize(case.asset, table)
                expected = in_order(case.oracle(model.src.values(), model.dim.values()))
                assert lake.rows(repr(case)) == expected


@pytest.mark.slow
def test_each_word_reads_what_it_says(lake: Lake, model: Model) -> None:
    for word in ("auto", "incremental", "strict", "full"):
        lake.materialize(copy, Table(key="id", policy=Policy(refresh=word)), name=word)  # pyright: ignore[reportArgumentType]
    model.apply(Update(1, 99))

    def is_whole(word: Any) -> bool:
        step = lake.begin(copy, Table(key="id", policy=Policy(refresh=word)), name=word)
        changes = lake.read(step, copy)["src"]
        assert isinstance(changes, Changes)
        return changes.is_initial

    with in_force(EVERY_CHANGE_IS_MANY):
        assert [is_whole(word) for word in ("auto", "incremental", "strict", "full")] == [True, False, False, True]
    assert [is_whole(word) for word in ("auto", "full")] == [False, True], "one changed row is not many"


def test_a_full_run_whose_result_is_the_same_commits_nothing(lake: Lake, model: Model) -> None:
    table = Table(key="k", policy=Policy(refresh="full"))
    lake.materialize(totals, table)
    assert isinstance(lake.materialize(totals, table), Unchanged)
    model.apply(Update(1, 99))
    outcome = lake.materialize(totals, table)
    assert isinstance(outcome, Committed)
    assert lake.commits("totals")[-1].rows.images == 2, "only the row that differs"


@pytest.mark.slow
def test_a_strict_table_is_compared_on_request_alone(lake: Lake, model: Model) -> None:
    table = Table(key="id", policy=Policy(refresh="strict"))
    lake.materialize(copy, table)
    cleaned(lake, "src")
    model.apply(Update(1, 99))
    with raises_code("GAP", match="lakehouse/full_refresh=true") as refused:
        lake.materialize(copy, table)
    assert "refresh='strict'" in str(refused.value) and lake.version("copy") == 0
    lake.materialize(copy, table, compare="a full refresh was asked for")
    assert lake.rows("copy") == in_order(list(model.src.values()))


@pytest.mark.slow
def test_the_sums_of_a_strict_table_are_recomputed_on_request_alone(lake: Lake, model: Model) -> None:
    table = Table(key="k", policy=Policy(refresh="strict"))
    lake.materialize(sums, table)
    lake.sql("UPDATE {sums} SET total = 0")
    model.apply(Update(1, 99))
    with raises_code("WRITE", match="would have to be recomputed: version 1"):
        lake.materialize(sums, table)
    lake.materialize(sums, table, compare="a full refresh was asked for")
    case = next(case for case in CASES if case.asset is sums)
    assert lake.rows("sums") == in_order(case.oracle(model.src.values(), ()))


def test_an_append_goes_on_whatever_its_manager_says_of_refresh(lake: Lake, model: Model) -> None:
    table = Table(policy=Policy(refresh="full"))
    lake.materialize(log, table)
    model.apply(Update(1, 99))
    lake.materialize(log, table)
    assert len(lake.rows("log")) == len(START) + 2
