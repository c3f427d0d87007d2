"""Which IO manager keeps the position, whatever manager the source has, and which partitions of the source are read."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, DeltaIOManager, Merge, Overwrite, Table, checks, validate
from lakehouse.dagster.run_tags import CHECKS
from tests.support.dagster_house import House, Running, metadata
from tests.support.lake import Lake
from tests.support.slow import slow
from tests.support.tables import DAY_1, DAY_2, DAY_3, DAYS, by_day, carried, orders

MONTHS = dg.MonthlyPartitionsDefinition("2013-01-01", end_date="2013-02-01")


@dg.asset(io_manager_key="elsewhere")
def kept(orders: Changes) -> Append:
    return Append(orders.appended())


copied = dg.asset(name="copied", io_manager_key="elsewhere", metadata=Table(key="id"))(carried)


@pytest.fixture
def elsewhere(house: House, tmp_path: Path) -> Lake:
    (tmp_path / "elsewhere").mkdir()
    return Lake(house.lake.spark, tmp_path / "elsewhere")


def resources(house: House, elsewhere: Lake) -> dict[str, Any]:
    manager = DeltaIOManager(spark=Running(elsewhere.spark), root=str(elsewhere.root), conflicts=house.retry)
    return {"io_manager": house.io_manager, "elsewhere": manager}


@pytest.mark.slow
def test_a_table_under_another_root_than_its_source_keeps_its_own_position(house: House, elsewhere: Lake) -> None:
    """Dagster lets the source's manager read, and the table's manager write."""
    options: dict[str, Any] = {"resources": resources(house, elsewhere), "instance": house.instance}
    for expected in ("all rows", "1 inserted"):
        result = dg.materialize([orders, kept, copied], **options)
        assert [metadata(result, name)["read"][0]["changed"] for name in ("kept", "copied")] == [expected] * 2
        house.lake.sql("INSERT INTO {orders} VALUES (4, DATE '2013-01-02', 40)")
    assert [row[0] for row in elsewhere.rows("kept")] == [row[0] for row in elsewhere.rows("copied")] == [1, 2, 3, 4]
    assert not (house.root / "kept").exists()
    house.lake.sql("DELETE FROM {orders} WHERE id = 4")
    checked = dg.materialize([orders, copied, *checks([orders, copied])], tags={CHECKS: "true"}, **options)
    assert [evaluation.passed for evaluation in checked.get_asset_check_evaluations()] == [True]


def test_a_table_that_no_asset_makes_is_read_and_checked_by_the_manager_that_it_names(
    house: House, elsewhere: Lake
) -> None:
    @dg.asset(metadata=Table(key="id"))
    def copied_here(far: Changes) -> Merge:
        touched = far.touched("id")
        return Merge(touched.rows, touched)

    elsewhere.create("far", [(1, 10)], "id int, v int")
    far = dg.AssetSpec("far").with_io_manager_key("elsewhere")
    given = resources(house, elsewhere)
    validate(dg.Definitions(assets=[far, copied_here], resources=given))
    assets = [far, copied_here, *checks([far, copied_here])]
    checked = dg.materialize(assets, resources=given, instance=house.instance, tags={CHECKS: "true"})
    assert [evaluation.passed for evaluation in checked.get_asset_check_evaluations()] == [True]
    assert house.lake.rows("copied_here") == [(1, 10)]


def looked_up(orders: DataFrame) -> Overwrite:
    return Overwrite(orders)


@pytest.mark.slow
@pytest.mark.parametrize("function", [carried, slow(looked_up)])
def test_a_mapping_of_an_asset_without_partitions_is_followed(house: House, function: Any) -> None:
    for day, expected in ((2, [1]), (3, [2, 3]), (3, [2, 3]), (2, [1])):
        days = dg.DailyPartitionsDefinition("2013-01-01", end_date=f"2013-01-0{day}")
        source = dg.AssetSpec("orders", partitions_def=days, metadata=Table(partition_by="day"))
        ins = {"orders": dg.AssetIn(partition_mapping=dg.LastPartitionMapping())}
        asset = dg.asset(ins=ins, metadata=Table(key="id"))(function)
        dg.materialize([source, asset], resources={"io_manager": house.io_manager}, instance=house.instance)
        assert [row[0] for row in house.lake.rows(function.__name__)] == expected
        assert list(checks([source, asset])) == []


# Dagster marks the only option of this mapping as beta.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Parameter `allow_nonexistent_upstream_partitions`")
def test_a_partition_that_is_mapped_only_now_is_read_from_its_beginning(lake: Lake, house: House) -> None:
    lake.sql("INSERT INTO {orders} VALUES (5, DATE '2013-01-03', 50)")  # before its day is a partition
    ins = {
        "orders": dg.AssetIn(
            partition_mapping=dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)
        )
    }

    monthly = dg.asset(name="monthly", ins=ins, partitions_def=MONTHS, metadata=Table(key="id", partition_by="day"))(
        carried
    )

    def materialized(end: str) -> dg.ExecuteInProcessResult:
        days = dg.DailyPartitionsDefinition("2013-01-01", end_date=end)
        source = dg.AssetSpec("orders", partitions_def=days, metadata=Table(partition_by="day"))
        options: dict[str, Any] = {"resources": {"io_manager": house.io_manager}, "instance": house.instance}
        return dg.materialize([source, monthly], partition_key="2013-01-01", **options)

    materialized("2013-01-03")
    assert lake.rows("monthly") == [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)]
    lake.insert("orders", [(4, DAY_1, 40)])
    result = materialized("2013-01-04")
    assert lake.rows("monthly") == sorted([*lake.rows("orders")])
    assert (5, DAY_3, 50) in lake.rows("monthly")
    assert "other partitions of it are mapped to this run" in metadata(result, "monthly")["read"][0]["how"]
    lake.insert("orders", [(6, DAY_1, 60)])
    assert metadata(materialized("2013-01-04"), "monthly")["read"][0]["how"] == "change feed"


@pytest.mark.filterwarnings("ignore:Specifying a partitions_def on an AssetCheckSpec")  # in preview
def test_who_asks_for_no_partition_is_given_the_rows_outside_of_dagsters_partitions_too(house: House) -> None:
    """A check or an asset without partitions reads them as well; a check of partitions reads the run's partition."""

    @dg.asset_check(asset="by_day")
    def whole(by_day: DataFrame) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=sorted(row.id for row in by_day.collect()) == [1, 9])

    @dg.asset_check(asset="by_day", partitions_def=DAYS)
    def of_a_day(by_day: DataFrame) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=sorted(row.id for row in by_day.collect()) == [1])

    @dg.multi_asset(outs={name: dg.AssetOut(io_manager_key="memory") for name in ("train", "test")})
    def parts(context: dg.AssetExecutionContext, by_day: DataFrame) -> tuple[int, int]:
        loaded = context.load_asset_value(dg.AssetKey("by_day"), python_type=DataFrame, partition_key="2013-01-01")
        return by_day.count(), loaded.count()

    house.run("by_day", partition_key="2013-01-01")
    house.lake.insert("by_day", [(9, DAY_1.replace(year=2012), 90)])
    result = dg.materialize(
        [orders, by_day, whole, of_a_day, parts],
        resources={"io_manager": house.io_manager, "memory": dg.mem_io_manager},
        instance=house.instance,
        partition_key="2013-01-01",
    )
    assert {e.check_name: e.passed for e in result.get_asset_check_evaluations()} == {"whole": True, "of_a_day": True}
    assert [result.output_for_node("parts", name) for name in ("train", "test")] == [2, 1]


def _reader_of_several() -> dg.AssetsDefinition:
    @dg.multi_asset(outs={name: dg.AssetOut(io_manager_key="memory") for name in ("train", "test")})
    def parts(orders: DataFrame) -> tuple[int, int]:
        return orders.count(), 0

    return parts


def _reader_of_a_graph() -> dg.AssetsDefinition:
    @dg.op
    def counted(orders: DataFrame) -> int:
        return orders.count()

    @dg.graph_asset(ins={"orders": dg.AssetIn()})
    def train(orders: Any) -> Any:
        return counted(orders)

    return train.with_attributes(group_names_by_key={dg.AssetKey("train"): "models"})


def test_whoever_makes_no_table_of_its_own_reads_all_rows(house: House) -> None:
    """An asset that another manager writes, one of several, one of a graph, and an op."""
    table = dg.AssetSpec("orders").with_io_manager_key("delta")
    resources = {"delta": house.io_manager, "io_manager": dg.mem_io_manager, "memory": dg.mem_io_manager}

    @dg.asset
    def train(orders: DataFrame) -> int:
        return orders.count()

    validate(dg.Definitions(assets=[table, train], resources=resources))
    for reader in (train, _reader_of_several(), _reader_of_a_graph()):
        result = dg.materialize([table, reader], resources=resources, instance=house.instance)
        assert result.asset_value("train") == 3

    @dg.op
    def exported(orders: DataFrame) -> int:
        return orders.count()

    with pytest.warns(DeprecationWarning, match="SourceAsset"):  # deprecated, but a job of ops takes no other kind
        orders_table = dg.SourceAsset("orders", io_manager_key="delta")

    @dg.job(resource_defs={"io_manager": dg.mem_io_manager, "delta": house.io_manager})
    def export() -> None:
        exported(orders_table)

    assert export.execute_in_process(instance=house.instance).output_for_node("exported") == 3
