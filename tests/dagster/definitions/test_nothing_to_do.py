"""A step whose sources have no changes does not call its function or ask for Spark; any other step runs as before."""

import datetime as dt
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

from lakehouse import Append, Changes, DeltaIOManager, History, Merge, Overwrite, Table, explain, incremental
from lakehouse.read.forecast import RunEffect
from lakehouse.server.lifecycle import stop
from lakehouse.server.rendezvous import Rendezvous
from lakehouse.spark.table_version import TableRef
from resources.environments import PROJECT
from tests.support.dagster_house import House, failure, metadata
from tests.support.lake import Lake
from tests.support.tables import DAY_1, DAY_2, DAYS, EVENTS, orders

pytestmark = pytest.mark.served
CALLS: list[str] = []
QUIET = "nothing: no source has changes"
names = dg.AssetSpec("names", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="id"))
def copies(context: dg.AssetExecutionContext, orders: Changes) -> Merge:
    CALLS.append(context.asset_key.to_user_string())
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id"))
def named(copies: Changes, names: DataFrame) -> Merge:
    CALLS.append("named")
    touched = copies.touched("id")
    return Merge(touched.rows.join(names, "id", "left"), touched)


@dg.asset(metadata=Table(key="id"))
def whole(orders: Changes, names: DataFrame) -> DataFrame:
    CALLS.append("whole")
    return orders.source.join(names, "id", "left")


@dg.asset
def log(orders: Changes) -> Append:
    CALLS.append("log")
    return Append(orders.log())


@dg.asset(metadata=Table(key="id"))
def past(orders: Changes) -> History:
    CALLS.append("past")
    return History(orders, track="v")


@dg.asset(name="past", metadata=Table(key="id"))
def past_of_days(orders: Changes) -> History:
    return History(orders, track="day")


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
def daily(by_day: Changes, names: DataFrame) -> Merge:
    CALLS.append("daily")
    touched = by_day.touched("id", "day")
    return Merge(touched.rows, touched)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day"))
def by_day(orders: DataFrame) -> Overwrite:
    return Overwrite(orders)


@dataclass
class Asked:
    """A resource that counts how often its session is asked for."""

    session: SparkSession
    times: list[int] = field(default_factory=list[int])

    @property
    def spark_session(self) -> SparkSession:
        self.times.append(1)
        return self.session


@dataclass
class Resting(House):
    """A house whose assets have been completed by `incremental`."""

    spark: Asked = field(init=False)

    def __post_init__(self) -> None:
        self.spark = Asked(self.lake.spark)
        self.complete(*self.assets)

    def complete(self, *assets: Any) -> None:
        definitions = dg.Definitions(assets=assets, resources={"io_manager": self.io_manager})
        self.assets = list(incremental(definitions).assets or [])

    @property
    def io_manager(self) -> DeltaIOManager:
        return DeltaIOManager(spark=self.spark, root=str(self.root), conflicts=self.retry)

    def step(self, name: str, **options: Any) -> tuple[list[str], bool, Any]:
        """A run of one asset: the functions that were called, whether Spark was asked for, what was written."""
        CALLS.clear()
        self.spark.times.clear()
        result = self.run(name, **options)
        return [*CALLS], bool(self.spark.times), metadata(result, name)["write"]


@pytest.fixture
def house(lake: Lake, instance: dg.DagsterInstance) -> Resting:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)], EVENTS)
    lake.create("names", [(1, "a"), (2, "b")], "id int, name string")
    return Resting(lake, [orders, names, copies, named, whole, log, past, daily, by_day], instance)


def test_a_step_without_changed_rows_calls_no_function_and_asks_for_no_spark(house: Resting) -> None:
    assert house.step("copies")[:2] == (["copies"], True)
    first = house.instance.get_latest_materialization_event(dg.AssetKey("copies"))
    assert house.step("copies") == ([], False, QUIET)
    shown = metadata(house.run("copies"), "copies")
    assert shown["read"] == [{"table": "orders", "after": 0, "upto": 0, "changed": "0 rows", "how": "no row changed"}]
    assert (shown["version"], shown["inserted"], shown["dagster/row_count"]) == (0, 0, 3)
    assert [column.name for column in shown["dagster/column_schema"].columns] == ["id", "day", "v"]
    last = house.instance.get_latest_materialization_event(dg.AssetKey("copies"))
    versions = [event.asset_materialization.tags["dagster/data_version"] for event in (first, last)]  # type: ignore[union-attr,index]
    assert versions == ["0", "0"], "nobody downstream is woken"
    house.lake.sql("OPTIMIZE {orders}")
    house.lake.sql("ALTER TABLE {orders} SET TBLPROPERTIES ('note' = 'kept')")
    assert house.step("copies") == ([], False, QUIET)
    house.lake.insert("orders", [(4, DAY_1, 40)])
    assert house.step("copies")[:2] == (["copies"], True)
    assert house.lake.rows("copies") == house.lake.rows("orders")


def recoded(house: Resting) -> None:
    made = dg.asset(metadata=Table(key="id"), code_version="2", name="copies")(copies.op.compute_fn.decorated_fn)
    house.complete(orders, made)


def restored(house: Resting) -> None:
    house.lake.insert("orders", [(4, DAY_1, 40)])
    house.run("copies")
    house.lake.sql("RESTORE {copies} TO VERSION AS OF 0")


def replaced(house: Resting) -> None:
    house.lake.sql(
        "CREATE OR REPLACE TABLE {orders} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT * FROM {orders}"
    )


@pytest.mark.slow
def test_a_step_with_something_to_do_calls_its_function(house: Resting) -> None:
    house.run("copies")
    for change in (recoded, restored, replaced):
        change(house)
        assert house.step("copies")[:2] == (["copies"], True), change
        assert house.lake.rows("copies") == house.lake.rows("orders")
    assert house.step("copies", tags={"lakehouse/full_refresh": "true"})[:2] == (["copies"], True)


@pytest.mark.slow
def test_a_snapshot_input_that_moved_is_something_to_do_for_a_whole_table_only(house: Resting) -> None:
    house.run("copies", "named", "whole")
    assert [house.step(name) for name in ("named", "whole")] == [([], False, QUIET)] * 2
    house.lake.insert("names", [(3, "c")])
    assert house.step("named") == ([], False, QUIET), "rows written earlier do not follow a snapshot input"
    assert house.step("whole")[:2] == (["whole"], True)
    assert (3, DAY_2, 30, "c") in house.lake.rows("whole")


@dg.asset(ins={"rate": dg.AssetIn(key="rates")}, metadata=Table(key="id"))
def converted(orders: Changes, rate: DataFrame) -> Overwrite:
    CALLS.append("converted")
    return Overwrite(orders.source.crossJoin(rate).selectExpr("id", "v * rate AS v"))


@dataclass
class Rates(dg.IOManager):
    """Returns rows that depend on no version of a table."""

    spark: SparkSession
    rate: int = 2

    def load_input(self, context: dg.InputContext) -> DataFrame:
        return self.spark.sql(f"SELECT {self.rate} AS rate")

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        raise AssertionError


def test_an_input_of_another_manager_may_be_another_in_each_run(house: Resting, instance: dg.DagsterInstance) -> None:
    source = dg.AssetSpec("rates").with_io_manager_key("other")
    rates = Rates(house.lake.spark)
    resources: dict[str, Any] = {"io_manager": house.io_manager, "other": rates}
    assets = list(incremental(dg.Definitions(assets=[orders, source, converted], resources=resources)).assets or [])
    written = list[Any]()
    for rate in (2, 2, 3):
        rates.rate = rate
        result = dg.materialize(assets, selection=[dg.AssetKey("converted")], resources=resources, instance=instance)
        written.append((house.lake.version("converted"), [v for _, v in house.lake.rows("converted")]))
        assert result.success
    assert written == [(0, [20, 40, 60]), (0, [20, 40, 60]), (1, [30, 60, 90])]
    foreseen = explain(dg.Definitions(assets=assets, resources=resources), "converted")
    assert foreseen.verdict is RunEffect.WRITES and "Another IO manager reads rates" in foreseen.why


@pytest.mark.slow
def test_a_history_says_what_it_tracks_and_asks_for_spark_only_if_its_source_has_changes(house: Resting) -> None:
    assert house.step("past")[:2] == (["past"], True)
    told = house.lake.rows("past")
    assert house.step("past") == (["past"], False, QUIET)
    house.lake.sql("OPTIMIZE {orders}")
    assert house.step("past") == (["past"], False, QUIET)
    assert house.lake.rows("past") == told
    house.lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    assert house.step("past")[:2] == (["past"], True)
    assert len(house.lake.rows("past")) == len(told) + 1
    house.complete(orders, past_of_days)
    assert "has tracked v and is to track day" in failure(house.run("past", raise_on_error=False))


def test_a_partition_whose_rows_changed_or_were_removed_is_computed_again_and_no_other(house: Resting) -> None:
    first, second = "2013-01-01", "2013-01-02"
    for day in (first, second):
        house.run("by_day", partition_key=day)
        house.run("daily", partition_key=day)
    assert house.step("daily", partition_key=second) == ([], False, QUIET)
    house.lake.sql("DELETE FROM {daily} WHERE day = DATE'2013-01-01'")
    assert house.step("daily", partition_key=second)[::2] == ([], QUIET)
    assert house.step("daily", partition_key=first)[0] == ["daily"]
    assert house.lake.rows("daily") == house.lake.rows("by_day")
    assert house.step("daily", partition_key=first) == ([], False, QUIET)
    house.lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    house.run("by_day", partition_key=first)
    assert house.step("daily", partition_key=first)[0] == ["daily"]
    assert house.lake.rows("daily") == house.lake.rows("by_day")


def test_an_asset_is_still_a_function_that_a_test_may_call(house: Resting) -> None:
    asset = next(asset for asset in house.assets if asset.key == log.key)
    write = asset(house.lake.read(house.lake.begin(logged), logged)["orders"])
    assert isinstance(write, Append)


def logged(orders: Changes) -> Append: ...


ACTIONS: dict[str, Callable[[Lake, int], object]] = {
    "INSERT": lambda lake, seed: lake.insert("orders", [(seed, DAY_1 + dt.timedelta(seed % 3), seed)]),
    "UPDATE": lambda lake, seed: lake.sql(f"UPDATE {{orders}} SET v = v + 1 WHERE id % 3 = {seed % 3}"),
    "DELETE": lambda lake, seed: lake.sql(f"DELETE FROM {{orders}} WHERE id % 5 = {seed % 5}"),
    "UPDATE of no row": lambda lake, _: lake.sql("UPDATE {orders} SET v = 0 WHERE id < 0"),
    "OPTIMIZE": lambda lake, _: lake.sql("OPTIMIZE {orders}"),
    "none": lambda *_: None,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_after_any_history_the_table_is_its_source_and_a_second_run_has_nothing_to_do(
    house: Resting, seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(10, 22):
        before, action = house.lake.rows("orders"), chance.choice([*ACTIONS])
        ACTIONS[action](house.lake, number)
        called, asked, _ = house.step("copies")
        assert house.lake.rows("copies") == house.lake.rows("orders"), action
        assert called == (["copies"] if asked else [])
        assert number == 10 or asked or before == house.lake.rows("orders"), action
        assert house.step("copies") == ([], False, QUIET), action


@pytest.mark.slow
def test_a_process_with_nothing_to_do_starts_no_server(tmp_path: Path) -> None:
    root = tmp_path / "lake"

    def materialized() -> str:
        command = [sys.executable, "-m", "tests.support.materializing_process", str(root)]
        return subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True, timeout=300).stdout

    def commit(*ids: int) -> None:
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(root / "orders"), pa.table({"id": [*ids]}), mode="append", configuration=feed)

    commit(1, 2)
    try:
        assert materialized() != QUIET
        assert stop(root, now=True)
        assert materialized() == QUIET
        assert Rendezvous(root).state() is None
        commit(3)
        assert materialized() != QUIET
    finally:
        stop(root, now=True)
    log = TableRef.at_path("copies", str(root / "copies")).log(no_session)
    head = log.head()
    assert head is not None and log.live_rows(head.version) == 3


def no_session() -> SparkSession:
    raise AssertionError("Spark was asked for")
