"""What `dg scaffold defs` writes for each component: what is written loads at once."""

import click
import dagster as dg
from pydantic import BaseModel, Field

from dagster_delta_lakehouse.component_files import Written, as_word, write_components
from dagster_delta_lakehouse.definitions_file import complete_definitions

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


class LakehouseScaffolder(dg.Scaffolder[LakehouseParams]):
    """Writes the YAML, and has definitions.py complete the definitions of the whole project."""

    @classmethod
    def get_scaffold_params(cls) -> type[LakehouseParams]:
        return LakehouseParams

    def scaffold(self, request: dg.ScaffoldRequest[LakehouseParams]) -> None:
        attributes = {"root": request.params.root, "sensor": "carry_changes", "nightly_checks": "0 3 * * *"}
        write_components(request, [Written(request.type_name, attributes)])
        done = complete_definitions(request.target_path)
        if done is not None:
            click.echo(done)


class SqlTablesParams(BaseModel):
    """The options of `dg scaffold defs dagster_delta_lakehouse.SqlTables`."""

    source: str | None = Field(
        default=None, description="The asset key of the table that the first query reads. If left out, one is declared."
    )
    key: str = Field(default="customer_id", description="The column of that table by which the first query groups.")


class SqlTablesScaffolder(dg.Scaffolder[SqlTablesParams]):
    """Writes the YAML and a first query, and declares the table that it reads if none is named."""

    @classmethod
    def get_scaffold_params(cls) -> type[SqlTablesParams]:
        return SqlTablesParams

    def scaffold(self, request: dg.ScaffoldRequest[SqlTablesParams]) -> None:
        params, name = request.params, as_word(request.target_path.name)
        view, source = f"orders_by_{as_word(params.key)}", params.source or f"{name}_source/orders"
        components = [Written(request.type_name, {"folder": ".", "group_name": name})]
        if params.source is None:
            components.append(Written("dagster_delta_lakehouse.DeltaSources", {"tables": [{"asset": source}]}))
        write_components(request, components)
        query = _QUERY.format(view=f"{name}.{view}", key=params.key, source=source.replace("/", "."))
        (request.target_path / f"{view}.sql").write_text(query, encoding="utf-8")


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
