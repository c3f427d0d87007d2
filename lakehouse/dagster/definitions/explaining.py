"""`explain`: what the next run of an asset would read and write, found in its definition and its tables' logs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import dagster as dg

from lakehouse.cursor.standings import Standings
from lakehouse.dagster.code.digest import fields_of
from lakehouse.dagster.code.explained_view import analysis_of, inputs_of_query, with_paths, with_plan_of_view
from lakehouse.dagster.code_location import AssetTable, CodeLocation, is_function, write_of
from lakehouse.dagster.contexts import by_field, log_and_head, pin_source, warn_of_no_rows
from lakehouse.dagster.follow.partitions import slice_read
from lakehouse.dagster.io_manager import DeltaIOManager, code_location_of, managers_of
from lakehouse.dagster.run_tags import request_by
from lakehouse.dagster.slices import dimensions_of
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.log import version_of
from lakehouse.difference.statements import Skip, Statement, WithQuarantine, of_table
from lakehouse.errors import THAW, LakehouseError, ReadError, UncomparedError
from lakehouse.materialization import Materialization, begin
from lakehouse.read.archive import ask_archive_by_log
from lakehouse.read.asset import UserRequest
from lakehouse.read.feed_trust import Source
from lakehouse.read.forecast import (
    WHOLE,
    Forecast,
    InputForecast,
    Reading,
    RunEffect,
    WriteForecast,
    forecast_input,
    looked_up,
)
from lakehouse.read.read_plan import ReadNothing, ReadPlan, read_plan
from lakehouse.read.resolve import nothing_of
from lakehouse.read.run import CommitReason, Run
from lakehouse.spark.progress import Message, listening
from lakehouse.spark.table_version import TableRef
from lakehouse.writes.merge import doubts_of
from lakehouse.writes.view import View
from lakehouse.writes.write import Basis, Write

_NO_DIFFERENCE = "Rows that turn out not to differ are not written."


def explain(
    defs: dg.Definitions,
    asset: str | dg.AssetKey | dg.AssetsDefinition,
    partition_key: str | None = None,
    run_config: Mapping[str, Any] | None = None,
    *,
    call: bool = False,
    thaw: str | None = None,
) -> Forecast:
    """What the next run of an asset would read and write, and why. Nothing is written.

    Logs are read, but no rows; Spark is started only for a log that nothing else can read. What a run finds out only
    while it reads (change files that VACUUM removed, a commit that contradicts itself) is not foreseen.

    Args:
        defs: The definitions of the code location.
        asset: The asset, or its key; in a text, the parts of the key are joined by "/".
        partition_key: The partition, if the asset has partitions.
        run_config: The config of the run, as Dagster takes it.
        call: Whether to call the asset's function as well: the inputs are read through Spark, the result is planned
            against the table, and the statement is not executed.
        thaw: The condition of the frozen rows that the run would rewrite too.

    Raises:
        ReadError: There is no such asset, no `DeltaIOManager` writes it, or the partition is not named.
    """
    subject = _Subject.of(defs, asset, partition_key)
    name, refs = subject.table.name, subject.refs()
    try:
        config = _config(defs, subject, run_config or {})
        step = subject.begun(by_field(config), thaw)
        step.standings = subject.standings(step)
        if step.asset.policy.inputs == "agree":
            step.agree()
        warnings = list[str]()
        with listening(lambda notice: warnings.append(notice.text) if isinstance(notice, Message) else None):
            sources = {input_name: step.at_cut(subject.source(input_name, ref)) for input_name, ref in refs.items()}
        run, kind, listed = step.run, subject.table.kind, list[InputForecast]()
        for input_name, source in sources.items():
            plan = subject.plan(step, input_name, source)
            if plan is None:
                listed.append(looked_up(source, run.cursor.reads.get(source.at.ref.name)))
                run = run.with_snapshot(source)
            else:
                listed.append(forecast_input(plan, source, step.now))
                run = run.with_read(nothing_of(plan), source, step.now) if isinstance(plan, ReadNothing) else run
        analysis = analysis_of(subject.table, run, sources) if kind is View else None
        inputs = inputs_of_query(subject.manager.session, run, analysis, sources, listed)
        outcome, why = _verdict(run, inputs)
        why = " ".join((why, *_conditions(run), *warnings))
        if outcome is RunEffect.REFUSED:
            return Forecast(name, partition_key, _version(run.head), outcome, why, inputs)
        write = WriteForecast(kind.__name__, _strategy(run, kind, inputs), run.table.key_columns)
        if call:
            write = _with_plan(write, subject, step, sources, config)
        elif kind is View:
            write = with_paths(write, step.run, analysis, outcome)
        return Forecast(name, partition_key, _version(run.head), outcome, why, inputs, write)
    except LakehouseError as error:
        with suppress(LakehouseError):
            head = subject.manager.asset_of(subject.asset, subject.table.key).ref.log(subject.manager.session).head()
            return Forecast(name, partition_key, _version(head), RunEffect.REFUSED, str(error))
        raise


def _verdict(run: Run, inputs: Sequence[InputForecast]) -> tuple[RunEffect, str]:
    """What would become of a run, and why, as a sentence."""
    changed = [each for each in inputs if each.reading in (Reading.CHANGES, Reading.ARCHIVE, *WHOLE)]
    moved = [each.source for each in inputs if each.reading is Reading.SNAPSHOT_INPUT and each.why is not None]
    refused = [each for each in inputs if each.reading is Reading.REFUSED]
    if refused:
        return RunEffect.REFUSED, f"'{refused[0].source}' cannot be read on, and nothing would be written."
    if run.head is None:
        return RunEffect.WRITES, "Its first commit creates the table."
    if not run.asset.incremental:
        return RunEffect.WRITES, f"It reads no changes, so each run computes its whole result. {_NO_DIFFERENCE}"
    if changed:
        return RunEffect.WRITES, f"{count_of(len(changed), 'source')} of {len(inputs)} changed. {_NO_DIFFERENCE}"
    reason = run.commit_reason()
    match reason:
        case CommitReason.SNAPSHOT_INPUT:
            return RunEffect.WRITES, f"{' and '.join(moved)} moved. {_NO_DIFFERENCE}"
        case CommitReason.COLUMNS:
            return RunEffect.WRITES, f"{reason.value} {_NO_DIFFERENCE}"
        case CommitReason.REDEFINED:
            return RunEffect.RECORDS, run.new_code or reason.value
        case CommitReason.PASSED | CommitReason.LOG_CLEANUP:
            passed = next((each for each in inputs if each.reading is Reading.NOTHING and each.why is not None), None)
            return RunEffect.RECORDS, reason.value if passed is None else f"Of '{passed.source}' {passed.why}."
        case CommitReason():
            return RunEffect.RECORDS, reason.value
        case None:
            pass
    if run.unversioned_inputs:
        names = " and ".join(sorted(run.unversioned_inputs))
        why = f"Another IO manager reads {names}, and no version tells whether it changed, so the result is computed."
        return RunEffect.WRITES, f"{why} {_NO_DIFFERENCE}"
    if run.agreement.waits_for:
        return RunEffect.NOTHING, "It has read every change of its sources at which its inputs agree."
    if moved:
        return (
            RunEffect.NOTHING,
            f"No source that it follows changed ({' and '.join(moved)} did, and is read as a snapshot).",
        )
    return RunEffect.NOTHING, "It has read every change of its sources."


def _conditions(run: Run) -> Iterator[str]:
    """How far the inputs are read so that they agree, and which rows the run may rewrite, as sentences."""
    settled = run.agreement
    yield from (f"It {sentence}." for sentence in settled.sentences)
    if settled.stands_for:
        at = ", ".join(f"{source} at version {version}" for source, version in sorted(settled.stands_for.items()))
        yield f"The run makes it stand for {at}."
    if run.owned is not None:
        yield f"It may rewrite the rows with {run.owned}; all others are frozen."


def _strategy(run: Run, kind: type[Write], inputs: Sequence[InputForecast]) -> str:
    """What the write would do to the table."""
    if run.head is None:
        return "the table is created with the rows in one commit"
    if not run.asset.incremental or any(each.reading in WHOLE for each in inputs):
        return kind.strategy(run, Basis.EVERYTHING)
    has_archive = any(each.reading is Reading.ARCHIVE for each in inputs)
    return kind.strategy(run, Basis.ARCHIVE if has_archive else Basis.CHANGES)


def _version(head: Any) -> int | None:
    return None if head is None else version_of(head)


def explainable(code_location: CodeLocation) -> list[str]:
    """The keys of the assets that one function computes, their parts joined by "/"."""
    return sorted(table.name for table in code_location.tables.values() if is_function(table.asset))


def _lacks(partitions_def: dg.PartitionsDefinition[Any], key: str) -> bool:
    """Whether a definition has no such partition. Dynamic partitions are known only to Dagster's instance."""
    dimensions = dimensions_of(partitions_def).values()
    if any(isinstance(dimension, dg.DynamicPartitionsDefinition) for dimension in dimensions):
        return False
    return not partitions_def.has_partition_key(key)


@dataclass(frozen=True)
class _Subject:
    """An asset that a `DeltaIOManager` writes, and what a run of it would be about."""

    table: AssetTable
    asset: dg.AssetsDefinition
    code_location: CodeLocation
    manager: DeltaIOManager
    defs: dg.Definitions
    partition_key: str | None

    @classmethod
    def of(
        cls, defs: dg.Definitions, asset: str | dg.AssetKey | dg.AssetsDefinition, partition_key: str | None
    ) -> "_Subject":
        code_location = code_location_of(defs)
        table = code_location[_key(asset)]
        if not is_function(table.asset):
            names = ", ".join(explainable(code_location)) or "none"
            raise ReadError(f"There is no asset {table.name}. There are: {names}.")
        manager = managers_of(defs.resources).get(table.manager)
        if manager is None or not table.is_written:
            raise ReadError(f"No DeltaIOManager writes {table.name}, so no log says what it has read.")
        if (table.partitions_def is None) != (partition_key is None):
            none, some = (
                "no partitions. Leave the partition out.",
                "partitions. Say which: partition_key=KEY, --partition KEY.",
            )
            raise ReadError(f"{table.name} has {none if table.partitions_def is None else some}")
        if table.partitions_def is not None and _lacks(table.partitions_def, str(partition_key)):
            raise ReadError(f"{table.name} has no partition {partition_key}.")
        return cls(table, table.asset, code_location, manager, defs, partition_key)

    def refs(self) -> dict[str, TableRef]:
        """The table behind each input that is a table."""
        refs = dict[str, TableRef]()
        for input_ in self.asset.op.input_defs:
            key = self.table.inputs.get(input_.name)
            ref = None if key is None or input_.dagster_type.is_nothing else self.code_location[key].ref
            if ref is not None:
                refs[input_.name] = ref
        return refs

    def begun(self, config: Mapping[str, Any], thaw: str | None) -> Materialization:
        """The run, begun: it has read where its own table stands."""
        table = self.table
        asset = self.manager.asset_of(self.asset, table.key, self.code_location)
        return begin(
            self.manager.session,
            asset,
            f"forecast {uuid4().hex[:8]}",
            slice=None if self.partition_key is None else table.slice([self.partition_key]),
            request=UserRequest() if thaw is None else request_by({THAW + asset.name: thaw}, asset),
            config=config,
            resources=fields_of(self.resources()),
        )

    def standings(self, step: Materialization) -> Standings:
        """What its siblings and the tables that lead to it stand for; Spark is used only if the run would use it."""
        logs = self.code_location.logs(self.manager.session if step.asset.policy.inputs == "agree" else None)
        return Standings(self.code_location.ways, logs)

    def resources(self) -> dict[str, Any]:
        """The resources that the function takes, by their keys."""
        given = {**(self.defs.resources or {}), **self.asset.resource_defs}
        return {name: given[name] for name in self.asset.op.required_resource_keys if name in given}

    def plan(self, step: Materialization, name: str, source: Source) -> ReadPlan | None:
        """What would be read of an input; None for a snapshot input."""
        read = self.table.changes.get(name)
        if read is None:
            return None
        ref_of_archive = None if read.archive is None else self.manager.archive(read.archive)
        archive = None if ref_of_archive is None else partial(ask_archive_by_log, ref_of_archive, source)
        return read_plan(step.facts(source, read, archive))

    def source(self, name: str, ref: TableRef) -> Source:
        """The source of an input, pinned at its newest version."""
        log, head = log_and_head(ref, self.manager.session, self.table.name)
        table = self.code_location[self.table.inputs[name]]
        slice_ = slice_read(self.asset, table, self.partition_key)
        if slice_ is not None and table.partitions_def is not None:
            warn_of_no_rows(self.table.name, ref, table.declared, table.partitions_def, log, head)
        return pin_source(self.manager.session, ref, table.declared, log, head, slice_)


def _key(asset: str | dg.AssetKey | dg.AssetsDefinition) -> dg.AssetKey:
    if isinstance(asset, dg.AssetsDefinition):
        return asset.key
    return dg.AssetKey.from_user_string(asset) if isinstance(asset, str) else asset


def _config(defs: dg.Definitions, subject: _Subject, run_config: Mapping[str, Any]) -> Any:
    """The resolved config of the step, with its defaults; None if the asset takes none."""
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=frozenset({subject.table.key}))
    resolved: Any = dg.validate_run_config(job, dict(run_config))
    return resolved["ops"][subject.asset.op.name].get("config")


def _with_plan(
    write: WriteForecast, subject: _Subject, step: Materialization, sources: Mapping[str, Source], config: Any
) -> WriteForecast:
    """The forecast, with the plan of the function's result against the table."""
    values = dict(_read(subject, step, sources))
    returned = write_of(subject.asset(_context(subject, config), **values))
    try:
        with listening(step.hear):
            plan = step.plan(returned)
    except UncomparedError as error:  # the run would begin again, and read and plan anew
        return replace(write, planned=f"everything is compared once: {error.reason}")
    planned = _description(of_table(plan))
    if isinstance(plan, WithQuarantine):
        planned = f"{planned}; in its quarantine, first: {_description(plan.first)}"
    broken = tuple(f"In the result {each.clause}." for each in step.evaluations if each.broken)
    write = replace(write, planned=planned, broken=broken)
    if isinstance(returned, View):
        return with_plan_of_view(write, returned, step)
    return replace(write, doubts=doubts_of(subject.table.name, returned))


def _description(statement: Statement | Skip) -> str:
    return "nothing: no row differs" if isinstance(statement, Skip) else statement.describe()


def _context(subject: _Subject, config: Any) -> dg.AssetExecutionContext:
    """What a run gives the function in addition to its inputs: resources, config and the partition."""
    return dg.build_asset_context(
        resources=subject.resources(), partition_key=subject.partition_key, asset_config=config
    )


def _read(subject: _Subject, step: Materialization, sources: Mapping[str, Source]) -> Iterator[tuple[str, Any]]:
    for name, source in sources.items():
        read = subject.table.changes.get(name)
        yield name, step.snapshot_input(source) if read is None else step.changes(source, read, subject.manager.archive)
