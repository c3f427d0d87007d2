"""Expectations as Dagster shows them: checks of the asset, the log, and the quarantine as an asset of the same runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse.dagster.code_location import AssetTable, CodeLocation, is_shared
from lakehouse.dagster.remake import with_parts
from lakehouse.dagster.table_facts import (
    DATA_VERSION,
    STORAGE_KIND,
    content_version,
    row_counts,
    size_of,
    table_metadata,
)
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.expect import SUFFIX, Evaluation, Expect, OnFailure
from lakehouse.errors import DefinitionError
from lakehouse.materialization import Materialization

QUARANTINE_OF = "lakehouse/quarantine_of"
"""Metadata of the asset of a quarantine: the name of its table."""


def quarantine_key(key: dg.AssetKey) -> dg.AssetKey:
    """The asset key of the quarantine of a table."""
    return dg.AssetKey([*key.path[:-1], key.path[-1] + SUFFIX])


def with_quarantines(definitions: dg.Definitions, code_location: CodeLocation) -> dg.Definitions:
    """The same definitions with an external asset for each quarantine, so that other assets can depend on it.

    Raises:
        DefinitionError: An asset has the key of a quarantine.
    """
    written = [table for table in code_location.tables.values() if table.is_written and table.root is not None]
    specs = [_spec_of(table) for table in written if table.declared.quarantines]
    for spec in specs:
        if spec.key in code_location.tables:
            raise DefinitionError(
                f"The quarantine of '{spec.metadata[QUARANTINE_OF]}' has the asset key '{spec.key.to_user_string()}', "
                f"and another asset of these definitions has it too. Rename one of the two. A spec of the quarantine "
                f"itself is not needed: incremental adds it."
            )
    return with_parts(definitions, assets=[*(definitions.assets or ()), *specs]) if specs else definitions


def is_quarantine(table: AssetTable) -> bool:
    """Whether a table is the quarantine of another one, by its spec."""
    return _table_behind(table) is not None


def _table_behind(table: AssetTable) -> str | None:
    """The name of the table that a quarantine belongs to; None if the table is not a quarantine."""
    return None if table.definition is None else table.definition.metadata_by_key[table.key].get(QUARANTINE_OF)


def writer_of_table(table: AssetTable, code_location: CodeLocation) -> AssetTable | None:
    """The table of the asset whose runs write a table, or a quarantine; None if no asset writes it here."""
    behind = _table_behind(table)
    writer = table if behind is None else code_location[dg.AssetKey.from_user_string(behind)]
    is_here = writer.is_written and writer.root is not None and not is_shared(writer.declared)
    return writer if is_here else None


def _spec_of(table: AssetTable) -> dg.AssetSpec:
    assert table.asset is not None, f"an asset makes {table.name}"
    spec, quarantining = table.asset.specs_by_key[table.key], [e for e in table.declared.expectations if e.quarantines]
    listed = "; ".join(f"{each.check_name} ({each.meaning})" for each in quarantining)
    return dg.AssetSpec(
        quarantine_key(table.key),
        deps=[table.key],
        description=f"Rows of {table.name} that break an expectation, until they are corrected upstream: {listed}.",
        metadata={
            **table.declared.quarantine,
            "dagster/io_manager_key": table.manager,
            QUARANTINE_OF: table.name,
        },
        group_name=spec.group_name,
        owners=spec.owners,
        kinds={STORAGE_KIND},
    )


def report_quarantine(
    context: dg.OutputContext,
    execution: dg.AssetExecutionContext,
    step: Materialization,
    spark: Callable[[], SparkSession],
) -> None:
    """Reports how many rows the quarantine of the table has, and logs a materialization if they are new to Dagster.

    The rows are new if this run has written the quarantine, or if an earlier run has that failed afterwards.
    """
    if not step.asset.table.quarantines:
        return
    ref, key = step.asset.ref.beside(SUFFIX), quarantine_key(execution.asset_key)
    log = ref.log(spark)
    head = log.head()
    if head is None:
        return
    rows, version = log.live_rows(head.version), content_version(log, head)
    if rows is not None:
        context.add_output_metadata({"quarantine": rows})
    if not step.quarantine and _version_told(execution.instance, key) == version:
        return
    metadata: dict[str, Any] = {"version": head.version, **size_of(log, head), **table_metadata(ref)}
    if step.quarantine:
        written = step.quarantine[-1].rows
        context.log.info(f"Its quarantine {ref.name} is at version {head.version}. {written.sentence.capitalize()}.")
        metadata = {**row_counts(written), **metadata}
    event = dg.AssetMaterialization(key, metadata=metadata, tags={DATA_VERSION: version})
    execution.op_execution_context.log_event(cast("Any", event))


def _version_told(instance: dg.DagsterInstance, key: dg.AssetKey) -> str | None:
    """The data version of the newest materialization of an asset; None if there is none."""
    event = instance.get_latest_materialization_event(key)
    newest = None if event is None else event.asset_materialization
    return None if newest is None or newest.tags is None else newest.tags.get(DATA_VERSION)


_BECOME: Mapping[OnFailure, str] = {
    "warn": "are written, and the run says so",
    "fail": "fail the run, which then writes nothing",
    "drop": "are left out of the table",
    "quarantine": "are put into the quarantine of the table",
}
"""What becomes of rows that break an expectation."""


def specs_of(key: dg.AssetKey, expectations: Sequence[Expect]) -> list[dg.AssetCheckSpec]:
    """A check for each expectation, so that the page of the asset has it before the first run."""
    return [
        dg.AssetCheckSpec(
            each.check_name,
            asset=key,
            description=f"Each row that a run writes has {each.meaning}. Rows that break it "
            f"{_BECOME[each.on_failure]}.",
        )
        for each in expectations
    ]


def refuse_taken_names(key: dg.AssetKey, expectations: Sequence[Expect], taken: Collection[str]) -> None:
    """Refuses an expectation with the name of another check of its table.

    Raises:
        DefinitionError: There is one.
    """
    for each in expectations:
        if each.check_name in taken:
            raise DefinitionError(
                f"The expectation {each.check_name} of '{key.to_user_string()}' has the name of another check of this "
                f"table. Give the expectation a name of its own: Expect(..., name=...)."
            )


def answer_of(evaluation: Evaluation, where: str = "the result") -> dict[str, Any]:
    """How a check ended: the arguments of Dagster's `AssetCheckResult` and `AssetCheckEvaluation`."""
    expect = evaluation.expect
    passed = f"{count_of(evaluation.rows, 'row')} of {where}: each has {expect.meaning}."
    metadata: dict[str, Any] = {
        "broken": evaluation.broken,
        "share": evaluation.share,
        "rows": evaluation.rows,
        "condition": expect.condition,
        "on_failure": expect.on_failure,
    }
    if expect.quarantines:
        metadata["quarantined"] = evaluation.broken
    if evaluation.keys:
        metadata["keys"] = dg.MetadataValue.table([dg.TableRecord(dict(key)) for key in evaluation.keys])
    return {
        "passed": not evaluation.broken,
        "severity": dg.AssetCheckSeverity.ERROR if expect.on_failure == "fail" else dg.AssetCheckSeverity.WARN,
        "description": f"Of {where}, {evaluation.clause}." if evaluation.broken else passed,
        "metadata": metadata,
    }


def log_evaluations(
    execution: dg.AssetExecutionContext, evaluations: Sequence[Evaluation], partitions: Sequence[str], *, fails: bool
) -> None:
    """Logs the result of each expectation as an evaluation of its check, in the run and in the step.

    Args:
        execution: The step.
        evaluations: What was found.
        partitions: The partitions of the run.
        fails: Whether the step fails. Dagster drops the events that a failed step has logged through its context, so
            the event is stored at once.
    """
    context = execution.op_execution_context
    where = f"the result for {', '.join(partitions[:3])}{' and others' if len(partitions) > 3 else ''}"
    for each in evaluations:
        evaluation = dg.AssetCheckEvaluation(
            asset_key=execution.asset_key,
            check_name=each.expect.check_name,
            blocking=False,
            **answer_of(each, where if partitions else "the result"),
        )
        if fails:
            dg.DagsterEvent.asset_check_evaluation(context.get_step_execution_context(), evaluation)
        else:
            context.log_event(cast("Any", evaluation))  # Dagster accepts the event; its annotation does not list it


def warnings_of(asset: str, evaluations: Sequence[Evaluation]) -> list[str]:
    """The warnings for the log of the run: rows that break an expectation, and what became of them."""
    broken = [each for each in evaluations if each.broken]
    return [f"In the result of {asset} {each.clause}. Such rows {_BECOME[each.expect.on_failure]}." for each in broken]
