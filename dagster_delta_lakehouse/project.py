"""A new project: the files of the template, and what `dg scaffold defs` writes for its components."""

from pathlib import Path

import dagster as dg

from dagster_delta_lakehouse.scaffolders import (
    LakehouseParams,
    LakehouseScaffolder,
    OfSourceParams,
    SqlTablesScaffolder,
)

_TEMPLATE = Path(__file__).parent / "template"
_HIDDEN = "dot-"
"""The prefix of template files that are hidden in the project, because a wheel leaves hidden files out."""
MEANINGS = {
    ".dagster/dagster.yaml": "one run at a time writes a table",
    ".env": "where Dagster keeps its runs",
    ".github/workflows/check.yml": "the checks of each push",
    "data/orders.csv": "the source",
    "pyproject.toml": "what the project needs",
    "src/{name}/definitions.py": "completes what defs/ holds",
    "src/{name}/defs/gold/orders_by_customer_id.sql": "a table in SQL",
    "src/{name}/defs/lakehouse/defs.yaml": "root, Spark, sensor, checks",
    "src/{name}/defs/orders.py": "a table in Python",
    "tests/test_tables.py": "tables equal a recompute",
}
"""The purpose of the files that a user opens first."""


def write_project(directory: Path, name: str, version: str, *, deletion_vectors: bool = True) -> dict[str, str]:
    """Writes a project that loads, and runs once it is installed.

    Args:
        directory: Its folder, which does not exist yet or holds none of these files.
        name: The name of its package, an identifier of Python.
        version: The version of this library.
        deletion_vectors: Whether its tables keep deletion vectors.

    Returns:
        What each file is for, by its path in the folder, in order; empty if the name of the file says so.
    """
    for file in sorted(path for path in _TEMPLATE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        path = directory / _path(file).replace("project_name", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text(encoding="utf-8").replace("project_name", name).replace("library_version", version)
        path.write_text(text, encoding="utf-8")
    _write_components(directory, directory / "src" / name / "defs", LakehouseParams(deletion_vectors=deletion_vectors))
    meanings = {path.format(name=name): meaning for path, meaning in MEANINGS.items()}
    written = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return {path: meanings.get(path, "") for path in written}


def _path(file: Path) -> str:
    """Where a file of the template is in the project."""
    parts = file.relative_to(_TEMPLATE).parts
    return "/".join(f".{part.removeprefix(_HIDDEN)}" if part.startswith(_HIDDEN) else part for part in parts)


def _write_components(project: Path, defs: Path, params: LakehouseParams) -> None:
    lakehouse, gold = defs / "lakehouse", defs / "gold"
    for place in (lakehouse, gold):
        place.mkdir()
    LakehouseScaffolder().scaffold(
        dg.ScaffoldRequest("dagster_delta_lakehouse.Lakehouse", lakehouse, "yaml", project, params)
    )
    first = OfSourceParams(source="orders", key="customer_id")
    SqlTablesScaffolder().scaffold(
        dg.ScaffoldRequest("dagster_delta_lakehouse.SqlTables", gold, "yaml", project, first)
    )
