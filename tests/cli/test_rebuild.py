"""`lakehouse run --rebuild`: a table gets other columns than before; put back if the run fails; refused elsewhere."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, DeltaIOManager, LocalSpark, Merge, Policy, Table
from lakehouse.cli.main import main
from lakehouse.cli.runs.launch import rebuilding
from lakehouse.spark.table_version import TableRef
from tests.support.marked_tables import append

MODULE = "shop_to_rebuild"
DAYS = dg.StaticPartitionsDefinition(["2013-01-02"])


@pytest.fixture
def define(local_spark: LocalSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Defines tables; `copies` is what a function makes of the rows of `orders`."""
    append(tmp_path / "lake", "orders", 1, 2)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)

    def define(rows_of: Callable[[DataFrame], DataFrame]) -> None:
        @dg.asset(metadata=Table(key="id"))
        def copies(orders: Changes) -> Merge:
            touched = orders.touched("id")
            return Merge(rows_of(touched.rows), touched)

        @dg.asset
        def log(orders: Changes) -> Append:
            return Append(orders.appended())

        @dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
        def daily(orders: Changes) -> Merge: ...

        @dg.asset(metadata=Table(key="id", policy=Policy(max_changed=0.5)))
        def guarded(orders: Changes) -> Merge: ...

        made: Any = ModuleType(MODULE)
        manager = DeltaIOManager(spark=local_spark, root=str(tmp_path / "lake"))
        assets = [dg.AssetSpec("orders"), copies, log, daily, guarded]
        made.defs = dg.Definitions(assets, resources={"io_manager": manager})
        monkeypatch.setitem(sys.modules, MODULE, made)

    return define


def columns(path: Path) -> dict[str, str]:
    return {field.name: str(field.type) for field in DeltaTable(str(path)).schema().fields}


def test_a_table_is_made_anew_under_its_new_columns_and_put_back_if_the_run_fails(
    define: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = tmp_path / "lake" / "copies"
    define(lambda rows: rows.selectExpr("id", "'x' AS note", "1 AS number"))
    assert main(["run", "copies", "-m", MODULE]) == 0
    first = columns(copies)
    define(lambda rows: rows.selectExpr("id", "'one' AS number"))
    assert main(["run", "copies", "-m", MODULE]) == 1, "no run drops a column or gives it any other type"
    assert "(lakehouse run copies --rebuild)" in " ".join("".join(capsys.readouterr()).split())
    define(lambda rows: rows.selectExpr("id", "raise_error('of the user') AS number"))
    assert main(["run", "copies", "--rebuild", "-m", MODULE]) == 1
    assert columns(copies) == first and DeltaTable(str(copies)).version() == 0
    define(lambda rows: rows.selectExpr("id", "'one' AS number"))
    assert main(["run", "copies", "--rebuild", "-m", MODULE]) == 0
    assert list(columns(copies)) == ["id", "number"] and columns(copies)["number"] != first["number"]
    assert sorted(path.name for path in (tmp_path / "lake").iterdir() if path.is_dir() and path.name[0] != "_") == [
        "copies",
        "orders",
    ], "nothing is left aside"


def test_a_table_that_no_run_could_make_again_or_that_others_rely_on_is_not_rebuilt(
    define: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    define(lambda rows: rows)
    append(tmp_path / "lake", "copies", 1)
    table = DeltaTable(str(tmp_path / "lake" / "copies"))
    table.alter.set_table_properties({"lakehouse.readers.report": "14 days"}, raise_if_not_exists=False)
    for words, why in {
        ("copies",): "copies has registered readers (report).",
        ("log",): "log holds rows that its sources cannot give again.",
        ("daily", "--partition", "2013-01-02"): "daily has partitions, and one run makes only its own.",
        ("guarded",): "guarded has a policy with max_changed, as in production.",
    }.items():
        with pytest.raises(SystemExit):
            main(["run", *words, "--rebuild", "-m", MODULE])
        assert why in capsys.readouterr().err
        assert (tmp_path / "lake" / "copies" / "_delta_log").is_dir()


def test_a_table_below_a_root_with_a_scheme_is_put_aside_too(tmp_path: Path) -> None:
    path = tmp_path / "copies"
    (path / "_delta_log").mkdir(parents=True)
    table: Any = SimpleNamespace(ref=TableRef.at_path("copies", f"file://{path}"))
    with rebuilding([table]):
        assert not path.exists()
    assert path.is_dir()
