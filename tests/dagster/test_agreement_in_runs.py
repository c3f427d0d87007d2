"""Inputs that agree, in Dagster's runs: with a code location, whose siblings meet, and without one."""

import json
import time
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from lakehouse import Policy
from lakehouse.cli.main import main
from lakehouse.upkeep.registration import registered_limits
from tests.support.agreeing_project import FORK, INPUTS, ROOT, run_of
from tests.support.dagster_house import House, failure, metadata
from tests.support.lake import Lake


def insert(lake: Lake, id_: int) -> None:
    lake.insert("src", [(id_, id_)])


def limits(lake: Lake, name: str) -> dict[str, timedelta]:
    """The limits of the readers that are registered with a table."""
    head = lake.ref(name).log(lambda: lake.spark).head()
    assert head is not None
    return registered_limits(head.properties)


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


def test_a_run_of_the_command_line_goes_no_further_than_its_sibling_and_says_for_what_a_table_waits(
    fork: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "project.py"
    file.write_text("from tests.support.agreeing_project import definitions\n\ndefs = definitions()\n")
    (home := tmp_path / "home").mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}")
    monkeypatch.setenv("DAGSTER_HOME", str(home))

    def run(name: str) -> str:
        capsys.readouterr()
        assert main(["run", name, "-f", str(file)]) == 0
        return capsys.readouterr().out

    for name in ("a", "b", "m"):
        run(name)
    insert(fork, 2)
    run("a")
    insert(fork, 3)
    assert "waits for b, which stands for version 0 of src: a stands for 1" in run("m")
    run("b")
    assert fork.rows("b") == [(1, 1), (2, 2)], "no further than its sibling"
    run("m")
    assert fork.rows("m") == [(1, 2), (2, 4)]


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


def test_a_first_run_fails_where_its_inputs_never_stood_for_one_state(fork: Lake, instance: dg.DagsterInstance) -> None:
    house = House(fork, FORK, instance, policy=Policy(inputs="agree"))
    house.run("a")
    insert(fork, 2)
    house.run("b")

    why = failure(house.run("m", raise_on_error=False))
    assert "'m' cannot begin" in why
    assert "It waits for a, which stands for version 0 of src: b stands for 1." in why
    assert not fork.ref("m").log(lambda: fork.spark).head()


def test_a_reader_is_registered_at_a_cut_and_each_table_keeps_its_version(
    fork: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with dg.instance_for_test() as instance:
        run_of("a", instance)
        run_of("b", instance)
        insert(fork, 2)
        run_of("a", instance)
    file = tmp_path / "project.py"
    file.write_text("from tests.support.agreeing_project import definitions\n\ndefs = definitions()\n")
    registered = ("--register", "report", "--limit", "40d", "--json", "-f", str(file))

    assert main(["cut", "src", "b", *registered]) == 1
    assert json.loads(capsys.readouterr().out)["code"] == "NOT_OURS"
    assert limits(fork, "b") == {}, "nothing was changed"

    assert main(["cut", "a", "b", *registered]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["stands_for"] == {"src": 0}
    assert answer["versions"]["a"] == 0
    assert answer["until"]["a"] > (time.time() + 39 * 86_400) * 1000
    assert limits(fork, "a") == limits(fork, "b") == {"report": timedelta(days=40)}
