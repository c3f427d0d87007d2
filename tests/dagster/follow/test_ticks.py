"""A tick reports what it looked at, what it requests, what it left out and why; partitions; pace."""

import shutil
import time
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from lakehouse import Changes, DeltaIOManager, Merge, Table, change_sensor
from lakehouse.dagster.follow.sensor import Pace
from lakehouse.dagster.follow.watch import Behind
from lakehouse.errors import DefinitionError
from tests.support.dagster_house import House
from tests.support.for_each import for_each
from tests.support.lake import Lake
from tests.support.marked_tables import append, run
from tests.support.tables import DAYS, carried, copies, orders
from tests.support.ticks import tick, ticked

NOW = 1_000_000.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A source in two files that has not been read."""
    append(tmp_path, "orders", 1)
    append(tmp_path, "orders", 2)
    return tmp_path


def reason_of(result: dg.RunRequest | dg.SkipReason) -> str:
    assert isinstance(result, dg.SkipReason)
    return str(result.skip_message)


@pytest.mark.served
@pytest.mark.slow
def test_a_table_reads_sources_below_several_roots(house: House, tmp_path: Path) -> None:
    """The table's own manager knows where each of them is, and no table is left out silently."""
    other = Lake(house.lake.spark, tmp_path / "other")
    other.root.mkdir()
    other.create("customers", [(1, "a")], "id int, name string")
    shutil.copytree(house.root / "orders", tmp_path / "kept")
    customers = dg.AssetSpec("customers", metadata=Table(key="id")).with_io_manager_key("crm")

    @dg.asset(metadata=Table(key="id"))
    def named(orders: Changes, customers: Changes) -> Merge:
        touched = orders.touched("id") | customers.touched("id")
        return Merge(touched.of(orders.source.join(customers.source, "id")), touched)

    managers = {
        "io_manager": house.io_manager,
        "crm": DeltaIOManager(spark=house.io_manager.spark, root=str(other.root)),
    }
    sensor = change_sensor("carry_on", [orders, customers, named], resources=managers)
    assert isinstance(tick(sensor, house.instance), dg.RunRequest)
    dg.materialize([orders, customers, named], selection=["named"], resources=managers, instance=house.instance)
    assert reason_of(tick(sensor, house.instance)).startswith("Looked at 1 table. Every table")
    other.insert("customers", [(2, "b")])
    assert isinstance(tick(sensor, house.instance), dg.RunRequest)


def test_what_is_left_out_is_said_with_the_reason(root: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset(metadata=Table(key="id", name="shop.sold"))
    def sold(orders: Changes) -> Merge: ...

    @dg.asset(metadata=Table(key="id"))
    def stored(bought: Changes) -> Merge: ...

    @dg.asset(metadata=Table(key="id"))
    def missing(nowhere: Changes) -> Merge: ...

    bought = dg.AssetSpec("bought", metadata=Table(path="hdfs://host/bought"))
    run(root, "copies", "orders")
    sensor = change_sensor("carry_on", [orders, copies, sold, bought, stored, missing], root=str(root))
    text = reason_of(tick(sensor, instance))
    assert "Left out: sold (where `shop`.`sold` is, is not known before a run has resolved the name)." in text
    assert (
        "Left out: stored (the log of bought is out of reach: hdfs: is a file system that only Spark reaches)." in text
    )
    assert f"Left out: missing (there is no table at {root}/nowhere)." in text
    assert "Looked at 3 tables." in text
    alone = change_sensor("alone", [orders, sold], root=str(root))
    assert reason_of(tick(alone, instance)).startswith("Looked at 1 table. Left out: sold (where")


def test_a_sensor_that_does_not_know_where_its_tables_are_is_refused() -> None:
    for given in ({}, {"root": "/lake", "resources": {}}):
        with pytest.raises(DefinitionError, match="Give either root"):
            change_sensor("carry_on", [orders, copies], **given)


def test_a_table_of_another_kind_of_manager_is_left_out(root: Path, instance: dg.DagsterInstance) -> None:
    sensor = change_sensor("carry_on", [orders, copies], resources={"io_manager": dg.FilesystemIOManager()})
    assert "is no table of a DeltaIOManager" in reason_of(tick(sensor, instance))


def test_where_the_log_names_no_partition_each_of_them_may_be_concerned_and_that_is_said(
    root: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
    def by_day(orders: Changes) -> Merge: ...

    sensor = change_sensor("carry_on", [orders, by_day], root=str(root), max_partitions=3)
    result = ticked(sensor, instance)
    assert [request.partition_key for request in result.run_requests or []] == [
        "2013-01-04",
        "2013-01-03",
        "2013-01-02",
    ]


@for_each("newest, oldest, waits", [(5, 5, "yes"), (15, 15, "no"), (5, 90, "yes"), (5, 101, "no"), (None, None, "no")])
def test_a_burst_of_changes_is_waited_for_but_not_for_ever(
    newest: float | None, oldest: float | None, waits: str
) -> None:
    times = [None if seconds is None else int((NOW - seconds) * 1000) for seconds in (oldest, newest)]
    assert Pace(debounce=10).is_early(Behind({"": "x"}, *times), NOW) == (waits == "yes")
    assert not Pace().is_early(Behind({"": "x"}, *times), NOW)


@for_each("wrong", [{"debounce": -1}, {"max_runs": 0}, {"max_partitions": 0}])
def test_a_pace_at_which_nothing_would_ever_run_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Pace(**wrong)  # pyright: ignore[reportArgumentType]


def test_debounce_is_said(root: Path, instance: dg.DagsterInstance) -> None:
    run(root, "copies", "orders")
    append(root, "orders", 4)
    sensor = change_sensor("carry_on", [orders, copies], root=str(root), debounce=3600)
    assert "copies waits: its sources have not been still for 3600 s." in reason_of(tick(sensor, instance))


def started(instance: dg.DagsterInstance, *selection: str) -> dg.DagsterRun:
    """A run of the sensor that has started."""
    keys = {dg.AssetKey(name) for name in selection}
    made = dg.DagsterRun("any", status=dg.DagsterRunStatus.STARTED, asset_selection=keys or None)
    return instance.add_run(made.with_tags({"lakehouse/change_sensor": "carry_on"}))


def test_a_run_that_died_is_named_and_not_waited_for(
    root: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the code server is killed, its runs stay "started", and no launcher on a laptop monitors them."""
    dead = started(instance)
    sensor = change_sensor("carry_on", [orders, copies], root=str(root))
    assert f"still under way: {dead.run_id[:8]}" in reason_of(tick(sensor, instance))
    monkeypatch.setattr("lakehouse.dagster.follow.sensor.SILENT", 0.01)
    time.sleep(0.1)
    assert isinstance(tick(sensor, instance), dg.RunRequest)
    run(root, "copies", "orders")
    assert f"Run {dead.run_id[:8]} has not been heard of" in reason_of(tick(sensor, instance))


def test_a_table_of_a_run_that_is_under_way_is_left_to_that_run(root: Path, instance: dg.DagsterInstance) -> None:
    others = dg.asset(name="others", metadata=Table(key="id"))(carried)
    started(instance, "copies")
    sensor = change_sensor("carry_on", [orders, copies, others], root=str(root), max_runs=2)
    request = tick(sensor, instance)
    assert isinstance(request, dg.RunRequest)
    assert request.asset_selection == [dg.AssetKey("others")]


def test_a_run_of_a_sensor_of_the_same_name_in_another_code_location_is_not_waited_for(
    root: Path, instance: dg.DagsterInstance
) -> None:
    started(instance, "a_table_of_another_location")
    sensor = change_sensor("carry_on", [orders, copies], root=str(root))
    request = tick(sensor, instance)
    assert isinstance(request, dg.RunRequest)
    assert request.asset_selection == [dg.AssetKey("copies")]


def test_a_new_data_version_of_a_foreign_table_is_reported_once(root: Path, instance: dg.DagsterInstance) -> None:
    sensor = change_sensor("carry_on", [orders, copies], root=str(root))

    def reported() -> list[str | None]:
        events = ticked(sensor, instance).asset_events
        for event in events:
            instance.report_runless_asset_event(event)
        assert all(isinstance(event, dg.AssetMaterialization) and event.asset_key == orders.key for event in events)
        return [(event.tags or {}).get("dagster/data_version") for event in events]

    first = reported()
    assert len(first) == 1 and reported() == []
    DeltaTable(str(root / "orders")).optimize.compact()
    assert reported() == [], "no row has changed"
    append(root, "orders", 4)
    assert len(again := reported()) == 1 and again != first
