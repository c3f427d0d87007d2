"""`cut` and `lakehouse cut`: the newest versions of tables that belong to one state of their sources, without Spark."""

import json
import shutil
from pathlib import Path

import dagster as dg
import pytest

from lakehouse import DeltaIOManager, LocalSpark, cut, incremental
from lakehouse.cli.main import main
from lakehouse.cursor.standings import Standings, Ways
from lakehouse.dagster.definitions.checked import Checked
from lakehouse.dagster.definitions.findings import Finding, Grade
from lakehouse.dagster.io_manager import code_location_of, managers_of
from tests.support.agreeing_project import FORK, INPUTS, policy
from tests.support.marked_tables import append, committed, run
from tests.support.raises import raises_code


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    append(tmp_path, "src", 1)
    for name in ("a", "b"):
        run(tmp_path, name, "src")
    append(tmp_path, "src", 2)
    run(tmp_path, "a", "src")
    return tmp_path


def definitions(root: Path) -> dg.Definitions:
    manager = DeltaIOManager(spark=LocalSpark(root=str(root)), root=str(root), policy=policy())
    return dg.Definitions(assets=FORK, resources={"io_manager": manager})


def test_a_cut_names_versions_of_one_state_how_they_are_read_and_who_holds_a_newer_one_back(fork: Path) -> None:
    answer = cut(definitions(fork))

    assert answer.versions == {"a": 0, "b": 0}
    assert answer.stands_for == {"src": 0}
    assert answer.queries["a"] == f"SELECT * FROM delta.`{fork}/a` VERSION AS OF 0"
    assert answer.behind == ("b, which stands for version 0 of src: a stands for 1",)
    assert answer.until["a"] is not None
    assert answer.until["b"] is None

    run(fork, "b", "src")
    assert cut(definitions(fork), "a", "b", "src").versions == {"a": 1, "b": 1, "src": 1}


def test_what_is_in_no_cut_is_said(fork: Path) -> None:
    with raises_code("READ", match="There is no table 'm'"):
        cut(definitions(fork), "m")
    append(fork, "m", 1)
    with raises_code("READ", match="'m' is in no cut: .* its log says no position"):
        cut(definitions(fork), "m")
    committed(fork / "a", days_ago=40)
    with raises_code("READ", match="can no longer be read: version 0 of a .* A newer cut waits for b, which stands"):
        cut(definitions(fork), "a", "b")
    shutil.rmtree(fork / "a")
    run(fork, "a", "src")
    with raises_code("READ", match="No versions of a, b belong to one state .* b, which stands for version 0 of src"):
        cut(definitions(fork), "a", "b")


@pytest.mark.parametrize("inputs", ["newest", "agree"])
def test_a_check_and_status_say_that_a_table_is_torn_and_status_for_whom_it_waits(
    fork: Path, inputs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(INPUTS, inputs)
    torn = "its inputs disagree over src by 1 version: a stands for version 1 and b stands for version 0"
    run(fork, "m", "a", also=("b",))
    assert found(fork).sentence.startswith(f"'m' holds a state that its sources never had: {torn}.")
    assert f"m holds a state that its sources never had: {torn}." in status(fork, capsys)

    run(fork, "b", "src")
    run(fork, "m", "a", also=("b",))
    assert found(fork) == Finding(
        Grade.PASSED, "'m' stands for one state of its sources: version 1 of src.", {"src": 1}
    )
    append(fork, "src", 3)
    run(fork, "a", "src")
    waits = "m waits for b, which stands for version 1 of src: a stands for 2."
    assert (waits in status(fork, capsys)) is (inputs == "agree")
    assert found(fork).grade is Grade.PASSED


def test_tables_that_have_read_each_other_stand_for_nothing(fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a graph was turned round their marks form a circle."""
    run(fork, "m", "a", also=("b",))
    run(fork, "a", "m")
    assert main(["status", "--root", str(fork)]) == 0
    assert "a" in capsys.readouterr().out
    ways = Ways({"a": ["m"], "b": ["src"], "m": ["a", "b"], "n": ["m"]})
    assert ways.sources("n") == {"src"}
    assert Standings(ways, lambda _: None).of("n", 0).unknown == "the log of n is out of reach"
    assert "have read each other" in str(Standings(ways, lambda _: None).of("m", 0).unknown)


def test_only_a_table_whose_inputs_share_a_source_has_the_check(fork: Path) -> None:
    defs = incremental(definitions(fork))
    made = [key for check in defs.asset_checks or [] for key in check.check_keys]  # type: ignore[union-attr]
    assert [key.asset_key.to_user_string() for key in made if key.name == "inputs_agree"] == ["m"]


def found(root: Path) -> Finding:
    """The finding of the check on the table at the meeting point."""
    defs = definitions(root)
    code_location = code_location_of(defs)
    managers = dict.fromkeys(code_location.tables, managers_of(defs.resources)["io_manager"])
    with dg.DagsterInstance.ephemeral() as instance:
        return Checked.of(code_location.by_name["m"], code_location, managers, instance).inputs_agree()


def place(root: Path) -> list[str]:
    """The words of a command line about the definitions."""
    file = root / "definitions.py"
    module = "tests.dagster.follow.test_cutting"
    file.write_text(
        f"from pathlib import Path\nfrom {module} import definitions\ndefs = definitions(Path({str(root)!r}))\n"
    )
    return ["-f", str(file)]


def status(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the terminal shows, in one line."""
    assert main(["status", *place(root)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_command_prints_versions_sql_and_json(fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = place(fork)
    assert main(["cut", *words]) == 0
    text = capsys.readouterr().out
    assert "a: version 0, readable until" in text
    assert "A newer cut waits for b, which stands for version 0 of src: a stands for 1." in text
    assert main(["cut", *words, "--sql", "b"]) == 0
    assert capsys.readouterr().out == f"SELECT * FROM delta.`{fork}/b` VERSION AS OF 0;\n"
    assert main(["cut", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stands_for"] == {"src": 0}
    with pytest.raises(SystemExit):
        main(["cut", *words, "c"])
