"""A run for the same changes is requested again after a pause that doubles. Real logs and marks, without Spark."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse import Changes, DeltaIOManager, Merge, Table, change_sensor
from lakehouse.dagster.follow.watch import FIRST_PAUSE
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


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
def daily(orders: Changes) -> Merge: ...


@dataclass
class Watched:
    """Tables below a root, and a sensor that follows them; the runs that it requests do not take place."""

    root: Path
    instance: dg.DagsterInstance
    assets: tuple[Any, ...]
    cursor: str | None = None
    said: str = ""

    def asks(self) -> list[dg.RunRequest]:
        sensor = change_sensor("carry_on", self.assets, root=str(self.root), max_partitions=2)
        result = ticked(sensor, self.instance, self.cursor)
        self.cursor, self.said = result.cursor, str(result.skip_reason and result.skip_reason.skip_message)
        return list(result.run_requests or [])

    def tables(self) -> set[str]:
        return {key.to_user_string() for request in self.asks() for key in request.asset_selection or ()}

    def partitions(self) -> list[str | None]:
        return [request.partition_key for request in self.asks()]

    def later(self, seconds: float) -> None:
        """Lets time pass: moves earlier requests further into the past."""
        remembered: dict[str, dict[str, list[Any]]] = json.loads(self.cursor or "{}")
        for pauses in remembered.values():
            for pause in pauses.values():
                pause[1] -= seconds
        self.cursor = json.dumps(remembered)

    def change_day(self, *days: str) -> None:
        rows = pa.table({"id": pa.array(range(len(days)), pa.int32()), "day": list(days)})
        write_deltalake(str(self.root / "orders"), rows, mode="append", partition_by=["day"], configuration=FEED)


@pytest.fixture
def days(tmp_path: Path, instance: dg.DagsterInstance) -> Watched:
    """A source partitioned by day, with rows of four days, that has not been read."""
    watched = Watched(tmp_path, instance, (by_day, daily))
    watched.change_day(DAY_1, DAY_2, DAY_3, DAY_4)
    return watched


@pytest.fixture
def tables(tmp_path: Path, instance: dg.DagsterInstance) -> Watched:
    """Two unrelated tables whose sources have not been read."""
    append(tmp_path, "orders", 1)
    append(tmp_path, "bought", 1)
    return Watched(tmp_path, instance, (orders, bought, copies, others))


def test_the_newest_partitions_are_asked_for_first_and_those_that_failed_keep_nobody_waiting(days: Watched) -> None:
    assert days.partitions() == [DAY_4, DAY_3]
    days.later(FIRST_PAUSE)
    assert days.partitions() == [DAY_2, DAY_1], "what was not tried yet comes first"
    assert days.partitions() == [DAY_4, DAY_3]
    assert days.partitions() == []
    assert f"daily waits: a run for {DAY_1}, {DAY_2}, {DAY_3}, {DAY_4} was requested before, the next is" in days.said
    assert "Asks for" not in days.said


def test_a_partition_that_failed_is_asked_for_at_once_if_its_own_rows_change(days: Watched) -> None:
    for day in DAYS.get_partition_keys():
        run_day(days.root, day)
    days.change_day(DAY_3, DAY_2)
    assert days.partitions() == [DAY_3, DAY_2]
    days.change_day(DAY_2)
    assert days.partitions() == [DAY_2]
    run_day(days.root, DAY_2)
    assert days.partitions() == [], "what another partition's run has written is none of theirs"


def test_a_run_that_left_its_changes_unread_is_asked_for_again_after_a_pause_that_doubles_up_to_an_hour(
    tables: Watched,
) -> None:
    for wait in (60, 120, 240, 480, 960, 1920, 3600, 3600):
        assert tables.tables() == {"copies", "others"}
        assert tables.tables() == set()
        assert "copies, others wait: a run for the same changes was requested before, the next is" in tables.said
        tables.later(wait - 20)
        assert tables.tables() == set(), wait
        tables.later(20)


def test_a_change_is_asked_for_at_once_for_the_table_that_has_not_read_it_and_for_no_other(tables: Watched) -> None:
    assert tables.tables() == {"copies", "others"}
    run(tables.root, "others", "bought")
    assert tables.tables() == set()
    append(tables.root, "bought", 2)
    assert tables.tables() == {"others"}


def test_what_is_undone_is_asked_for_again(tables: Watched) -> None:
    assert tables.tables() == {"copies", "others"}
    run(tables.root, "copies", "orders")
    run(tables.root, "others", "bought")
    assert tables.tables() == set()
    shutil.rmtree(tables.root / "copies")
    assert tables.tables() == {"copies"}


def test_a_lost_cursor_loses_no_change(tables: Watched) -> None:
    assert tables.tables() == {"copies", "others"}
    tables.cursor = None
    assert tables.tables() == {"copies", "others"}, "at worst a run is requested twice"


def test_a_table_whose_source_fails_in_their_run_is_asked_for_alone(tables: Watched) -> None:
    run(tables.root, "copies", "orders")
    append(tables.root, "orders", 2)
    tables.assets = (orders, bought, copies, joined)
    assert tables.tables() == {"copies", "joined"}
    assert tables.tables() == {"joined"}, "the run failed at copies, so joined was not tried"
    assert tables.tables() == set(), "now its own run has failed"
    assert "a run for the same changes was requested before" in tables.said


def test_a_table_follows_its_upstream_whatever_became_of_its_own_last_run(tables: Watched) -> None:
    tables.assets = (orders, bought, copies, joined)
    run(tables.root, "copies", "orders")
    assert tables.tables() == {"joined"}
    append(tables.root, "orders", 2)
    assert tables.tables() == {"copies", "joined"}


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
