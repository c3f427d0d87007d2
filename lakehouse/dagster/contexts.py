"""What Dagster's contexts say: about the running step, and which table an input means, at which version."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, cast

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from lakehouse.cursor.definition import digest, partitions
from lakehouse.dagster.code_location import is_function, maps_partitions, table_ref
from lakehouse.dagster.slices import keys_of_rows, slice_of, why_no_rows
from lakehouse.dagster.table_facts import content_version, version_reports
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import Head, Log, Opened
from lakehouse.delta.owned import moment_of
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.table import Table
from lakehouse.errors import ReadError
from lakehouse.materialization import Materialization
from lakehouse.read.feed_trust import Source
from lakehouse.spark.progress import Listener, Message, Notice, tell
from lakehouse.spark.table_version import TableRef, TableVersion
from lakehouse.spark.types import as_struct, partition_types


def asset_context() -> dg.AssetExecutionContext | None:
    """The running asset; None if an input is loaded outside a run (`Definitions.load_asset_value`)."""
    try:
        return dg.AssetExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return None


def step_context() -> dg.OpExecutionContext | None:
    """The running step, of an asset, a check or an op; None if an input is loaded outside a run."""
    try:
        return dg.OpExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return None


def is_one_asset(execution: dg.AssetExecutionContext) -> bool:
    """Whether the step is the function of one asset, not an op, part of a graph, or function of several assets."""
    op = execution.op_execution_context
    return op.has_assets_def and is_function(op.assets_def) and len(list(op.assets_def.keys)) == 1


def step_key(execution: dg.AssetExecutionContext) -> Any:
    """The key that the inputs and the output of one step share."""
    return execution.op_execution_context.get_step_execution_context()


def run_start(execution: dg.AssetExecutionContext) -> datetime | None:
    """When the run began, the same for all its steps and their retries; None if Dagster does not record it."""
    record = execution.instance.get_run_record_by_id(execution.run.run_id)
    seconds = None if record is None else record.start_time
    return None if seconds is None else moment_of(seconds)


def by_field(config: Any) -> Mapping[str, Any]:
    """A resolved config, field by field; a config that is a single value becomes a field without a name."""
    return cast("Mapping[str, Any]", config) if isinstance(config, Mapping) else {"": config} if config else {}


def resources_of(execution: dg.AssetExecutionContext) -> dict[str, Any]:
    """The resources that the function of the step takes, by their keys."""
    op = execution.op_execution_context
    return {key: getattr(op.resources, key) for key in op.op_def.required_resource_keys}


def keys_of_code_location(execution: dg.AssetExecutionContext) -> frozenset[str]:
    """The asset keys of the code location, their parts joined by "/"; without a code location, those of the job."""
    graph = asset_graph(execution.op_execution_context)
    return frozenset(key.to_user_string() for key in graph.get_all_asset_keys())


def asset_graph(op: dg.OpExecutionContext) -> Any:
    """The assets of the code location; without a code location, those of the job."""
    return op.repository_def.asset_graph if has_code_location(op) else op.job_def.asset_layer.asset_graph


def has_code_location(op: dg.OpExecutionContext) -> bool:
    """Whether the step belongs to a code location: `dg.materialize` has none."""
    try:
        return bool(op.repository_def)
    except Exception:  # Dagster does not export the class of the error
        return False


def to_log(log: dg.DagsterLogManager) -> Listener:
    """A listener that writes messages to the log of the run."""

    def listen(notice: Notice) -> None:
        if isinstance(notice, Message):
            log.log(notice.level, notice.text)

    return listen


def refuse_op(context: dg.InputContext | dg.OutputContext) -> None:
    """Refuses a value that one op hands to another: only assets have tables.

    Raises:
        Failure: The value is not an asset's.
    """
    if not context.has_asset_key:
        raise dg.Failure(
            f"'{context.name}' of op '{context.op_def.name}' is not the value of an asset, and a DeltaIOManager keeps "
            f"the tables of assets only. Nothing was written. Give the op's output another manager, for example "
            f"dg.mem_io_manager: @dg.op(out=dg.Out(io_manager_key=...)).",
            allow_retries=False,
        )


@dataclass(frozen=True, slots=True)
class Postponed:
    """A table at its pinned version, before Spark is asked for it."""

    read: Callable[[], DataFrame]


def _is_frame(_: Any, value: Any) -> bool:
    return isinstance(value, DataFrame | Postponed)


POSTPONED = dg.DagsterType(_is_frame, name="PostponedDataFrame", typing_type=DataFrame)
"""The type of an input that is read only once its step knows that it has something to do."""


def source_of(
    context: dg.InputContext,
    location: Location,
    session: Callable[[], SparkSession],
    reader: str,
    step: Materialization | None = None,
) -> Source:
    """The table of an input, pinned: all of it, unless partitions of it are asked for.

    Args:
        context: The input.
        location: The root of the manager that keeps the table.
        session: Returns the session of the manager that writes; called only if rows are read.
        reader: The asset that reads, for messages.
        step: The step that reads it as an input of a table, and decides at which version; None: the newest.

    Raises:
        ReadError (SOURCE_MISSING): There is no table.
    """
    upstream = context.upstream_output
    table = Table.from_metadata((upstream.definition_metadata if upstream is not None else None) or {})
    ref = table_ref(location, context.asset_key, table)
    log, head = log_and_head(ref, session, reader, {} if step is None else step.standings.open_logs)
    slice_ = None
    if context.has_asset_partitions and table.partition_columns and _asks_for_partitions(context):
        slice_ = slice_of(ref.name, table, context.asset_partitions_def, context.asset_partition_keys)
        warn_of_no_rows(reader, ref, table, context.asset_partitions_def, log, head)
    newest = pin_source(session, ref, table, log, head, slice_)
    source = newest if step is None else step.at_cut(newest)
    if context.has_input_name:
        _note_version(context.asset_key, source)
    return source


def _note_version(key: dg.AssetKey, source: Source) -> None:
    """Reports to Dagster which version of a table made by no asset the step reads, so that its result is not stale."""
    op = step_context()
    if op is None or not op.has_assets_def or not op.job_def.asset_layer.asset_graph.get(key).is_external:
        return
    head = replace(source.head, version=source.at.version)
    step, version = cast("Any", op.get_step_execution_context()), content_version(source.log, head)
    last = step.maybe_fetch_and_get_input_asset_version_info(key)
    if last is not None and last.data_version is not None and last.data_version.value == version:
        return
    for report in version_reports(op.instance, {key: version}):
        op.instance.report_runless_asset_event(report)
    step.wipe_input_asset_version_info(key)  # Dagster looked it up before the step began
    step.maybe_fetch_and_get_input_asset_version_info(key)


def log_and_head(
    ref: TableRef, session: Callable[[], SparkSession], reader: str, opened: Opened = MappingProxyType({})
) -> tuple[Log, Head]:
    """The log of a source, and where the source stands.

    Raises:
        ReadError (SOURCE_MISSING): There is no table.
    """
    if ref.name in opened:
        return opened[ref.name]
    log = ref.log(session)
    head = log.head()
    if head is None:
        raise ReadError.source_missing(reader, ref.name, ref.location)
    return log, head


def warn_of_no_rows(
    reader: str, ref: TableRef, table: Table, definition: dg.PartitionsDefinition[Any], log: Log, head: Head
) -> None:
    """Warns the listeners if a source has rows, but none in a partition that Dagster knows."""
    if isinstance(log, FileLog):
        rows = keys_of_rows(ref.name, table, definition, log, head)
        why = why_no_rows(ref.name, definition, rows, log.partition_values())
        if why is not None:
            tell(Message(f"{reader} reads no row, because {why}. A key is the text of its column: fmt=... says which."))


def _asks_for_partitions(context: dg.InputContext) -> bool:
    """Whether partitions of a source are asked for: by the step, through its partitions or a mapping, or by a loader.

    For a step that asks for none, Dagster names all partitions that it knows, and the table may have rows of others.
    """
    step = step_context() if context.has_input_name else None
    return step is None or (step.has_assets_def and maps_partitions(step.assets_def, context.asset_key))


def pin_source(
    session: Callable[[], SparkSession], ref: TableRef, table: Table, log: Log, head: Head, slice_: Slice | None
) -> Source:
    """A source at one version: all of it, or only the partitions that a run reads."""
    at = TableVersion(session, ref, head.table_id, head.version)
    if slice_ is not None:
        schema = log.file_schema(head.version)
        where = slice_.predicate(partition_types(at.rows().schema if schema is None else as_struct(schema)))
        at = replace(at, where=where, mapped=digest(partitions(slice_)))
    # One key may be in several of the asset's partitions, whether or not Delta partitions by them.
    key = () if table.partition_columns else table.key_columns
    return Source(at, log, head, key, table.trust_key)
