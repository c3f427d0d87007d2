"""Assets and definitions with parts replaced. Dagster fixes the parts of an op when it makes it, so ops are remade."""

from collections.abc import Callable
from typing import Any

import dagster as dg
from dagster_shared.record import copy  # pyright: ignore[reportUnknownVariableType]


def remake(asset: dg.AssetsDefinition, **parts: Any) -> dg.AssetsDefinition:
    """The asset with parts of its op replaced."""
    op = asset.op
    given: dict[str, Any] = {
        "compute_fn": op.compute_fn,
        "name": op.name,
        "ins": {input_.name: dg.In.from_definition(input_) for input_ in op.input_defs},
        "outs": {output.name: dg.Out.from_definition(output) for output in op.output_defs},
        "description": op.description,
        "config_schema": op.config_schema,
        "required_resource_keys": op.required_resource_keys,
        "tags": op.tags,
        "code_version": asset.specs_by_key[asset.key].code_version,
        "retry_policy": op.retry_policy,
        "pool": op.pool,
    }
    attributes: dict[str, Any] = {**asset.get_attributes_dict(), "node_def": dg.OpDefinition(**(given | parts))}
    del attributes["execution_type"]  # a beta argument, and its value is the default
    return dg.AssetsDefinition(**attributes)


def with_parts(definitions: dg.Definitions, **parts: Any) -> dg.Definitions:
    """The same definitions with parts replaced."""
    return copy(definitions, **parts)


def with_each_once(definitions: dg.Definitions) -> dg.Definitions:
    """The same definitions, each object once: a module that imports another's asset lists the same object again.

    To Dagster the same object is one definition. Two objects remade from it would be two definitions of one key.
    """
    assets, checks = (
        list({id(each): each for each in listed or ()}.values())
        for listed in (definitions.assets, definitions.asset_checks)
    )
    return with_parts(definitions, assets=assets, asset_checks=checks)


def with_assets(definitions: dg.Definitions, change: Callable[[Any], Any]) -> dg.Definitions:
    """The same definitions, with each asset changed."""
    return with_parts(definitions, assets=[change(asset) for asset in definitions.assets or []])
