"""What Dagster's contexts say about the running step."""

from collections.abc import Mapping
from typing import Any, cast

import dagster as dg


def asset_context() -> dg.AssetExecutionContext | None:
    """The running asset; None if an input is loaded outside a run (`Definitions.load_asset_value`)."""
    try:
        return dg.AssetExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return None


def step_key(execution: dg.AssetExecutionContext) -> Any:
    """What is one for the inputs and the output of a step."""
    return execution.op_execution_context.get_step_execution_context()


def config_of(execution: dg.AssetExecutionContext) -> Mapping[str, Any]:
    """The step's resolved config, field by field."""
    return by_field(execution.op_execution_context.op_config)


def by_field(config: Any) -> Mapping[str, Any]:
    """A resolved config, field by field; a config that is one value is a field without a name."""
    return cast("Mapping[str, Any]", config) if isinstance(config, Mapping) else {"": config} if config else {}


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
