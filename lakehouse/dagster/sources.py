"""Which table an input of Dagster's means, and which of its partitions the run reads."""

from collections.abc import Callable
from dataclasses import replace

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse.cursor.definition import digest, partitions
from lakehouse.dagster.code_location import (
    maps_partitions,
    slice_of,
    table_ref,
)
from lakehouse.declare.table import Table
from lakehouse.errors import SourceMissingError
from lakehouse.feed.source import Source
from lakehouse.frames.types import as_struct, column_types
from lakehouse.log.location import Location
from lakehouse.log.log import FileSchema
from lakehouse.spark.snapshot import TableVersion


def source_of(
    context: dg.InputContext,
    location: Location,
    session: Callable[[], SparkSession],
    reader: str,
    execution: dg.AssetExecutionContext | None = None,
) -> Source:
    """The table of an input, pinned at its newest version.

    Args:
        context: The input.
        location: The root of the manager that keeps the table.
        session: Returns the session of the manager that writes; called only if rows are read.
        reader: The asset that reads, for messages.
        execution: The running asset; None outside a run.

    Raises:
        SourceMissingError: There is no table.
    """
    upstream = context.upstream_output
    table = Table.from_metadata((upstream.definition_metadata if upstream is not None else None) or {})
    ref = table_ref(location, context.asset_key, table)
    log = ref.log(session)
    head = log.head()
    if head is None:
        raise SourceMissingError(reader, ref.name, ref.location)
    pinned = TableVersion(session, ref, head.table_id, head.version)
    if context.has_asset_partitions and (execution is None or maps_partitions(execution.assets_def, context.asset_key)):
        pinned = _sliced(context, table, pinned, log.file_schema(head.version))
    # A key may be in several of the asset's partitions, whether or not Delta knows of them.
    return Source(pinned, log, head, () if table.partition_columns else table.key_columns)


def _sliced(context: dg.InputContext, table: Table, pinned: TableVersion, schema: FileSchema | None) -> TableVersion:
    """Only the partitions that Dagster maps to this run, if the source declares its partition column."""
    if not table.partition_columns:
        return pinned
    slice_ = slice_of(pinned.ref.name, table, context.asset_partitions_def, context.asset_partition_keys)
    where = slice_.predicate(column_types(pinned.rows().schema if schema is None else as_struct(schema)))
    return replace(pinned, where=where, mapped=digest(partitions(slice_)))
