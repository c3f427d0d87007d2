"""`Aggregate` in YAML: counts and sums of a table, to which a run adds."""

from typing import Annotated

import dagster as dg
from pydantic import Field

from dagster_delta_lakehouse.scaffolders import AggregateScaffolder
from dagster_delta_lakehouse.yaml_assets import YamlTable


@dg.scaffold_with(AggregateScaffolder)
class Aggregate(YamlTable):
    """A table with a row for each group of another table's rows: how many there are, and sums over them.

    A run adds what changed to the sums, and does not read the source. Expressions are SQL over the columns of one row.
    """

    source: str = Field(description="The asset key of the table whose rows are counted.")
    by: Annotated[
        str | list[str] | dict[str, str],
        dg.Resolver.passthrough(description="The columns of the groups; as a mapping, with the SQL of each."),
    ]
    count: str = Field(description="The column that counts the rows of a group.")
    sums: Annotated[
        dict[str, str], dg.Resolver.passthrough(description="Columns, each with the SQL whose values are summed.")
    ] = {}  # noqa: RUF012
    where: Annotated[str | None, dg.Resolver.passthrough(description="A SQL condition on the rows that count.")] = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        import lakehouse

        def add(changes: lakehouse.Changes) -> lakehouse.Aggregate:
            return lakehouse.Aggregate(changes, self.by, self.count, self.sums, self.where)

        groups = [self.by] if isinstance(self.by, str) else list(self.by)
        table = self.table if self.table.value.key_columns else self.table.model_copy(update={"key": groups})
        source = dg.AssetIn(dg.AssetKey.from_user_string(self.source), dagster_type=lakehouse.Changes)
        return self.definitions(add, table, {"changes": source})
