"""Which writers of a code location can conflict: read from its definitions, shown, and separated by pools."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from lakehouse.conflicts.operations import Operation, Verdict
from lakehouse.conflicts.pairs import ConflictPair, Writer, conflict_pairs, in_one_line, pool_name, pools, warnings
from lakehouse.dagster.code_location import AssetTable, CodeLocation, is_function
from lakehouse.dagster.remake import remake, with_assets
from lakehouse.errors import DefinitionError
from lakehouse.spark.table_version import TableRef

RIVALS = "possible_rivals"
"""Definition metadata: the conflict pairs of an asset, in one line."""
WARNINGS = "conflict_warnings"
"""Definition metadata: what a user should know before the asset runs."""
HEADINGS = ("writer", "loses to", "verdict", "avoided by", "why")


def written_ref(table: AssetTable) -> TableRef | None:
    """Where the table of an asset is, if a `DeltaIOManager` writes it; else None.

    Raises:
        DefinitionError: The asset is a graph of ops.
    """
    if table.asset is None or table.root is None:
        return None
    if not is_function(table.asset):
        raise DefinitionError(
            f"Asset '{table.name}' is a graph of ops, which a DeltaIOManager cannot write: each "
            f"op's result would be a table's. Make it one @asset, or give it another io_manager_key."
        )
    return table.ref if table.is_written else None


def writers(code_location: CodeLocation, jobs: Iterable[Any]) -> tuple[Writer, ...]:
    """The writers of every table: the assets on a `DeltaIOManager`, and the ops of jobs that are in a table's pool."""
    assets = [
        _writer(table, table.asset, ref)
        for table in code_location.tables.values()
        if (ref := written_ref(table)) is not None and table.asset is not None
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
        for job in jobs
        if isinstance(job, dg.JobDefinition)
        for op in job.graph.iterate_op_defs()
        if op.pool in of_pool
    ]
    return (*assets, *upkeep)


def with_pools(definitions: dg.Definitions, code_location: CodeLocation) -> dg.Definitions:
    """The same definitions, in which the writers of one table share a pool and each asset shows its possible rivals.

    An asset that has a pool keeps it. The instance sets the limit of a pool (`concurrency.pools.default_limit`);
    without a limit a pool has no effect.
    """
    declared = writers(code_location, definitions.jobs or [])
    pool_of = pools(declared)
    pooled = [replace(writer, pool=writer.pool or pool_of.get(writer.location)) for writer in declared]
    by_name, names = {writer.name: writer for writer in pooled if writer.is_asset}, {writer.name for writer in pooled}
    pairs, warnings_of = conflict_pairs(pooled), warnings(pooled)

    def shown(asset: Any) -> Any:
        if not isinstance(asset, dg.AssetsDefinition) or not asset.is_executable:
            return asset
        writer = by_name.get(asset.key.to_user_string()) if len(list(asset.keys)) == 1 else None
        if writer is None:
            return asset
        own = [pair for pair in pairs if pair.writer == writer.name and pair.foreseen.verdict is not Verdict.CANNOT]
        # A second run of an asset, or another program, can always come first, so these alone are not shown.
        rivals = in_one_line(own) if any(pair.rival in names for pair in own) else None
        pooled_asset = remake(asset, pool=writer.pool) if writer.pool is not None and asset.op.pool is None else asset
        return _shown(pooled_asset, rivals, warnings_of.get(writer.name))

    return with_assets(definitions, shown)


def _writer(table: AssetTable, asset: dg.AssetsDefinition, ref: TableRef) -> Writer:
    return Writer(
        name=table.name,
        location=ref.location,
        declared=table.declared,
        operation=table.kind.operation(table.declaration),
        sliced=table.partitions_def is not None,
        pool=asset.op.pool,
    )


def _shown(asset: dg.AssetsDefinition, rivals: str | None, sentences: Sequence[str] | None) -> dg.AssetsDefinition:
    metadata: dict[str, Any] = {} if rivals is None else {RIVALS: rivals}
    if sentences:
        metadata[WARNINGS] = dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in sentences))
    return asset.map_asset_specs(lambda spec: spec.merge_attributes(metadata=metadata)) if metadata else asset


def row(pair: ConflictPair) -> tuple[str, ...]:
    """A conflict pair as a row under the headings."""
    foreseen = pair.foreseen
    return (pair.writer, pair.rival, foreseen.verdict.value, pair.avoided_by or "-", foreseen.why)
