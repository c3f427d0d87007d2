"""Asset checks: what `lakehouse.checking` can say of each table, a line for all of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypeGuard, get_args

import dagster as dg

from lakehouse.checking.finding import Finding, Grade
from lakehouse.dagster.code_location import (
    changes_of,
    is_function,
    manager_keys,
    partitions_of,
    tables_of,
    writes_nothing,
)
from lakehouse.dagster.run_tags import CHECKS
from lakehouse.declare.table import Table
from lakehouse.definitions.checked import Checked
from lakehouse.definitions.recomputed import is_recomputable, may_be_archive
from lakehouse.errors import DefinitionError, UnreadableLogError
from lakehouse.spark.progress import telling

CheckName: TypeAlias = Literal["recompute", "lag", "staleness", "schema", "keys", "feed", "archive"]
NAMES = get_args(CheckName)
CHECK = "equals_full_recompute"
"""The name in Dagster of the check "recompute"; the others have their own."""
EXPENSIVE = frozenset({"recompute", "keys", "archive"})
"""Checks that read the whole table: a run that materializes the asset leaves them to a run of their own."""
MAX_LAG, MARGIN = timedelta(days=1), timedelta(days=2)
_DESCRIPTIONS: Mapping[CheckName, str] = {
    "recompute": "The table holds what a full recompute of the same versions of its sources gives.",
    "lag": "No change of a source has waited for longer than the limit.",
    "staleness": "Every change that is not read yet will still be there for the next runs.",
    "schema": "The table has the columns that it declares, and nobody changed its sources' columns.",
    "keys": "The declared key identifies each row: no value twice, none NULL.",
    "archive": "An archive of a source's feed has, of each commit, as many rows as the commit wrote to the feed.",
    "feed": "The next run can read on from where the table stands, commit by commit.",
}


def checks(
    assets: Iterable[Any],
    *names: CheckName,
    sample: int | None = None,
    max_lag: timedelta = MAX_LAG,
    margin: timedelta = MARGIN,
) -> Sequence[dg.AssetChecksDefinition]:
    """The checks of these names for every asset that each can be made of; "recompute" if none is named.

    `recompute`: the table equals a full recompute of the versions that it has read, so the check is right also while
    the sources move on. Left out are assets whose table need not equal one: they append or take extracts, have a
    snapshot input, partitions or mapped partitions, start late or leave commits out, or need more than their inputs.
    `keys`: of each table that declares a key. `lag`, `staleness`, `feed`: of each asset that reads `Changes`; of its
    partitions the one that is worst off. `schema`: of each asset that reads `Changes` or declares a `Table`. `archive`:
    of each asset without partitions that appends what it makes of all changes of one source.

    `recompute` and `keys` read the whole table, `archive` a column of it. A run that also materializes the asset leaves
    them out, unless its tag `lakehouse/checks` is "true": run them nightly or by hand.

    Args:
        assets: The asset definitions, and the specs of tables that no asset makes.
        names: Of "recompute", "lag", "staleness", "schema", "keys", "feed", "archive".
        sample: Recompute only the rows of at most so many keys of the table, and of each source that has the key's
            columns; others each time. None for all rows.
        max_lag: How long a change may wait before it is read.
        margin: How long before a source's retention ends `staleness` warns.

    Raises:
        DefinitionError: There is no check of a name, or a limit is not positive.
    """
    wanted = names or ("recompute",)
    for name in wanted:
        if name not in NAMES:
            raise DefinitionError(f"There is no check '{name}'. There are: {', '.join(NAMES)}.")
    if (sample is not None and sample < 1) or max_lag <= timedelta() or margin <= timedelta():
        raise DefinitionError("sample, max_lag and margin of checks(...) are positive. Correct them.")
    return _made(list(assets), wanted, _Limits(sample, max_lag, margin))


def checks_beside(own: Collection[dg.AssetCheckKey], assets: Iterable[Any]) -> Sequence[dg.AssetChecksDefinition]:
    """Every check that can be made of each asset, except those that are there already.

    Args:
        own: The checks that are there.
        assets: The asset definitions, and the specs of tables that no asset makes.
    """
    return _made(list(assets), NAMES, _Limits(), own)


@dataclass(frozen=True, slots=True)
class _Limits:
    sample: int | None = None
    max_lag: timedelta = MAX_LAG
    margin: timedelta = MARGIN


def _made(
    listed: Sequence[Any], wanted: Collection[CheckName], limits: _Limits, own: Collection[dg.AssetCheckKey] = ()
) -> Sequence[dg.AssetChecksDefinition]:
    tables, managers, partitions = tables_of(listed), manager_keys(listed), partitions_of(listed)
    made = list[dg.AssetChecksDefinition]()
    for key, asset in _subjects(listed):
        possible = [name for name in NAMES if _can_be_made(name, asset, tables[key])]
        names = tuple(name for name in possible if name in wanted and dg.AssetCheckKey(key, _id(name)) not in own)
        # A table may have several such steps, and Dagster wants a name of its own for each.
        step = f"{'checks' if len(names) == len(possible) else '_'.join(names)}_of_{key.to_python_identifier()}"
        if names:
            made.append(_checks_of(key, asset, names, step, limits, tables, partitions, managers))
    return made


def _subjects(listed: Sequence[Any]) -> Iterator[tuple[dg.AssetKey, dg.AssetsDefinition | dg.AssetSpec]]:
    """The tables: of assets that one function computes, and of specs that declare one."""
    for asset in listed:
        if isinstance(asset, dg.AssetSpec) or _is_table(asset):
            yield asset.key, asset


def _is_table(asset: Any) -> TypeGuard[dg.AssetsDefinition]:
    return is_function(asset) and len(list(asset.keys)) == 1 and not writes_nothing(asset)


def _can_be_made(name: CheckName, asset: dg.AssetsDefinition | dg.AssetSpec, table: Table) -> bool:
    if name == "keys":
        return bool(table.key_columns)
    if isinstance(asset, dg.AssetSpec):
        return False
    match name:
        case "recompute":
            return is_recomputable(asset)
        case "schema":
            return bool(changes_of(asset) or len(table))
        case "lag" | "staleness" | "feed":
            return bool(changes_of(asset))
        case "archive":
            return may_be_archive(asset)


def _checks_of(
    key: dg.AssetKey,
    asset: dg.AssetsDefinition | dg.AssetSpec,
    made: tuple[CheckName, ...],
    step: str,
    limits: _Limits,
    tables: Mapping[dg.AssetKey, Table],
    partitions: Mapping[dg.AssetKey, dg.PartitionsDefinition[Any] | None],
    managers: Mapping[dg.AssetKey, str],
) -> dg.AssetChecksDefinition:
    """One step for all checks of an asset, any of which can be asked for."""
    made_by = None if isinstance(asset, dg.AssetSpec) else asset
    resources = {key: managers[key]} | ({} if made_by is None else _readers(made_by, managers))

    @dg.multi_asset_check(
        name=step,
        specs=[dg.AssetCheckSpec(_id(name), asset=key, description=_DESCRIPTIONS[name]) for name in made],
        can_subset=True,
        required_resource_keys=set(resources.values()),
    )
    def checks_of_table(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        selected = {check.name for check in context.selected_asset_check_keys}
        left_out = EXPENSIVE if made_by is not None and _materializes(context, made_by) else frozenset[str]()
        managers = {table: getattr(context.resources, name) for table, name in resources.items()}
        checked = Checked.of(key, made_by, tables, partitions, managers, context.run.run_id)
        with telling(context.log.info), dg.partition_loading_context(dynamic_partitions_store=context.instance):
            for name in made:
                if _id(name) not in selected:
                    continue
                if name in left_out:
                    context.log.info(f"{_id(name)} is left to a run of its own, or one with the tag {CHECKS}=true.")
                else:
                    yield _result(key, _id(name), _finding(name, checked, limits))

    return checks_of_table


def _readers(asset: dg.AssetsDefinition, managers: Mapping[dg.AssetKey, str]) -> dict[dg.AssetKey, str]:
    """The resource that reads each table which is an input of the asset."""
    return {
        key: input_.input_manager_key or managers.get(key, "io_manager")
        for input_ in asset.op.input_defs
        if (key := asset.keys_by_input_name.get(input_.name)) is not None and key != asset.key
    }


def _materializes(context: dg.AssetCheckExecutionContext, asset: dg.AssetsDefinition) -> bool:
    """Whether the run also materializes the asset, and was not asked to make its expensive checks all the same."""
    if context.run.tags.get(CHECKS, "").lower() == "true":
        return False
    return any(node.definition.name == asset.node_def.name for node in context.job_def.nodes)


def _finding(name: CheckName, checked: Checked, limits: _Limits) -> Finding:
    try:
        match name:
            case "recompute":
                return checked.recompute(limits.sample)
            case "lag":
                return checked.lag(limits.max_lag)
            case "staleness":
                return checked.staleness(limits.margin)
            case "schema":
                return checked.schema()
            case "keys":
                return checked.keys()
            case "feed":
                return checked.feed()
            case "archive":
                return checked.archive()
    except UnreadableLogError as error:
        return Finding(Grade.FAILED, str(error))


def _result(key: dg.AssetKey, name: str, finding: Finding) -> dg.AssetCheckResult:
    """The finding as Dagster shows one."""
    metadata: dict[str, Any] = dict(finding.figures)
    if finding.records:
        metadata["details"] = dg.MetadataValue.table([dg.TableRecord(dict(record)) for record in finding.records])
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=finding.grade is Grade.PASSED,
        severity=dg.AssetCheckSeverity.WARN if finding.grade is Grade.WARNS else dg.AssetCheckSeverity.ERROR,
        description=finding.sentence,
        metadata=metadata,
    )


def _id(name: CheckName) -> str:
    return CHECK if name == "recompute" else name
