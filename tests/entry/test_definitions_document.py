"""The code on the pages about definitions and development, run as it is written."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.entry.test_readme import BLOCK, PROJECT, code
from tests.support.for_each import for_each

PROJECT_FILE = """
[project]
name = "shop"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.cli]
suppress_warnings = ["project_and_activated_venv_mismatch"]

[tool.dg.project]
root_module = "shop"
"""


def test_the_blocks_on_an_existing_project_are_a_project_that_dg_loads(tmp_path: Path):
    blocks = BLOCK.findall((PROJECT / "docs/how-to/definitions.md").read_text())
    (definitions,) = [block for block in blocks if block.startswith("# src/shop/definitions.py\n")]
    tables = blocks[0].split("root = ")[0]
    named = {"src/shop/definitions.py": definitions, "src/shop/defs/tables.py": tables}
    empty = {"src/shop/__init__.py": "", "src/shop/defs/__init__.py": ""}
    for name, text in {**named, **empty, "pyproject.toml": PROJECT_FILE}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = (
        "from shop.definitions import defs; found = defs().get_repository_def();"
        "print(*[one.name for one in [*found.schedule_defs, *found.sensor_defs]], *found.asset_graph.get_all_asset_keys())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=tmp_path / "src", capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    for name in ("nightly_checks", "carry_changes", "open_orders"):
        assert name in ran.stdout


@for_each("place, root, spark", [("dev", "/data/dev", "LocalSpark"), ("prod", "s3a://bucket/lake", "ClusterSpark")])
def test_one_variable_says_where_the_tables_of_the_page_on_development_are(
    place: str, root: str, spark: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LAKE_ENV", place)
    monkeypatch.setenv("LAKE_ROOT", root)
    manager = code("docs/how-to/branch.md")["manager"]
    assert (manager.root, type(manager.spark).__name__) == (root, spark)
