"""Refuses, when the code location loads, what could never work."""

from collections.abc import Iterator
from typing import Any, cast

import dagster as dg

from lakehouse.changes import Changes
from lakehouse.definition import input_kind, partition_columns, table_ref, write_kind
from lakehouse.errors import DefinitionError, MissingKeyError
from lakehouse.io_manager import DeltaIOManager
from lakehouse.read import Read
from lakehouse.table import Table
from lakehouse.writes import Merge


def validate(definitions: dg.Definitions) -> dg.Definitions:
    """The same definitions, once every asset on a `DeltaIOManager` is known to make sense.

    Raises:
        DefinitionError: An asset that returns a Merge without a key, an annotation that means nothing, a
            partitioned asset without a partition column, options that its input cannot have.
    """
    resources = definitions.resources or {}
    for asset in asset_definitions(definitions.assets or []):
        for key in asset.keys:
            manager = resources.get(asset.get_io_manager_key_for_asset_key(key))
            if isinstance(manager, DeltaIOManager):
                _check(asset, key, manager.root)
    return definitions


def asset_definitions(assets: Any) -> Iterator[dg.AssetsDefinition]:
    """The executable asset definitions among what `Definitions(assets=...)` takes."""
    for asset in assets:
        if isinstance(asset, dg.AssetsDefinition) and asset.is_executable:
            yield asset
        elif isinstance(asset, list):
            yield from asset_definitions(cast("list[Any]", asset))


def _check(asset: dg.AssetsDefinition, key: dg.AssetKey, root: str) -> None:
    name = "/".join(key.path)
    table = Table.from_metadata(asset.specs_by_key[key].metadata)
    table_ref(root, key, table)
    if len(list(asset.keys)) > 1:
        raise DefinitionError(
            f"Asset '{name}' is one of several in a multi_asset; give each table an @asset of its own."
        )
    write = write_kind(name, asset.op.output_defs[0].dagster_type.typing_type)
    if write is Merge and not table.key_columns:
        raise MissingKeyError(name, "Merge")
    if asset.partitions_def is not None:
        partition_columns(name, table, asset.partitions_def)
    for input_ in asset.op.input_defs:
        if input_.dagster_type.is_nothing:
            continue
        kind = input_kind(name, input_.name, input_.dagster_type.typing_type)
        if len(Read.from_metadata(input_.metadata or {})) and kind is not Changes:
            raise DefinitionError(
                f"Input '{input_.name}' of asset '{name}' has Read(...) options but is not annotated with Changes, so "
                f"nothing would follow them. Annotate it with Changes, or remove them."
            )
