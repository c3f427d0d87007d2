"""What a full recompute of an asset gives, from the versions of its sources that its table has read."""

from collections.abc import Mapping
from inspect import signature
from typing import Any, TypeAlias, cast

import dagster as dg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.changes.changes import Changes
from lakehouse.changes.content import Everything
from lakehouse.cursor.mark import Position
from lakehouse.dagster.code_location import changes_of, is_function, maps_partitions, result_annotation, writes_nothing
from lakehouse.history.history_rows import Shape
from lakehouse.log.commit_info import SCHEMA_CHANGES
from lakehouse.log.log import Log, commits_between
from lakehouse.log.versions import NOTHING_READ, VersionRange
from lakehouse.results.aggregate import Aggregate
from lakehouse.results.writes import Append, History, Snapshot, Stated
from lakehouse.spark.snapshot import TableRef, TableVersion
from lakehouse.sql.text import folded, quote

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


def is_recomputable(asset: Any) -> bool:
    """Whether the asset's table, or of a `History` its current rows, is what a full recompute of its sources gives."""
    if not is_function(asset) or asset.partitions_def is not None or writes_nothing(asset):
        return False
    if any(maps_partitions(asset, key) for key in asset.keys_by_input_name.values()):
        return False
    inputs, changes = {input_.name for input_ in asset.op.input_defs}, changes_of(asset)
    only_inputs = set(signature(_function(asset)).parameters) == inputs
    only_changes = inputs == changes.keys() and all(read.is_whole for read in changes.values())
    return bool(inputs) and only_changes and only_inputs and result_annotation(asset) not in (Append, Snapshot)


def whole(spark: SparkSession, source: TableRef, at: Position) -> Changes:
    """A source as of a position, presented as inserts."""
    version = _last_alike(source.log(lambda: spark), source.name, at.version)
    return Changes(
        TableVersion(lambda: spark, source, at.table, version), VersionRange(NOTHING_READ, version), Everything()
    )


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


def _last_alike(log: Log, source: str, version: int) -> int:
    """The last version with the same rows: Delta reads the newest at any time, others while their files are kept."""
    head = log.head()
    for commit in commits_between(log, source, version, version if head is None else head.version) or ():
        if not commit.is_quiet or commit.operation in SCHEMA_CHANGES | {"ADD COLUMNS"}:
            break
        version = commit.version
    return version


def _function(asset: dg.AssetsDefinition) -> Any:
    compute = cast("Any", asset.op).compute_fn
    return getattr(compute, "decorated_fn", compute)
