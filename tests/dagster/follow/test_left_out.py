"""A table about which something cannot be found out is left out alone, whoever looks. Real logs, without Spark."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse import Changes, DeltaIOManager, Merge, Table, checks
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.follow.followed import LeftOut
from lakehouse.dagster.follow.watch import Behind, UpToDate, Watch
from lakehouse.dagster.io_manager import roots_of
from tests.support.marked_tables import FEED, append
from tests.support.tables import DAYS, orders

SHOPS = dg.DynamicPartitionsDefinition(name="shops")
DAYS_OF_SHOPS = dg.MultiPartitionsDefinition({"day": DAYS, "shop": SHOPS})


class Silent(dg.PartitionMapping):
    """A user's mapping that was written for runs only: it does not give what is downstream of a partition."""

    @property
    def description(self) -> str:
        return "the same"

    def validate_partition_mapping(self, *args: Any, **options: Any) -> None: ...

    def get_upstream_mapped_partitions_result_for_partitions(self, *args: Any, **options: Any) -> Any: ...

    def get_downstream_partitions_for_partitions(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def by_shop(partitions: dg.PartitionsDefinition[Any]) -> dg.AssetSpec:
    return dg.AssetSpec("sales", partitions_def=partitions, metadata=Table(key="id", partition_by=("day", "shop")))


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...


@dg.asset(partitions_def=DAYS_OF_SHOPS, metadata=Table(key="id", partition_by=("day", "shop")))
def of_both(sales: Changes) -> Merge: ...


@dg.asset(partitions_def=SHOPS, metadata=Table(key="id", partition_by="shop"))
def of_shops(sales: Changes) -> Merge: ...


@dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
def of_days(sales: Changes) -> Merge: ...


def of_a_silent_mapping() -> dg.AssetsDefinition:
    ins = {"sales": dg.AssetIn(partition_mapping=Silent())}
    return dg.asset(name="daily", partitions_def=DAYS, ins=ins, metadata=Table(key="id", partition_by="day"))(
        of_days.op.compute_fn.decorated_fn
    )


@pytest.mark.filterwarnings("ignore:Non-built-in PartitionMappings")
def test_partitions_that_nobody_can_tell_leave_out_one_table_and_no_other(tmp_path: Path) -> None:
    table = of_a_silent_mapping()
    append(tmp_path, "orders", 1)
    sold(tmp_path, "2013-01-01")
    looks = looked(tmp_path, orders, by_shop(DAYS), copies, table)
    assert looks[table.key] == LeftOut("its partitions for sales cannot be found: NotImplementedError")
    assert isinstance(looks[copies.key], Behind)


@pytest.mark.parametrize(
    ("table", "keys"),
    [(of_both, {"2013-01-01|a"}), (of_shops, {"a"}), (of_days, {"2013-01-01"})],
    ids=["both", "shops", "days"],
)
@pytest.mark.filterwarnings("ignore:Class `MultiToSingleDimensionPartitionMapping`")  # in beta
def test_dynamic_partitions_are_those_that_dagster_has(
    tmp_path: Path, instance: dg.DagsterInstance, table: dg.AssetsDefinition, keys: set[str]
) -> None:
    sold(tmp_path, "2013-01-01")
    assets = [by_shop(DAYS_OF_SHOPS), table]
    looks = [looked(tmp_path, *assets, instance=instance)[table.key]]
    instance.add_dynamic_partitions("shops", ["a", "unsold"])
    looks.append(looked(tmp_path, *assets, instance=instance)[table.key])
    assert looks[0] == UpToDate(), "of a key that nobody has added no run can be requested"
    assert isinstance(looks[1], Behind)
    assert set(looks[1].states) == keys


def test_a_table_that_reads_all_of_a_source_is_behind_for_rows_outside_the_partitions_of_the_source(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    sold(tmp_path, "1999-12-31")
    ins = {"sales": dg.AssetIn(partition_mapping=dg.AllPartitionMapping())}
    halves = dg.StaticPartitionsDefinition(["1", "2"])
    table = dg.asset(name="halves", partitions_def=halves, ins=ins, metadata=Table(key="id", partition_by="half"))(
        of_days.op.compute_fn.decorated_fn
    )
    source = dg.AssetSpec("sales", partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
    look = looked(tmp_path, source, table, instance=instance)[table.key]
    assert isinstance(look, Behind)
    assert set(look.states) == {"1", "2"}


def sold(root: Path, day: str) -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "day": [day], "shop": ["a"]})
    write_deltalake(str(root / "sales"), rows, partition_by=["day", "shop"], configuration=FEED)


def looked(root: Path, *assets: Any, instance: dg.DagsterInstance | None = None) -> Any:
    manager = DeltaIOManager(spark=object(), root=str(root))
    watch = Watch(CodeLocation.of(assets, roots_of({"io_manager": manager})))
    return watch.look(instance or dg.DagsterInstance.ephemeral()).tables


def test_whatever_goes_wrong_with_one_table_is_said_and_stops_no_other(tmp_path: Path) -> None:
    append(tmp_path, "orders", 1)
    append(tmp_path, "bought", 1)
    bought = dg.AssetSpec("bought", metadata=Table(key="id", partition_by="day"), partitions_def=DAYS)

    class Odd(dg.StaticPartitionsDefinition):
        def get_partition_keys(self, *_: Any, **__: Any) -> Any:
            if daily_is_loaded:
                raise RuntimeError("nothing is\nas it was")
            return super().get_partition_keys()

    daily_is_loaded = False

    @dg.asset(partitions_def=Odd(["2013-01-01"]), metadata=Table(key="id", partition_by="day"))
    def daily(bought: Changes) -> Merge: ...

    daily_is_loaded = True
    looks = looked(tmp_path, orders, bought, copies, daily)
    assert "RuntimeError: nothing is" in looks[daily.key].reason
    assert "as it was" not in looks[daily.key].reason
    assert isinstance(looks[copies.key], Behind)


def test_dynamic_partitions_have_the_checks_that_go_by_the_log() -> None:
    made = checks([of_both], "up_to_date", "schema")
    assert {key.name for check in made for key in check.check_keys} == {"up_to_date", "schema"}
