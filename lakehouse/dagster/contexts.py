"""What Dagster's contexts say about the running step, and environment variables that stand for a value."""

from collections.abc import Mapping
from typing import Any, cast

import dagster as dg

from lakehouse.dagster.code_location import is_function
from lakehouse.errors import DefinitionError
from lakehouse.spark.listeners import Listener, Message, Notice


def value_of(text: str) -> str:
    """A field's value. Dagster puts a variable's value in its place in runs alone; sensors and commands ask here.

    Raises:
        DefinitionError: The variable is not set.
    """
    if not isinstance(text, dg.EnvVar):
        return text
    value = text.get_value()
    if value is None:
        raise DefinitionError(f"A resource names the environment variable {text.env_var_name}. It is not set: set it.")
    return value


def asset_context() -> dg.AssetExecutionContext | None:
    """The running asset; None if an input is loaded outside a run (`Definitions.load_asset_value`)."""
    try:
        return dg.AssetExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return None


def step_context() -> dg.OpExecutionContext | None:
    """The running step, of an asset, a check or an op; None if an input is loaded outside a run."""
    try:
        return dg.OpExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return None


def is_one_asset(execution: dg.AssetExecutionContext) -> bool:
    """Whether the step is the function of one asset, and no op, part of a graph or function of several assets."""
    op = execution.op_execution_context
    return op.has_assets_def and is_function(op.assets_def) and len(list(op.assets_def.keys)) == 1


def step_key(execution: dg.AssetExecutionContext) -> Any:
    """What is one for the inputs and the output of a step."""
    return execution.op_execution_context.get_step_execution_context()


def config_of(execution: dg.AssetExecutionContext) -> Mapping[str, Any]:
    """The step's resolved config, field by field."""
    return by_field(execution.op_execution_context.op_config)


def by_field(config: Any) -> Mapping[str, Any]:
    """A resolved config, field by field; a config that is one value is a field without a name."""
    return cast("Mapping[str, Any]", config) if isinstance(config, Mapping) else {"": config} if config else {}


def keys_of_code_location(execution: dg.AssetExecutionContext) -> frozenset[str]:
    """The asset keys of the code location, their parts joined by "/"; without a code location, those of the job."""
    op = execution.op_execution_context
    try:
        graph = op.repository_def.asset_graph
    except Exception:  # dg.materialize has no code location; Dagster exports no name of the error
        graph = op.job_def.asset_layer.asset_graph
    return frozenset(key.to_user_string() for key in graph.get_all_asset_keys())


def to_log(log: dg.DagsterLogManager) -> Listener:
    """A listener that writes messages to the log of the run."""

    def listen(notice: Notice) -> None:
        if isinstance(notice, Message):
            log.log(notice.level, notice.text)

    return listen


def refuse_op(context: dg.InputContext | dg.OutputContext) -> None:
    """Refuses what one op hands to another: a table is an asset's.

    Raises:
        Failure: The value is not an asset's.
    """
    if not context.has_asset_key:
        raise dg.Failure(
            f"'{context.name}' of op '{context.op_def.name}' is no asset's value, and a DeltaIOManager keeps the "
            f"tables of assets only. Nothing was written. Give the op's output another manager, for example "
            f"dg.mem_io_manager: @dg.op(out=dg.Out(io_manager_key=...)).",
            allow_retries=False,
        )
