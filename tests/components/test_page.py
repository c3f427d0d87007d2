"""The page on components: all its files together are a project that loads."""

import re
from pathlib import Path

import pytest
from dagster.components.testing import create_defs_folder_sandbox

import dagster_delta_lakehouse
from lakehouse import incremental
from resources.environments import PROJECT
from tests.components.sandbox import UNSTABLE, assets_of, definitions_of
from tests.components.test_scaffolding import scaffold
from tests.entry.test_readme import code

pytestmark = pytest.mark.filterwarnings(*UNSTABLE)
PAGE = "docs/how-to/components.md"
FILE = re.compile(r"```(?:yaml|sql)\n(?:#|--) defs/(\S+)\n(.*?)```", re.DOTALL)


def test_the_files_of_the_page_are_one_project():
    files = dict(FILE.findall((PROJECT / PAGE).read_text()))
    types = {line.split(".")[-1] for text in files.values() for line in text.splitlines() if line.startswith("type: ")}
    assert types == set(dagster_delta_lakehouse.__all__)
    with definitions_of(files) as definitions:
        complete = incremental(definitions)
        complete.get_repository_def()
    made = {key for key, spec in assets_of(complete).items() if "dagster/code_references" in spec.metadata}
    assert made >= {"gold/orders_by_customer", "gold/totals", "silver/customers_past", "crm/customers", "raw/returns"}
    assert {sensor.name for sensor in complete.sensors or ()} == {"carry_changes", "lakehouse_automation"}


def test_the_commands_with_which_the_page_begins_make_a_project_that_loads():
    first = (PROJECT / PAGE).read_text().split("```")[1]
    commands = re.findall(r"^dg scaffold defs dagster_delta_lakehouse\.(\w+) (\w+)(.*)$", first, re.MULTILINE)
    with create_defs_folder_sandbox() as sandbox:
        for component, folder, options in commands:
            scaffold(sandbox.defs_folder_path / folder, component, "yaml", dict(re.findall(r"--(\w+) (\S+)", options)))
        with sandbox.build_all_defs() as definitions:
            assert sorted(assets_of(incremental(definitions))) == ["gold/orders_by_customer", "orders"]


def test_the_page_has_a_row_for_every_attribute():
    text = (PROJECT / PAGE).read_text()
    for name in ("Lakehouse", "SqlTables", "DeltaSources"):
        section = text.split(f"## `{name}`")[1].split("\n## ")[0]
        rows = {
            word for row in re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)
        }
        assert rows == set(getattr(dagster_delta_lakehouse, name).model_fields), name


def test_the_test_of_the_page_passes(tmp_path: Path):
    code(PAGE, tmp_path / "definitions.py")["test_the_tables_of_the_folder_load"]()
