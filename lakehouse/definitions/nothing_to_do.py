"""A step that has nothing to do ends before its function is called and before Spark starts (ADR 26).

The logs of the table and of its sources say so. `Append`, `Merge` and `Overwrite` are known to leave the table as it is
then. What a `History` tracks and what an `Aggregate` sums stands in their results alone, so their functions are called.
After the call a `History` ends before Spark starts (`Materialization.nothing_to_write`). Sums need Spark to be known.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse.commit.outcome import NothingToDo
from lakehouse.dagster.code_location import changes_of, function_of, input_kind, is_function, kind_of
from lakehouse.dagster.contexts import asset_context
from lakehouse.dagster.failures import as_dagster_failures
from lakehouse.dagster.io_manager import writer_of
from lakehouse.dagster.postponed import POSTPONED, Postponed
from lakehouse.dagster.remade import remade
from lakehouse.definitions.result_types import results
from lakehouse.results.kind import Kind


def may_have_nothing_to_do(asset: Any) -> bool:
    """Whether a step of the asset may end without a call of its function: it reads changes, and its write allows it.

    Args:
        asset: A definition that `validate` has accepted.
    """
    if not is_function(asset) or len(asset.op.output_defs) != 1 or not changes_of(asset):
        return False
    function = function_of(asset)
    if function is None or inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return False
    return kind_of(asset) in (Kind.APPEND, Kind.MERGE, Kind.OVERWRITE)


def ending_early(asset: dg.AssetsDefinition) -> dg.AssetsDefinition:
    """The asset whose function is called only if there is something to do, and whose snapshot inputs are read then."""
    op, name = asset.op, asset.key.to_user_string()
    compute: Any = op.compute_fn
    ins = {
        input_.name: _postponed(dg.In.from_definition(input_))
        if not input_.dagster_type.is_nothing
        and input_kind(name, input_.name, input_.dagster_type.typing_type) is DataFrame
        else dg.In.from_definition(input_)
        for input_ in op.input_defs
    }
    function = _ending_early(compute.decorated_fn, overwrites=kind_of(asset) is Kind.OVERWRITE)
    return remade(asset, compute_fn=type(compute)(function), ins=ins, outs=results(op))


def _ending_early(function: Callable[..., Any], *, overwrites: bool) -> Callable[..., Any]:
    @wraps(function)
    def compute(*args: Any, **inputs: Any) -> Any:
        outcome = _outcome(overwrites=overwrites)
        if outcome is not None:
            return outcome
        read = {name: value.read() if isinstance(value, Postponed) else value for name, value in inputs.items()}
        return function(*args, **read)

    return compute


def _outcome(*, overwrites: bool) -> NothingToDo | None:
    execution = asset_context()
    writer = None if execution is None else writer_of(execution)
    if execution is None or writer is None:  # somebody calls the asset, outside a run
        return None
    with as_dagster_failures(execution):
        return writer.step_of(execution).nothing_to_do(overwrites=overwrites)


def _postponed(given: dg.In) -> dg.In:
    return dg.In(
        dagster_type=POSTPONED,
        description=given.description,
        metadata=given.metadata,
        input_manager_key=given.input_manager_key,
    )
