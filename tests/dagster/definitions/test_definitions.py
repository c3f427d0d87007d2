"""One call makes definitions complete; what Dagster allows besides tables is accepted, or refused in one sentence."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

from lakehouse import (
    Changes,
    DeltaIOManager,
    History,
    Merge,
    Overwrite,
    Snapshot,
    Table,
    change_sensor,
    checks,
    incremental,
    validate,
)
from lakehouse.dagster.failures import as_our_errors
from tests.support.for_each import for_each
from tests.support.raises import raises_code

PROJECT = Path(__file__).parents[3]
orders = dg.AssetSpec("orders", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="id"))
def open_orders(orders: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"))
def large_orders(open_orders: Changes) -> Merge: ...


@dg.asset(io_manager_key="memory", metadata={"key": "id"})
def elsewhere() -> int:
    return 1


def location(*assets: Any, **parts: Any) -> dg.Definitions:
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root="/lake")
    return dg.Definitions(assets=assets, resources={"io_manager": manager, "memory": dg.mem_io_manager}, **parts)


def keys_of(defs: dg.Definitions) -> Iterator[dg.AssetCheckKey]:
    return (key for check in defs.asset_checks or [] for key in check.check_keys)  # type: ignore[union-attr]


def checked(defs: dg.Definitions) -> set[tuple[str, str]]:
    return {(key.asset_key.to_user_string(), key.name) for key in keys_of(defs)}


def test_one_call_adds_pools_checks_and_the_sensor_and_keeps_all_else():
    @dg.job
    def nightly() -> None: ...

    given = location(orders, open_orders, large_orders, elsewhere, jobs=[nightly], executor=dg.in_process_executor)
    defs = incremental(given, sensor="carry_changes")
    assert [sensor.name for sensor in defs.sensors or []] == ["carry_changes"]
    assert [job.name for job in defs.jobs or []] == ["nightly"]
    assert defs.executor is dg.in_process_executor
    assert defs.resolve_assets_def(open_orders.key).op.pool == "table:open_orders"
    each = {"equals_full_recompute", "up_to_date", "schema", "keys"}
    assert checked(defs) == {(name, check) for name in ("open_orders", "large_orders") for check in each} | {
        ("orders", "keys")
    }
    dg.Definitions.validate_loadable(defs)


def test_without_a_name_there_is_no_sensor():
    assert not incremental(location(orders, open_orders)).sensors


def test_a_check_that_the_definitions_bring_replaces_the_added_one_of_its_name_and_no_other():
    @dg.asset_check(asset=large_orders)
    def schema() -> dg.AssetCheckResult: ...

    late, recompute = checks([open_orders], "up_to_date"), checks([open_orders], "recompute")
    alone = incremental(location(orders, open_orders, large_orders))
    defs = incremental(location(orders, open_orders, large_orders, asset_checks=[*late, *recompute, schema]))
    assert checked(defs) == checked(alone)
    assert {*late, *recompute, schema} <= set(defs.asset_checks or [])
    assert len(made := list(keys_of(defs))) == len(set(made))
    dg.Definitions.validate_loadable(defs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::dagster.BetaWarning")  # warnings of Dagster
def test_sources_of_dagster_s_older_kind_load_and_are_tables_by_their_keys():
    plain = dg.SourceAsset("orders", metadata=dict(Table(key="id")))

    @dg.observable_source_asset(name="orders")
    def observed() -> dg.DataVersion:
        return dg.DataVersion("1")

    for source in (observed, plain):
        defs = incremental(location(source, open_orders), sensor="carry_changes")
        dg.Definitions.validate_loadable(defs)
        assert checks([source, open_orders])
        change_sensor("look", [source, open_orders], root="/lake")


@pytest.mark.parametrize("root", ["lake", "./lake", "~/lake"])
def test_a_root_is_an_absolute_path_however_it_is_written(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=root)
    assert manager.location.address == f"{tmp_path}/lake"


def test_an_op_that_returns_nothing_runs_beside_assets_and_one_that_returns_rows_is_told_what_to_do():
    done: list[int] = []

    @dg.op
    def count():
        done.append(1)

    @dg.op
    def rows():
        return [1, 2, 3]

    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root="/nowhere/lake")

    @dg.job(resource_defs={"io_manager": manager})
    def upkeep() -> None:
        count()

    @dg.job(resource_defs={"io_manager": manager})
    def report() -> None:
        rows()

    assert upkeep.execute_in_process().success
    assert done == [1]
    with pytest.raises(dg.Failure, match=r"'result' of op 'rows' is not the value of an asset.*io_manager_key"):
        report.execute_in_process()


def test_a_frame_of_another_library_is_named_with_that_library():
    @dg.asset
    def table(orders: DataFrame) -> pd.DataFrame: ...

    with raises_code("UNSUPPORTED_ANNOTATION", match=r"with pandas\.DataFrame, which.* or pyspark\.sql\.DataFrame"):
        validate(location(orders, table))


def test_an_input_without_an_annotation_is_said_to_have_none():
    @dg.asset
    def table(orders) -> DataFrame: ...

    with raises_code("UNSUPPORTED_ANNOTATION", match="does not annotate its input 'orders'"):
        validate(location(orders, table))


def test_the_demo_ends_with_a_sentence_for_a_variable_that_means_nothing(tmp_path: Path):
    """tests/server/test_resources.py lists such variables."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "DAGSTER_HOME": str(tmp_path),
        "LAKEHOUSE_ENV": "foo",
    }
    answer = subprocess.run(
        [sys.executable, "-m", "assets.demo"], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("LAKEHOUSE_ENV = foo: ")
    assert "Traceback" not in answer.stderr


def test_a_session_that_ends_while_inputs_are_read_is_told_and_may_be_tried_again():
    gone = PySparkException("[NO_ACTIVE_SESSION] No active Spark session found.")
    with (
        raises_code("SESSION_ENDED", match=r"inputs of 'orders' .*Nothing was written") as told,
        as_our_errors("orders"),
    ):
        raise gone
    assert told.value.is_temporary
    other = PySparkException("[TABLE_OR_VIEW_NOT_FOUND] orders")
    with pytest.raises(PySparkException) as same, as_our_errors("orders"):
        raise other
    assert same.value is other


@for_each(
    "kind, returned, said",
    [
        (Merge, None, "returned nothing, and its annotation says Merge. Nothing was written. Is its `return` missing?"),
        (Overwrite, [1], "returned a value of type list, and its annotation says Overwrite. Nothing was written. Retu"),
        (DataFrame, pd.DataFrame(), "a value of type pandas.DataFrame, and its annotation says pyspark.DataFrame."),
        (History, pd.DataFrame(), "Return History(...)."),
        (Snapshot, None, "its annotation says Snapshot"),
    ],
)
def test_a_function_that_returns_something_else_is_told_what_to_return(kind: type, returned: Any, said: str) -> None:
    def table():
        return returned

    table.__annotations__["return"] = kind
    asset = dg.asset(table, metadata=Table(key="id"))
    ran = incremental(location(asset)).resolve_implicit_global_asset_job_def().execute_in_process(raise_on_error=False)
    (failed,) = [event for event in ran.all_events if event.is_step_failure]
    assert said in str(failed.step_failure_data.error)


def test_two_kinds_of_dataframe_and_a_type_of_one_s_own_keep_what_they_say() -> None:
    why = "amount is negative"
    checked = dg.DagsterType(
        lambda _, __: dg.TypeCheck(success=False, description=why), "Orders", typing_type=DataFrame
    )

    @dg.asset
    def classic() -> DataFrame: ...

    @dg.asset
    def connect() -> ConnectDataFrame: ...

    @dg.asset(dagster_type=checked)
    def of_orders(): ...

    defs = incremental(location(classic, connect, of_orders))
    dg.Definitions.validate_loadable(defs)
    types = {asset.key.to_user_string(): asset.op.output_defs[0].dagster_type for asset in defs.assets or []}
    assert {name: kind.display_name for name, kind in types.items()} == {
        "classic": "DataFrame",
        "connect": "DataFrame",
        "of_orders": "Orders",
    }
    answer = types["of_orders"].type_check(None, object.__new__(DataFrame))
    assert (answer.success, answer.description) == (False, why)
