"""What the command reports of tables, by real logs; Spark is not loaded."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse.cli.main import main
from lakehouse.cursor.unread import TableState
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.status.table_status import table_statuses
from resources.environments import PROJECT
from tests.support.daily import run_day
from tests.support.marked_tables import append, run


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A source at version 1; `gold/copies` has read it up to version 0, and `totals` has read all of `gold/copies`."""
    append(tmp_path, "orders", 1, 2)
    run(tmp_path, "gold/copies", "orders")
    run(tmp_path, "totals", "gold/copies")
    append(tmp_path, "orders", 3)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def states(capsys: pytest.CaptureFixture[str], root: Path, code: int = 0) -> dict[str, str]:
    return {t["name"]: t["state"] for t in answer(capsys, code, "status", "--root", str(root))["tables"]}


def test_the_status_says_of_each_table_whether_it_has_read_its_sources(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert states(capsys, lake) == {"orders": "source", "gold/copies": "behind", "totals": "up to date"}
    assert main(["status", "--root", str(lake)]) == 0
    text = capsys.readouterr().out
    assert "behind: orders 0 of 1, " in text
    assert text.endswith("\n3 tables: 1 source, 1 up to date, 1 behind.\n")
    run(lake, "gold/copies", "orders", rows=False)
    assert states(capsys, lake) == {"orders": "source", "gold/copies": "up to date", "totals": "up to date"}


def test_a_source_that_was_replaced_is_a_gap_and_the_exit_code_says_so(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(lake / "orders")
    append(lake, "orders", 1)
    assert states(capsys, lake, code=1)["gold/copies"] == "gap"
    reading = answer(capsys, 0, "readers", "orders", "--root", str(lake))["readers"][0]
    assert reading["reader"] == "gold/copies"
    assert reading["gap"].startswith("another table (id ") and reading["gap"].endswith(") has taken its place")


def test_the_readers_of_a_table_are_those_whose_marks_name_it(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (reading,) = answer(capsys, 0, "readers", "orders", "--root", str(lake))["readers"]
    assert (reading["reader"], reading["read"], reading["newest"], reading["unread"]) == ("gold/copies", 0, 1, 1)
    assert answer(capsys, 0, "readers", "totals", "--root", str(lake))["readers"] == []


def test_the_changes_of_a_table_are_its_commits_after_one_version_up_to_another(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (change,) = answer(capsys, 0, "changes", "orders", "--root", str(lake), "--after", "0")["changes"]
    assert (change["version"], change["operation"], change["run"]) == (1, "WRITE", None)
    (made,) = answer(capsys, 0, "changes", "totals", "--root", str(lake))["changes"]
    assert made["run"] == "run"
    assert main(["changes", "orders", "--root", str(lake), "--upto", "9"]) == 1
    assert "'orders' has no versions (-1, 9]: it is at version 1." in capsys.readouterr().err


def test_a_table_with_one_version_is_said_to_have_no_other_to_compare_it_with(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["diff", "totals", "--root", str(lake)])
    assert "totals has only one version, 0, so there is no other version to compare it with." in capsys.readouterr().err


def test_changes_that_the_log_no_longer_has_are_not_left_out_without_a_word(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DeltaTable(str(lake / "orders")).create_checkpoint()
    for suffix in (".json", ".checkpoint.parquet"):
        (lake / "orders" / "_delta_log" / f"{0:020}{suffix}").unlink(missing_ok=True)
    assert main(["changes", "orders", "--root", str(lake), "--after", "-1"]) == 1
    assert "The log of 'orders' no longer has the commits 0 to 0" in capsys.readouterr().err
    for given in (["--after", "0"], []):
        (change,) = answer(capsys, 0, "changes", "orders", "--root", str(lake), *given)["changes"]
        assert change["version"] == 1


def test_a_source_that_is_gone_is_a_problem_of_its_readers(lake: Path) -> None:
    shutil.rmtree(lake / "orders")
    logs = {name: FileLog(Location(str(lake / name)), name) for name in ("orders", "gold/copies", "totals")}
    states = {status.name: status.state for status in table_statuses(logs)}
    assert "orders" not in states and TableState.UNREADABLE in states.values()
    elsewhere = table_statuses({name: log for name, log in logs.items() if name != "orders"})
    assert {status.name: status.state for status in elsewhere} == {
        "gold/copies": TableState.UNKNOWN,
        "totals": TableState.UP_TO_DATE,
    }, "the log of a source is not looked at"


def test_a_log_that_cannot_be_read_is_named_and_hides_no_other_table(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(lake, "damaged", 1)
    run(lake, "of_damaged", "damaged")
    (lake / "damaged" / "_delta_log" / f"{0:020}.json").write_text("{ no json")
    known = {"orders": "source", "gold/copies": "behind", "totals": "up to date"}
    assert states(capsys, lake, code=1) == known | {"damaged": "unreadable", "of_damaged": "unreadable"}
    assert main(["status", "--root", str(lake)]) == 1
    text = capsys.readouterr().out
    assert "The log of 'damaged' cannot be trusted: Kernel error: Json error: Encountered unexpected" in text
    assert ".c:" not in text, "the stack of deltalake"
    assert text.endswith("5 tables: 1 source, 1 up to date, 1 behind, 2 unreadable.\n")
    answered = answer(capsys, 1, "readers", "orders", "--root", str(lake))
    assert [reading["reader"] for reading in answered["readers"]] == ["gold/copies"]
    assert answered["unreadable"].keys() == {"damaged"}
    assert "cannot be trusted" in answer(capsys, 1, "readers", "damaged", "--root", str(lake))["message"]


def test_of_a_partitioned_table_the_positions_are_those_of_the_partition_written_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path, "orders", 1)
    run_day(tmp_path, "2013-01-02")
    append(tmp_path, "orders", 2)
    run_day(tmp_path, "2013-01-03")
    assert states(capsys, tmp_path) == {"orders": "source", "daily": "by partition"}
    assert main(["status", "--root", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "by partition: 2013-01-03 was written last" in said
    (reading,) = answer(capsys, 0, "readers", "orders", "--root", str(tmp_path))["readers"]
    assert (reading["reader"], reading["kind"], reading["state"]) == ("daily", "partitions", "by partition")


SHOP = """
import dagster as dg
from lakehouse import Append, Changes, DeltaIOManager, Merge, Policy, Table

DAYS = dg.StaticPartitionsDefinition(["2013-01-02", "2013-01-03"])

def clean(rows): return rows.where("{condition}")

@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge:
    return Merge(clean(orders.touched("id").rows), orders.touched("id"))

@dg.asset(metadata=Table(key="id", policy=Policy(on_new_code="warn")))
def warned(orders: Changes) -> Merge:
    return Merge(clean(orders.touched("id").rows), orders.touched("id"))

@dg.asset
def log(orders: Changes) -> Append: return Append(clean(orders.appended()))

@dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
def daily(orders: Changes) -> Merge:
    return Merge(clean(orders.touched("id").rows), orders.touched("id"))

orders = dg.AssetSpec("orders", metadata=Table(key="id"))
io_manager = DeltaIOManager(spark=object(), root={root!r})
defs = dg.Definitions([orders, copies, warned, log, daily], resources={{"io_manager": io_manager}})
"""


def test_the_tables_that_are_compared_because_their_code_changed_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehouse.dagster.code.digest import code_of

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # The module is written twice in one second, so Python would use its old bytecode.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "shop_of_status.py"

    def write(condition: str) -> Any:
        file.write_text(SHOP.format(condition=condition, root=str(tmp_path)))
        sys.modules.pop("shop_of_status", None)
        return resolve_name("shop_of_status")

    shop = write("id > 0")
    append(tmp_path, "orders", 1, 2)
    for name in ("copies", "warned", "log"):
        run(tmp_path, name, "orders", code=code_of(getattr(shop, name).op.compute_fn.decorated_fn))
    for day in ("2013-01-02", "2013-01-03"):
        run_day(tmp_path, day, code=code_of(shop.daily.op.compute_fn.decorated_fn))
    named = {
        table["name"]: table["new_code"] for table in answer(capsys, 0, "status", "-m", "shop_of_status")["tables"]
    }
    assert named == dict.fromkeys(["orders", "copies", "warned", "log", "daily"]), "nothing waits"

    shop = write("id > 1")
    run_day(tmp_path, "2013-01-03", code=code_of(shop.daily.op.compute_fn.decorated_fn))
    named = {
        table["name"]: table["new_code"] for table in answer(capsys, 0, "status", "-m", "shop_of_status")["tables"]
    }
    assert named == {
        "orders": None,
        "copies": {"why": "the code that copies names changed: clean", "rows": 1, "partitions": []},
        "warned": None,
        "log": None,
        "daily": {"why": "the code that daily names changed: clean", "rows": None, "partitions": ["2013-01-02"]},
    }
    assert main(["status", "-m", "shop_of_status"]) == 0
    text = capsys.readouterr().out
    assert "copies: the code that copies names changed: clean; its next run compares everything once (1 row)." in text
    assert "each of 1 partition is compared once, in its own next run: 2013-01-02." in text
    assert main(["status", "--root", str(tmp_path)]) == 0
    assert "the code" not in capsys.readouterr().out, "without definitions nobody knows the code"


def test_a_root_that_is_not_there_is_a_wrong_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "shell"):
        with pytest.raises(SystemExit) as ended:
            main([command, "--root", str(tmp_path / "nowhere")])
        assert ended.value.code == 2
        assert f"There is no directory {tmp_path}/nowhere." in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_a_table_that_is_not_there_is_a_wrong_command_line(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["readers", "order", "--root", str(lake)])
    assert ended.value.code == 2
    assert "There is no table order. Did you mean orders?" in capsys.readouterr().err


def test_a_command_about_logs_loads_neither_spark_nor_dagster(lake: Path) -> None:
    code = f"import sys; from lakehouse.cli.main import main; main(['status', '--root', {str(lake)!r}]); print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert {"pyspark", "dagster", "grpc"} & set(told.stdout.splitlines()[-1].split()) == set()
