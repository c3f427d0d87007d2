"""The automation condition: it is true for what is unread by the logs. Real tables and marks, written without Spark."""

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.utils import make_new_run_id
from deltalake import write_deltalake
from pyspark.sql import DataFrame

from lakehouse import Changes, DeltaIOManager, Merge, Overwrite, Table, automation, change_sensor, validate
from lakehouse.dagster.follow.watch import FIRST_PAUSE
from lakehouse.dagster.one_driver import SILENT
from tests.support.daily import run_day
from tests.support.marked_tables import FEED, append, run
from tests.support.raises import raises_code
from tests.support.tables import DAYS, orders
from tests.support.ticks import tick

COPIES, TOTALS = dg.AssetKey("copies"), dg.AssetKey("totals")


@dg.asset(metadata=Table(key="id"), automation_condition=automation())
def copies(orders: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"), automation_condition=automation())
def totals(copies: Changes) -> Merge: ...


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"), automation_condition=automation())
def daily(orders: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"), automation_condition=automation())
def joined(copies: Changes, nowhere: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"), automation_condition=automation())
def behind(joined: Changes, copies: Changes) -> Merge: ...


@dataclass
class Place:
    """Tables below a root, and the evaluations of the conditions on them."""

    root: Path
    instance: dg.DagsterInstance
    assets: list[Any] = field(default_factory=lambda: [orders, copies, totals])
    cursor: Any = None

    @property
    def definitions(self) -> dg.Definitions:
        manager = DeltaIOManager(spark=object(), root=str(self.root))
        return validate(dg.Definitions(assets=self.assets, resources={"io_manager": manager}))

    @property
    def _selected(self) -> dg.AssetSelection:
        return dg.AssetSelection.assets(*(asset.key for asset in self.assets))

    def ticks(self, later: float = 0.0) -> set[str]:
        """The tables, and their partitions, that one tick requests; the code location is loaded again for each tick.

        Args:
            later: This many seconds from now.
        """
        result = dg.evaluate_automation_conditions(
            self.definitions,
            self.instance,
            self._selected,
            evaluation_time=datetime.now(UTC) + timedelta(seconds=later),
            cursor=self.cursor,
        )
        self.cursor = result.cursor
        named = {asset.key for asset in self.assets}
        return {
            " ".join(filter(None, (key.to_user_string(), partition)))
            for key in named
            for partition in result.get_requested_partitions(key)
        }

    def append(self, name: str, *ids: int) -> int:
        return append(self.root, name, *ids)

    def run(self, name: str, source: str, *, rows: bool = True) -> None:
        run(self.root, name, source, rows=rows)


@pytest.fixture
def place(tmp_path: Path, instance: dg.DagsterInstance) -> Place:
    place = Place(tmp_path, instance)
    place.append("orders", 1, 2)
    return place


@pytest.fixture
def current(place: Place) -> Place:
    """A graph whose tables have read everything."""
    place.run("copies", "orders")
    place.run("totals", "copies")
    assert place.ticks() == set()
    return place


def test_an_upstream_that_moved_before_the_first_tick_is_not_missed(place: Place) -> None:
    """There was no tick before the change, and so no event: what is unread is a state."""
    place.append("orders", 3)
    assert place.ticks() == {"copies", "totals"}, "the table that follows is requested for the same run"


def test_a_change_requests_one_run_and_a_table_that_has_read_it_none(current: Place) -> None:
    current.append("orders", 3)
    assert current.ticks() == {"copies", "totals"}
    current.run("copies", "orders")
    current.run("totals", "copies")
    assert current.ticks() == set()


def test_a_run_that_fails_once_is_requested_again_after_a_pause_and_not_at_each_tick(current: Place) -> None:
    current.append("orders", 3)
    assert current.ticks() == {"copies", "totals"}
    assert current.ticks() == set(), "the run failed and left nothing; the pause is not over"
    assert "copies" in current.ticks(later=FIRST_PAUSE + 1)


def started(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None = None) -> dg.DagsterRun:
    """A run that is to materialize a table, or a partition of a table, and has not ended."""
    tags = {} if partition is None else {"dagster/partition": partition}
    run = instance.add_run(dg.DagsterRun("any", make_new_run_id(), status=dg.DagsterRunStatus.STARTED, tags=tags))
    planned = AssetMaterializationPlannedData(key, partition)
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED.value
    instance.report_dagster_event(dg.DagsterEvent(kind, "any", event_specific_data=planned), run.run_id)
    return run


def test_a_run_of_a_partition_that_died_is_not_waited_for(place: Place) -> None:
    place.assets = [orders, daily]
    started(place.instance, daily.key, "2013-01-02")
    assert place.ticks() == {f"daily 2013-01-0{day}" for day in (1, 3, 4)}
    place.cursor = None
    assert place.ticks(later=SILENT + 1) == {f"daily 2013-01-0{day}" for day in (1, 2, 3, 4)}


def test_a_table_whose_source_fails_in_their_run_is_requested_alone(place: Place) -> None:
    place.append("nowhere", 1)
    place.assets = [orders, dg.AssetSpec("nowhere"), copies, joined]
    place.run("copies", "orders")
    place.append("orders", 3)
    assert place.ticks() == {"copies", "joined"}
    assert place.ticks() == {"joined"}, "the run failed at copies, so joined was not tried"
    assert place.ticks() == set()


def test_a_run_that_died_is_not_waited_for(current: Place) -> None:
    """If the code server is killed, its runs stay in the state "started"."""
    current.append("orders", 3)
    started(current.instance, COPIES)
    assert current.ticks() == set(), "a living run says every half minute how far it is"
    assert current.ticks(later=SILENT + 1) == {"copies", "totals"}


def test_a_change_that_comes_while_a_failed_run_pauses_is_requested_at_once(current: Place) -> None:
    current.append("orders", 3)
    assert current.ticks() == {"copies", "totals"}
    current.append("orders", 4)
    assert "copies" in current.ticks()


def test_what_cannot_run_is_not_requested_behind_what_can(place: Place) -> None:
    """A run of it would fail at each change of its other sources; nor can a table run whose source only it makes."""
    place.assets = [orders, dg.AssetSpec("nowhere"), copies, totals, joined, behind]
    assert place.ticks() == {"copies", "totals"}


def change_day(place: Place, *days: str) -> None:
    rows = pa.table({"id": pa.array([7] * len(days), pa.int32()), "day": list(days)})
    write_deltalake(str(place.root / "orders"), rows, mode="append", partition_by=["day"], configuration=FEED)


@pytest.fixture
def by_day(place: Place) -> Place:
    """A table whose partitions read one partition each of its source."""
    place.assets = [dg.AssetSpec("orders", metadata=Table(key="id", partition_by="day"), partitions_def=DAYS), daily]
    shutil.rmtree(place.root / "orders")
    return place


def test_of_a_partitioned_table_the_partitions_are_requested_whose_rows_changed(by_day: Place) -> None:
    change_day(by_day, "2013-01-03")
    assert by_day.ticks() == {"daily 2013-01-03"}


def test_a_partition_whose_run_fails_keeps_its_pause_while_another_gets_rows(by_day: Place) -> None:
    change_day(by_day, "2013-01-01", "2013-01-02")
    for day in ("2013-01-01", "2013-01-02"):
        run_day(by_day.root, day)
    change_day(by_day, "2013-01-01")
    assert by_day.ticks() == {"daily 2013-01-01"}
    for _ in range(3):
        change_day(by_day, "2013-01-02")
        assert by_day.ticks() == {"daily 2013-01-02"}, "the pause of the first day is not over"
    change_day(by_day, "2013-01-01")
    assert by_day.ticks() == {"daily 2013-01-01"}, "its own rows changed"


def test_a_partition_that_waits_for_its_run_is_requested_once_that_run_has_ended(by_day: Place) -> None:
    change_day(by_day, "2013-01-01", "2013-01-02")
    run = started(by_day.instance, daily.key, "2013-01-01")
    assert by_day.ticks() == {"daily 2013-01-02"}
    by_day.instance.report_run_failed(run)
    assert by_day.ticks() == {"daily 2013-01-01"}, "no pause, because it has not been requested"


def test_the_sensor_only_looks_at_what_has_a_condition(current: Place) -> None:
    """With both switched on, each change leads to one run: the condition's."""
    sensor = change_sensor("carry_on", current.assets, root=str(current.root))
    current.append("orders", 3)
    assert current.ticks() == {"copies", "totals"}
    skipped = tick(sensor, current.instance)
    assert isinstance(skipped, dg.SkipReason)
    assert "Left to their automation conditions: copies" in str(skipped.skip_message)


def test_validate_adds_one_sensor_that_evaluates_the_conditions_in_the_code_server(place: Place) -> None:
    (sensor,) = place.definitions.sensors or []
    assert isinstance(sensor, dg.AutomationConditionSensorDefinition)
    assert sensor.sensor_type.value == "AUTOMATION"
    assert place.definitions.get_repository_def()
    place.assets = [orders]
    assert list(place.definitions.sensors or []) == []


def test_the_condition_of_a_table_that_reads_no_changes_is_refused(place: Place) -> None:
    @dg.asset(metadata=Table(key="id"), automation_condition=automation() | dg.AutomationCondition.on_cron("@hourly"))
    def landed(orders: DataFrame) -> Overwrite: ...

    place.assets = [orders, landed]
    with raises_code("DEFINITION", match=r"'landed' has the condition automation.* reads no input as Changes"):
        place.definitions.get_repository_def()


def test_a_condition_that_does_not_know_its_tables_says_what_to_do() -> None:
    with pytest.raises(Exception, match="copies") as raised:
        dg.evaluate_automation_conditions(
            dg.Definitions(assets=[orders, copies]), dg.DagsterInstance.ephemeral(), dg.AssetSelection.assets("copies")
        )
    assert "Pass the definitions through validate(...)" in str(raised.value.__cause__)


@pytest.mark.parametrize("begins", [7, 13, 31])
def test_what_stands_next_to_the_condition_does_not_starve_it(place: Place, begins: int) -> None:
    """A pause begins with a run that was requested, not with each tick in which only the other condition was false."""
    hourly = dg.AutomationCondition.cron_tick_passed("0 * * * *")

    @dg.asset(name="copies", metadata=Table(key="id"), automation_condition=automation() & hourly)
    def gated(orders: Changes) -> Merge: ...

    place.assets = [orders, gated]
    place.run("copies", "orders")
    now = datetime.now(UTC)
    start = (now.replace(minute=begins, second=0) - now).total_seconds()
    assert place.ticks(start) == set()
    place.append("orders", 3)
    requested = [minute for minute in range(10, 310, 10) if place.ticks(start + 60 * minute)]
    assert len(requested) == 5, "the run of each hour fails, and the next hour asks for another"
