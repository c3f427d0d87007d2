"""Which assets a command line names: keys, Dagster's selections, all, and the chain of tables that are behind."""

import json
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse.cli.command import definitions
from lakehouse.cli.graph import select_assets
from lakehouse.cli.main import main
from lakehouse.dagster.io_manager import code_location_of
from tests.support.marked_tables import append, run

CHAIN = """
import dagster as dg
from lakehouse import Changes, DeltaIOManager, Merge, Table, incremental

DAYS = dg.StaticPartitionsDefinition(["2013-01-02"])

def follows(key, source, group, **more):
    @dg.asset(key=key, metadata=Table(key="id", **more.pop("table", {{}})), group_name=group,
              ins={{"rows": dg.AssetIn(source)}}, **more)
    def asset(rows: Changes) -> Merge:
        return Merge(rows.touched("id").rows, rows.touched("id"))
    return asset

defs = incremental(dg.Definitions(
    [
        dg.AssetSpec("orders", group_name="raw"),
        follows(["gold", "worst"], ["gold", "totals"], "gold"),
        follows(["gold", "totals"], ["silver", "copies"], "gold"),
        follows(["gold", "daily"], ["silver", "copies"], "gold", partitions_def=DAYS, table={{"partition_by": "day"}}),
        follows(["silver", "copies"], ["orders"], "silver"),
        follows(["silver", "others"], ["orders"], "silver"),
    ],
    resources={{"io_manager": DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root={root!r})}},
))
"""
READS = {
    "silver/copies": "orders",
    "silver/others": "orders",
    "gold/totals": "silver/copies",
    "gold/worst": "gold/totals",
}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chain of tables, each of which has read everything."""
    root = tmp_path / "lake"
    append(root, "orders", 1, 2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (tmp_path / "definitions.py").write_text(CHAIN.format(root=str(root)))
    for table, source in READS.items():
        run(root, table, source)
    return root


def definitions_here() -> dg.Definitions:
    return definitions(Namespace(file="definitions.py", module=None))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_selection_names_what_dagster_names_in_the_order_of_the_graph(lake: Path) -> None:
    defs = definitions_here()
    copies, others, totals, worst, daily = "silver/copies", "silver/others", "gold/totals", "gold/worst", "gold/daily"
    for words, names, left_out in (
        (["gold/totals+"], [totals, worst], []),
        (["+gold/totals"], [copies, totals], []),
        ([worst, "group:silver"], [copies, others, worst], []),
        (['key:"gold/*"'], [totals, worst], [daily]),
        (["group:gold and not key:gold/worst"], [totals], [daily]),
        (["group:gold", daily], [daily, totals, worst], []),
        (["*"], [copies, others, totals, worst], [daily]),
    ):
        found = select_assets(words, defs, code_location_of(defs), by_partition=False)
        assert (sorted(found[0]), found[1]) == (sorted(names), left_out), words
        places = [found[0].index(name) for name in (copies, totals, worst) if name in found[0]]
        assert places == sorted(places), words
    assert select_assets(["*"], defs, code_location_of(defs), by_partition=True) == (
        [daily],
        [copies, others, totals, worst],
    )


def test_a_run_of_a_selection_says_what_it_leaves_out(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "group:gold", "--json"]) == 1, "there is no Spark here"
    said = capsys.readouterr()
    assert [asset["asset"] for asset in json.loads(said.out)["assets"]] == ["gold/totals", "gold/worst"]
    assert "Left out, because they have partitions: gold/daily." in said.err


def test_a_run_of_what_is_behind_names_the_gaps_that_it_leaves(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(lake / "orders")
    append(lake, "orders", 1)
    assert main(["run", "--behind"]) == 0
    said = capsys.readouterr()
    assert said.out == "Nothing is behind.\n"
    assert said.err.endswith("can no longer be read (`lakehouse status`): silver/copies, silver/others.\n")


def test_what_a_selection_does_not_name_is_refused(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in {
        ("gold/total+",): "There is no asset gold/total. Did you mean gold/totals",
        ("gold/totals,gold/worst",): "A selection is written gold/x+, +gold/x, group:gold.",
        ("group:nothing",): "group:nothing selects no asset without partitions that a function makes.",
        ("orders",): "No function of these definitions makes orders, so there is no run of it.",
        ("gold/daily",): "gold/daily has partitions. Say which: --partition KEY.",
        ("gold/totals", "--all"): "Name assets, or give --all or --behind.",
        (): "Name assets, or give --all or --behind.",
    }.items():
        assert said in refusal(capsys, *words), words


def test_behind_is_the_whole_chain_below_a_table_that_has_something_to_read(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, "status")["behind"] == []
    nothing = answer(capsys, "run", "--behind")
    assert (nothing["run"], nothing["succeeded"], nothing["assets"]) == (None, True, [])
    append(lake, "orders", 3)
    run(lake, "silver/others", "orders", rows=False)
    status = answer(capsys, "status")
    assert status["behind"] == ["silver/copies", "gold/totals", "gold/worst"]
    assert {table["name"]: (table["group"], table["state"]) for table in status["tables"]} == {
        "orders": ("raw", "source"),
        "silver/copies": ("silver", "behind"),
        "silver/others": ("silver", "up to date"),
        "gold/daily": ("gold", "no table yet"),
        "gold/totals": ("gold", "up to date"),
        "gold/worst": ("gold", "up to date"),
    }
    assert main(["status"]) == 0
    text = capsys.readouterr().out
    assert "up to date: waits for silver/copies" in text and "up to date: waits for gold/totals" in text
    assert "next: lakehouse run --behind   runs silver/copies, gold/totals, gold/worst" in text
