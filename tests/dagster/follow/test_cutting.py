"""`cut` and `lakehouse cut`: the newest versions of tables that belong to one state of their sources, without Spark."""

import json
from pathlib import Path

import dagster as dg
import pytest

from lakehouse import DeltaIOManager, LocalSpark, cut
from lakehouse.cli.main import main
from tests.support.agreeing_project import FORK
from tests.support.marked_tables import append, run
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
    manager = DeltaIOManager(spark=LocalSpark(root=str(root)), root=str(root))
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


def test_the_command_prints_versions_sql_and_json(
    fork: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (fork / "definitions.py").write_text(
        f"from pathlib import Path\nfrom tests.dagster.follow.test_cutting import definitions\n"
        f"defs = definitions(Path({str(fork)!r}))\n"
    )
    place = ["-f", str(fork / "definitions.py")]

    assert main(["cut", *place]) == 0
    text = capsys.readouterr().out
    assert "a: version 0, readable until" in text
    assert "A newer cut waits for b, which stands for version 0 of src: a stands for 1." in text
    assert main(["cut", *place, "--sql", "b"]) == 0
    assert capsys.readouterr().out == f"SELECT * FROM delta.`{fork}/b` VERSION AS OF 0;\n"
    assert main(["cut", *place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stands_for"] == {"src": 0}
    with pytest.raises(SystemExit):
        main(["cut", *place, "c"])
