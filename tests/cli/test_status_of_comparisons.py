"""When `lakehouse status` reports tables as compared with a recompute: by a real Dagster instance, without Spark."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from lakehouse import Append, Changes, DeltaIOManager, Merge, Table, incremental
from lakehouse.cli.main import main
from lakehouse.dagster.definitions.past_checks import CHECK
from tests.support.marked_tables import append, run


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...


@dg.asset
def kept(orders: Changes) -> Append: ...


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with definitions whose tables exist."""
    root = tmp_path / "lake"
    append(root, "orders", 1, 2)
    run(root, "copies", "orders")
    run(root, "kept", "orders")
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(root))
    made: Any = ModuleType("shop_of_this_test")
    made.defs = incremental(
        dg.Definitions(assets=[dg.AssetSpec("orders"), copies, kept], resources={"io_manager": manager})
    )
    monkeypatch.setitem(sys.modules, "shop_of_this_test", made)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return "shop_of_this_test"


def document(capsys: pytest.CaptureFixture[str], module: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", "--json", "-m", module]) == code
    return json.loads(capsys.readouterr().out)


def compared(answer: dict[str, Any]) -> dict[str, Any]:
    return {table["name"]: table["compared"] for table in answer["tables"]}


def test_without_an_instance_nothing_is_said_of_comparisons_but_why_none_can_be(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = document(capsys, module)
    assert answer["comparisons_unknown"] == "the variable DAGSTER_HOME is not set"
    assert compared(answer)["copies"] is None and compared(answer)["orders"] is None
    assert compared(answer)["kept"]["impossible"].startswith("it appends")
    assert main(["status", "-m", module]) == 0
    text = capsys.readouterr().out
    assert (
        "When tables were compared with a recompute is not known here: the variable DAGSTER_HOME is not set.\n" in text
    )
    assert "never" not in text


def test_a_table_that_was_never_compared_says_never_and_one_that_differed_ends_with_one(
    module: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))

    def report(*, passed: bool, **figures: Any) -> None:
        with dg.DagsterInstance.get() as instance:
            evaluation = dg.AssetCheckEvaluation(copies.key, CHECK, passed=passed, metadata=figures)
            instance.report_runless_asset_event(evaluation)

    never = {"at": None, "equal": None, "of": "", "impossible": None}
    assert compared(document(capsys, module))["copies"] == never
    report(passed=False)  # the comparison could not be made
    assert compared(document(capsys, module))["copies"] == never
    assert main(["status", "-m", module]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "copies " in line and "next" not in line]
    assert "never" in line
    report(passed=True, differing=0, **{"part of the keys": "3 of 8"})
    told = compared(document(capsys, module))["copies"]
    assert (told["equal"], told["of"]) == (True, "part of the keys 3 of 8") and told["at"] > 0
    report(passed=False, differing=2)
    assert compared(document(capsys, module, code=1))["copies"]["equal"] is False
    assert main(["status", "-m", module]) == 1
    text = capsys.readouterr().out
    assert "DIFFERENT" in text and "Different from a recompute: copies." in text
    assert f"next: lakehouse run copies --full-refresh -m {module}" in text


def test_a_table_that_no_run_has_made_yet_is_listed_with_the_command_that_makes_it(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("orders", "kept"):
        shutil.rmtree(tmp_path / "lake" / name)
    states = {table["name"]: table["state"] for table in document(capsys, module, code=1)["tables"]}
    assert states == {"copies": "unreadable", "kept": "no table yet"}, "nothing here makes orders"
    shutil.rmtree(tmp_path / "lake" / "copies")
    assert main(["status", "-m", module]) == 0
    text = capsys.readouterr().out
    assert "2 tables: 2 no table yet." in text
    assert f"next: lakehouse run --behind -m {module}   runs copies, kept" in text
