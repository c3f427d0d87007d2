"""The IO manager: reads inputs as their annotations say, writes results as their types say, tells Dagster."""

import time
from dataclasses import dataclass, field
from typing import Any, cast

import dagster as dg
from dagster import ResourceDependency
from pydantic import PrivateAttr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

from lakehouse.archive import archive_of
from lakehouse.changes import Changes, Everything
from lakehouse.commit import check_target, commit
from lakehouse.cursor import Cursor, Known, Lost, find_cursor
from lakehouse.definition import WriteKind, input_kind, slice_of, table_ref, write_kind
from lakehouse.errors import GapError, LakehouseError, LateGapError, SourceMissingError, StaleInputsError
from lakehouse.ladder import Reader, Source, read_changes
from lakehouse.mark import Position
from lakehouse.partitions import Slice
from lakehouse.read import Read
from lakehouse.report import report
from lakehouse.retry import Retry
from lakehouse.run import Run
from lakehouse.table import Table
from lakehouse.tables import Pinned, TableRef
from lakehouse.writes import Append, Merge, Overwrite, Write

FULL_REFRESH = "lakehouse/full_refresh"
"""Run tag: "true", or asset keys separated by commas; those tables are compared with everything."""
COMPARE = "lakehouse/compare/"
"""Run tag, with the asset key behind it: why this run compares everything. Set by the run itself."""
STALE_RETRIES = 3


@dataclass
class _Step:
    """What one step has pinned so far; its inputs add to it, its output uses it."""

    asset: str
    table: Table
    ref: TableRef
    kind: WriteKind
    slice: Slice | None
    cursor: Cursor
    reconcile: str | None
    began: float = field(default_factory=time.monotonic)
    changes: list[Changes] = field(default_factory=list[Changes])
    lookups: dict[str, Position] = field(default_factory=dict[str, Position])


class DeltaIOManager(dg.ConfigurableIOManager):
    """Every asset is a Delta table; one materialization is one commit; the commit keeps what it has read.

    Args:
        spark: Any resource with a `spark_session`, dagster-pyspark's own among them.
        root: Where the tables live: asset ["silver", "flights"] at `<root>/silver/flights`.
        conflicts: How often a commit that lost to a rival is tried again.
    """

    spark: ResourceDependency[Any]
    root: str
    conflicts: ResourceDependency[Retry] = Retry()
    _steps: dict[tuple[str, str, int], _Step] = PrivateAttr(default_factory=dict[tuple[str, str, int], _Step])

    def load_input(self, context: dg.InputContext) -> Changes | DataFrame:
        """The changes of the upstream table since this asset last read it, or the table at one pinned version."""
        source = self._source(context)
        name = cast("str", context.name)
        run = _asset_context()
        if run is None:
            return source.at.rows()
        asset = "/".join(run.asset_key.path)
        with _told_to_dagster(run):
            if input_kind(asset, name, context.dagster_type.typing_type) is DataFrame:
                return self._lookup(run, source)
            return self._changes(run, source, Read.from_metadata(context.definition_metadata or {}))

    def handle_output(self, context: dg.OutputContext, obj: Append | Overwrite | Merge | DataFrame | None) -> None:
        """Makes the result one Delta commit, and the materialization's metadata out of it."""
        if obj is None:
            return
        run_context = _asset_context()
        assert run_context is not None
        step = self._steps.pop(_step_key(run_context), None) or self._begin(run_context)
        write: Write = Overwrite(obj) if isinstance(obj, DataFrame | ConnectDataFrame) else obj
        run = Run(
            asset=step.asset,
            table=step.table,
            ref=step.ref,
            run=context.run_id,
            cursor=step.cursor,
            aliases=_unacknowledged(run_context),
            changes=tuple(step.changes),
            lookups=step.lookups,
            slice=step.slice,
            code_version=_code_version(run_context),
            full=step.reconcile,
        )
        with _told_to_dagster(run_context):
            _refuse_doubling(run, write)
            outcome = commit(self._session(), run, write, self.conflicts, tell=context.log.warning)
            report(context, run_context, run, outcome, run.ref.log(self._session), self._session)
            context.add_output_metadata({"seconds": round(time.monotonic() - step.began, 2)})

    def _session(self) -> SparkSession:
        return cast("SparkSession", self.spark.spark_session)

    def _begin(self, run: dg.AssetExecutionContext) -> _Step:
        key = _step_key(run)
        if key in self._steps:
            return self._steps[key]
        asset = "/".join(run.asset_key.path)
        spec = run.assets_def.specs_by_key[run.asset_key]
        table = Table.from_metadata(spec.metadata)
        ref = table_ref(self.root, run.asset_key, table)
        kind = write_kind(asset, run.op_def.output_defs[0].dagster_type.typing_type)
        partitions_def = run.assets_def.partitions_def
        slice_ = slice_of(asset, table, partitions_def, run.partition_keys) if partitions_def else None
        log = ref.log(self._session)
        head = log.head()
        incremental = any(input_.dagster_type.typing_type is Changes for input_ in run.op_def.input_defs)
        cursor = find_cursor(log, head, asset, slice_.keys if slice_ else (), reads=incremental)
        reconcile = _reason_to_compare(run, asset, cursor, kind)
        step = _Step(asset, table, ref, kind, slice_, cursor, reconcile)
        check_target(Run(asset=asset, table=table, ref=ref, run=run.run_id, cursor=cursor, full=reconcile), head)
        self._steps[key] = step
        return step

    def _source(self, context: dg.InputContext) -> Source:
        upstream = context.upstream_output
        metadata = (upstream.definition_metadata if upstream is not None else None) or {}
        table = Table.from_metadata(metadata)
        ref = table_ref(self.root, context.asset_key, table)
        log = ref.log(self._session)
        head = log.head()
        if head is None:
            reader = _asset_context()
            asset = "/".join(reader.asset_key.path) if reader is not None else "load_input"
            raise _final(SourceMissingError(asset, ref.name, ref.location))
        pinned = Pinned(self._session(), ref, head.table_id, head.version, None, table.key_columns)
        return Source(self._sliced(context, table, pinned), log, head)

    def _sliced(self, context: dg.InputContext, table: Table, pinned: Pinned) -> Pinned:
        """Only the partitions that Dagster maps to this run, where both sides are partitioned."""
        run = _asset_context()
        if run is None or run.assets_def.partitions_def is None or not context.has_asset_partitions:
            return pinned
        if not table.partition_columns:
            return pinned
        slice_ = slice_of(pinned.ref.name, table, context.asset_partitions_def, context.asset_partition_keys)
        if slice_ is None:
            return pinned
        kinds = {c.name: c.dataType.simpleString() for c in pinned.rows().schema.fields}
        return Pinned(pinned.spark, pinned.ref, pinned.table_id, pinned.version, slice_.predicate(kinds), pinned.key)

    def _lookup(self, run: dg.AssetExecutionContext, source: Source) -> DataFrame:
        step = self._begin(run)
        step.lookups[source.at.ref.name] = Position(source.head.table_id, source.head.version, lookup=True)
        return source.at.rows()

    def _changes(self, run: dg.AssetExecutionContext, source: Source, read: Read) -> Changes:
        step = self._begin(run)
        position = step.cursor.reads.get(source.at.ref.name)
        position = None if position is not None and position.lookup else position
        if isinstance(step.cursor, Lost) and step.reconcile is None:
            raise GapError(step.asset, source.at.ref.name, -1, source.head.version, step.cursor.reason, _remedy(step))
        reader = Reader(
            asset=step.asset,
            read=read,
            may_reconcile=step.kind is not Append and step.table.on_gap == "reconcile",
            refuse=_remedy(step),
            reconcile=step.reconcile,
            archive=archive_of(read, source, self._archive_ref, self._session),
        )
        changes = read_changes(source, position, reader)
        if isinstance(changes.content, Everything) and changes.content.reason is not None:
            run.log.warning(f"{step.asset} compares all of {changes.name}: {changes.content.reason}.")
        step.changes.append(changes)
        return changes

    def _archive_ref(self, asset: str) -> TableRef:
        return table_ref(self.root, dg.AssetKey(asset.split("/")), Table())


class _told_to_dagster:  # noqa: N801 (reads as a sentence where it is used)
    """Our errors as Dagster's: final ones are not retried by a RetryPolicy, the two that need new inputs are."""

    def __init__(self, run: dg.AssetExecutionContext) -> None:
        self._run = run

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        match error:
            case LateGapError():
                self._run.instance.add_run_tags(self._run.run_id, {COMPARE + error.asset: error.reason[:200]})
                raise dg.RetryRequested(max_retries=1) from error
            case StaleInputsError():
                raise dg.RetryRequested(max_retries=STALE_RETRIES) from error
            case LakehouseError():
                raise _final(error) from error
            case _:
                return


def _final(error: LakehouseError) -> dg.Failure:
    failure = dg.Failure(description=str(error), allow_retries=False)
    failure.__cause__ = error
    return failure


def _refuse_doubling(run: Run, write: Write) -> None:
    """An `Append` cannot take rows back, so it never adds everything a second time."""
    if not isinstance(write, Append) or not isinstance(run.cursor, Known):
        return
    for changes in run.changes:
        read_before = run.cursor.reads.get(changes.name)
        if isinstance(changes.content, Everything) and read_before is not None:
            raise GapError(
                run.asset,
                changes.name,
                read_before.version,
                changes.range.upto,
                changes.content.reason or "everything was asked for",
                APPEND_REMEDY,
            )


APPEND_REMEDY = (
    "An Append cannot take rows back. Name an archive of the source in Read(archive=...), or delete the table and "
    "materialize it anew."
)


def _remedy(step: _Step) -> str:
    if step.kind is Append:
        return APPEND_REMEDY
    return (
        f"Materialize once with the run tag {FULL_REFRESH}=true: everything is compared, only differences are written."
    )


def _reason_to_compare(run: dg.AssetExecutionContext, asset: str, cursor: Cursor, kind: WriteKind) -> str | None:
    """Why this run reads everything although its table knows a position; None: it continues from there."""
    tags = run.run.tags
    wanted = tags.get(FULL_REFRESH, "")
    if wanted.lower() == "true" or asset in [name.strip() for name in wanted.split(",")]:
        return "a full refresh was asked for"
    if reason := _stored_tag(run, COMPARE + asset):
        return reason
    if kind is Append:
        return None
    table = Table.from_metadata(run.assets_def.specs_by_key[run.asset_key].metadata)
    if isinstance(cursor, Lost) and table.on_gap == "reconcile":
        return cursor.reason
    if isinstance(cursor, Known) and cursor.mark.code_version != _code_version(run):
        return f"the asset's code version is now {_code_version(run)} and was {cursor.mark.code_version}"
    return None


def _stored_tag(run: dg.AssetExecutionContext, name: str) -> str | None:
    """A tag as Dagster's storage has it now; the run in the context is as it was when the run began."""
    stored = run.instance.get_run_by_id(run.run_id)
    return stored.tags.get(name) if stored is not None else None


def _code_version(run: dg.AssetExecutionContext) -> str | None:
    return run.assets_def.specs_by_key[run.asset_key].code_version


def _unacknowledged(run: dg.AssetExecutionContext) -> frozenset[str]:
    """The run that this one repeats, if Dagster never heard of its materialization: its commit is then ours."""
    parent = run.run.parent_run_id
    if parent is None:
        return frozenset()
    event = run.instance.get_latest_materialization_event(run.asset_key)
    return frozenset() if event is not None and event.run_id == parent else frozenset({parent})


def _step_key(run: dg.AssetExecutionContext) -> tuple[str, str, int]:
    return run.run_id, run.op_execution_context.get_step_execution_context().step.key, run.retry_number


def _asset_context() -> dg.AssetExecutionContext | None:
    """The running asset; None where an input is loaded outside a run (`Definitions.load_asset_value`)."""
    try:
        context = dg.AssetExecutionContext.get()
    except Exception:
        return None
    return cast("dg.AssetExecutionContext", context)
