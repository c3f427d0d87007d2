"""Which writers of a code location can conflict: read from its definitions, shown, and separated by pools."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from lakehouse.conflicts.operations import Operation, Verdict
from lakehouse.conflicts.pairs import ConflictPair, Writer, conflict_pairs, in_one_line, pool_name, pools, warnings
from lakehouse.dagster.code_location import (
    asset_definitions,
    changes_of,
    is_function,
    kind_of,
    table_ref,
    writes_nothing,
)
from lakehouse.dagster.io_manager import DeltaIOManager, managers_of
from lakehouse.dagster.remake import remake, with_assets
from lakehouse.delta.location import Location
from lakehouse.delta.table import Table
from lakehouse.errors import DefinitionError
from lakehouse.writes.write import Declaration

RIVALS = "possible_rivals"
"""Definition metadata: the conflict pairs of an asset, in one line."""
RIVALS_IN_DETAIL = "possible_rivals_in_detail"
"""Definition metadata: the same pairs with verdict, remedy and reason."""
WARNINGS = "conflict_warnings"
"""Definition metadata: what a user should know before the asset runs."""
HEADINGS = ("writer", "loses to", "verdict", "avoided by", "why")


def manager_of(definitions: dg.Definitions, asset: dg.AssetsDefinition, key: dg.AssetKey) -> DeltaIOManager | None:
    """The `DeltaIOManager` that writes an asset, if one does.

    Raises:
        DefinitionError: The asset is a graph of ops.
    """
    manager = managers_of(definitions.resources).get(asset.get_io_manager_key_for_asset_key(key))
    if manager is None:
        return None
    if not is_function(asset):
        raise DefinitionError(
            f"Asset '{key.to_user_string()}' is a graph of ops, which a DeltaIOManager cannot write: each "
            f"op's result would be a table's. Make it one @asset, or give it another io_manager_key."
        )
    return None if writes_nothing(asset) else manager


def writers(definitions: dg.Definitions) -> tuple[Writer, ...]:
    """The writers of every table: the assets on a `DeltaIOManager`, and the ops that wait in a table's pool."""
    assets = [
        _writer(asset, key, manager.location)
        for asset in asset_definitions(definitions.assets or [])
        for key in asset.keys
        if (manager := manager_of(definitions, asset, key)) is not None
    ]
    of_pool = {pool_name(writer): writer for writer in assets}
    upkeep = [
        replace(
            of_pool[op.pool],
            name=f"{op.name} (job {job.name})",
            operation=Operation.OPTIMIZE,
            sliced=False,
            pool=op.pool,
            is_asset=False,
        )
        for job in definitions.jobs or []
        if isinstance(job, dg.JobDefinition)
        for op in job.graph.iterate_op_defs()
        if op.pool in of_pool
    ]
    return (*assets, *upkeep)


def with_pools(definitions: dg.Definitions) -> dg.Definitions:
    """The same definitions, in which the writers of one table share a pool and each asset shows its possible rivals.

    An asset that has a pool keeps it. The instance sets the limit of a pool
    (`concurrency.pools.default_limit`); without a limit a pool has no effect.
    """
    declared = writers(definitions)
    pool_of = pools(declared)
    pooled = [replace(writer, pool=writer.pool or pool_of.get(writer.location)) for writer in declared]
    by_name = {writer.name: writer for writer in pooled if writer.is_asset}
    pairs, warnings_of = conflict_pairs(pooled), warnings(pooled)

    def shown(asset: Any) -> Any:
        if not isinstance(asset, dg.AssetsDefinition) or not asset.is_executable:
            return asset
        writer = by_name.get(asset.key.to_user_string()) if len(list(asset.keys)) == 1 else None
        if writer is None:
            return asset
        return _shown(_in_pool(asset, writer.pool), writer, pairs, warnings_of.get(writer.name))

    return with_assets(definitions, shown)


def _writer(asset: dg.AssetsDefinition, key: dg.AssetKey, root: Location) -> Writer:
    name, table = key.to_user_string(), Table.from_metadata(asset.specs_by_key[key].metadata)
    sliced = asset.partitions_def is not None
    declared = Declaration(name, table, sliced, changes_of(asset))
    return Writer(
        name=name,
        location=table_ref(root, key, table).location,
        declared=table,
        operation=kind_of(asset).operation(declared),
        sliced=sliced,
        pool=asset.op.pool,
    )


def _in_pool(asset: dg.AssetsDefinition, pool: str | None) -> dg.AssetsDefinition:
    return asset if pool is None or asset.op.pool is not None else remake(asset, pool=pool)


def _shown(
    asset: dg.AssetsDefinition, writer: Writer, declared: Iterable[ConflictPair], sentences: Sequence[str] | None
) -> dg.AssetsDefinition:
    pairs = [pair for pair in declared if pair.writer == writer.name and pair.foreseen.verdict is not Verdict.CANNOT]
    metadata: dict[str, Any] = {}
    if pairs:
        details = [dict(zip(HEADINGS[1:], row(pair)[1:], strict=True)) for pair in pairs]
        metadata |= {RIVALS: in_one_line(pairs), RIVALS_IN_DETAIL: dg.MetadataValue.json(details)}
    if sentences:
        metadata[WARNINGS] = dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in sentences))
    return asset.map_asset_specs(lambda spec: spec.merge_attributes(metadata=metadata)) if metadata else asset


def row(pair: ConflictPair) -> tuple[str, ...]:
    """A conflict pair as a row under the headings."""
    foreseen = pair.foreseen
    return (pair.writer, pair.rival, foreseen.verdict.value, pair.avoided_by or "-", foreseen.why)
