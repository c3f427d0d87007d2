"""`SqlTables`: a folder of SQL files, each one a table."""

from collections.abc import Mapping
from typing import Annotated, Any

import dagster as dg
from pydantic import ConfigDict, Field

from dagster_delta_lakehouse.attributes import folder_of
from dagster_delta_lakehouse.scaffolders import SqlTablesScaffolder
from dagster_delta_lakehouse.yaml_assets import scope


@dg.scaffold_with(SqlTablesScaffolder)
class SqlTables(dg.Component, dg.Resolvable, dg.Model):
    """A folder of SQL files, each one a table that follows the changes of the tables that its query names.

    A file holds one statement: CREATE MATERIALIZED VIEW name (columns, PRIMARY KEY (...)) AS SELECT ...
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    folder: str = Field(default=".", description="The folder of the files; it begins at the folder of this YAML.")
    group_name: str | None = Field(
        default=None, description="Their group; if not given, the subfolder, else the schema."
    )
    owners: list[str] | None = Field(default=None, description="Their owners.")
    tags: dict[str, str] | None = Field(default=None, description="Their tags.")
    automation_condition: Annotated[
        dg.AutomationCondition[Any] | None,
        dg.Resolver.default(
            model_field_type=str | None,
            description="When they are materialized: '{{ automation }}' if their sources have unread changes.",
        ),
    ] = None
    io_manager_key: str | None = Field(default=None, description="The IO manager that writes them.")
    sources: list[str] = Field(
        default=[],
        description="Asset keys of tables that queries name, where an asset key has capital letters: SQL ignores them.",
    )

    @classmethod
    def get_additional_scope(cls) -> Mapping[str, Any]:
        return scope()

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(tags=["delta", "spark", "sql"])

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from lakehouse import views_from

        views = views_from(
            folder_of(context) / self.folder,
            group=self.group_name,
            owners=self.owners,
            tags=self.tags,
            automation_condition=self.automation_condition,
            io_manager_key=self.io_manager_key,
            specs=[dg.AssetSpec(dg.AssetKey.from_user_string(key)) for key in self.sources],
        )
        return dg.Definitions(assets=views)
