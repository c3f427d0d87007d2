"""What `incremental` puts around an asset's function: a step that ends early, a result of the declared type."""

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse.commit.outcome import NothingToDo
from lakehouse.dagster.code_location import AssetTable, function_of, input_kind, is_function, kind_of, writes_nothing
from lakehouse.dagster.contexts import asset_context
from lakehouse.dagster.failures import as_dagster_failures
from lakehouse.dagster.inputs import POSTPONED, Postponed
from lakehouse.dagster.io_manager import writer_of
from lakehouse.dagster.remake import remake


def may_have_nothing_to_do(table: AssetTable) -> bool:
    """Whether a step may end without a call of the asset's function: it reads changes, and its write allows it."""
    asset = table.asset
    if not is_function(asset) or len(asset.op.output_defs) != 1 or not table.changes:
        return False
    function = function_of(asset)
    if function is None or inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return False
    return table.kind.ends_early


def ending_early(asset: dg.AssetsDefinition) -> dg.AssetsDefinition:
    """The asset whose function is called only if there is something to do, and whose snapshot inputs are read then."""
    op, name = asset.op, asset.key.to_user_string()
    compute: Any = op.compute_fn
    ins = {
        input_.name: _postpone(dg.In.from_definition(input_))
        if not input_.dagster_type.is_nothing
        and input_kind(name, input_.name, input_.dagster_type.typing_type) is DataFrame
        else dg.In.from_definition(input_)
        for input_ in op.input_defs
    }
    function = _ending_early(compute.decorated_fn, overwrites=kind_of(asset).follows_snapshot_inputs)
    return remake(asset, compute_fn=type(compute)(function), ins=ins, outs=results(op))


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


def _postpone(given: dg.In) -> dg.In:
    return dg.In(
        dagster_type=POSTPONED,
        description=given.description,
        metadata=given.metadata,
        input_manager_key=given.input_manager_key,
    )


def with_result_type(asset: Any) -> Any:
    """The asset with our type of its result, if one function computes a table."""
    if not is_function(asset) or len(asset.op.output_defs) != 1 or writes_nothing(asset):
        return asset
    return remake(asset, outs=results(asset.op))


def results(op: dg.OpDefinition) -> dict[str, dg.Out]:
    """The outputs of an op with our types."""
    return {output.name: _result(dg.Out.from_definition(output)) for output in op.output_defs}


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
    """The type of a result that is one of another type, or `NothingToDo`; all that the other type says stays.

    Args:
        kind: The other type, of values of one Python type.
    """

    def __init__(self, kind: dg.DagsterType) -> None:
        self._kind = kind
        super().__init__(
            self._check,
            key=f"{kind.key} or nothing",  # and no name, which no other type of the code location may have
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
        name = self.display_name
        returned = "nothing" if value is None else f"a value of type {type(value).__name__}"
        remedy = "Is its `return` missing?" if value is None else f"Return {name}(...)."
        description = f"The function returned {returned}, and its annotation says {name}. Nothing was written. {remedy}"
        return dg.TypeCheck(success=False, description=description)
