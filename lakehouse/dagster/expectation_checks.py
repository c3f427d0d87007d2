"""What a run has found of its table's expectations, as Dagster shows it: checks of the asset, and the log."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import dagster as dg

from lakehouse.delta.commit_info import count_of
from lakehouse.delta.expect import Evaluation, Expect, OnFailure
from lakehouse.errors import DefinitionError

_BECOME: Mapping[OnFailure, str] = {
    "warn": "Rows that break it are written, and the run says so.",
    "fail": "A row that breaks it fails the run, which then writes nothing.",
    "drop": "Rows that break it are left out of the table.",
    "quarantine": "Rows that break it are put into the quarantine of the table.",
}


def specs_of(key: dg.AssetKey, expectations: Sequence[Expect]) -> list[dg.AssetCheckSpec]:
    """A check for each expectation, so that the page of the asset has it before the first run."""
    return [
        dg.AssetCheckSpec(
            each.check_name,
            asset=key,
            description=f"Each row that a run writes has {each.meaning}. {_BECOME[each.on_failure]}",
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
    """Logs what each expectation says as an evaluation of its check, in the run and in the step.

    Args:
        execution: The step.
        evaluations: What was found.
        partitions: The partitions of the run.
        fails: Whether the step fails. Dagster drops what a failed step has logged by its context, so the event is
            stored at once.
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
            context.log_event(cast("Any", evaluation))  # Dagster takes the event, and its annotation leaves it out


def warnings_of(asset: str, evaluations: Sequence[Evaluation]) -> list[str]:
    """What the log of the run says of rows that break an expectation, and were written or left out."""
    broken = [each for each in evaluations if each.broken]
    became: Mapping[OnFailure, str] = {
        "warn": "were written",
        "fail": "fail the run",
        "drop": "were left out of the table",
        "quarantine": "are in the quarantine of the table",
    }
    return [f"In the result of {asset} {each.clause}. Such rows {became[each.expect.on_failure]}." for each in broken]
