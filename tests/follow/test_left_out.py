"""A table of which something cannot be told is left out alone, whoever looks. Real logs, written without Spark."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse import Changes, DeltaIOManager, Merge, Table, checks
from lakehouse.follow.followed import LeftOut
from lakehouse.follow.watch import Behind, Watch, by_manager
from tests.support.marked import FEED, append
from tests.support.tables import DAYS, orders

SHOPS = dg.DynamicPartitionsDefinition(name="shops")
DAYS_OF_SHOPS = dg.MultiPartitionsDefinition({"day": DAYS, "shop": SHOPS})


class Silent(dg.PartitionMapping):
    """A mapping that somebody wrote for runs alone: it does not say what is downstream of a partition."""

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
def of_dynamic_dimensions(sales: Changes) -> Merge: ...


@dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
def of_a_dynamic_source(sales: Changes) -> Merge: ...


def of_a_silent_mapping() -> dg.AssetsDefinition:
    ins = {"sales": dg.AssetIn(partition_mapping=Silent())}
    return dg.asset(name="daily", partitions_def=DAYS, ins=ins, metadata=Table(key="id", partition_by="day"))(
        of_a_dynamic_source.op.compute_fn.decorated_fn
    )


@pytest.mark.parametrize(
    ("source", "table", "why"),
    [
        (DAYS, of_dynamic_dimensions, "its partitions are dynamic, and logs do not name them"),
        (SHOPS, of_a_dynamic_source, "the partitions of sales are dynamic, and logs do not name them"),
        (DAYS_OF_SHOPS, of_a_dynamic_source, "the partitions of sales are dynamic, and logs do not name them"),
        (DAYS, None, "its partitions for sales cannot be found: NotImplementedError"),
    ],
)
@pytest.mark.filterwarnings("ignore:Non-built-in PartitionMappings")
def test_partitions_that_nobody_can_tell_leave_out_one_table_and_no_other(
    tmp_path: Path, source: dg.PartitionsDefinition[Any], table: dg.AssetsDefinition | None, why: str
) -> None:
    table = table or of_a_silent_mapping()
    append(tmp_path, "orders", 1)
    rows = pa.table({"id": pa.array([1], pa.int32()), "day": ["2013-01-01"], "shop": ["a"]})
    write_deltalake(str(tmp_path / "sales"), rows, partition_by=["day", "shop"], configuration=FEED)
    looks = looked(tmp_path, orders, by_shop(source), copies, table)
    assert looks[table.key] == LeftOut(why)
    assert isinstance(looks[copies.key], Behind)


def looked(root: Path, *assets: Any) -> Any:
    watch = Watch(assets, by_manager(assets, {"io_manager": DeltaIOManager(spark=object(), root=str(root))}))
    return watch.look(dg.DagsterInstance.ephemeral()).tables


def test_whatever_goes_wrong_with_one_table_is_said_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, "orders", 1)
    append(tmp_path, "bought", 1)
    bought = dg.AssetSpec("bought", metadata=Table(key="id", partition_by="day"), partitions_def=DAYS)

    class Odd(dg.StaticPartitionsDefinition): ...

    @dg.asset(partitions_def=Odd(["2013-01-01"]), metadata=Table(key="id", partition_by="day"))
    def daily(bought: Changes) -> Merge: ...

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("nothing is\nas it was")

    monkeypatch.setattr(Odd, "get_partition_keys", broken)
    looks = looked(tmp_path, orders, bought, copies, daily)
    assert "RuntimeError: nothing is" in looks[daily.key].reason
    assert "as it was" not in looks[daily.key].reason
    assert isinstance(looks[copies.key], Behind)


def test_partitions_of_which_a_dimension_is_dynamic_have_no_checks_that_go_by_the_log() -> None:
    made = checks([of_dynamic_dimensions], "lag", "feed", "schema")
    assert {key.name for check in made for key in check.check_keys} == {"schema"}
