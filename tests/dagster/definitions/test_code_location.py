"""A code location is parsed once: what it says of each table."""

from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame

from lakehouse import (
    Changes,
    DeltaIOManager,
    Merge,
    Overwrite,
    Read,
    Table,
    checks,
)
from lakehouse.cli.status import comparisons
from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.delta.location import Location
from lakehouse.errors import UnsupportedAnnotationError

ORDERS, COPIES = dg.AssetKey("orders"), dg.AssetKey("copies")
orders = dg.AssetSpec("orders", metadata=Table(key="id"))


@dg.asset(
    ins={"orders": dg.AssetIn(metadata=Read(max_versions=5)), "rates": dg.AssetIn(["raw", "rates"])},
    metadata=Table(key="id", name="shop.copies"),
    io_manager_key="elsewhere",
)
def copies(orders: Changes, rates: DataFrame) -> Merge: ...


@dg.asset(metadata=Table(key="id"))
def plain(orders: Changes) -> Merge: ...


@dg.asset
def counted(copies: DataFrame) -> None: ...


def resources(root: str = "/lake") -> dict[str, Any]:
    return {"io_manager": DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=root)}


def below(manager: str) -> Location | None:
    return Location(f"/{manager}") if manager == "io_manager" else None


def test_a_table_has_what_its_definition_says():
    location = CodeLocation.of([orders, copies, counted], below)
    assert list(location.tables) == [ORDERS, COPIES, counted.key], "in the order of the definitions"
    source, table, other = location[ORDERS], location[COPIES], location[counted.key]
    assert (source.is_spec, source.asset, source.is_written, source.changes) == (True, None, False, {})
    assert source.ref is not None
    assert (source.ref.name, source.ref.location) == ("orders", "/io_manager/orders")
    assert (table.is_spec, table.asset, table.is_written, table.stands_alone) == (False, copies, True, True)
    assert (table.declared.key_columns, table.manager, table.root, table.ref) == (("id",), "elsewhere", None, None)
    assert table.inputs == {"orders": ORDERS, "rates": dg.AssetKey(["raw", "rates"])}
    assert table.changes == {"orders": Read(max_versions=5)}
    assert location.followed_by(table) == (source,)
    assert (other.asset, other.is_written) == (counted, False), "no IO manager writes what returns nothing"


def test_where_a_table_is_follows_from_its_declaration_and_the_root_of_its_manager():
    location = CodeLocation.of([copies, orders], lambda manager: Location(f"/{manager}"))
    named, below_root = location[COPIES], location[ORDERS]
    assert named.ref is not None
    assert named.ref.files is None, "a catalog has it"
    assert below_root.ref_below(Location("/other")).location == "/other/orders"


def test_of_a_table_that_nothing_defines_dagster_s_own_manager_has_it():
    key = dg.AssetKey(["raw", "rates"])
    assert CodeLocation.of([copies], below)[key] == AssetTable(key, root=Location("/io_manager"))


@dg.multi_asset(specs=[dg.AssetSpec("left", metadata=Table(key="id")), dg.AssetSpec("right")])
def pair(): ...


@dg.graph_asset
def composed() -> Any:
    @dg.op
    def one() -> int:
        return 1

    return one()


def test_assets_of_other_shapes_are_parsed_too():
    external = dg.AssetsDefinition(specs=[dg.AssetSpec("old", metadata=Table(key="id", partition_by="day"))])
    location = CodeLocation.of([pair, composed, external], below)
    left, old = location[dg.AssetKey("left")], location[dg.AssetKey("old")]
    assert (left.asset, left.stands_alone, left.declared.key_columns) == (pair, False, ("id",))
    assert (location[composed.key].is_written, location[composed.key].changes) == (False, {})
    assert (old.asset, old.is_spec, old.declared.partition_columns) == (None, False, ("day",))


def test_a_table_whose_result_says_nothing_of_delta_has_no_checks_that_ask_how_it_is_written():
    @dg.asset(io_manager_key="memory", metadata=Table(key="id"))
    def elsewhere() -> int:
        return 1

    location = CodeLocation.of([elsewhere], below)
    assert (location[elsewhere.key].is_written, location[elsewhere.key].past) == (True, None)
    assert [key.name for check in checks([elsewhere], "keys", "archive") for key in check.check_keys] == ["keys"]
    assert comparisons(location).by_table["elsewhere"].impossible == "its function reads no table"
    with pytest.raises(UnsupportedAnnotationError, match="'elsewhere'"):
        _ = location[elsewhere.key].kind


def test_a_slice_of_a_table_without_partitions_is_the_whole_table():
    days = dg.StaticPartitionsDefinition(["2026-01-01", "2026-01-02"])

    @dg.asset(partitions_def=days, metadata=Table(partition_by="day"))
    def daily(orders: DataFrame) -> Overwrite: ...

    location = CodeLocation.of([orders, daily], below)
    slice_ = location[daily.key].slice(["2026-01-02"])
    assert location[ORDERS].slice(["2026-01-02"]) is None
    assert slice_ is not None
    assert slice_.keys == ("2026-01-02",)
