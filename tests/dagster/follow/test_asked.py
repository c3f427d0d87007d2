"""What a run was asked for before is not asked for again while it stands still. Real logs and marks, without Spark."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.utils import make_new_run_id
from deltalake import DeltaTable, write_deltalake

from lakehouse import Append, Changes, DeltaIOManager, Merge, Policy, Table, change_sensor
from lakehouse.dagster.follow.tick import Pace
from tests.support.daily import run_day
from tests.support.marked_tables import FEED, append, run
from tests.support.tables import DAYS, orders
from tests.support.ticks import ticked

DAY_1, DAY_2, DAY_3, DAY_4 = DAYS.get_partition_keys()
by_day = dg.AssetSpec("orders", metadata=Table(key="id", partition_by="day"), partitions_def=DAYS)
bought = dg.AssetSpec("bought", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"))
def others(bought: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"))
def joined(copies: Changes, bought: Changes) -> Merge: ...


@dg.asset(name="copies", metadata=Table(key="id"))
def kept(orders: Changes) -> Append: ...


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
def daily(orders: Changes) -> Merge: ...


@dg.asset(name="daily", partitions_def=DAYS, metadata=Table(partition_by="day"))
def landed(orders: Changes) -> Append: ...


@dataclass
class Watched:
    """Tables below a root, a sensor that follows them, and what became of the runs that it asked for."""

    root: Path
    instance: dg.DagsterInstance
    assets: tuple[Any, ...]
    pace: Pace = field(default_factory=Pace)
    policy: Policy = field(default_factory=Policy)
    cursor: str | None = None
    said: str = ""

    def asks(self) -> list[dg.RunRequest]:
        manager = DeltaIOManager(spark=object(), root=str(self.root), policy=self.policy)
        sensor = change_sensor("carry_on", self.assets, resources={"io_manager": manager}, pace=self.pace)
        result = ticked(sensor, self.instance, self.cursor)
        self.cursor, self.said = result.cursor, str(result.skip_reason and result.skip_reason.skip_message)
        return list(result.run_requests or [])

    def tables(self) -> set[str]:
        """The tables of the one run that is asked for; that run fails."""
        requests = self.asks()
        self.become(requests)
        return {key.to_user_string() for request in requests for key in request.asset_selection or ()}

    def partitions(self) -> list[str | None]:
        """The partitions that are asked for; their runs fail."""
        requests = self.asks()
        self.become(requests)
        return [request.partition_key for request in requests]

    def become(
        self, requests: list[dg.RunRequest], status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE
    ) -> list[str]:
        """What the daemon makes of requests."""
        runs = [
            dg.DagsterRun(
                "any",
                make_new_run_id(),
                status=status,
                tags={**request.tags, "dagster/run_key": str(request.run_key), "dagster/sensor_name": "carry_on"},
                asset_selection=frozenset(request.asset_selection or ()),
            )
            for request in requests
        ]
        return [self.instance.add_run(run).run_id for run in runs]

    def fail(self, requests: list[dg.RunRequest]) -> None:
        """Executes runs whose first step fails, because there is no Spark."""
        for request in requests:
            result = dg.materialize(
                self.assets,
                selection=request.asset_selection,
                resources={"io_manager": DeltaIOManager(spark=object(), root=str(self.root))},
                instance=self.instance,
                tags={**request.tags, "dagster/run_key": str(request.run_key)},
                raise_on_error=False,
            )
            assert not result.success

    def change_day(self, *days: str) -> None:
        rows = pa.table({"id": pa.array(range(len(days)), pa.int32()), "day": list(days)})
        write_deltalake(str(self.root / "orders"), rows, mode="append", partition_by=["day"], configuration=FEED)

    def run_day(self, partition: str) -> None:
        """What a run of a partition leaves: a commit with its mark, and the event in Dagster."""
        run_day(self.root, partition)
        self.instance.report_runless_asset_event(dg.AssetMaterialization("daily", partition=partition))

    def call_newest(self, was: str, operation: str) -> None:
        """Gives the newest commit of the table another name of an operation, which only Spark has."""
        newest = max((self.root / "daily" / "_delta_log").glob("*.json"))
        assert f'"{was}"' in newest.read_text()
        newest.write_text(newest.read_text().replace(f'"{was}"', f'"{operation}"'))

    def clean(self) -> None:
        """Cleans the source's log up to its newest version, as Delta does once that has a checkpoint."""
        delta = DeltaTable(str(self.root / "orders"))
        delta.create_checkpoint()
        for version in range(delta.version()):
            (self.root / "orders" / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)


@pytest.fixture
def days(tmp_path: Path, instance: dg.DagsterInstance) -> Watched:
    """A source partitioned by day, with rows of each of four, of which nothing is read."""
    watched = Watched(tmp_path, instance, (by_day, daily), Pace(max_partitions=2))
    watched.change_day(DAY_1, DAY_2, DAY_3, DAY_4)
    return watched


@pytest.fixture
def tables(tmp_path: Path, instance: dg.DagsterInstance) -> Watched:
    """Two tables that have nothing to do with each other, of which nothing is read."""
    append(tmp_path, "orders", 1)
    append(tmp_path, "bought", 1)
    return Watched(tmp_path, instance, (orders, bought, copies, others))


def test_the_newest_partitions_are_asked_for_first_and_those_that_failed_keep_nobody_waiting(days: Watched) -> None:
    assert days.partitions() == [DAY_4, DAY_3]
    assert days.partitions() == [DAY_2, DAY_1]
    assert days.partitions() == []
    assert f"asked for before, and not read since: {DAY_4}, {DAY_3}, {DAY_2}, {DAY_1}" in days.said
    assert "Asks for" not in days.said


def test_a_partition_that_failed_is_asked_for_again_once_its_own_rows_change(days: Watched) -> None:
    assert [*days.partitions(), *days.partitions()] == [DAY_4, DAY_3, DAY_2, DAY_1]
    days.change_day(DAY_2)
    assert days.partitions() == [DAY_2]
    days.run_day(DAY_3)
    assert days.partitions() == [], "what another partition's run has written is none of theirs"


def test_a_partition_that_no_run_came_of_is_asked_for_again(days: Watched) -> None:
    first = days.asks()
    assert [request.run_key for request in days.asks()] == [request.run_key for request in first]
    days.become(first[:1], dg.DagsterRunStatus.NOT_STARTED)
    days.pace = Pace(max_partitions=2, silent=1e-9)
    assert [request.run_key for request in days.asks()] == [request.run_key for request in first]


def test_a_partition_whose_rows_are_undone_is_asked_for_again(days: Watched) -> None:
    assert days.partitions() == [DAY_4, DAY_3]
    for day in (DAY_1, DAY_2, DAY_3, DAY_4):
        days.run_day(day)
    assert days.partitions() == []
    shutil.rmtree(days.root / "daily")
    assert days.partitions() == [DAY_4, DAY_3]


@pytest.mark.parametrize(
    ("asset", "policy", "again"),
    [(landed, Policy(), []), (daily, Policy(), [DAY_2]), (daily, Policy(refresh="strict"), [])],
)
def test_a_gap_that_a_run_refuses_stays_refused_whatever_the_source_commits(
    days: Watched, asset: dg.AssetsDefinition, policy: Policy, again: list[str]
) -> None:
    """A table that may be compared is compared as of the newest rows of the partition; its manager may forbid that."""
    days.assets, days.policy = (by_day, asset), policy
    for day in (DAY_1, DAY_2, DAY_3, DAY_4):
        days.run_day(day)
    days.change_day(DAY_1, DAY_2)
    days.change_day(DAY_1, DAY_2)
    days.clean()
    days.pace = Pace()
    assert days.partitions() == [DAY_4, DAY_3, DAY_2, DAY_1], "the log does not say whose rows the missing commits had"
    days.change_day(DAY_2)
    assert days.partitions() == again
    assert days.partitions() == []


def test_a_partition_that_failed_is_asked_for_again_once_somebody_else_has_seen_to_the_table(days: Watched) -> None:
    days.run_day(DAY_4)
    days.run_day(DAY_4)
    assert [*days.partitions(), *days.partitions()] == [DAY_3, DAY_2, DAY_1]
    DeltaTable(str(days.root / "daily")).optimize.compact()
    assert days.partitions() == []
    days.call_newest("OPTIMIZE", "REORG")
    assert days.partitions() == []
    DeltaTable(str(days.root / "daily")).alter.set_table_properties({"delta.logRetentionDuration": "interval 31 days"})
    assert days.partitions() == [DAY_3, DAY_2]


def test_upkeep_of_a_table_whose_run_failed_asks_for_no_other_run(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    watched = Watched(tmp_path, instance, (orders, copies))
    for row in (1, 2):
        append(tmp_path, "orders", row)
        run(tmp_path, "copies", "orders")
    append(tmp_path, "orders", 3)
    assert watched.tables() == {"copies"}
    DeltaTable(str(tmp_path / "copies")).optimize.compact()
    assert watched.tables() == set()
    DeltaTable(str(tmp_path / "copies")).alter.set_table_properties({"delta.appendOnly": "false"})
    assert watched.tables() == {"copies"}, "somebody has seen to the table"


def test_a_gap_is_asked_for_again_once_the_asset_declares_something_else(days: Watched) -> None:
    days.assets = (by_day, landed)
    days.run_day(DAY_1)
    days.change_day(DAY_1)
    days.change_day(DAY_1)
    days.clean()
    assert days.partitions() == [DAY_4, DAY_3]
    assert days.partitions() == [DAY_2, DAY_1]
    assert days.partitions() == []
    days.assets = (by_day, landed.map_asset_specs(lambda spec: spec.replace_attributes(code_version="2")))
    assert days.partitions() == [DAY_4, DAY_3]


def test_a_table_whose_run_failed_is_not_asked_for_again_because_another_table_moves(tables: Watched) -> None:
    assert tables.tables() == {"copies", "others"}
    append(tables.root, "bought", 2)
    assert tables.tables() == {"others"}
    assert tables.tables() == set()
    assert "copies waits: run " in tables.said and "others waits: run " in tables.said
    assert " failed, and neither a source nor the table has moved since." in tables.said
    append(tables.root, "orders", 2)
    assert tables.tables() == {"copies"}


def test_a_table_that_waited_for_another_which_failed_is_asked_for_alone(tables: Watched) -> None:
    run(tables.root, "copies", "orders")
    append(tables.root, "orders", 2)
    tables.assets = (orders, bought, copies, joined)
    requests = tables.asks()
    assert [request.asset_selection for request in requests] == [[copies.key, joined.key]]
    tables.fail(requests)
    (alone,) = tables.asks()
    assert alone.asset_selection == [joined.key]
    tables.fail([alone])
    assert tables.asks() == [], "now its own run has failed"
    assert "joined waits" in tables.said and "copies waits" in tables.said


def test_a_gap_that_the_run_of_a_whole_table_refuses_stays_refused(tables: Watched) -> None:
    tables.assets = (orders, kept)
    run(tables.root, "copies", "orders")
    for row in (2, 3, 4):
        append(tables.root, "orders", row)
    tables.clean()
    assert tables.tables() == {"copies"}
    append(tables.root, "orders", 5)
    assert tables.tables() == set()


def test_a_run_makes_the_checks_that_block_and_no_others(tables: Watched) -> None:
    @dg.asset_check(asset=copies, blocking=True)
    def gate() -> dg.AssetCheckResult: ...

    @dg.asset_check(asset=copies)
    def other() -> dg.AssetCheckResult: ...

    manager = {"io_manager": DeltaIOManager(spark=object(), root=str(tables.root))}
    sensor = change_sensor("carry_on", tables.assets, resources=manager)
    defs = dg.Definitions([*tables.assets], asset_checks=[gate, other], sensors=[sensor], resources=manager)
    context = dg.build_sensor_context(instance=tables.instance, definitions=defs)
    result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    (request,) = result.run_requests or []
    assert request.asset_check_keys == [dg.AssetCheckKey(copies.key, "gate")]


@pytest.mark.parametrize("written", ["relative", "home", "variable"])
def test_a_root_is_written_as_its_manager_takes_it(
    tables: Watched, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.chdir(tables.root.parent)
    monkeypatch.setenv("HOME", str(tables.root.parent))
    monkeypatch.setenv("LAKE", str(tables.root))
    root = {"relative": tables.root.name, "home": f"~/{tables.root.name}", "variable": dg.EnvVar("LAKE")}[written]
    result = ticked(change_sensor("carry_on", tables.assets, root=root), tables.instance)
    (request,) = result.run_requests or []
    assert request.asset_selection == [copies.key, others.key]


def test_a_run_that_succeeded_for_one_of_its_tables_is_not_repeated_for_the_other(tables: Watched) -> None:
    assert tables.tables() == {"copies", "others"}
    run(tables.root, "others", "bought")
    assert tables.tables() == set()
    append(tables.root, "bought", 2)
    assert tables.tables() == {"others"}


def test_a_table_that_no_run_came_of_is_asked_for_again(tables: Watched) -> None:
    (first,) = tables.asks()
    (again,) = tables.asks()
    assert again.run_key == first.run_key
    tables.become([first], dg.DagsterRunStatus.NOT_STARTED)
    tables.pace = Pace(silent=1e-9)
    (still,) = tables.asks()
    assert still.run_key == first.run_key, "Dagster starts the run that it has made for the key"


def test_what_a_deleted_run_was_asked_for_is_asked_for_again(tables: Watched) -> None:
    (failed,) = tables.become(tables.asks())
    assert tables.asks() == []
    tables.instance.delete_run(failed)
    assert tables.tables() == {"copies", "others"}


def test_a_lost_cursor_repeats_no_run(tables: Watched) -> None:
    assert tables.tables() == {"copies", "others"}
    tables.cursor = None
    assert tables.tables() == set()
    append(tables.root, "bought", 2)
    assert tables.tables() == {"others"}


def test_a_table_follows_its_upstream_whatever_became_of_its_own_last_run(tables: Watched) -> None:
    @dg.asset(metadata=Table(key="id"))
    def behind(copies: Changes, bought: Changes) -> Merge: ...

    tables.assets = (orders, bought, copies, behind)
    run(tables.root, "copies", "orders")
    assert tables.tables() == {"behind"}
    append(tables.root, "orders", 2)
    assert tables.tables() == {"copies", "behind"}
