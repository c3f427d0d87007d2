"""`Snapshot` in YAML: a table that holds the newest of full extracts."""

from typing import Any, Literal

import dagster as dg
from pydantic import Field

from dagster_delta_lakehouse.attributes import address_of
from dagster_delta_lakehouse.extracts import ExtractConfig, Extracts
from dagster_delta_lakehouse.scaffolders import SnapshotScaffolder
from dagster_delta_lakehouse.yaml_assets import YamlTable


@dg.scaffold_with(SnapshotScaffolder)
class Snapshot(YamlTable):
    """A table that holds the newest of full extracts, which are delivered as files: only rows that differ are written.

    A run takes the newest file, or the one whose version its config names. With a scope, an extract says nothing of the
    rows outside of its scope, so a run takes the oldest file that the table does not hold yet.
    """

    extracts: Extracts
    scope: str | list[str] | dict[str, list[Any]] | None = Field(
        default=None,
        description="The columns for whose values in an extract it is complete; the whole table if left out.",
    )
    max_deleted: float | None = Field(
        default=None, description="The largest share of the stored rows, from 0 to 1, that one extract may delete."
    )
    on_older: Literal["fail", "ignore"] = Field(default="fail", description="What to do with an extract that is older.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        import lakehouse

        address = address_of(self.extracts.files, context.project_root)

        def take(config: ExtractConfig, spark: dg.ResourceParam[Any]) -> lakehouse.Snapshot:
            scope, most, older = self.scope or (), self.max_deleted, self.on_older
            take_one = self.extracts.following if scope else self.extracts.newest
            rows, version = take_one(spark.spark_session, address, config)
            return lakehouse.Snapshot(rows, version, scope, max_deleted=most, on_older=older)

        return self.definitions(take, self.table)
