"""What `lakehouse doctor` finds, on real directories and logs; Spark is not started."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli import doctor
from lakehouse.cli.doctor import Health, of_machine, of_root
from lakehouse.cli.main import main
from lakehouse.server.rendezvous import Rendezvous


def answer(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["doctor", *words, "--json"]) == code
    return {each["about"]: each for each in json.loads(capsys.readouterr().out)["symptoms"]}


def test_a_sound_lake_has_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    symptoms = answer(capsys, 0, "--root", str(tmp_path))
    assert {"Java", "Dagster", "Spark", "Delta's jars", "Root", "Spark server"} <= symptoms.keys()
    assert main(["doctor", "--root", str(tmp_path)]) == 0
    assert "✖" not in capsys.readouterr().out


def test_missing_jars_and_a_spark_that_was_not_tested_are_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "DIRECTORY", tmp_path)
    jars = next(each for each in of_machine() if each.about == "Delta's jars")
    assert jars.health is Health.WRONG and jars.command == "lakehouse spark install"
    assert jars.what.startswith("7 of 7 jars are missing, or not the pinned ones: delta-spark_")
    monkeypatch.setattr(doctor, "version", lambda package: "3.5.1")
    spark = next(each for each in of_machine() if each.about == "Spark")
    assert spark.what == "pyspark 3.5.1 is not tested: 4.0.1 to 4.2.0 is"
    assert spark.command == "pip install 'pyspark>=4.0.1,<4.3'"
    monkeypatch.setattr(doctor, "version", lambda package: "4.2.9")
    repair = next(each for each in of_machine() if each.about == "Spark")
    assert (repair.health, repair.what) == (
        Health.GOOD,
        "pyspark 4.2.9, a repair of 4.2.0, the newest that was tested",
    )


def test_a_process_that_has_the_root_to_itself_is_named(tmp_path: Path) -> None:
    lock = Rendezvous(tmp_path).jvm()
    assert lock.take()
    lock.sign("process 4711")
    server = next(each for each in of_root(tmp_path) if each.about == "Spark server")
    lock.let_go()
    assert server.health is Health.LOOK and server.what.startswith("process 4711 has ")
    server = next(each for each in of_root(tmp_path) if each.about == "Spark server")
    assert server.health is Health.GOOD


def test_a_root_that_is_not_there_yet_is_only_worth_a_look(tmp_path: Path) -> None:
    (root,) = of_root(tmp_path / "lake")
    assert root.health is Health.LOOK and not (tmp_path / "lake").exists()
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_command_names_the_definitions_as_the_command_line_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "our definitions.py"
    file.write_text("raise KeyError('no such thing')")
    symptoms = answer(capsys, 1, "-f", str(file))
    assert symptoms["Definitions"]["command"] == f"lakehouse check -f '{file}'"


def test_definitions_that_do_not_load_are_one_finding_among_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    symptoms = answer(capsys, 0)
    assert symptoms["Definitions"]["health"] == "look"
    (tmp_path / "definitions.py").write_text("raise KeyError('no such thing')")
    symptoms = answer(capsys, 1)
    assert symptoms["Definitions"]["what"] == "they do not load: KeyError: 'no such thing'"
    assert symptoms["Definitions"]["command"] == "lakehouse check"
    (tmp_path / "definitions.py").write_text(
        "import dagster as dg\nfrom lakehouse import DeltaIOManager, LocalSpark\n"
        "spark = LocalSpark(root='lake')\n"
        "defs = dg.Definitions(resources={'io_manager': DeltaIOManager(spark=spark, root='lake')})"
    )
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    symptoms = answer(capsys, 1)
    assert symptoms["Spark"]["command"] == "unset SPARK_REMOTE"
    assert symptoms["io_manager"]["what"] == f"tables at {Path.cwd()}/lake"
    assert symptoms["Instance"]["what"].startswith("DAGSTER_HOME is not set")
