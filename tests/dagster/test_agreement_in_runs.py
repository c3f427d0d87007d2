"""Inputs that agree, in Dagster's runs: with the code location, whose siblings meet, and without it."""

import dagster as dg
import pytest

from lakehouse import Policy
from tests.support.agreeing_project import FORK, INPUTS, ROOT, run_of
from tests.support.dagster_house import House, metadata
from tests.support.lake import Lake


def insert(lake: Lake, id_: int) -> None:
    lake.insert("src", [(id_, id_)])


@pytest.fixture
def fork(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake.create("src", [(1, 1)], "id INT, v INT")
    monkeypatch.setenv(ROOT, str(lake.root))
    return lake


def test_siblings_meet_and_the_table_between_them_waits_or_reads_where_they_agree(fork: Lake) -> None:
    with dg.instance_for_test() as instance:
        assert run_of("a", instance)["stands_for"] == {"src": 0}
        insert(fork, 2)
        assert run_of("b", instance)["stands_for"] == {"src": 0}, "it begins like one that is behind"
        assert run_of("m", instance)["stands_for"] == {"src": 0}
        assert run_of("a", instance)["stands_for"] == {"src": 1}
        waiting = run_of("m", instance)
        assert waiting["waits_for"] == "b, which stands for version 0 of src: a stands for 1"
        assert waiting["stands_for"] == {"src": 0}
        assert fork.version("m") == 0
        insert(fork, 3)
        assert run_of("b", instance)["stands_for"] == {"src": 1}, "no further than its sibling"
        assert run_of("b", instance)["stands_for"] == {"src": 2}
        assert run_of("m", instance)["stands_for"] == {"src": 1}
        assert fork.rows("m") == [(1, 2), (2, 4)]
        insert(fork, -4)
        for name in ("a", "a", "b", "m"):
            final = run_of(name, instance)
        assert final["stands_for"] == {"src": 3}
        assert fork.rows("m") == [(-4, -4), (1, 2), (2, 4), (3, 6)]


def test_a_table_whose_inputs_disagree_says_so_also_if_they_need_not_agree(
    fork: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INPUTS, "newest")
    with dg.instance_for_test() as instance:
        run_of("a", instance)
        insert(fork, 2)
        run_of("b", instance)
        torn = run_of("m", instance)

    assert (
        torn["torn"] == "its inputs disagree over src by 1 version: a stands for version 0 and b stands for version 1"
    )


def test_without_a_code_location_marks_say_what_the_inputs_of_a_table_stand_for(
    fork: Lake, instance: dg.DagsterInstance
) -> None:
    house = House(fork, FORK, instance, policy=Policy(inputs="agree"))
    house.run("a", "b", "m")
    insert(fork, 2)
    house.run("a")
    result = house.run("m")

    assert metadata(result, "m")["waits_for"] == "b, which stands for version 0 of src: a stands for 1"
    assert fork.rows("m") == [(1, 2)]
    house.run("b")
    assert metadata(house.run("m"), "m")["stands_for"] == {"src": 1}
    assert fork.rows("m") == [(1, 2), (2, 4)]
