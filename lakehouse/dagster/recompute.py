"""Asset checks that hold the promise: a table is what a full recompute of the same sources would give."""

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, TypeAlias, cast

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from lakehouse.cursor.find import Known, find_cursor
from lakehouse.cursor.mark import Position
from lakehouse.dagster.code_location import (
    changes_of,
    is_function,
    manager_keys,
    maps_partitions,
    table_ref,
    tables_of,
    writes_nothing,
)
from lakehouse.dagster.io_manager import DeltaIOManager
from lakehouse.declare.table import Table
from lakehouse.log.commit_info import SCHEMA_CHANGES
from lakehouse.log.location import Location
from lakehouse.log.log import Log, commits_between
from lakehouse.log.versions import NOTHING_READ, VersionRange
from lakehouse.read.changes import Changes, Everything
from lakehouse.read.resolve import why_unreadable
from lakehouse.spark.progress import doing, heard, telling
from lakehouse.spark.snapshot import TableRef, TableVersion
from lakehouse.spark.types import fit
from lakehouse.write.difference import bag_difference
from lakehouse.write.writes import Append, Write

Returned: TypeAlias = Write | DataFrame
CHECK = "equals_full_recompute"
_SHOWN = 5


def checks(assets: Iterable[Any]) -> Sequence[dg.AssetChecksDefinition]:
    """One check for each asset that reads nothing but `Changes` and does not append: its table is a full recompute.

    The sources are read at the very versions that the table says it has read, so the check is right at any time,
    also while they move on. It costs a full recompute: run it nightly or by hand, not after each step.

    Args:
        assets: The asset definitions; those whose table need not equal a recompute are left out: they add to what
            is there, look up a plain `DataFrame`, are partitioned, start late or leave commits out
            (`Read(start=..., exclude_operations=...)`), or need more than their inputs.
    """
    listed = list(assets)
    tables, managers = tables_of(listed), manager_keys(listed)
    return [_check(asset, tables, managers) for asset in listed if _is_incremental(asset)]


def _is_incremental(asset: Any) -> bool:
    if not is_function(asset) or asset.partitions_def is not None or writes_nothing(asset):
        return False
    if any(maps_partitions(asset, key) for key in asset.keys_by_input_name.values()):
        return False
    inputs, changes = {input_.name for input_ in asset.op.input_defs}, changes_of(asset)
    write = asset.op.output_defs[0].dagster_type.typing_type
    only_inputs = set(signature(_function(asset)).parameters) == inputs
    only_changes = inputs == changes.keys() and all(read.is_whole for read in changes.values())
    return bool(inputs) and only_changes and only_inputs and write is not Append


def _check(
    asset: dg.AssetsDefinition, tables: dict[dg.AssetKey, Table], managers: Mapping[dg.AssetKey, str]
) -> dg.AssetChecksDefinition:
    manager = managers[asset.key]
    read_by = {
        key: input_.input_manager_key or managers.get(key, "io_manager")
        for input_ in asset.op.input_defs
        if (key := asset.keys_by_input_name.get(input_.name)) is not None
    }

    @dg.asset_check(
        asset=asset.key,
        name=CHECK,
        description="The table holds what a full recompute would give.",
        required_resource_keys={manager, *read_by.values()},
    )
    def equals_full_recompute(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        readers = {key: getattr(context.resources, name) for key, name in read_by.items()}
        roots = {key: reader.location for key, reader in readers.items() if isinstance(reader, DeltaIOManager)}
        with telling(context.log.info):
            return compare(asset, tables, getattr(context.resources, manager), roots)

    return equals_full_recompute


def compare(
    asset: dg.AssetsDefinition,
    tables: dict[dg.AssetKey, Table],
    io_manager: DeltaIOManager,
    roots: Mapping[dg.AssetKey, Location],
) -> dg.AssetCheckResult:
    """Compares an incremental table with a full recompute of the same versions of its sources.

    Args:
        asset: The asset.
        tables: What it and its sources declare.
        io_manager: Writes the asset.
        roots: Where its sources are; one that is not named is below the root of `io_manager`.
    """
    name, spark = asset.key.to_user_string(), io_manager.spark.spark_session
    ref = table_ref(io_manager.location, asset.key, tables[asset.key])
    log = ref.log(lambda: spark)
    head = log.head()
    cursor = find_cursor(log, head, name)
    sources = {key.to_user_string() for key in asset.keys_by_input_name.values()}
    if head is None or not isinstance(cursor, Known) or not sources <= cursor.reads.keys():
        return dg.AssetCheckResult(
            passed=False, severity=dg.AssetCheckSeverity.WARN, description=f"'{name}' has not read all its inputs yet."
        )
    refs = {
        input_name: table_ref(roots.get(key, io_manager.location), key, tables.get(key, Table()))
        for input_name, key in asset.keys_by_input_name.items()
    }
    inputs = {input_name: _all_of(spark, source, cursor.reads[source.name]) for input_name, source in refs.items()}
    versions = ", ".join(f"{source} at {at.version}" for source, at in sorted(cursor.reads.items()))
    try:
        result = cast("Returned | dg.Output[Returned] | dg.MaterializeResult[Returned]", _function(asset)(**inputs))
        held = TableVersion.of(spark, ref, head).rows()
        value = result.value if isinstance(result, dg.Output | dg.MaterializeResult) else result
        rows = value if isinstance(value, DataFrame) else value.rows
        expected = fit(name, rows, held.schema, may_add=False)
        doing(f"comparing {name} with a full recompute")
        with heard(spark):
            differing = bag_difference(expected, held).limit(_SHOWN).collect()
            compared = held.count()
    except Exception as error:
        reason = why_unreadable(error)
        if reason is None:
            raise
        told = f"There is nothing to compare with any more: not all of {versions} can be read. {reason}"
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=told)
    return dg.AssetCheckResult(
        passed=not differing,
        description=f"{compared} rows against a full recompute of {versions}",
        metadata={"rows": compared, "differing": dg.MetadataValue.json([str(row) for row in differing])},
    )


def _all_of(spark: SparkSession, source: TableRef, at: Position) -> Changes:
    version = _last_alike(source.log(lambda: spark), source.name, at.version)
    return Changes(TableVersion(spark, source, at.table, version), VersionRange(NOTHING_READ, version), Everything())


def _last_alike(log: Log, source: str, version: int) -> int:
    """The last version with the same rows: Delta reads the newest at any time, others while their files are kept."""
    head = log.head()
    for commit in commits_between(log, source, version, version if head is None else head.version) or ():
        if not commit.is_quiet or commit.operation in SCHEMA_CHANGES:
            break
        version = commit.version
    return version


def _function(asset: dg.AssetsDefinition) -> Any:
    compute = cast("Any", asset.op).compute_fn
    return getattr(compute, "decorated_fn", compute)
