"""What a full recompute of an asset gives, of the versions that its table has read; or why no table must be that."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, TypeAlias, cast

import dagster as dg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.changes.changes import Changes
from lakehouse.changes.content import Everything
from lakehouse.cursor.mark import Position
from lakehouse.dagster.code_location import changes_of, is_function, maps_partitions, result_annotation, writes_nothing
from lakehouse.dagster.past_checks import CHECK
from lakehouse.frames.types import column_types
from lakehouse.history.history_rows import Shape
from lakehouse.log.commit_info import SCHEMA_CHANGES, Commit
from lakehouse.log.log import Log, commits_between
from lakehouse.log.versions import NOTHING_READ, VersionRange
from lakehouse.results.aggregate import Aggregate
from lakehouse.results.writes import Append, History, Snapshot, Stated
from lakehouse.spark.snapshot import TableRef, TableVersion
from lakehouse.sql.partitions import Slice
from lakehouse.sql.text import folded, quote

PROOF = "full_recompute"
"""Definition metadata: when the table is compared with a full recompute, or why it cannot be."""
Concerning: TypeAlias = Callable[[Sequence[Commit]], Collection[Commit]]
Returned: TypeAlias = Stated | Aggregate | History | DataFrame


def keeps_history(asset: dg.AssetsDefinition) -> bool:
    """Whether the asset writes a `History`, whose rows are identified by the declared key and their start."""
    return result_annotation(asset) is History


def may_be_archive(asset: dg.AssetsDefinition) -> bool:
    """Whether the asset appends what it makes of the changes of one source and no other; only a run shows the rest."""
    appends = result_annotation(asset) is Append
    changes = changes_of(asset)
    alone = len(changes) == 1 == len(asset.op.input_defs)
    return appends and alone and asset.partitions_def is None and all(read.is_whole for read in changes.values())


def why_not_recomputed(asset: Any) -> str | None:
    """Why an asset's table need not hold what a full recompute of its sources gives, as a clause; None if it must.

    Of a `History` that is said of its current rows.
    """
    if not is_function(asset) or writes_nothing(asset):
        return "no function of it returns a table"
    if result_annotation(asset) is Append:
        return "it appends: what was added stays, whatever became of its sources since"
    if result_annotation(asset) is Snapshot:
        return "it takes extracts, and earlier extracts are not kept"
    inputs = {input_.name for input_ in asset.op.input_defs}
    more = sorted(set(signature(_function(asset)).parameters) - inputs)
    if more:
        return f"its function takes more than tables: {', '.join(more)}"
    if not inputs:
        return "its function reads no table"
    return _why_partial(asset, inputs)


def _why_partial(asset: dg.AssetsDefinition, inputs: Collection[str]) -> str | None:
    """Why the versions of its sources that a table has read do not say what it must hold; None if they do."""
    changes = changes_of(asset)
    for name in sorted(inputs):
        if name not in changes:
            return f"'{name}' is a snapshot input: rows that were written already do not follow its changes"
        if not changes[name].is_whole:
            return f"its input '{name}' starts late or leaves commits out"
        if asset.partitions_def is None and maps_partitions(asset, asset.keys_by_input_name[name]):
            return f"it reads only some partitions of '{name}'"
    return None


def whole(
    spark: SparkSession,
    source: TableRef,
    at: Position,
    slice_: Slice | None = None,
    concerning: Concerning | None = None,
) -> Changes:
    """A source as of a position, presented as inserts.

    Args:
        spark: The session.
        source: The source.
        at: How far the table, or the partition, has read it.
        slice_: The partitions of the source that a run reads; None for all rows.
        concerning: Says which of some commits may have changed a row of those partitions; None: any may.
    """
    version = _last_alike(source.log(lambda: spark), source.name, at.version, concerning)
    rows = TableVersion(lambda: spark, source, at.table, version)
    if slice_ is not None:
        rows = replace(rows, where=slice_.predicate(column_types(rows.rows().schema)), mapped=at.mapped)
    return Changes(rows, VersionRange(NOTHING_READ, version), Everything())


def recomputed(
    asset: dg.AssetsDefinition, inputs: Mapping[str, Changes], table: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """The rows that the asset's function makes of its inputs, and the rows of its table that must equal them.

    A `History` keeps what its source no longer tells. What can be recomputed are its current rows: those of the source.

    Args:
        asset: The asset.
        inputs: Its sources, each presented as inserts.
        table: The rows of its table.
    """
    result = cast("Returned | dg.Output[Returned] | dg.MaterializeResult[Returned]", _function(asset)(**inputs))
    match result.value if isinstance(result, dg.Output | dg.MaterializeResult) else result:
        case History(changes=changes) as history:
            own = Shape((), history.start_at, history.end_at).own
            current = table.where(F.col(quote(history.end_at)).isNull())
            source = changes.source if isinstance(changes, Changes) else changes.rows
            past = [name for name in table.columns if name.lower() in own or name.lower() not in folded(source.columns)]
            return source, current.drop(*past)
        case DataFrame() as rows:
            return rows, table
        case stated:
            return stated.rows, table


def _last_alike(log: Log, source: str, version: int, concerning: Concerning | None) -> int:
    """The last version with the same rows: Delta reads the newest at any time, others while their files are kept."""
    head = log.head()
    commits = commits_between(log, source, version, version if head is None else head.version) or ()
    changing = [commit for commit in commits if not commit.is_quiet]
    stops = {commit.version for commit in (changing if concerning is None else concerning(changing))}
    for commit in commits:
        if commit.version in stops or commit.operation in SCHEMA_CHANGES | {"ADD COLUMNS"}:
            break
        version = commit.version
    return version


def _function(asset: dg.AssetsDefinition) -> Any:
    compute = cast("Any", asset.op).compute_fn
    return getattr(compute, "decorated_fn", compute)


def with_proof(asset: dg.AssetsDefinition, cron_schedule: str | None) -> dg.AssetsDefinition:
    """The asset that says when its table is compared with a full recompute.

    Args:
        asset: An asset that writes a table.
        cron_schedule: That of the nightly checks; None if there are none.
    """
    metadata = {PROOF: proof(asset, cron_schedule)}
    return asset.map_asset_specs(lambda spec: spec.merge_attributes(metadata=metadata))


def proof(asset: dg.AssetsDefinition, cron_schedule: str | None) -> str:
    """When the asset's table is compared with a full recompute, or why it is not."""
    reason = why_not_recomputed(asset)
    if reason is not None:
        return f"Never compared with a recompute: {reason}."
    of = " Of its partitions one is compared each time." * (asset.partitions_def is not None)
    of += " Its current rows are compared: its sources no longer have the past." * keeps_history(asset)
    if cron_schedule is None:
        return (
            f"Never compared with a recompute, unless somebody runs the check {CHECK}: the definitions name no "
            f'schedule, as incremental(definitions, nightly_checks="0 3 * * *") does.{of}'
        )
    return f"Compared with a recompute at night ({cron_schedule}) by the check {CHECK}.{of}"
