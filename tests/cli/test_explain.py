"""`lakehouse explain`: one document, whose verdict is the exit code; and what is asked that is not there."""

import json
from pathlib import Path

import pytest

from lakehouse.cli.main import main

SHOP = """
import dagster as dg
from lakehouse import Changes, DeltaIOManager, Merge, Table, incremental

@dg.asset(key=["silver", "copies"], metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...

manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root="lake")
defs = incremental(dg.Definitions([dg.AssetSpec("orders"), copies], resources={"io_manager": manager}))
"""


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
