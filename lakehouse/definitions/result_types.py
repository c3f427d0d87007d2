"""The type of an asset's result in Dagster, which says what to return if its function returned something else."""

from functools import cache
from typing import Any

import dagster as dg

from lakehouse.commit.outcome import NothingToDo
from lakehouse.dagster.code_location import is_function, writes_nothing
from lakehouse.dagster.remade import remade


def with_result_type(asset: Any) -> Any:
    """The asset with our type of its result, if one function computes a table."""
    if not is_function(asset) or len(asset.op.output_defs) != 1 or writes_nothing(asset):
        return asset
    return remade(asset, outs=results(asset.op))


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
            self._checked,
            key=f"{kind.key} or nothing",  # and no name, which no other type of the code location may have
            description=kind.description,
            metadata=kind.metadata,
            required_resource_keys=set(kind.required_resource_keys),
            typing_type=kind.typing_type,
        )

    @property
    def display_name(self) -> str:
        return self._kind.display_name

    def _checked(self, context: Any, value: Any) -> bool | dg.TypeCheck:
        if isinstance(value, NothingToDo):
            return True
        answer = self._kind.type_check(context, value)
        return answer if answer.success or isinstance(value, self._kind.typing_type) else self._refused(value)

    def _refused(self, value: Any) -> dg.TypeCheck:
        name = self.display_name
        returned = "nothing" if value is None else f"a value of type {type(value).__name__}"
        remedy = "Is its `return` missing?" if value is None else f"Return {name}(...)."
        description = f"The function returned {returned}, and its annotation says {name}. Nothing was written. {remedy}"
        return dg.TypeCheck(success=False, description=description)
