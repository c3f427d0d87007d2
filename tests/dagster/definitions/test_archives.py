"""An archive that a run would not find is refused when the code location loads, not ignored when it is needed."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import pytest

from lakehouse import Append, Changes, DeltaIOManager, Merge, Read, Table, validate
from lakehouse.errors import DefinitionError
from tests.support.for_each import for_each

READ = dg.AssetIn(metadata=Read(archive="kept/orders"))
HERE, ELSEWHERE = DeltaIOManager(spark=object(), root="/lake"), DeltaIOManager(spark=object(), root="/other")


@dg.asset(ins={"orders": READ}, metadata=Table(key="id"))
def copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


def archive(metadata: Mapping[str, Any] = Table(), io_manager_key: str = "io_manager") -> dg.AssetsDefinition:
    @dg.asset(key=["kept", "orders"], metadata=metadata, io_manager_key=io_manager_key)
    def orders_archive(orders: Changes) -> Append:
        return Append(orders.log())

    return orders_archive


@dg.asset(key=["kept", "orders"], metadata=Table(key="id"))
def no_append(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


def validated(*archives: Any) -> dg.Definitions:
    resources = {"io_manager": HERE, "elsewhere": ELSEWHERE}
    return validate(dg.Definitions(assets=[dg.AssetSpec("orders"), copies, *archives], resources=resources))


@for_each(
    "archives, problem",
    [
        ([], "no such asset. Correct the name"),
        ([archive(Table(path="/far/orders"))], "looks for at /lake/kept/orders, and its table is elsewhere"),
        ([archive(Table(name="main.orders"))], "its table is elsewhere"),
        ([archive(io_manager_key="elsewhere")], "its table is elsewhere"),
        ([dg.AssetSpec(["kept", "orders"], metadata=Table(path="/far"))], "its table is elsewhere"),
        ([no_append], "which is not an Append"),
    ],
)
def test_an_archive_that_a_run_would_not_find_is_refused(archives: list[Any], problem: str) -> None:
    with pytest.raises(
        DefinitionError, match=f"'orders' of asset 'copies' names the archive 'kept/orders', .*{problem}"
    ):
        validated(*archives)


@for_each("found", [archive(), dg.AssetSpec(["kept", "orders"]), archive(Table(path="/lake/kept/orders"))])
def test_an_archive_below_the_root_of_its_reader_is_taken(found: Any) -> None:
    assert dg.AssetKey(["kept", "orders"]) in validated(found).resolve_all_asset_keys()
