"""Tables that are defined entirely in YAML: `History`, `Snapshot` and `Aggregate`, and what they share."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast

import dagster as dg
from pydantic import ConfigDict, Field

from dagster_delta_lakehouse.attributes import TableAttributes, address_of
from dagster_delta_lakehouse.extracts import ExtractConfig, Extracts
from dagster_delta_lakehouse.scaffolders import AggregateScaffolder, HistoryScaffolder, SnapshotScaffolder

_KIND = "dagster/kind/"
"""The prefix of the tags in which Dagster keeps the kinds of an asset."""


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
        """The asset whose table a function writes. The rest of the YAML is its code version, if no other is given.

        Args:
            function: Makes the write; its annotation says which kind.
            table: What is declared of the table.
            ins: Its inputs; None for those that Dagster finds in the function.
        """
        from lakehouse.cursor.definition import digest

        spec, make = self.asset, cast("Any", dg.asset)  # its overloads do not accept a mapping of inputs
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


@dg.scaffold_with(HistoryScaffolder)
class History(YamlTable):
    """A table that keeps every row that its source has had, each with the interval in which it was there (SCD type 2).

    The source is a table, whose changes are followed, or full extracts, which are delivered as files. A run takes the
    oldest file that the table does not hold yet, or the one whose version its config names.
    """

    source: str | None = Field(default=None, description="The asset key of the table whose past is kept.")
    extracts: Extracts | None = Field(default=None, description="Instead of a source: full extracts.")
    track: str | list[str] | None = Field(
        default=None, description="A change of these columns begins a new row; by default all columns but the key."
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


@dg.scaffold_with(SnapshotScaffolder)
class Snapshot(YamlTable):
    """A table that holds the newest full extract; extracts are delivered as files. Only rows that differ are written.

    A run takes the newest file, or the one whose version its config names. With a scope, an extract says nothing of the
    rows outside of its scope, so a run takes the oldest file that the table does not hold yet.
    """

    extracts: Extracts
    scope: str | list[str] | dict[str, list[Any]] | None = Field(
        default=None,
        description="The columns for whose values in an extract it is complete; the whole table if left out.",
    )
    max_deleted: Annotated[float, Field(ge=0, le=1)] | None = Field(
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

        self._refuse_other_expressions()

        def add(changes: lakehouse.Changes) -> lakehouse.Aggregate:
            return lakehouse.Aggregate(changes, self.by, self.count, self.sums, self.where)

        groups = [self.by] if isinstance(self.by, str) else list(self.by)
        table = self.table if self.table.value.key_columns else self.table.model_copy(update={"key": groups})
        source = dg.AssetIn(dg.AssetKey.from_user_string(self.source), dagster_type=lakehouse.Changes)
        return self.definitions(add, table, {"changes": source})

    def _refuse_other_expressions(self) -> None:
        """Refuses SQL that depends on more than the columns of one row, before a run does.

        Raises:
            DefinitionError: There is such a text.
        """
        from lakehouse.errors import DefinitionError
        from lakehouse.views.sql.conditions import why_not_of_the_row  # it imports sqlglot

        groups = {f"by: {name}": sql for name, sql in self.by.items()} if isinstance(self.by, dict) else {}
        sums = {f"sums: {name}": sql for name, sql in self.sums.items()}
        where = {} if self.where is None else {"where": self.where}
        for place, sql in {**groups, **sums, **where}.items():
            if (why := why_not_of_the_row(sql)) is not None:
                asset = self.asset.key.to_user_string()
                problem = f"The Aggregate '{asset}' goes by the columns of one row, and {place} ({sql}) may not: {why}."
                raise DefinitionError(problem, "Correct the SQL.")
