"""What a code location shows of its possible conflicts, and the pools that keep its writers apart; without Spark."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, DeltaIOManager, Merge, Overwrite, Table, validate
from lakehouse.cli.main import main
from lakehouse.conflicts.operations import Operation, Verdict
from lakehouse.conflicts.pairs import conflict_pairs
from lakehouse.dagster.definitions.pools import HEADINGS, RIVALS, WARNINGS, row, writers
from lakehouse.dagster.io_manager import code_location_of
from resources.environments import PROJECT
from tests.support.rows_without_spark import UNREAD_ROWS

DAYS = dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-05")
orders = dg.AssetSpec("orders")


class Threshold(dg.Config):
    least: int = 3


@dg.asset(metadata=Table(key="id"), code_version="7", retry_policy=dg.RetryPolicy(max_retries=2), op_tags={"team": "a"})
def copies(context: dg.AssetExecutionContext, config: Threshold, orders: Changes) -> Merge:
    """A copy."""
    context.log.info(f"at least {config.least}")
    return None  # pyright: ignore[reportReturnType]  (nothing is written, so nothing needs Spark)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day"))
def landed(orders: DataFrame) -> Append: ...


@dg.asset(metadata=Table(name="main.shared", key="id"))
def one(orders: DataFrame) -> DataFrame: ...


@dg.asset(metadata=Table(name="main.shared"), pool="mine")
def other(orders: DataFrame) -> Append: ...


@dg.asset(metadata=Table(partition_by="day"))
def whole(orders: DataFrame) -> Overwrite: ...


@dg.op(pool="table:whole")
def compact() -> None: ...


@dg.job
def nightly() -> None:
    compact()


@dg.asset(io_manager_key="elsewhere")
def elsewhere() -> int:
    return 1


def location(*assets: Any, root: str = "/lake") -> dg.Definitions:
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=root)
    resources = {"io_manager": manager, "elsewhere": dg.mem_io_manager}
    return dg.Definitions(assets=list(assets), jobs=[nightly], resources=resources)


defs = validate(location(orders, copies, landed, one, other, whole, elsewhere))


def pool(name: str) -> str | None:
    return defs.resolve_assets_def(dg.AssetKey(name)).op.pool


def shown(name: str, key: str) -> Any:
    return defs.resolve_assets_def(dg.AssetKey(name)).metadata_by_key[dg.AssetKey(name)].get(key)


def listed(name: str) -> list[dict[str, str]]:
    """The pairs of an asset, as `lakehouse conflicts` lists them."""
    pairs = conflict_pairs(writers(code_location_of(defs), ()))
    possible = [pair for pair in pairs if pair.writer == name and pair.foreseen.verdict is not Verdict.CANNOT]
    return [dict(zip(HEADINGS[1:], row(pair)[1:], strict=True)) for pair in possible]


def test_the_writers_of_one_table_share_a_pool_and_an_asset_that_has_one_keeps_it():
    assert pool("copies") == "table:copies"
    assert pool("one") == "table:main.shared"
    assert pool("other") == "mine"
    assert pool("landed") is None
    assert pool("elsewhere") is None


def test_an_asset_in_a_pool_is_otherwise_the_asset_that_was_declared():
    made = defs.resolve_assets_def(copies.key)
    kept = ("name", "description", "tags", "retry_policy", "required_resource_keys")
    assert {name: getattr(made.op, name) for name in kept} == {name: getattr(copies.op, name) for name in kept}
    ins, outs = dg.In.from_definition, dg.Out.from_definition
    assert list(map(ins, made.op.input_defs)) == list(map(ins, copies.op.input_defs))
    assert list(map(outs, made.op.output_defs)) == list(map(outs, copies.op.output_defs))
    assert made.op.config_schema.config_type.key == copies.op.config_schema.config_type.key
    (spec,), (declared,) = made.specs, copies.specs
    assert spec == declared
    assert Table.from_metadata(spec.metadata) == Table(key="id")
    assert copies.op.pool is None


def test_each_asset_shows_whom_it_can_lose_to_and_what_avoids_it():
    records = listed("copies")
    assert records[0] == {
        "loses to": "another run of it",
        "verdict": "can conflict",
        "avoided by": "pool table:copies",
        "why": "Both carry one application id, so the second would repeat the first.",
    }
    assert "an OPTIMIZE" in [record["loses to"] for record in records]
    assert "other (" in shown("one", RIVALS) and shown("copies", RIVALS) is None, (
        "a second run of it goes without saying"
    )
    days = {record["loses to"] for record in listed("landed")}
    assert "another run of the same partition" in days
    assert "a run of another partition" not in days


def test_two_writers_in_different_pools_are_not_said_to_take_turns():
    (record,) = [record for record in listed("one") if record["loses to"] == "other"]
    assert (
        record["avoided by"] == "Let the writers of the table take turns, in one Dagster pool. Or partition the table."
    )


def test_what_is_worth_knowing_stands_on_the_assets_page():
    assert "other" in shown("one", WARNINGS).value
    assert "name no partition" in shown("whole", WARNINGS).value
    assert shown("copies", WARNINGS) is None


def test_the_operations_are_those_that_a_write_may_come_to():
    assert {writer.name: writer.operation for writer in writers(code_location_of(defs), defs.jobs or [])} == {
        "copies": Operation.CHANGE,
        "landed": Operation.READING_APPEND,
        "one": Operation.CHANGE,
        "other": Operation.BLIND_APPEND,
        "whole": Operation.OVERWRITE,
        "compact (job nightly)": Operation.OPTIMIZE,
    }


def test_the_command_prints_one_aligned_row_for_each_meeting(capsys: pytest.CaptureFixture[str]):
    main(["conflicts", "-m", f"{__name__}:defs"])
    printed = capsys.readouterr().out.splitlines()
    heading = printed[0]
    column = heading.index("Verdict")
    rows = printed[2 : printed.index("")]
    assert all(row[column - 2 : column] == "  " and row[column] in "ca" for row in rows)
    assert "compact (job nightly)" in "".join(rows)
    assert not any("OPTIMIZE" in row for row in rows)
    assert printed[-1].startswith("Answers of open-source Delta 4.4.")
    main(["conflicts", "-m", f"{__name__}:defs", "--engine", "databricks", "--foreign"])
    databricks = capsys.readouterr().out
    assert "an OPTIMIZE" in databricks
    assert databricks.endswith("Answers of Databricks.\n")


def test_the_command_says_where_it_found_no_definitions(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["conflicts", "-m", "tests.support.lake"])
    assert "holds 0 dg.Definitions; say which one: -m tests.support.lake:<name>" in capsys.readouterr().err


# --- Dagster holds a second run back ---------------------------------------------------------------------------


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    concurrency = {"concurrency": {"pools": {"default_limit": 1, "granularity": "op"}}}
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides=concurrency) as made:
        yield made


def test_a_run_waits_while_another_one_has_the_slot_of_its_table(instance: dg.DagsterInstance):
    entered: list[str] = []

    @dg.asset(metadata=Table(key="id"))
    def flights(context: dg.AssetExecutionContext) -> Overwrite:
        entered.append(context.run.run_id)
        return Overwrite(UNREAD_ROWS)

    (made,) = validate(location(flights)).assets or []
    storage, results = instance.event_log_storage, []

    def run() -> None:
        results.append(dg.materialize([made], instance=instance, resources={"io_manager": dg.mem_io_manager}))

    storage.initialize_concurrency_limit_to_default("table:flights")
    assert storage.claim_concurrency_slot("table:flights", "another run", "flights").is_claimed
    second = threading.Thread(target=run, daemon=True)
    second.start()
    held_back = waiting(instance, "table:flights")
    assert (held_back, entered) == (1, [])
    storage.free_concurrency_slots_for_run("another run")
    second.join(60)
    assert [result.success for result in results] == [True]
    assert len(entered) == 1


def waiting(instance: dg.DagsterInstance, name: str) -> int:
    """How many steps wait for a slot, as soon as one does; if none ever does, the test's time limit ends the wait."""
    while not (count := instance.event_log_storage.get_concurrency_info(name).pending_step_count):
        threading.Event().wait(0.05)
    return count


def test_this_projects_instance_lets_one_run_into_a_pool_and_holds_the_others_in_the_queue(tmp_path: Path):
    shutil.copy(PROJECT / ".dagster" / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        pools = made.get_concurrency_config().pool_config
    assert pools.default_pool_limit == 1
    assert str(pools.pool_granularity) == "PoolGranularity.RUN"
