"""A table that YAML says all of: what its components share, and the asset that they make."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import dagster as dg
from pydantic import ConfigDict, Field

from dagster_delta_lakehouse.attributes import TableAttributes

_KIND = "dagster/kind/"
"""How Dagster keeps the kinds of an asset among its tags."""


def scope() -> Mapping[str, Any]:
    """What YAML can name: `{{ automation }}`, a run for unread changes."""
    from lakehouse import automation

    return {"automation": automation()}


class YamlTable(dg.Component, dg.Resolvable, dg.Model):
    """A component that makes one table."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    asset: dg.ResolvedAssetSpec = Field(description="The asset: its key, group, owners, tags and more.")
    table: TableAttributes = Field(
        default=TableAttributes(), description="What is declared of its table: key and more."
    )

    @classmethod
    def get_additional_scope(cls) -> Mapping[str, Any]:
        return scope()

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(tags=["delta", "spark"])

    def definitions(
        self, function: Callable[..., Any], table: TableAttributes, ins: Mapping[str, dg.AssetIn] | None = None
    ) -> dg.Definitions:
        """The asset whose table a function writes. What else the YAML says is its code version, if no other is given.

        Args:
            function: Makes the write; its annotation says which kind.
            table: What is declared of the table.
            ins: Its inputs; None for those that Dagster finds in the function.
        """
        from lakehouse.cursor.definition import digest

        spec, make = self.asset, cast("Any", dg.asset)  # its overloads know no mapping of inputs
        decorate = make(
            key=spec.key,
            ins=ins,
            deps=spec.deps,
            description=spec.description,
            metadata={**spec.metadata, **table.value},
            group_name=spec.group_name,
            owners=spec.owners,
            tags={name: value for name, value in spec.tags.items() if not name.startswith(_KIND)},
            kinds=spec.kinds | {"deltalake"},
            code_version=spec.code_version or digest(self.model_dump(exclude={"asset", "table"})),
            automation_condition=spec.automation_condition,
            freshness_policy=spec.freshness_policy,
            partitions_def=spec.partitions_def,
        )
        return dg.Definitions(assets=[decorate(function)])
