"""The sensor, `status` and the checks agree on what is unread. Real logs and marks, written without Spark."""

import json
import random
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.test_utils import freeze_time
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse import Changes, DeltaIOManager, Merge, Table
from lakehouse.cursor.definition import digest, partitions
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position
from lakehouse.cursor.unread import TableState
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.definitions.checked import Checked
from lakehouse.dagster.definitions.findings import Finding, Grade
from lakehouse.dagster.follow.followed import LeftOut
from lakehouse.dagster.follow.partitions import slice_read
from lakehouse.dagster.follow.watch import Behind, UpToDate, Watch
from lakehouse.dagster.io_manager import roots_of
from lakehouse.dagster.table_facts import LOCATIONS
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.status.table_status import table_status
from tests.support.daily import run_day
from tests.support.marked_tables import FEED, append, committed, run
from tests.support.slow import slow
from tests.support.tables import DAYS, orders

COPIES, DAILY = dg.AssetKey("copies"), dg.AssetKey("daily")


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...


by_day = dg.AssetSpec("orders", metadata=Table(key="id", partition_by="day"), partitions_def=DAYS)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
def daily(orders: Changes) -> Merge: ...


def watched(root: Path, *assets: Any) -> Watch:
    manager = DeltaIOManager(spark=object(), root=str(root))
    return Watch(CodeLocation.of(assets, roots_of({"io_manager": manager})))


def checked(root: Path, asset: dg.AssetsDefinition, *assets: Any) -> Checked:
    manager = DeltaIOManager(spark=object(), root=str(root))
    managers = dict.fromkeys([asset.key, dg.AssetKey("orders")], manager)
    code_location = CodeLocation.of([asset, *assets], roots_of({"io_manager": manager}))
    return Checked.of(code_location[asset.key], code_location, managers, "seed")


def up_to_date(table: Checked, most: timedelta = timedelta(days=1)) -> Finding:
    return table.up_to_date(most, timedelta(days=1))


def act(chance: random.Random, root: Path, row: int) -> None:
    match chance.randrange(6):
        case 0 | 1:
            run(root, "copies", "orders", rows=chance.random() < 0.5)
        case 2:
            DeltaTable(str(root / "orders")).optimize.compact()
        case 3 if chance.random() < 0.3:
            shutil.rmtree(root / "orders")
            append(root, "orders", row)
        case 4 if DeltaTable(str(root / "orders")).version() > 3 and chance.random() < 0.5:
            cleaned(root / "orders")
        case _:
            append(root, "orders", row)


def cleaned(table: Path) -> None:
    """Cleans up the log of a table up to its newest version, as Delta does once that version has a checkpoint."""
    delta = DeltaTable(str(table))
    delta.create_checkpoint()
    for version in range(delta.version()):
        (table / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)


@pytest.mark.parametrize("seed", [0, 1, *map(slow, range(2, 6))])
def test_the_sensor_and_the_status_and_the_checks_agree_after_every_step_of_a_history(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    append(tmp_path, "orders", 1)
    run(tmp_path, "copies", "orders")
    seen = set[TableState]()
    for step in range(14):
        act(chance, tmp_path, 100 + step)
        look = watched(tmp_path, orders, copies).look(dg.DagsterInstance.ephemeral()).tables[COPIES]
        logs = {name: FileLog(Location(str(tmp_path / name)), name) for name in ("orders", "copies")}
        status = table_status("copies", logs)
        assert status is not None
        table = checked(tmp_path, copies, orders)
        found = up_to_date(table)
        assert isinstance(look, UpToDate) == (status.state is TableState.UP_TO_DATE)
        assert isinstance(look, UpToDate) == (found.sentence == "'copies' has read every change of its sources.")
        assert (status.state is TableState.GAP) == (found.figures["sources with a gap"] == 1), (status, found)
        assert all(reading.gap is None or reading.gap in found.sentence for reading in status.reads)
        seen.add(status.state)
    assert TableState.UP_TO_DATE in seen


def test_a_table_whose_position_is_lost_is_told_so_by_all(tmp_path: Path) -> None:
    append(tmp_path, "orders", 1)
    run(tmp_path, "copies", "orders")
    append(tmp_path, "copies", 7)
    DeltaTable(str(tmp_path / "copies")).restore(0)
    DeltaTable(str(tmp_path / "copies")).delete()
    logs = {name: FileLog(Location(str(tmp_path / name)), name) for name in ("orders", "copies")}
    status = table_status("copies", logs)
    assert status is not None and status.state is TableState.GAP
    assert status.reads[0].gap == "version 3 (DELETE) replaced all its rows"
    assert isinstance(watched(tmp_path, orders, copies).look(dg.DagsterInstance.ephemeral()).tables[COPIES], Behind)
    assert up_to_date(checked(tmp_path, copies, orders)) == Finding(Grade.WARNS, "'copies' has not read 'orders' yet.")


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """A source partitioned by day; `daily` has read version 0 of two days, and then the second day changed."""
    append_day(tmp_path, "2013-01-01", 1)
    append_day(tmp_path, "2013-01-02", 2)
    for partition in ("2013-01-01", "2013-01-02"):
        run_day(tmp_path, partition)
    append_day(tmp_path, "2013-01-02", 3)
    return tmp_path


def append_day(root: Path, day: str, row: int) -> None:
    rows = pa.table({"id": pa.array([row], pa.int32()), "day": [day]})
    write_deltalake(str(root / "orders"), rows, mode="append", partition_by=["day"], configuration=FEED)


@pytest.mark.parametrize("columns", [["day"], []], ids=["partitioned by day", "in no partitions of Delta"])
def test_a_partition_whose_last_rows_are_deleted_at_the_source_is_behind(tmp_path: Path, columns: list[str]) -> None:
    """Its rows are only in the table; if the table's files do not name the partition, its own commits do."""
    append_day(tmp_path, "2013-01-01", 1)
    append_day(tmp_path, "2013-01-02", 2)
    for partition in ("2013-01-01", "2013-01-02"):
        run_day(tmp_path, partition, columns)
    assert watched(tmp_path, by_day, daily).look(dg.DagsterInstance.ephemeral()).tables[DAILY] == UpToDate()
    DeltaTable(str(tmp_path / "orders")).delete("day = '2013-01-01'")
    look = watched(tmp_path, by_day, daily).look(dg.DagsterInstance.ephemeral()).tables[DAILY]
    assert isinstance(look, Behind)
    assert set(look.states) == {"2013-01-01"}


@pytest.mark.parametrize("named", [None, {"col-4f1c": "2013-01-01"}, {"day": "2013-01-02", "col-4f1c": "2013-01-01"}])
def test_a_commit_that_does_not_name_the_partition_of_a_file_wakes_every_partition(
    days: Path, named: Mapping[str, str] | None
) -> None:
    """Its writer may omit the values of a removed file, or the table's columns were mapped or renamed at the time."""
    run_day(days, "2013-01-02")
    DeltaTable(str(days / "orders")).delete("day = '2013-01-01'")
    version = DeltaTable(str(days / "orders")).version()
    entry = days / "orders" / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "remove" in action:
            action["remove"]["partitionValues"] = named
    entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    look = watched(days, by_day, daily).look(dg.DagsterInstance.ephemeral()).tables[DAILY]
    assert isinstance(look, Behind) and {"2013-01-01", "2013-01-02"} <= set(look.states)


def test_the_checks_of_a_partitioned_table_are_about_the_partition_that_is_worst_off(days: Path) -> None:
    table = checked(days, daily, by_day)
    lag = up_to_date(table)
    assert lag.grade is Grade.PASSED and lag.figures["sources with a gap"] == 0
    assert lag.sentence.startswith("'daily' has not read 1 version of 'orders, partition 2013-01-02' (oldest ")
    assert lag.figures["versions behind"] == 1
    assert up_to_date(table, timedelta(microseconds=1)).grade is Grade.FAILED
    look = watched(days, by_day, daily).look(dg.DagsterInstance.ephemeral()).tables[DAILY]
    assert isinstance(look, Behind) and list(look.states) == ["2013-01-02"]
    run_day(days, "2013-01-02")
    assert up_to_date(checked(days, daily, by_day)).sentence == "'daily' has read every change of its sources."


def test_a_partition_whose_source_was_cleaned_up_behind_it_fails_the_checks(days: Path) -> None:
    append_day(days, "2013-01-02", 4)
    cleaned(days / "orders")
    table = checked(days, daily, by_day)
    late = up_to_date(table)
    assert late.grade is Grade.FAILED and late.figures["sources with a gap"] == 1
    look = watched(days, by_day, daily).look(dg.DagsterInstance.ephemeral()).tables[DAILY]
    assert isinstance(look, Behind) and list(look.states) == ["2013-01-02", "2013-01-01"]


def test_a_partition_that_was_never_read_is_late_by_the_age_of_its_rows(days: Path) -> None:
    """As the sensor requests it. If there are several, the one that has waited longest is named first."""
    run_day(days, "2013-01-02")
    for day, days_ago in (("2013-01-04", 5), ("2013-01-03", 9)):
        append_day(days, day, 5)
        committed(days / "orders", days_ago)
    look = watched(days, by_day, daily).look(dg.DagsterInstance.ephemeral()).tables[DAILY]
    assert isinstance(look, Behind) and sorted(look.states) == ["2013-01-03", "2013-01-04"]
    late = up_to_date(checked(days, daily, by_day), timedelta(days=7))
    assert late.grade is Grade.FAILED
    assert late.sentence == (
        "'daily' has no position of 'orders' for partition 2013-01-03 and 1 more (oldest change 9 days ago: it has not "
        "been read yet). The limit is 7 days: materialize it, or see why its runs fail."
    )
    assert late.figures["seconds behind"] == pytest.approx(9 * 86_400, abs=60)
    named = [record["source"] for record in late.records if record["read"] == "no position"]
    assert named == ["orders, partition 2013-01-03", "orders, partition 2013-01-04"]
    assert up_to_date(checked(days, daily, by_day), timedelta(days=10)).grade is Grade.WARNS


def test_a_partition_that_may_have_rows_in_a_source_without_partitions_warns_at_any_age(tmp_path: Path) -> None:
    append(tmp_path, "orders", 1)
    committed(tmp_path / "orders", 9)
    run_day(tmp_path, "2013-01-01")
    told = up_to_date(checked(tmp_path, daily, orders))
    assert told.grade is Grade.WARNS
    assert told.sentence == (
        "'daily' has no position of 'orders' for partition 2013-01-02 and 2 more (it has not been read yet, and the log "
        "no longer shows when its rows were written)."
    )


def test_a_run_is_due_while_log_cleanup_could_take_the_own_mark_behind_the_commits_of_others(tmp_path: Path) -> None:
    """Others commit, and the sources do not change: after a month the log would contain no position."""
    append(tmp_path, "orders", 1)
    run(tmp_path, "copies", "orders")
    watch, instance = watched(tmp_path, orders, copies), dg.DagsterInstance.ephemeral()
    committed(tmp_path / "copies", days_ago=16)
    assert watch.look(instance).tables[COPIES] == UpToDate(), "cleanup keeps the newest commit"
    DeltaTable(str(tmp_path / "copies")).alter.set_table_properties({"delta.appendOnly": "false"})
    due = watch.look(instance).tables[COPIES]
    assert isinstance(due, Behind) and due.oldest is None
    run(tmp_path, "copies", "orders", rows=False)
    DeltaTable(str(tmp_path / "copies")).alter.set_table_properties({"delta.appendOnly": "true"})
    assert watch.look(instance).tables[COPIES] == UpToDate(), "its mark is new"


def test_what_upkeep_does_to_a_source_is_read_once_log_cleanup_could_reach_it_and_not_before(tmp_path: Path) -> None:
    """A run for each OPTIMIZE of each source, on the next day, would wake every table once a night."""
    append(tmp_path, "orders", 1)
    append(tmp_path, "orders", 2)
    run(tmp_path, "copies", "orders")
    watch, instance = watched(tmp_path, orders, copies), dg.DagsterInstance.ephemeral()
    DeltaTable(str(tmp_path / "orders")).optimize.compact()
    for days_ago, look in ((0, UpToDate), (14, UpToDate), (16, Behind)):
        committed(tmp_path / "orders", days_ago)
        assert isinstance(watch.look(instance).tables[COPIES], look), f"{days_ago} days later"


def test_the_columns_of_a_partitioned_table_are_compared_with_its_newest_own_commit(days: Path) -> None:
    """Whatever partition it wrote; and the columns of its sources with those of the versions that it had read."""
    told = checked(days, daily, by_day).schema()
    assert told.sentence == "'daily' and its sources have the columns they had."
    wider = pa.table({"id": pa.array([9], pa.int32()), "day": ["2013-01-01"], "w": [1]})
    for table in ("orders", "daily"):
        write_deltalake(str(days / table), wider, mode="append", partition_by=["day"], schema_mode="merge")
    told = checked(days, daily, by_day).schema()
    assert told.grade is Grade.WARNS
    assert [(record["table"], record["column"], record["what"]) for record in told.records] == [
        ("daily", "w", "added since version 1"),
        ("orders", "w", "added since version 1"),
    ]


def test_a_table_with_a_catalog_name_is_followed_where_its_last_run_found_it(tmp_path: Path) -> None:
    """Until then its place is unknown, and the tick reports that; after the run that was requested, it is known."""
    sold = dg.asset(name="sold", metadata=Table(key="id", name="shop.sold"))(copies.op.compute_fn.decorated_fn)
    append(tmp_path, "orders", 1)
    run(tmp_path, "elsewhere", "orders")
    watch, instance = watched(tmp_path, orders, sold), dg.DagsterInstance.ephemeral()
    assert watch.look(instance).tables[sold.key] == LeftOut(
        "where `shop`.`sold` is, is not known before a run has resolved the name"
    )
    noted = {LOCATIONS: dg.MetadataValue.json({"sold": f"file:{tmp_path}/elsewhere"})}
    instance.report_runless_asset_event(dg.AssetMaterialization("sold", metadata=noted))
    assert isinstance(watch.look(instance).tables[sold.key], Behind)


hourly = dg.AssetSpec(
    "orders",
    metadata=Table(key="id", partition_by="at"),
    partitions_def=dg.HourlyPartitionsDefinition("2026-01-10-00:00"),
)


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition("2026-01-10", end_offset=1), metadata=Table(partition_by="at", key="id")
)
def today(orders: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"), ins={"orders": dg.AssetIn(partition_mapping=dg.LastPartitionMapping())})
def last_hour(orders: Changes) -> Merge: ...


@pytest.mark.parametrize(("asset", "partition"), [(today, "2026-01-10"), (last_hour, None)], ids=["mapped", "last"])
def test_rows_that_were_there_before_their_partition_are_asked_for_once_there_is_one(
    tmp_path: Path, asset: dg.AssetsDefinition, partition: str | None
) -> None:
    """No commit follows them: time alone maps another partition of the source to the run."""
    name, source = asset.key.to_user_string(), CodeLocation.of([hourly, asset], lambda _: None)[hourly.key]

    def look() -> object:
        return watched(tmp_path, hourly, asset).look(dg.DagsterInstance.ephemeral()).tables[asset.key]

    with freeze_time(datetime(2026, 1, 10, 1, 30, tzinfo=UTC)):
        for hour in (0, 1):  # the second hour has not ended, so no partition has it
            at = pa.array([datetime(2026, 1, 10, hour, tzinfo=UTC)], pa.timestamp("us", "UTC"))
            rows = pa.table({"id": pa.array([hour], pa.int32()), "at": at})
            write_deltalake(str(tmp_path / "orders"), rows, mode="append", partition_by=["at"], configuration=FEED)
        read = DeltaTable(str(tmp_path / "orders"))
        slice_ = slice_read(asset, source, partition)
        assert slice_ is not None
        position = Position(str(read.metadata().id), read.version(), mapped=digest(partitions(slice_)))
        keys = (partition,) if partition else ()
        mark = Mark(name, keys, FIRST_GENERATION, 1, "run", "attempt", -1, reads={"orders": position})
        properties = CommitProperties(custom_metadata={"userMetadata": mark.to_json()})
        columns = ["at"] if partition else None
        write_deltalake(str(tmp_path / name), rows, partition_by=columns, commit_properties=properties)
        assert isinstance(look(), UpToDate)
    with freeze_time(datetime(2026, 1, 10, 2, 5, tzinfo=UTC)):
        found = look()
        assert isinstance(found, Behind) and list(found.states) == [partition or ""]
        finding = up_to_date(checked(tmp_path, asset, hourly))
        assert finding.grade is Grade.WARNS and "other partitions of it are mapped" in finding.sentence
