"""What `dg scaffold defs` writes for each component: what is written loads at once."""

from typing import Any

import click
import dagster as dg
from pydantic import BaseModel, Field

from dagster_delta_lakehouse.component_files import Written, as_word, complete_definitions, write_components

_QUERY = """\
CREATE MATERIALIZED VIEW {view} (
  {key} COMMENT 'Whose orders these are',
  orders COMMENT 'How many there are',
  PRIMARY KEY ({key})
)
COMMENT 'How many orders there are of each {key}'
AS SELECT {key}, count(*) AS orders
FROM {source}
GROUP BY {key}
"""


class LakehouseParams(BaseModel):
    """The options of `dg scaffold defs dagster_delta_lakehouse.Lakehouse`."""

    root: str = Field(default="lake", description="Where the tables are: a folder of the project, or an address.")
    deletion_vectors: bool = Field(
        default=True, description="Whether tables keep deletion vectors, which pandas, Polars and delta-rs do not know."
    )


class LakehouseScaffolder(dg.Scaffolder[LakehouseParams]):
    """Writes the YAML, and has definitions.py complete the definitions of the whole project."""

    @classmethod
    def get_scaffold_params(cls) -> type[LakehouseParams]:
        return LakehouseParams

    def scaffold(self, request: dg.ScaffoldRequest[LakehouseParams]) -> None:
        attributes: dict[str, Any] = {
            "root": request.params.root,
            "sensor": "carry_changes",
            "nightly_checks": "0 3 * * *",
            "policy": {"inputs": "agree"},
        }
        if not request.params.deletion_vectors:
            attributes["policy"] |= {"deletion_vectors": False}
        write_components(request, [Written(request.type_name, attributes)])
        done = complete_definitions(request.target_path)
        if done is not None:
            click.echo(done)


class OfSourceParams(BaseModel):
    """The options of `dg scaffold defs` for a component whose tables follow another one."""

    source: str | None = Field(
        default=None, description="The asset key of the table that is followed. If left out, one is declared."
    )
    key: str = Field(default="customer_id", description="The column of that table that is the key of the new table.")

    def source_of(self, request: dg.ScaffoldRequest[Any], name: str) -> tuple[str, list[Written]]:
        """The asset key of the source, and the component that declares the source if the options name none."""
        if self.source is not None:
            return self.source, []
        source = f"{as_word(request.target_path.name)}_source/{name}"
        return source, [Written("dagster_delta_lakehouse.DeltaSources", {"tables": [{"asset": source}]})]


class SqlTablesScaffolder(dg.Scaffolder[OfSourceParams]):
    """Writes the YAML and a first query."""

    @classmethod
    def get_scaffold_params(cls) -> type[OfSourceParams]:
        return OfSourceParams

    def scaffold(self, request: dg.ScaffoldRequest[OfSourceParams]) -> None:
        key, name = request.params.key, as_word(request.target_path.name)
        source, more = request.params.source_of(request, "orders")
        write_components(request, [Written(request.type_name, {"folder": ".", "group_name": name}), *more])
        view = f"orders_by_{as_word(key)}"
        query = _QUERY.format(view=f"{name}.{view}", key=key, source=source.replace("/", "."))
        (request.target_path / f"{view}.sql").write_text(query, encoding="utf-8")


class HistoryScaffolder(dg.Scaffolder[OfSourceParams]):
    """Writes the YAML of a history of one table."""

    @classmethod
    def get_scaffold_params(cls) -> type[OfSourceParams]:
        return OfSourceParams

    def scaffold(self, request: dg.ScaffoldRequest[OfSourceParams]) -> None:
        source, more = request.params.source_of(request, "customers")
        attributes = {
            "asset": {"key": f"{as_word(request.target_path.name)}/history"},
            "table": {"key": request.params.key},
            "source": source,
        }
        write_components(request, [Written(request.type_name, attributes), *more])


class AggregateScaffolder(dg.Scaffolder[OfSourceParams]):
    """Writes the YAML of counts by one column."""

    @classmethod
    def get_scaffold_params(cls) -> type[OfSourceParams]:
        return OfSourceParams

    def scaffold(self, request: dg.ScaffoldRequest[OfSourceParams]) -> None:
        source, more = request.params.source_of(request, "orders")
        attributes = {
            "asset": {"key": f"{as_word(request.target_path.name)}/totals"},
            "source": source,
            "by": request.params.key,
            "count": "orders",
        }
        write_components(request, [Written(request.type_name, attributes), *more])


class SnapshotParams(BaseModel):
    """The options of `dg scaffold defs dagster_delta_lakehouse.Snapshot`."""

    files: str = Field(default="landing/customers-{version}.csv", description="Where the files of the extracts are.")
    key: str = Field(default="customer_id", description="The column that identifies a row of an extract.")


class SnapshotScaffolder(dg.Scaffolder[SnapshotParams]):
    """Writes the YAML of a table kept from CSV files, one for each day."""

    @classmethod
    def get_scaffold_params(cls) -> type[SnapshotParams]:
        return SnapshotParams

    def scaffold(self, request: dg.ScaffoldRequest[SnapshotParams]) -> None:
        key = request.params.key
        extracts = {"files": request.params.files, "version": "date", "columns": f"{key} INT, name STRING"}
        attributes = {
            "asset": {"key": f"{as_word(request.target_path.name)}/customers"},
            "table": {"key": key},
            "extracts": extracts,
            "max_deleted": 0.5,
        }
        write_components(request, [Written(request.type_name, attributes)])


class DeltaSourcesParams(BaseModel):
    """The options of `dg scaffold defs dagster_delta_lakehouse.DeltaSources`."""

    table: str | None = Field(default=None, description="The asset key of a table that another program writes.")
    root: str | None = Field(default=None, description="Where these tables are, if not below the lakehouse's root.")


class DeltaSourcesScaffolder(dg.Scaffolder[DeltaSourcesParams]):
    """Writes the YAML with one table."""

    @classmethod
    def get_scaffold_params(cls) -> type[DeltaSourcesParams]:
        return DeltaSourcesParams

    def scaffold(self, request: dg.ScaffoldRequest[DeltaSourcesParams]) -> None:
        root = {} if request.params.root is None else {"root": request.params.root}
        table = request.params.table or f"{as_word(request.target_path.name)}/orders"
        attributes = {**root, "tables": [{"asset": table}]}
        write_components(request, [Written(request.type_name, attributes)])
