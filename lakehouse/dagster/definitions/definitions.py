"""Definitions made complete in one call, each asset named once; and what that call wraps around an asset's function.

The wrapper lets a step end before its function is called, and has the type of its result checked. What the page of an
asset shows before its first run is in Dagster's own metadata keys, which the catalog, the lineage and other tools read.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cache, wraps
from pathlib import Path
from typing import Any, Self

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse.commit.outcome import NothingToDo
from lakehouse.dagster.code_location import (
    AssetTable,
    function_of,
    input_kind,
    is_function,
    name_of_annotation,
    writes_nothing,
)
from lakehouse.dagster.contexts import POSTPONED, Postponed, asset_context
from lakehouse.dagster.definitions.checks import checkable_tables, checks_beside
from lakehouse.dagster.definitions.keeping import upkeep_job
from lakehouse.dagster.definitions.night_schedule import Nightly
from lakehouse.dagster.definitions.nightly import nightly
from lakehouse.dagster.definitions.recompute import PROOF, proof
from lakehouse.dagster.definitions.validation import validate_location
from lakehouse.dagster.expectation_checks import with_quarantines
from lakehouse.dagster.failures import as_dagster_failures, explaining_errors
from lakehouse.dagster.follow.sensor import sensor_of
from lakehouse.dagster.io_manager import code_location_of, writer_of
from lakehouse.dagster.remake import remake, with_assets, with_each_once
from lakehouse.dagster.table_facts import STORAGE_KIND, column_schema, table_metadata
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Storage
from lakehouse.errors import DefinitionError, LakehouseError
from lakehouse.errors.base import gathering
from lakehouse.spark.table_version import TableRef
from lakehouse.spark.types import as_struct

DEFAULT_KINDS = {STORAGE_KIND, "spark"}
"""The kinds of an asset that names none."""
_SCHEMA, _CODE = "dagster/column_schema", "dagster/code_references"


def with_page(definition: Any, table: AssetTable) -> Any:
    """The asset, or the spec of a table, with what its page shows; what the user gave stays."""
    ref = table.ref
    if ref is None:
        return definition
    facts: dict[str, Any] = {**table_metadata(ref), **_columns(ref), **_code(definition)}

    def shown(spec: dg.AssetSpec) -> dg.AssetSpec:
        missing = {name: value for name, value in facts.items() if name not in spec.metadata}
        kinds = set[str]() if spec.kinds or table.is_spec else DEFAULT_KINDS
        return spec.merge_attributes(metadata=missing, kinds=kinds)

    if isinstance(definition, dg.AssetSpec):
        return shown(definition)
    return definition.map_asset_specs(shown)


def _columns(ref: TableRef) -> dict[str, Any]:
    """The columns of a table on this machine, by its log; empty if the table is elsewhere or does not exist yet."""
    if ref.files is None or ref.files.storage is not Storage.FILES or ref.why_only_spark() is not None:
        return {}
    log = FileLog(ref.files, ref.name)
    try:
        head = log.head()
        schema = None if head is None else log.file_schema(head.version)
    except LakehouseError:  # a run reports it; the code location loads all the same
        return {}
    return {} if schema is None else {_SCHEMA: column_schema(as_struct(schema))}


def _code(definition: Any) -> dict[str, Any]:
    """Where the user's function is, whatever is wrapped around it later."""
    function = function_of(definition) if is_function(definition) else None
    if function is None:
        return {}
    inner = inspect.unwrap(function)
    try:
        file, line = inspect.getsourcefile(inner), inspect.getsourcelines(inner)[1]
    except (OSError, TypeError):  # it was made at a prompt
        return {}
    if file is None:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        reference = dg.LocalFileCodeReference(file_path=str(Path(file).absolute()), line_number=line)
        return {_CODE: dg.CodeReferencesMetadataValue(code_references=[reference])}


_SENSOR, _NIGHTLY_CHECKS, _UPKEEP = "lakehouse/sensor", "lakehouse/nightly_checks", "lakehouse/upkeep"


@dataclass(frozen=True, slots=True)
class Additions:
    """What `incremental` adds to definitions."""

    sensor: str | None = None
    night: Nightly | None = None
    upkeep: Nightly | None = None

    @classmethod
    def of(cls, metadata: Mapping[str, dg.MetadataValue[Any]]) -> Self:
        """The additions that the metadata of definitions names."""
        sensor, night, upkeep = (metadata.get(name) for name in (_SENSOR, _NIGHTLY_CHECKS, _UPKEEP))
        return cls(
            None if sensor is None else sensor.value,
            None if night is None else Nightly(**_of_json(night.value)),
            None if upkeep is None else Nightly(**_of_json(upkeep.value)),
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of definitions that names these additions."""
        night, upkeep = (None if each is None else _as_json(each) for each in (self.night, self.upkeep))
        named: dict[str, Any] = {_SENSOR: self.sensor, _NIGHTLY_CHECKS: night, _UPKEEP: upkeep}
        return {name: value for name, value in named.items() if value is not None}

    def with_named(
        self, sensor: str | None, night: str | Nightly | None, upkeep: str | Nightly | None = None
    ) -> "Additions":
        """The same additions, except that what the caller names wins."""
        checks = Nightly(night) if isinstance(night, str) else night
        if checks is not None and checks.max_bytes is not None:
            raise DefinitionError("max_bytes of Nightly(...) is of upkeep: no check rewrites a file. Leave it out.")
        work = Nightly(upkeep) if isinstance(upkeep, str) else upkeep
        return Additions(sensor or self.sensor, checks or self.night, work or self.upkeep)


def _as_json(named: Nightly) -> dict[str, Any]:
    return {**asdict(named), "limit": named.limit.total_seconds()}


def _of_json(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {**stored, "limit": timedelta(seconds=stored["limit"])}


def incremental(
    definitions: dg.Definitions,
    sensor: str | None = None,
    nightly_checks: str | Nightly | None = None,
    upkeep: str | Nightly | None = None,
) -> dg.Definitions:
    """The same definitions, validated and complete: pools, metadata, checks; a sensor, nightly checks, upkeep if named.

    The writers of one table share a Dagster pool, and each asset shows which writers it can conflict with, where
    its table is, its columns and its code; an asset without kinds has `deltalake` and `spark`. Each table has the
    checks that can be made of it, and one for each of its expectations. A check that the definitions bring replaces the
    added check of the same table and name. A run that materializes an asset leaves out the checks that read the whole
    table. Naming a cron schedule for nightly checks is the consent to them: the schedule runs from the start. A night
    makes the checks of this library, those that have waited longest first, and starts none after two hours. The same
    holds for upkeep, which keeps the files of the tables in shape. A table that puts rows into a quarantine has a
    second asset, `<asset key>_quarantine`, which the runs of the first materialize. The sensor is stopped until it is
    started in Dagster. A sensor or a schedule that is not named here is the one that the component `Lakehouse` of the
    definitions names, if there is one.

    Args:
        definitions: The code location: assets, specs of tables that it only reads, resources, and all else.
        sensor: The name of a `change_sensor` for these tables; None for no sensor.
        nightly_checks: When the nights begin, as a cron schedule; `Nightly(...)` for another limit or time zone. None:
            a table is compared with a recompute only if its check is run by hand.
        upkeep: When tables are compacted, and files that no reader needs are removed, as a cron schedule;
            `Nightly(...)` for other limits or a time zone. None: only by the command `lakehouse upkeep`.

    Raises:
        DefinitionError: A definition that could never work; see `validate`.
    """
    given = with_each_once(definitions)
    given = with_quarantines(given, code_location_of(given))
    code_location = code_location_of(given)
    if gathering() is not None:  # where errors are gathered, no checks and no sensor are needed
        return validate_location(given, code_location)
    brought = list(given.asset_checks or [])
    tables = checkable_tables(code_location)
    additions = Additions.of(given.metadata).with_named(sensor, nightly_checks, upkeep)
    night = additions.night
    added = checks_beside({key for check in brought for key in check.check_keys}, tables, night)
    sensors = [] if additions.sensor is None else [sensor_of(code_location, additions.sensor)]
    more = [dg.Definitions(asset_checks=added, sensors=sensors)]
    if night is not None:
        more.append(nightly([*brought, *added], tables, night))
    if additions.upkeep is not None:
        more.append(upkeep_job(code_location, additions.upkeep))
    complete = validate_location(dg.Definitions.merge(given, *more), code_location)

    def finish(asset: Any) -> Any:
        if isinstance(asset, dg.AssetSpec):
            return with_page(asset, code_location[asset.key])
        if not isinstance(asset, dg.AssetsDefinition) or not asset.is_executable:
            return asset
        made = [code_location[key] for key in asset.keys]
        is_ours = bool(made) and all(table.root is not None for table in made)
        if not is_ours:
            return asset
        paged = with_page(asset, made[0]) if made[0].stands_alone else asset
        return _finish(paged, made[0], night)

    return with_assets(complete, finish)


def _finish(asset: dg.AssetsDefinition, table: AssetTable, night: Nightly | None) -> dg.AssetsDefinition:
    """The asset, whose result has the library's type and whose step may end without its function, with its proof."""
    metadata = {PROOF: proof(table, None if night is None else night.cron_schedule)}
    return _wrap(asset, table).map_asset_specs(lambda spec: spec.merge_attributes(metadata=metadata))


def _wrap(asset: dg.AssetsDefinition, table: AssetTable) -> dg.AssetsDefinition:
    """The asset with the library's type for its result, if one function computes a table.

    If it reads changes, and its write allows it, its function is called, and its snapshot inputs are read, only if
    there is something to do.
    """
    if not is_function(asset) or len(asset.op.output_defs) != 1 or writes_nothing(asset):
        return asset
    op, function, name = asset.op, function_of(asset), asset.key.to_user_string()
    outs = {output.name: _result(dg.Out.from_definition(output)) for output in op.output_defs}
    if not _returns(function):
        return remake(asset, outs=outs)
    decorated: Any = type(op.compute_fn)
    if not table.changes or not table.kind.ends_early:
        return remake(asset, compute_fn=decorated(explaining_errors(name)(function)), outs=outs)
    ins = {
        input_.name: _postpone(dg.In.from_definition(input_))
        if not input_.dagster_type.is_nothing
        and input_kind(name, input_.name, input_.dagster_type.typing_type) is DataFrame
        else dg.In.from_definition(input_)
        for input_ in op.input_defs
    }
    return remake(asset, compute_fn=decorated(_call_if_needed(function, name)), ins=ins, outs=outs)


def _returns(function: Any) -> bool:
    """Whether a function returns its result when it is called; a generator and a coroutine do not."""
    others = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
    return function is not None and not any(is_other(function) for is_other in others)


def _call_if_needed(function: Callable[..., Any], asset: str) -> Callable[..., Any]:
    @wraps(function)
    def compute(*args: Any, **inputs: Any) -> Any:
        outcome = _outcome()
        if outcome is not None:
            return outcome
        read = {name: value.read() if isinstance(value, Postponed) else value for name, value in inputs.items()}
        with explaining_errors(asset):
            return function(*args, **read)

    return compute


def _outcome() -> NothingToDo | None:
    execution = asset_context()
    writer = None if execution is None else writer_of(execution)
    if execution is None or writer is None:  # the asset is called outside a run
        return None
    with as_dagster_failures(execution):
        return writer.step_of(execution).nothing_to_do()


def _postpone(given: dg.In) -> dg.In:
    return dg.In(
        dagster_type=POSTPONED,
        description=given.description,
        metadata=given.metadata,
        input_manager_key=given.input_manager_key,
    )


def _result(given: dg.Out) -> dg.Out:
    return dg.Out(
        dagster_type=_or_nothing(given.dagster_type),
        description=given.description,
        is_required=given.is_required,
        io_manager_key=given.io_manager_key,
        metadata=given.metadata,
        code_version=given.code_version,
    )


@cache
def _or_nothing(kind: dg.DagsterType) -> dg.DagsterType:
    return _OrNothing(kind)


class _OrNothing(dg.DagsterType):
    """The type of a result that is of another type, or is `NothingToDo`; all else is as in the other type."""

    def __init__(self, kind: dg.DagsterType) -> None:
        self._kind = kind
        super().__init__(
            self._check,
            key=f"{kind.key} or nothing",  # and no name, because two types of a code location cannot share one
            description=kind.description,
            metadata=kind.metadata,
            required_resource_keys=set(kind.required_resource_keys),
            typing_type=kind.typing_type,
        )

    @property
    def display_name(self) -> str:
        return self._kind.display_name

    def _check(self, context: Any, value: Any) -> bool | dg.TypeCheck:
        if isinstance(value, NothingToDo):
            return True
        answer = self._kind.type_check(context, value)
        return answer if answer.success or isinstance(value, self._kind.typing_type) else self._refuse(value)

    def _refuse(self, value: Any) -> dg.TypeCheck:
        name = name_of_annotation(self._kind.typing_type)
        returned = "nothing" if value is None else f"a value of type {name_of_annotation(type(value))}"
        make = "Make a DataFrame of it: spark.createDataFrame(...)." if self._kind.typing_type is DataFrame else None
        remedy = "Is its `return` missing?" if value is None else make or f"Return {name}(...)."
        description = f"The function returned {returned}, and its annotation says {name}. Nothing was written. {remedy}"
        return dg.TypeCheck(success=False, description=description)
