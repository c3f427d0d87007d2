"""`lakehouse explain`: one document, whose verdict is the exit code; all assets in one; and unknown assets."""

import json
from pathlib import Path

import pytest

from lakehouse.cli.main import main
from tests.support.marked_tables import append, run

SHOP = """
import dagster as dg
from lakehouse import Changes, DeltaIOManager, Merge, Table, incremental

@dg.asset(key=["silver", "copies"], metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...

manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root="lake")
defs = incremental(dg.Definitions([dg.AssetSpec("orders"), copies], resources={"io_manager": manager}))
"""

GRAPH = """
import dagster as dg
from lakehouse import Changes, DeltaIOManager, Merge, Table, View, incremental

BY_ID = Table(key="id")
days = dg.StaticPartitionsDefinition(["2013-01-01", "2013-01-02"])

@dg.asset(metadata=BY_ID)
def copies(orders: Changes) -> Merge: ...

@dg.asset(metadata=BY_ID, code_version="2")
def changed(orders: Changes) -> Merge: ...

@dg.asset(metadata=BY_ID)
def later(copies: Changes) -> View:
    return View("SELECT id FROM copies")

@dg.asset(metadata=BY_ID)
def added(orders: Changes) -> Merge: ...

@dg.asset(metadata=Table(key="id", partition_by="day"), partitions_def=days)
def of_day(orders: Changes) -> Merge: ...

@dg.asset(metadata=BY_ID)
def lost(elsewhere: Changes) -> Merge: ...

manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root="lake")
assets = [dg.AssetSpec("orders"), dg.AssetSpec("elsewhere"), copies, changed, later, added, of_day, lost]
defs = incremental(dg.Definitions(assets, resources={"io_manager": manager}))
"""


def test_all_assets_are_foreseen_in_one_table_and_what_runs_before_makes_the_next_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.py").write_text(GRAPH)
    root = tmp_path / "lake"
    append(root, "orders", 1, 2)
    for name, source in (("copies", "orders"), ("changed", "orders"), ("later", "copies")):
        run(root, name, source, key="id")
    assert main(["explain", "--all", "-f", "graph.py", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    tables = {table["asset"]: table for table in document["tables"]}
    assert {name: (table["verdict"], table["rows_read"], table["after"]) for name, table in tables.items()} == {
        "copies": ("records", 0, []),
        "changed": ("writes", 2, []),
        "later": ("records", 0, []),
        "added": ("writes", 2, []),
        "lost": ("refused", 0, []),
    }
    assert tables["added"]["bytes_read"] == tables["changed"]["bytes_read"] > 0
    assert document["left_out"] == {"of_day": "of_day has partitions. Say which: partition_key=KEY, --partition KEY."}

    append(root, "orders", 3)
    assert main(["explain", "--all", "-f", "graph.py"]) == 1
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in capsys.readouterr().out.splitlines() if line}
    assert lines["copies"].startswith("the changes")
    assert lines["later"] == "records its position then what copies changed"
    assert "orders: the asset's code version is now 2 and was None" in lines["changed"]
    assert "there is no Delta table at" in lines["lost"]
    for words in (["copies", "--all"], [], ["--all", "--call"]):
        with pytest.raises(SystemExit) as ended:
            main(["explain", *words, "-f", "graph.py"])
        assert ended.value.code == 2


def test_a_run_that_would_be_refused_ends_with_one_document_and_what_is_not_there_is_named_beside_what_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "definitions.py").write_text(SHOP)
    assert main(["explain", "silver/copies", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["version"]) == ("refused", None)
    assert "there is no Delta table at" in document["why"]
    with pytest.raises(SystemExit) as ended:
        main(["explain", "silver/zzzzzz"])
    answer = capsys.readouterr()
    assert (ended.value.code, answer.out) == (2, "")
    assert "There is no asset silver/zzzzzz. There are: " in answer.err and "silver/copies" in answer.err
    with pytest.raises(SystemExit) as ended:
        main(["explain", "copies", "--json"])
    message = "There is no asset copies. Did you mean silver/copies?"
    assert json.loads(capsys.readouterr().out) == {"error": "UsageError", "code": "USAGE", "message": message}
    assert ended.value.code == 2
