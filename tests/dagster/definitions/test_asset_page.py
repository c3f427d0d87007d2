"""What the page of an asset shows before its first run, in Dagster's own keys; Spark is not started."""

import inspect
from pathlib import Path
from typing import Any

import dagster as dg

from lakehouse import Changes, DeltaIOManager, Merge, Table, incremental
from tests.support.marked_tables import append


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...


@dg.asset(metadata={**Table(key="id"), "dagster/table_name": "mine"}, kinds={"python"})
def named(orders: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id", name="main.shop.totals"))
def totals(orders: Changes) -> Merge: ...


def specs(root: Path) -> dict[str, dg.AssetSpec]:
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(root))
    given = dg.Definitions([dg.AssetSpec("orders"), copies, named, totals], resources={"io_manager": manager})
    complete = incremental(given)
    return {spec.key.to_user_string(): spec for spec in complete.resolve_all_asset_specs()}


def value(spec: dg.AssetSpec, key: str) -> Any:
    found = spec.metadata[key]
    return getattr(found, "value", found)


def test_a_table_says_where_it_is_and_an_asset_without_kinds_what_it_is_made_with(tmp_path: Path) -> None:
    found = specs(tmp_path)
    assert value(found["copies"], "dagster/table_name") == "copies"
    assert value(found["copies"], "dagster/storage_kind") == "deltalake"
    assert value(found["copies"], "dagster/uri") == f"{tmp_path}/copies"
    assert value(found["orders"], "dagster/uri") == f"{tmp_path}/orders"
    assert value(found["totals"], "dagster/table_name") == "main.shop.totals"
    assert found["copies"].kinds == {"deltalake", "spark"} and found["orders"].kinds == set()


def test_what_the_user_gave_stays(tmp_path: Path) -> None:
    found = specs(tmp_path)["named"]
    assert value(found, "dagster/table_name") == "mine" and found.kinds == {"python"}


def test_the_columns_are_those_of_the_log_if_the_table_is_there(tmp_path: Path) -> None:
    append(tmp_path, "orders", 1)
    found = specs(tmp_path)
    columns = value(found["orders"], "dagster/column_schema").columns
    assert [(column.name, column.type) for column in columns] == [("id", "int"), ("day", "string")]
    assert "dagster/column_schema" not in found["copies"].metadata


def test_a_log_that_cannot_be_read_does_not_keep_the_location_from_loading(tmp_path: Path) -> None:
    append(tmp_path, "orders", 1)
    (tmp_path / "orders" / "_delta_log" / f"{0:020}.json").write_text("{ no json")
    assert "dagster/column_schema" not in specs(tmp_path)["orders"].metadata


def test_open_in_editor_leads_to_the_users_function_and_not_into_the_library(tmp_path: Path) -> None:
    (reference,) = value(specs(tmp_path)["copies"], "dagster/code_references").code_references
    function: Any = copies.op.compute_fn
    assert reference.file_path == __file__
    assert reference.line_number == inspect.getsourcelines(function.decorated_fn)[1]
