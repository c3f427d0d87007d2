"""What commands report of tables with a catalog name, without Spark: where runs found the names, by Dagster's log."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from lakehouse import Changes, DeltaIOManager, Merge, Table
from lakehouse.cli.main import main
from lakehouse.dagster.table_facts import LOCATIONS
from tests.support.marked_tables import append, run

MODULE = "shop_by_name"
orders = dg.AssetSpec("orders", metadata=Table(key="id", name="shop.orders"))


@dg.asset(metadata=Table(key="id", name="shop.copies"))
def copies(orders: Changes) -> Merge: ...


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which a catalog keeps the tables of a module."""
    warehouse = tmp_path / "warehouse"
    append(warehouse, "orders", 1, 2)
    run(warehouse, "copies", "orders")
    append(warehouse, "orders", 3)
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(tmp_path / "lake"))
    made: Any = ModuleType(MODULE)
    made.defs = dg.Definitions(assets=[orders, copies], resources={"io_manager": manager})
    monkeypatch.setitem(sys.modules, MODULE, made)
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return warehouse


def note(**addresses: str | None) -> None:
    """Reports to Dagster the addresses that a run of the asset notes."""
    with dg.DagsterInstance.get() as instance:
        noted = {LOCATIONS: dg.MetadataValue.json(addresses)}
        instance.report_runless_asset_event(dg.AssetMaterialization("copies", metadata=noted))


def document(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json", "-m", MODULE]) == code
    return json.loads(capsys.readouterr().out)


def test_a_table_that_no_run_has_found_is_named_with_the_reason(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = document(capsys, "status")
    assert (answer["tables"], set(answer["left_out"])) == ([], {"orders", "copies"})
    assert main(["status", "-m", MODULE]) == 0
    text = capsys.readouterr().out
    assert "Left out: copies (where `shop`.`copies` is, is not known before a run has resolved the name)." in text


def test_a_table_is_looked_at_where_its_last_run_found_it(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note(orders=f"file:{warehouse}/orders", copies=f"file:{warehouse}/copies")
    answer = document(capsys, "status")
    assert {table["name"]: table["state"] for table in answer["tables"]} == {"orders": "source", "copies": "behind"}
    assert answer["left_out"] == {}
    (reader,) = document(capsys, "readers", "orders")["readers"]
    assert (reader["reader"], reader["read"], reader["unread"]) == ("copies", 0, 1)


def test_a_name_that_the_last_run_did_not_find_is_left_out(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note(orders=None, copies=f"file:{warehouse}/copies")
    answer = document(capsys, "status")
    assert [table["name"] for table in answer["tables"]] == ["copies"]
    assert set(answer["left_out"]) == {"orders"}


def test_upkeep_of_a_table_with_a_catalog_name_is_left_to_spark(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By now the name may mean another directory, and upkeep removes files."""
    note(orders=f"file:{warehouse}/orders", copies=f"file:{warehouse}/copies")
    assert document(capsys, "upkeep", "--dry-run")["tables"] == []
    assert document(capsys, "upkeep", "copies", "--dry-run", code=1)["code"] == "NOT_OURS"
