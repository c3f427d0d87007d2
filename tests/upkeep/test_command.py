"""`lakehouse upkeep --dry-run`: what is due, by logs alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.main import main
from tests.support.marked_tables import append, run

SHOP = """
import dagster as dg
from lakehouse import Append, Changes, DeltaIOManager, Table
from lakehouse.dagster.resources import LocalSpark

@dg.asset(metadata=Table())
def copies(orders: Changes) -> Append:
    return Append(orders.appended())

@dg.asset(metadata=Table())
def before_copies(orders: Changes) -> Append:
    return Append(orders.appended())

defs = dg.Definitions(
    assets=[dg.AssetSpec("orders", metadata=Table(readers={{"bi": "90 days"}})), before_copies, copies],
    resources={{"io_manager": DeltaIOManager(spark=LocalSpark(root={root!r}), root={root!r})}},
)
"""


@pytest.fixture
def shop(tmp_path: Path) -> str:
    root = tmp_path / "lake"
    append(root, "orders", 1)
    for _ in range(20):
        run(root, "copies", "orders")
    file = tmp_path / "shop_of_tests.py"
    file.write_text(SHOP.format(root=str(root)))
    return str(file)


def answer(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_what_is_due_is_said_without_spark(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    (copies,) = answer(capsys, 0, "upkeep", "--dry-run", "-f", shop)["tables"]
    assert (copies["table"], copies["files"], copies["files_after"]) == ("copies", 20, None)
    assert [due["work"] for due in copies["due"]] == ["compact"]
    assert main(["upkeep", "copies", "--dry-run", "-f", shop]) == 0
    text = capsys.readouterr().out
    assert text == "copies: due: OPTIMIZE: 20 of 20 files are small.\n1 table, of which 1 needed upkeep.\n"


def test_a_table_whose_log_is_odd_keeps_no_other_from_its_upkeep(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(shop).parent / "lake"
    for _ in range(5):
        run(root, "before_copies", "orders")
    (root / "before_copies" / "_delta_log" / f"{3:020}.json").write_text("{")
    value = answer(capsys, 1, "upkeep", "--dry-run", "-f", shop)
    assert [table["table"] for table in value["tables"]] == ["copies"] and [*value["errors"]] == ["before_copies"]
    assert main(["upkeep", "--dry-run", "-f", shop]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("before_copies: its upkeep ended with an error. ")


def test_readers_of_a_table_keep_to_limits_that_it_keeps_and_tables_of_others_are_left_alone(
    shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, 1, "upkeep", "orders", "-f", shop)["code"] == "NOT_OURS"
    assert answer(capsys, 1, "readers", "orders", "-f", shop, "--register", "x", "--limit", "3d")["code"] == "NOT_OURS"
    assert answer(capsys, 1, "readers", "orders", "-f", shop)["limits_beyond_retention"] == ["bi"]
    assert main(["readers", "orders", "-f", shop]) == 1
    assert "bi may be behind for 90 d, but orders keeps its changes for 7 d only." in capsys.readouterr().out
    for words in ("--register bi", "--register bi --limit soon", "--limit 3d", "--release x --limit 3d"):
        with pytest.raises(SystemExit):
            main(["readers", "copies", "-f", shop, *words.split()])
        assert "--limit" in capsys.readouterr().err, words
