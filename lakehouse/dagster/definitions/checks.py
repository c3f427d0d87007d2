"""Asset checks: which ones exist, which tables each can be made of, within which limits, and in which step.

A new check needs a `CheckName` with its description here, a rule about which tables it can be made of (`_can_be_made`),
a method of `Checked` that `finding_of` calls, and its finding, in lakehouse/dagster/definitions/findings.py.
"""

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self, TypeAlias, cast, get_args

import dagster as dg

from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.contexts import to_log
from lakehouse.dagster.definitions.checked import Checked
from lakehouse.dagster.definitions.comparison import compare
from lakehouse.dagster.definitions.findings import Finding, Grade
from lakehouse.dagster.definitions.night_schedule import Nightly, missed_night
from lakehouse.dagster.definitions.past_checks import CHECK, LEFT_OUT, NEVER, MadeCheck, last_compared, last_made
from lakehouse.dagster.definitions.recompute import Sample, why_not_recomputed
from lakehouse.dagster.expectation_checks import answer_of, is_quarantine, refuse_taken_names, specs_of
from lakehouse.dagster.run_tags import CHECKS
from lakehouse.delta.expect import Expect
from lakehouse.errors import DefinitionError, UnreadableLogError
from lakehouse.spark.progress import listening

CheckName: TypeAlias = Literal["recompute", "up_to_date", "schema", "keys", "inputs_agree"]
NAMES: tuple[CheckName, ...] = get_args(CheckName)
EXPENSIVE = frozenset({"recompute", "keys"})
"""Checks that read the whole table: a run that materializes the asset leaves them to a run of their own."""
MAX_LAG, MARGIN = timedelta(days=1), timedelta(days=2)
_NO_NIGHTS = 'Run this check, or leave it to the nightly checks: nightly_checks="0 3 * * *" makes the schedule of them.'
_MISSED = (
    "The nightly checks of {} have not run. See whether Dagster's daemon runs, and its schedule nightly_checks is on."
)
_LIMITS = "limits"
"""Metadata of a check's definition: its limits."""
_DESCRIPTIONS: Mapping[CheckName, str] = {
    "recompute": "The table holds what a full recompute of the same versions of its sources gives.",
    "up_to_date": "No change has waited for too long, and the next run can still read on, commit by commit.",
    "schema": "The table has the columns that it declares, and the columns of its sources are unchanged.",
    "keys": "The declared key identifies each row: no value twice. NULL in a key is worth a warning.",
    "inputs_agree": "Its inputs stood for the same version of each source that they share when the table read them.",
}


def id_of(name: CheckName) -> str:
    """The name of a check in Dagster."""
    return CHECK if name == "recompute" else name


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """What decides how a check ends, or what it costs; see `checks`.

    Raises:
        DefinitionError: A limit is not positive, or a share is above one.
    """

    sample: Sample = None
    max_lag: timedelta = MAX_LAG
    margin: timedelta = MARGIN
    night: Nightly | None = None

    def __post_init__(self) -> None:
        if (self.sample or 1) <= 0 or self.sample == 0 or min(self.max_lag, self.margin) <= timedelta():
            raise DefinitionError("sample, max_lag and margin of checks(...) are positive. Correct them.")
        if isinstance(self.sample, float) and self.sample > 1:
            raise DefinitionError(
                f"sample={self.sample} of checks(...) is a share, so at most 1.0. A number of keys is an int."
            )

    @property
    def metadata(self) -> dict[str, Any]:
        """The limits, for the definition of a check."""
        seconds = {"max_lag": self.max_lag.total_seconds(), "margin": self.margin.total_seconds()}
        return {_LIMITS: dg.MetadataValue.json({"sample": self.sample, **seconds})}

    @classmethod
    def of(cls, spec: dg.AssetCheckSpec) -> Self | None:
        """The limits of a check; None if the check is not one of the library's."""
        value = spec.metadata.get(_LIMITS)
        if not isinstance(value, dg.JsonMetadataValue):
            return None
        limits = cast("Mapping[str, Any]", value.data)
        return cls(limits["sample"], timedelta(seconds=limits["max_lag"]), timedelta(seconds=limits["margin"]))


@dataclass(frozen=True)
class CheckableTable:
    """A table of the definitions that checks can be made of.

    Args:
        table: The table.
        code_location: The code location with the tables that it reads.
        resources: The resource key of the IO manager of the table, and of each table that it reads.
    """

    table: AssetTable
    code_location: CodeLocation
    resources: Mapping[dg.AssetKey, str]

    @property
    def key(self) -> dg.AssetKey:
        return self.table.key

    def table_now(self, resources: Any, instance: dg.DagsterInstance) -> Checked:
        """The table as it stands now."""
        managers = {table: getattr(resources, name) for table, name in self.resources.items()}
        return Checked.of(self.table, self.code_location, managers, instance)


def checks(
    assets: Iterable[Any],
    *names: CheckName,
    sample: Sample = None,
    max_lag: timedelta = MAX_LAG,
    margin: timedelta = MARGIN,
) -> Sequence[dg.AssetChecksDefinition]:
    """The checks of these names for every asset that each can be made of; "recompute" if none is named.

    `recompute`: the table equals a full recompute of the versions that it has read, so the check also holds while the
    sources move on. In a table with partitions, it compares the partition whose check is oldest. It leaves out assets
    whose table need not equal a recompute: those that append or take extracts, have a snapshot input, read only some
    partitions of a source without having any, start late or leave commits out, or need more than their inputs.
    `keys`: for each table that declares a key. `up_to_date`: for each asset that reads `Changes`; if it has partitions,
    about the one that is worst off. `schema`: for each asset that reads `Changes` or declares a `Table`.
    `inputs_agree`: for each asset without partitions that has two inputs which come from one source.

    `recompute` and `keys` read the whole table. A run that also materializes the asset leaves them out, unless its tag
    `lakehouse/checks` is "true". It warns of a check that was never made, or that failed when it was last made.
    `incremental(nightly_checks=...)` makes them at night.

    Args:
        assets: The asset definitions, and the specs of tables that no asset makes.
        names: Of "recompute", "up_to_date", "schema", "keys", "inputs_agree".
        sample: In tables with a key, compare only about this many keys, or this share of them (a float up to 1.0);
            other keys each time, until each has been compared. None: all rows, or about a million keys of a table with
            more than ten million rows.
        max_lag: How long a change may wait before it is read.
        margin: How long before a source's retention ends `up_to_date` warns.

    Raises:
        DefinitionError: A name is not that of a check, a limit is not positive, or a share is above one.
    """
    wanted = names or ("recompute",)
    for name in wanted:
        if name not in NAMES:
            raise DefinitionError(f"There is no check '{name}'. There are: {', '.join(NAMES)}.")
    code_location = CodeLocation.of(assets, lambda _: None)
    return _made(checkable_tables(code_location), wanted, CheckLimits(sample, max_lag, margin))


def checks_beside(
    own: Collection[dg.AssetCheckKey], tables: Mapping[dg.AssetKey, CheckableTable], night: Nightly | None = None
) -> Sequence[dg.AssetChecksDefinition]:
    """Every check that can be made of each table of a `DeltaIOManager`, except those that the definitions have."""
    managed = {key: checked for key, checked in tables.items() if checked.table.root is not None}
    return _made(managed, NAMES, CheckLimits(night=night), own, with_expectations=True)


def _made(
    tables: Mapping[dg.AssetKey, CheckableTable],
    wanted: Collection[CheckName],
    limits: CheckLimits,
    own: Collection[dg.AssetCheckKey] = (),
    *,
    with_expectations: bool = False,
) -> Sequence[dg.AssetChecksDefinition]:
    made = list[dg.AssetChecksDefinition]()
    for key, subject in tables.items():
        expectations = subject.table.declared.expectations if with_expectations and subject.table.is_written else ()
        refuse_taken_names(
            key, expectations, {*map(id_of, NAMES), *(check.name for check in own if check.asset_key == key)}
        )
        possible: list[CheckName] = [name for name in NAMES if _can_be_made(name, subject)]
        names: tuple[CheckName, ...] = tuple(
            name for name in possible if name in wanted and dg.AssetCheckKey(key, id_of(name)) not in own
        )
        # A table may have several such steps, and Dagster wants a name of its own for each.
        step = f"{'checks' if len(names) == len(possible) else '_'.join(names)}_of_{key.to_python_identifier()}"
        if names or expectations:
            made.append(_checks_of(subject, names, step, limits, expectations))
    return made


def checkable_tables(code_location: CodeLocation) -> dict[dg.AssetKey, CheckableTable]:
    """The tables that checks can be made of: those of assets that one function computes, and those of specs."""
    return {
        key: CheckableTable(table, code_location, _managers(table, code_location))
        for key, table in code_location.tables.items()
        if (table.is_spec and not is_quarantine(table)) or (table.is_written and table.stands_alone)
    }


def _can_be_made(name: CheckName, subject: CheckableTable) -> bool:
    table = subject.table
    if name == "keys":
        return bool(table.declared.key_columns)
    if table.asset is None:
        return False
    match name:
        case "recompute":
            return why_not_recomputed(table) is None
        case "schema":
            return bool(table.changes or len(table.declared))
        case "up_to_date":
            return bool(table.changes)
        case "inputs_agree":
            ways = subject.code_location.ways
            return table.name not in ways.partitioned and bool(ways.common(table.name))


def _checks_of(
    subject: CheckableTable,
    made: tuple[CheckName, ...],
    step: str,
    limits: CheckLimits,
    expectations: Sequence[Expect] = (),
) -> dg.AssetChecksDefinition:
    """One step for all checks of a table, any of which can be asked for."""
    specs = [
        dg.AssetCheckSpec(id_of(name), asset=subject.key, description=_DESCRIPTIONS[name], metadata=limits.metadata)
        for name in made
    ] + specs_of(subject.key, expectations)

    @dg.multi_asset_check(
        name=step,
        specs=specs,
        can_subset=True,
        required_resource_keys=set(subject.resources.values()),
    )
    def checks_of_table(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult | dg.Output[None]]:
        selected = {check.name for check in context.selected_asset_check_keys}
        # If the run also materializes the asset, the step that does so evaluates what is expected of its rows.
        asset, nodes = subject.table.asset, context.job_def.nodes
        is_materialized = asset is not None and any(node.definition.name == asset.node_def.name for node in nodes)
        makes_all = context.run.tags.get(CHECKS, "").lower() == "true"
        omitted = EXPENSIVE if is_materialized and not makes_all else frozenset[str]()
        checked = subject.table_now(context.resources, context.instance)
        with listening(to_log(context.log)), dg.partition_loading_context(dynamic_partitions_store=context.instance):
            for name in made:
                if id_of(name) not in selected:
                    continue
                if name in omitted:
                    answer = _leave_out(context, subject.key, name, limits.night)
                else:
                    answer = shown(finding_of(name, checked, limits))
                if answer is not None:
                    selected.discard(id_of(name))
                    yield dg.AssetCheckResult(asset_key=subject.key, check_name=id_of(name), **answer)
            due = [each for each in expectations if each.check_name in selected and not is_materialized]
            for evaluation, rows in checked.evaluations(due):
                name = evaluation.expect.check_name
                selected.discard(name)
                yield dg.AssetCheckResult(asset_key=subject.key, check_name=name, **answer_of(evaluation, rows))
        for spec in specs:
            if spec.name in selected:  # else Dagster logs that the step has not yielded what it should
                yield dg.Output(None, spec.get_python_identifier())

    return checks_of_table


def _leave_out(
    context: dg.AssetCheckExecutionContext, key: dg.AssetKey, name: CheckName, night: Nightly | None
) -> dict[str, Any] | None:
    context.log.debug(f"{id_of(name)} is left to a run of its own, or one with the tag {CHECKS}=true.")
    instance, check = context.instance, dg.AssetCheckKey(key, id_of(name))
    last = last_compared(instance, key) if name == "recompute" else last_made(instance, check)
    if night is None:
        return left_out(name, key.to_user_string(), last, _NO_NIGHTS if last is None else None)
    oldest = instance.fetch_materializations(key, limit=1, ascending=True).records
    since = last.at if last is not None else min((record.timestamp for record in oldest), default=math.inf)
    missed = missed_night(night, instance, since, time.time())
    why = None if missed is None else _MISSED.format(missed.isoformat(timespec="minutes"))
    return left_out(name, key.to_user_string(), last, why)


def _managers(table: AssetTable, code_location: CodeLocation) -> dict[dg.AssetKey, str]:
    """The key of the resource that writes the table, and of the one that reads each table that its asset takes."""
    inputs = () if table.asset is None else table.asset.op.input_defs
    readers = {
        key: input_.input_manager_key or code_location[key].manager
        for input_ in inputs
        if (key := table.inputs.get(input_.name)) is not None
    }
    return readers | {table.key: table.manager}


def finding_of(name: CheckName, checked: Checked, limits: CheckLimits) -> Finding:
    """What a check finds."""
    try:
        match name:
            case "recompute":
                return compare(checked, limits.sample)
            case "up_to_date":
                return checked.up_to_date(limits.max_lag, limits.margin)
            case "schema":
                return checked.schema()
            case "keys":
                return checked.keys()
            case "inputs_agree":
                return checked.inputs_agree()
    except UnreadableLogError as error:
        return Finding(Grade.FAILED, str(error))


def shown(finding: Finding) -> dict[str, Any]:
    """The finding as Dagster shows one: arguments of an `AssetCheckResult` and of an `AssetCheckEvaluation`."""
    metadata: dict[str, Any] = dict(finding.figures)
    if finding.records:
        metadata["details"] = dg.MetadataValue.table([dg.TableRecord(dict(record)) for record in finding.records])
    return {
        "passed": finding.grade is Grade.PASSED,
        "severity": dg.AssetCheckSeverity.WARN if finding.grade is Grade.WARNS else dg.AssetCheckSeverity.ERROR,
        "description": finding.sentence,
        "metadata": metadata,
    }


def left_out(name: CheckName, table: str, last: MadeCheck | None, why: str | None) -> dict[str, Any] | None:
    """What a run reports about a check that it leaves out, in the form of `shown`; None if all is well.

    Dagster then shows the check as skipped. A check that failed when it was last made is reported again.

    Args:
        name: The check.
        table: The name of the table.
        last: The last time that the check was made; None if it never was.
        why: Why nothing is about to make the check, and what to do; None if its night is still to come, or was made.
    """
    at = "" if last is None else datetime.fromtimestamp(last.at, UTC).isoformat(timespec="seconds")
    if last is not None and not last.evaluation.passed:
        evaluation = last.evaluation
        before = "" if LEFT_OUT in evaluation.metadata else f"Not checked in this run. {at}: "
        return {
            "passed": False,
            "severity": evaluation.severity,
            "description": f"{before}{evaluation.description}",
            "metadata": {**evaluation.metadata, LEFT_OUT: dg.MetadataValue.timestamp(last.at)},
        }
    if why is None:
        return None
    made = "compared with a recompute" if name == "recompute" else f"checked ({name})"
    return shown(
        Finding(
            Grade.WARNS,
            f"'{table}' was {f'last {made} at {at}' if at else f'never {made}'}. {why}",
            {LEFT_OUT: at or NEVER},
        )
    )
