"""What `dg scaffold defs` writes loads at once."""

import json
from pathlib import Path
from typing import Any, Literal

import dagster as dg
import pytest
from dagster.components.component_scaffolding import scaffold_object
from dagster.components.testing import create_defs_folder_sandbox

import dagster_delta_lakehouse
from dagster_delta_lakehouse.component_files import complete_definitions
from lakehouse import incremental
from tests.components.sandbox import LAKE, UNSTABLE, assets_of
from tests.support.for_each import for_each

pytestmark = pytest.mark.filterwarnings(*UNSTABLE)
STOCK = """from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


def scaffold(place: Path, component: str, form: Literal["yaml", "python"], options: dict[str, Any] | None = None):
    """What `dg scaffold defs` does after it has read the command line."""
    typename = f"dagster_delta_lakehouse.{component}"
    scaffold_object(place, typename, json.dumps(options or {}), form, project_root=place.parents[3])


@for_each("form", ["yaml", "python"])
@for_each("component", dagster_delta_lakehouse.__all__)
def test_a_component_loads_as_it_was_scaffolded_and_so_does_a_second_one(
    component: str, form: Literal["yaml", "python"]
):
    with create_defs_folder_sandbox() as sandbox:
        scaffold(sandbox.defs_folder_path / "First one", component, form)
        if component != "Lakehouse":
            scaffold(sandbox.defs_folder_path / "second", component, form)
            (sandbox.defs_folder_path / "lake").mkdir()
            (sandbox.defs_folder_path / "lake" / "defs.yaml").write_text(LAKE)
        with sandbox.build_all_defs() as definitions:
            complete = incremental(definitions)
            complete.get_repository_def()
    assert bool(assets_of(complete)) == (component != "Lakehouse")


def test_the_first_query_reads_the_table_that_the_options_name():
    with create_defs_folder_sandbox() as sandbox:
        place = sandbox.defs_folder_path
        scaffold(place / "raw", "DeltaSources", "yaml", {"table": "raw/parcels", "root": "landing"})
        scaffold(place / "gold", "SqlTables", "yaml", {"source": "raw/parcels", "key": "city"})
        scaffold(place / "lake", "Lakehouse", "yaml", {"root": "tables"})
        with sandbox.build_all_defs() as definitions:
            assets = assets_of(incremental(definitions))
    assert sorted(assets) == ["gold/orders_by_city", "raw/parcels"]
    assert [dep.asset_key.to_user_string() for dep in assets["gold/orders_by_city"].deps] == ["raw/parcels"]


def test_the_definitions_file_of_create_dagster_completes_the_definitions(tmp_path: Path):
    component, file = tmp_path / "src" / "shop" / "defs" / "lake", tmp_path / "src" / "shop" / "definitions.py"
    component.mkdir(parents=True)
    file.write_text(STOCK)
    assert (
        complete_definitions(component) == f"Changed {file}: incremental(...) completes the definitions of the project."
    )
    assert "return incremental(load_from_defs_folder(path_within_project=Path(__file__).parent))" in file.read_text()
    assert complete_definitions(component) is None
    (component.parent / "__init__.py").touch()
    (file.parent / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "shop"'
    )
    names: dict[str, Any] = {"__file__": str(file), "__name__": "shop.definitions"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    assert callable(names["defs"])
    assert names["incremental"] is incremental


def test_another_definitions_file_is_left_alone_and_the_line_is_said(tmp_path: Path):
    file = tmp_path / "definitions.py"
    file.write_text("import dagster as dg\n\ndefs = dg.Definitions()\n")
    said = complete_definitions(tmp_path / "defs" / "lake")
    assert said == f"Wrap the definitions of the project in {file}: return incremental(...), from lakehouse."
    assert file.read_text() == "import dagster as dg\n\ndefs = dg.Definitions()\n"
    file.unlink()
    assert str(complete_definitions(tmp_path / "defs" / "lake")).startswith("Wrap the definitions of the project: ")


def test_a_component_is_appended_to_a_file_that_holds_others(tmp_path: Path):
    scaffold(tmp_path / "src" / "shop" / "sources", "DeltaSources", "yaml", {"table": "a/b"})
    scaffolder = dagster_delta_lakehouse.DeltaSources.__scaffolder_cls__()
    params = scaffolder.get_scaffold_params()(table="c/d")
    path = tmp_path / "src" / "shop" / "sources" / "defs.yaml"
    scaffolder.scaffold(
        dg.ScaffoldRequest("dagster_delta_lakehouse.DeltaSources", path, "yaml", tmp_path, params, append=True)
    )
    assert path.read_text().count("type: dagster_delta_lakehouse.DeltaSources") == 2
    assert path.read_text().count("---\n") == 1
