"""`explain`: what the next run of an asset would read and write, found in its definition and its tables' logs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast
from uuid import uuid4

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse.cursor.cursor import Known
from lakehouse.dagster.code_location import (
    changes_of,
    is_function,
    kind_of,
    maps_partitions,
    partitions_of,
    slice_of,
    table_ref,
    tables_of,
    writes_nothing,
)
from lakehouse.dagster.contexts import by_field
from lakehouse.dagster.follow.partitions import upstream_keys
from lakehouse.dagster.follow.watch import by_manager
from lakehouse.dagster.inputs import pin_source
from lakehouse.dagster.io_manager import DeltaIOManager, managers_of
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.log import version_of
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.table import Table
from lakehouse.difference.statements import Skip
from lakehouse.errors import LakehouseError, NewColumnsError, ReadError
from lakehouse.materialization import Materialization, begin
from lakehouse.read.archive import ask_archive_by_log
from lakehouse.read.feed_trust import Source
from lakehouse.read.forecast import (
    Forecast,
    InputForecast,
    Reading,
    RunEffect,
    WriteForecast,
    forecast_input,
    looked_up,
)
from lakehouse.read.read_plan import read_plan
from lakehouse.read.run import Run
from lakehouse.spark.table_version import TableRef
from lakehouse.writes.overwrite import Overwrite
from lakehouse.writes.write import Write

_WHOLE = (Reading.FIRST, Reading.EVERYTHING)
_NO_DIFFERENCE = "Rows that turn out not to differ are not written."


def explain(
    defs: dg.Definitions,
    asset: str | dg.AssetKey | dg.AssetsDefinition,
    partition_key: str | None = None,
    run_config: Mapping[str, Any] | None = None,
    *,
    call: bool = False,
) -> Forecast:
    """What the next run of an asset would read and write, and why. Nothing is written.

    Logs are read, and no row is; Spark is started only for a log that nothing else can read. What a run finds out only
    while it reads (change files that VACUUM removed, a commit that contradicts itself) is not foreseen.

    Args:
        defs: The definitions of the code location.
        asset: The asset, or its key, whose parts a text joins by "/".
        partition_key: The partition, if the asset has partitions.
        run_config: The config of the run, as Dagster takes it.
        call: Whether to call the asset's function as well: the inputs are read through Spark, the result is planned
            against the table, and the statement is not executed.

    Raises:
        ReadError: There is no such asset, no `DeltaIOManager` writes it, or the partition is not named.
    """
    subject = _Subject.of(defs, asset, partition_key)
    name, refs = subject.name, subject.refs()
    try:
        config = _config(defs, subject, run_config or {})
        step = subject.begun(by_field(config))
        inputs = tuple(subject.input(step, input_name, ref) for input_name, ref in refs.items())
        run = step.pinned_run()
        outcome, why = _verdict(run, subject.kind, inputs)
        if outcome is RunEffect.REFUSED:
            return Forecast(name, partition_key, _version(run.head), outcome, why, inputs)
        write = WriteForecast(subject.kind.__name__, _strategy(run, subject.kind, inputs), run.table.key_columns)
        if call:
            write = replace(write, planned=_plan_sentence(subject, step, refs, config))
        return Forecast(name, partition_key, _version(run.head), outcome, why, inputs, write)
    except LakehouseError as error:
        with suppress(LakehouseError):
            head = subject.manager.describe(subject.asset, subject.key).ref.log(subject.manager.session).head()
            return Forecast(name, partition_key, _version(head), RunEffect.REFUSED, str(error))
        raise


def _verdict(run: Run, kind: type[Write], inputs: Sequence[InputForecast]) -> tuple[RunEffect, str]:
    """What would become of a run, and why, as a sentence."""
    changed = [each for each in inputs if each.reading in (Reading.CHANGES, Reading.ARCHIVE, *_WHOLE)]
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
    if not isinstance(run.cursor, Known):
        return RunEffect.RECORDS, "The table has no position yet."
    if run.new_code is not None:
        return RunEffect.RECORDS, run.new_code
    if run.is_redefined:
        return RunEffect.RECORDS, "The definition changed in a part that decides no row."
    passed = next((each for each in inputs if each.reading is Reading.NOTHING and each.why is not None), None)
    if passed is not None:
        return RunEffect.RECORDS, f"Of '{passed.source}' {passed.why}."
    if run.must_record:
        return RunEffect.RECORDS, "Log cleanup could reach its last position, so the position is put down again."
    if moved and kind.follows_snapshot_inputs:
        return RunEffect.WRITES, f"{' and '.join(moved)} moved. {_NO_DIFFERENCE}"
    if moved:
        return (
            RunEffect.NOTHING,
            f"No source that it follows changed ({' and '.join(moved)} did, and is read as a snapshot).",
        )
    return RunEffect.NOTHING, "It has read every change of its sources."


def _strategy(run: Run, kind: type[Write], inputs: Sequence[InputForecast]) -> str:
    """What the write would do to the table."""
    if run.head is None:
        return "the table is created with the rows in one commit"
    whole = not run.asset.incremental or any(each.reading in _WHOLE for each in inputs)
    return kind.strategy(run, whole=whole, archived=any(each.reading is Reading.ARCHIVE for each in inputs))


def _version(head: Any) -> int | None:
    return None if head is None else version_of(head)


def explainable(defs: dg.Definitions) -> list[str]:
    """The keys of the assets that one function computes, their parts joined by "/"."""
    return sorted(key.to_user_string() for asset in defs.assets or [] if is_function(asset) for key in asset.keys)


def no_asset(defs: dg.Definitions, name: str) -> str:
    """The sentence that no asset has a name."""
    return f"There is no asset {name}. There are: {', '.join(explainable(defs)) or 'none'}."


@dataclass(frozen=True)
class _Subject:
    """An asset that a `DeltaIOManager` writes, and what a run of it would be about."""

    asset: dg.AssetsDefinition
    key: dg.AssetKey
    manager: DeltaIOManager
    defs: dg.Definitions
    partition_key: str | None

    @classmethod
    def of(
        cls, defs: dg.Definitions, asset: str | dg.AssetKey | dg.AssetsDefinition, partition_key: str | None
    ) -> "_Subject":
        key = _key(asset)
        definition = next((each for each in defs.assets or [] if is_function(each) and key in each.keys), None)
        if definition is None:
            raise ReadError(no_asset(defs, key.to_user_string()))
        manager = managers_of(defs.resources).get(definition.get_io_manager_key_for_asset_key(key))
        if manager is None or writes_nothing(definition):
            raise ReadError(f"No DeltaIOManager writes {key.to_user_string()}, so no log says what it has read.")
        if (definition.partitions_def is None) != (partition_key is None):
            problem = "has no partitions" if definition.partitions_def is None else "has partitions"
            cure = "Leave partition_key out." if partition_key is not None else "Say which: partition_key=..."
            raise ReadError(f"{key.to_user_string()} {problem}. {cure}")
        return cls(definition, key, manager, defs, partition_key)

    @property
    def name(self) -> str:
        return self.key.to_user_string()

    @property
    def kind(self) -> type[Write]:
        return kind_of(self.asset)

    @property
    def slice(self) -> Slice | None:
        definition = self.asset.partitions_def
        if definition is None or self.partition_key is None:
            return None
        table = Table.from_metadata(self.asset.specs_by_key[self.key].metadata)
        return slice_of(self.name, table, definition, [self.partition_key])

    def refs(self) -> dict[str, TableRef]:
        """The table behind each input that is one."""
        tables, place = tables_of(self.defs.assets or []), by_manager(self.defs.assets or [], self.defs.resources or {})
        refs = dict[str, TableRef]()
        for input_ in self.asset.op.input_defs:
            key = self.asset.keys_by_input_name.get(input_.name)
            location = None if key is None or input_.dagster_type.is_nothing else place(key)
            if key is not None and location is not None:
                refs[input_.name] = table_ref(location, key, tables.get(key, Table()))
        return refs

    def begun(self, config: Mapping[str, Any]) -> Materialization:
        """The run, begun: it has read where its own table stands."""
        keys = self.asset.keys_by_input_name
        return begin(
            self.manager.session,
            self.manager.describe(self.asset, self.key),
            f"forecast {uuid4().hex[:8]}",
            slice=self.slice,
            reads={keys[name].to_user_string(): read for name, read in changes_of(self.asset).items()},
            config=config,
        )

    def input(self, step: Materialization, name: str, ref: TableRef) -> InputForecast:
        """How an input would be read."""
        source, read = self.source(name, ref), changes_of(self.asset).get(name)
        if read is None:
            return looked_up(source, step.run.cursor.reads.get(ref.name))
        ref_of_archive = None if read.archive is None else self.manager.archive(read.archive)
        archive = None if ref_of_archive is None else partial(ask_archive_by_log, ref_of_archive, source)
        return forecast_input(read_plan(step.facts(source, read, archive)), source, step.now)

    def source(self, name: str, ref: TableRef) -> Source:
        """The source of an input, pinned at its newest version."""
        log = ref.log(self.manager.session)
        head = log.head()
        if head is None:
            raise ReadError(
                f"'{self.name}' reads '{ref.name}', but there is no Delta table at {ref.location}. Materialize "
                f"'{ref.name}' first, or correct its name or root."
            )
        table = tables_of(self.defs.assets or []).get(self.asset.keys_by_input_name[name], Table())
        return pin_source(self.manager.session, ref, table, log, head, self.slice_of_input(name))

    def slice_of_input(self, input_name: str) -> Slice | None:
        """The partitions of a source that a run reads; None if it reads all of them."""
        key = self.asset.keys_by_input_name[input_name]
        table = tables_of(self.defs.assets or []).get(key, Table())
        source_def = partitions_of(self.defs.assets or []).get(key)
        if source_def is None or not table.partition_columns or not maps_partitions(self.asset, key):
            return None
        keys = upstream_keys(self.asset, key, source_def, self.partition_key)
        return slice_of(key.to_user_string(), table, source_def, keys)


def _key(asset: str | dg.AssetKey | dg.AssetsDefinition) -> dg.AssetKey:
    if isinstance(asset, dg.AssetsDefinition):
        return asset.key
    return dg.AssetKey(asset.split("/")) if isinstance(asset, str) else asset


def _config(defs: dg.Definitions, subject: _Subject, run_config: Mapping[str, Any]) -> Any:
    """The resolved config of the step, with its defaults; None if the asset takes none."""
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=frozenset({subject.key}))
    resolved: Any = dg.validate_run_config(job, dict(run_config))
    return resolved["ops"][subject.asset.op.name].get("config")


def _plan_sentence(subject: _Subject, step: Materialization, refs: Mapping[str, TableRef], config: Any) -> str:
    """What a plan of the function's result against the table says."""
    values = dict(_read(subject, step, refs))
    result: Any = subject.asset(_context(subject, config), **values)
    value: Any = cast("Any", result).value if isinstance(result, dg.Output | dg.MaterializeResult) else result
    write = Overwrite(value) if isinstance(value, DataFrame) else cast("Write", value)
    try:
        statement = step.plan(write)
    except NewColumnsError as error:  # the run begins again, and what it then reads is planned then
        return f"everything is compared once: {error.reason}"
    return "nothing: no row differs" if isinstance(statement, Skip) else statement.describe()


def _context(subject: _Subject, config: Any) -> dg.AssetExecutionContext:
    """What a run gives the function beside its inputs: resources, config and the partition."""
    resources = {name: (subject.defs.resources or {})[name] for name in subject.asset.op.required_resource_keys}
    return dg.build_asset_context(resources=resources, partition_key=subject.partition_key, asset_config=config)


def _read(subject: _Subject, step: Materialization, refs: Mapping[str, TableRef]) -> Iterator[tuple[str, Any]]:
    for name, ref in refs.items():
        source, read = subject.source(name, ref), changes_of(subject.asset).get(name)
        yield name, step.snapshot_input(source) if read is None else step.changes(source, read, subject.manager.archive)
