"""`History` in YAML: a table that keeps the past of another one, or of full extracts."""

from collections.abc import Callable
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_delta_lakehouse.attributes import address_of
from dagster_delta_lakehouse.extracts import ExtractConfig, Extracts
from dagster_delta_lakehouse.scaffolders import HistoryScaffolder
from dagster_delta_lakehouse.yaml_assets import YamlTable


@dg.scaffold_with(HistoryScaffolder)
class History(YamlTable):
    """A table that keeps every row that its source has had, each with the interval in which it was there (SCD type 2).

    The source is a table, whose changes are followed, or full extracts, which are delivered as files. A run takes the
    oldest file that the table does not hold yet, or the one whose version its config names.
    """

    source: str | None = Field(default=None, description="The asset key of the table whose past is kept.")
    extracts: Extracts | None = Field(default=None, description="Instead of a source: full extracts.")
    track: str | list[str] | None = Field(
        default=None, description="The columns a change of which begins a new row; all but the key if left out."
    )
    start_at: str = Field(default="__START_AT", description="The column with the moment from which a row holds.")
    end_at: str = Field(default="__END_AT", description="The column with the moment at which it ceased to.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from lakehouse import Changes
        from lakehouse.errors import DefinitionError

        match self.source, self.extracts:
            case str(source), None:
                changes = dg.AssetIn(dg.AssetKey.from_user_string(source), dagster_type=Changes)
                return self.definitions(self._of_changes(), self.table, {"changes": changes})
            case None, Extracts() as extracts:
                address = address_of(extracts.files, context.project_root)
                return self.definitions(self._of_extracts(extracts, address), self.table)
            case _:
                problem = f"The History '{self.asset.key.to_user_string()}' keeps the past of one thing."
                raise DefinitionError(problem, "Name its source, or its extracts.")

    def _of_changes(self) -> Callable[..., Any]:
        import lakehouse

        def keep(changes: lakehouse.Changes) -> lakehouse.History:
            return lakehouse.History(changes, self.track, self.start_at, self.end_at)

        return keep

    def _of_extracts(self, extracts: Extracts, address: str) -> Callable[..., Any]:
        import lakehouse

        def keep(config: ExtractConfig, spark: dg.ResourceParam[Any]) -> lakehouse.History:
            rows, version = extracts.following(spark.spark_session, address, config)
            return lakehouse.History(lakehouse.Snapshot(rows, version), self.track, self.start_at, self.end_at)

        return keep
