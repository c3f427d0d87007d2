"""`DeltaSources`: the tables that other programs write."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from dagster_delta_lakehouse.attributes import address_of, fields_of
from dagster_delta_lakehouse.one_lakehouse import Lakehouse
from dagster_delta_lakehouse.scaffolders import DeltaSourcesScaffolder

if TYPE_CHECKING:
    from lakehouse import Table

_LOG = "_delta_log"


class SourceTable(dg.Resolvable, dg.Model):
    """A table that another program writes."""

    asset: str = Field(description="Its asset key: raw/orders.")
    description: str | None = None
    key: str | list[str] | None = Field(default=None, description="The columns that identify one of its rows.")
    trust_key: bool | None = Field(default=None, description="Whether its readers believe the key without proof.")
    name: str | None = Field(default=None, description="Its name in the catalog, such as main.raw.orders.")
    path: str | None = Field(default=None, description="An address of its own.")

    def table_below(self, root: str | None) -> "Table":
        """What is declared of the table.

        Args:
            root: The root below which it is, if it has no name and no path; None for the root of the lakehouse.
        """
        from lakehouse import Table

        declared = {name: value for name, value in fields_of(self).items() if name not in ("asset", "description")}
        if root is not None and self.name is None and self.path is None:
            declared["path"] = f"{root.rstrip('/')}/{self.asset}"
        return Table(**declared)


@dg.scaffold_with(DeltaSourcesScaffolder)
class DeltaSources(dg.Component, dg.Resolvable, dg.Model):
    """Tables that other programs write: assets of the project read them, and no run writes them.

    If the tables are files on this machine, Dagster shows their columns, by the logs as the code location loads.
    """

    root: str | None = Field(
        default=None,
        description="Where the tables are: raw/orders at <root>/raw/orders. A path begins at the project's folder. If "
        "left out, they are below the root of the lakehouse.",
    )
    tables: list[SourceTable] | None = Field(
        default=None, description="The tables. If left out: every Delta table below `root`, which is a folder then."
    )
    group_name: str | None = Field(default=None, description="The group of all the tables.")
    owners: list[str] | None = Field(default=None, description="Their owners.")
    tags: dict[str, str] | None = Field(default=None, description="Their tags.")

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(tags=["delta"])

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        root = None if self.root is None else address_of(self.root, context.project_root)
        tables = _tables_below(root, self.root) if self.tables is None else self.tables
        lakes = context.component_tree.get_all_components(Lakehouse)
        lake = address_of(lakes[0].environment.root, context.project_root) if len(lakes) == 1 else None
        return dg.Definitions(assets=[self._spec(table, root, lake) for table in tables])

    def _spec(self, table: SourceTable, root: str | None, lake: str | None) -> dg.AssetSpec:
        declared = table.table_below(root)
        address = declared.path or (None if lake is None or declared.name else f"{lake.rstrip('/')}/{table.asset}")
        return dg.AssetSpec(
            dg.AssetKey.from_user_string(table.asset),
            description=table.description,
            metadata={**declared, **_columns(address)},
            group_name=self.group_name,
            owners=self.owners,
            tags=self.tags,
            kinds={"deltalake"},
        )


def _tables_below(root: str | None, given_root: str | None) -> list[SourceTable]:
    """Every Delta table below a folder, under its path as the asset key.

    Raises:
        DefinitionError: There is no such folder, or no table in it.
    """
    from lakehouse.errors import DefinitionError

    if root is None:
        raise DefinitionError("DeltaSources names neither a root nor tables. Give root, or tables, or both.")
    folder = Path(root)
    if not folder.is_dir():
        problem = f"DeltaSources(root={given_root!r}) finds no folder {root}."
        raise DefinitionError(problem, "Correct the root, or list the tables, which need not be there yet.")
    tables = [SourceTable(asset=path.relative_to(folder).as_posix()) for path in sorted(_delta_tables(folder))]
    if not tables:
        problem = f"DeltaSources(root={given_root!r}) finds no Delta table below {root}."
        raise DefinitionError(problem, "Correct the root, or list the tables, which need not be there yet.")
    return tables


def _delta_tables(folder: Path) -> Iterator[Path]:
    """The tables below a folder; a table holds no tables."""
    for path in folder.iterdir():
        if (path / _LOG).is_dir():
            yield path
        elif path.is_dir() and not path.name.startswith((".", "_")):
            yield from _delta_tables(path)


def _columns(address: str | None) -> Mapping[str, Any]:
    """The columns of a table on this machine, by its log, as Dagster shows them; empty if there is no log to read."""
    from lakehouse.dagster.metadata import column_schema
    from lakehouse.delta.file_log import FileLog
    from lakehouse.delta.location import Location, Storage
    from lakehouse.errors import UnreadableLogError
    from lakehouse.spark.types import as_struct

    location = Location(address or "")
    if address is None or location.storage is not Storage.FILES or location.unreadable() is not None:
        return {}
    log = FileLog(location, address)
    try:
        head = log.head()
    except UnreadableLogError:  # a run that reads the table says so
        return {}
    schema = None if head is None else log.file_schema(head.version)
    return {} if schema is None else {"dagster/column_schema": column_schema(as_struct(schema))}
