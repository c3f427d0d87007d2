"""`lakehouse check`: each mistake at its line and column, whatever else is wrong; without Spark, without rows."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from lakehouse.cli.main import main
from lakehouse.cursor.digests import Code
from lakehouse.dagster.code.digest import KIND
from tests.support.for_each import for_each
from tests.support.marked_tables import append, run

Finding: TypeAlias = tuple[str, int, int, str]
Check: TypeAlias = Callable[..., set[Finding]]

SOUND = {
    "lake/defs.yaml": "type: dagster_delta_lakehouse.Lakehouse\nattributes: {root: lake}\n",
    "gold/defs.yaml": "type: dagster_delta_lakehouse.SqlTables\nattributes: {folder: .}\n",
    "raw/defs.yaml": "type: dagster_delta_lakehouse.DeltaSources\nattributes: {tables: [{asset: raw/orders}]}\n",
    "gold/sound.sql": "CREATE MATERIALIZED VIEW gold.sound (id, day) AS SELECT id, day FROM raw.orders",
}
ASSET = "import dagster as dg\nfrom lakehouse import *\n\n@dg.asset\n{}"
OF_ORDERS = ASSET.replace("@dg.asset", '@dg.asset(ins={{"source": dg.AssetIn(["raw", "orders"])}})')
COPIES = OF_ORDERS.format("def copies(source: Changes) -> Append: ...")
DEFINITIONS = """
from pathlib import Path

import dagster as dg

from lakehouse import incremental


@dg.definitions
def defs():
    return incremental(dg.load_from_defs_folder(path_within_project=Path(__file__).parent))
"""
BROKEN: dict[str, tuple[str, int, int, str]] = {
    "gold/comma.sql": ("CREATE MATERIALIZED VIEW gold.comma AS\nSELECT id,\nFROM raw.orders", 2, 10, "VIEW_SYNTAX"),
    "gold/head.sql": ("CREATE MATERIALIZED VIEW gold.head SCHEDULE DAILY AS SELECT 1", 1, 36, "VIEW_SYNTAX"),
    "gold/column.sql": (
        "CREATE MATERIALIZED VIEW gold.other AS\nSELECT s.days FROM gold.sound s",
        *(2, 8, "VIEW_UNKNOWN_COLUMN"),
    ),
    "gold/expects.sql": (
        "CREATE MATERIALIZED VIEW gold.expects (\n  CONSTRAINT c EXPECT (ids > 0)) AS SELECT id FROM gold.sound",
        *(2, 24, "VIEW_UNKNOWN_COLUMN"),
    ),
    "gold/key.sql": (
        "CREATE MATERIALIZED VIEW gold.keyed (PRIMARY KEY (nr)) AS\nSELECT id FROM gold.sound",
        *(2, 1, "VIEW_UNKNOWN_COLUMN"),
    ),
    "gold/owns.sql": (
        "CREATE MATERIALIZED VIEW gold.owned TBLPROPERTIES ('lakehouse.owns' = 'nr > 4') AS\nSELECT id FROM gold.sound",
        *(2, 1, "VIEW_UNKNOWN_COLUMN"),
    ),
    "gold/reader.sql": (
        "CREATE MATERIALIZED VIEW gold.reader AS SELECT x FROM gold.nobody",
        1,
        55,
        "VIEW_UNKNOWN_TABLE",
    ),
    "views.py": (OF_ORDERS.format("def v(source: Changes): ..."), 4, 1, "UNSUPPORTED_ANNOTATION"),
    "keyless.py": (ASSET.format("def w(v: Changes) -> Merge: ..."), 4, 1, "MISSING_KEY"),
}
"""Files with a mistake, each with the line, the column and the code that are reported."""
UNREADABLE: dict[str, tuple[str, int, int, str]] = {
    "gone.py": ("import dagster as dg\nimport nothing_of_this_name\n", 2, 1, "ModuleNotFoundError"),
    "syntax.py": ("def f(:\n", 1, 7, "SyntaxError"),
    "more/defs.yaml": (
        "type: dagster_delta_lakehouse.SqlTables\nattributes:\n  folders: .\n",
        *(3, 1, "ValidationError"),
    ),
}
"""The same for files that may define a table of any name."""
LAKE = "type: dagster_delta_lakehouse.Lakehouse\nattributes:\n  root: lake\n"
SNAPSHOT = """type: dagster_delta_lakehouse.Snapshot
attributes:
  asset: {key: crm/customers}
  table: {key: id}
  extracts:
    files: in/a-{version}.csv
    version: date
    columns: id INT
  max_deleted: 0.5
"""
PAST = """type: dagster_delta_lakehouse.History
attributes:
  asset: {key: crm/past}
  table: {key: id}
  source: raw/orders
"""
TOTALS = """type: dagster_delta_lakehouse.Aggregate
attributes:
  asset: {key: gold/totals}
  source: raw/orders
  by: {days: day}
  count: orders
  where: day = 3
"""
IN_YAML: list[tuple[str, str, int, str, str]] = [
    (
        *("crm/defs.yaml", SNAPSHOT.replace("version: date", "version: dat"), 5, "ResolutionException"),
        "attributes.extracts.version: Input should be 'int', 'date' or 'datetime'",
    ),
    (
        *("crm/defs.yaml", SNAPSHOT.replace("-{version}", ""), 5, "ResolutionException"),
        (
            "attributes.extracts.files: {version} stands once, where the versions of the extracts are, and not 0 times: "
            "in/a.csv"
        ),
    ),
    (
        *("lake/defs.yaml", f"{LAKE}  policy: {{inputs: agre}}\n", 4, "ResolutionException"),
        "attributes.policy.inputs: Input should be 'newest' or 'agree'",
    ),
    (
        *("lake/defs.yaml", f"{LAKE}  spark: {{type: locl}}\n", 4, "ResolutionException"),
        "attributes.spark: the type is 'local' or 'cluster', not 'locl'",
    ),
    (
        *("lake/defs.yaml", f"{LAKE}  spark: {{where: srever}}\n", 4, "ResolutionException"),
        "attributes.spark.where: Input should be 'server' or 'process'",
    ),
    (
        *("lake/defs.yaml", f"{LAKE}  environments: {{dev: {{root: dev, spark: {{type: x}}}}}}\n", 4),
        *("ResolutionException", "attributes.environments.dev.spark: the type is 'local' or 'cluster', not 'x'"),
    ),
    (
        *("lake/defs.yaml", LAKE.replace("root", "rot"), 2, "ValidationError"),
        "attributes.root: Field required",
    ),
    (
        *("crm/defs.yaml", f"{PAST}---\n{SNAPSHOT.replace('0.5', 'half')}", 15, "ValidationError"),
        "attributes.max_deleted: Input should be a valid number, unable to parse string as a number",
    ),
    (
        *("crm/defs.yaml", f"{SNAPSHOT}---\n{PAST}  extracts: {{files: 'a-{{version}}', columns: a INT}}\n", 11),
        *("DEFINITION", "The History 'crm/past' keeps the past of one thing. Name its source, or its extracts."),
    ),
    (
        *("crm/defs.yaml", PAST.replace("raw/orders", "nosuch"), 1, "DEFINITION"),
        (
            "Asset 'crm/past' reads 'nosuch', and nothing in this code location defines it. Correct the name, or add a "
            "dg.AssetSpec(['nosuch']) if another code location makes the table (in YAML: a component DeltaSources)."
        ),
    ),
    (
        *("crm/defs.yaml", SNAPSHOT.replace("0.5", "50"), 9, "ValidationError"),
        "attributes.max_deleted: Input should be less than or equal to 1",
    ),
    (
        *("totals/defs.yaml", TOTALS.replace("day = 3", "da y = 3"), 1, "DEFINITION"),
        (
            "The Aggregate 'gold/totals' goes by the columns of one row, and where (da y = 3) may not: its grammar is "
            "not known. Correct the SQL."
        ),
    ),
]
"""Files of components with one mistake, each with the line, the code and the sentence of the one finding."""
_NUMBERS = count()


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs the command in a new project, or in the last one; returns the places and codes of its findings."""

    def make(files: dict[str, str]) -> None:
        name = f"checked_{next(_NUMBERS)}"
        project = tmp_path / name
        listed = {
            "pyproject.toml": f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{name}"\n'
        }
        listed |= {f"src/{name}/{file}": "" for file in ("__init__.py", "defs/__init__.py")}
        listed |= {f"src/{name}/definitions.py": DEFINITIONS}
        listed |= {f"src/{name}/defs/{file}": text for file, text in files.items()}
        for file, text in listed.items():
            (project / file).parent.mkdir(parents=True, exist_ok=True)
            (project / file).write_text(text)
        append(project / "lake" / "raw", "orders", 1, 2)
        monkeypatch.chdir(project)
        monkeypatch.syspath_prepend(str(project / "src"))

    def findings(files: dict[str, str] | None = None) -> set[Finding]:
        if files is not None:
            make(files)
        capsys.readouterr()
        code = main(["check", "--json"])
        listed: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
        assert code == bool(listed)
        folder = f"src/{Path.cwd().name}/defs/"
        return {(each["file"].removeprefix(folder), each["line"], each["column"], each["code"]) for each in listed}

    return findings


def texts(files: dict[str, tuple[str, int, int, str]]) -> dict[str, str]:
    return {name: text for name, (text, *_) in files.items()}


def places(files: dict[str, tuple[str, int, int, str]]) -> set[Finding]:
    return {(name, line, column, code) for name, (_, line, column, code) in files.items()}


def test_a_mistake_is_found_at_its_place_and_hides_no_other(check: Check) -> None:
    assert check(SOUND) == set()
    assert check(SOUND | texts(BROKEN)) == places(BROKEN)
    nowhere = {each for each in places(BROKEN) if each[-1] == "VIEW_UNKNOWN_TABLE"}
    assert check(SOUND | texts(BROKEN) | texts(UNREADABLE)) == (places(BROKEN) | places(UNREADABLE)) - nowhere


def test_a_text_within_a_function_that_is_refused_is_one_finding(check: Check) -> None:
    for text in ("SELECT id, current_date() AS day FROM sound", "SELEC id FROM sound"):
        view = ASSET.format(f'def v(sound: Changes) -> View:\n    return View("{text}")\n').replace(
            "@dg.asset", '@dg.asset(ins={"sound": dg.AssetIn(["gold", "sound"])})'
        )
        ((file, line, _, _),) = check(SOUND | {"view.py": view})
        assert (file, line) == ("view.py", 6)


def test_a_yaml_file_that_cannot_be_parsed_is_found_at_its_place_and_is_said_to_hide_the_others(
    check: Check, capsys
) -> None:
    broken = {"more/defs.yaml": "type: dagster_delta_lakehouse.SqlTables\nattributes: {folder: ["}
    assert check(SOUND | texts(BROKEN) | broken) == {("more/defs.yaml", 2, 23, "ParserError")}
    assert main(["check"]) == 1
    assert "reads no other file of the folder before this one can be read" in capsys.readouterr().out


@for_each("file, text, line, code, sentence", IN_YAML)
def test_a_mistake_in_a_component_is_one_finding_with_its_line_and_one_sentence(
    file: str, text: str, line: int, code: str, sentence: str, check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(SOUND | {file: text}) == {(file, line, 1, code)}
    assert main(["check"]) == 1
    assert capsys.readouterr().out.splitlines()[0].endswith(f"{file}:{line}:1 {code} {sentence}")


def test_a_second_lakehouse_is_named_at_both_places(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    lakes = {"lake/defs.yaml", "other/defs.yaml"}
    assert check(SOUND | {"other/defs.yaml": LAKE}) == {(file, 1, 1, "DEFINITION") for file in lakes}
    assert main(["check"]) == 1
    assert "one project has one" in capsys.readouterr().out


def test_a_project_without_a_lakehouse_hears_of_the_component_and_not_of_annotations(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check({file: text for file, text in SOUND.items() if file != "lake/defs.yaml"}) == {
        ("gold/sound.sql", 1, 1, "DEFINITION")
    }
    assert main(["check"]) == 1
    told = capsys.readouterr().out
    assert "Add a component Lakehouse" in told and "annotat" not in told


def test_a_line_begins_with_file_line_and_column_and_ends_with_what_to_do(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check(SOUND | texts({"gold/comma.sql": BROKEN["gold/comma.sql"]}))
    assert main(["check"]) == 1
    line, total = capsys.readouterr().out.splitlines()
    assert line.endswith("gold/comma.sql:2:10 VIEW_SYNTAX Nothing stands after this comma. Remove the comma.")
    assert (line.partition("/")[0], total) == ("src", "1 finding.")


def test_the_columns_of_a_table_are_those_of_its_log_unless_its_code_is_another_now(check: Check) -> None:
    """A column that an edited function is about to add is not known yet, so nothing is reported about it."""
    reads = {
        f"gold/{name}.sql": f"CREATE MATERIALIZED VIEW gold.v_{name} AS SELECT {name} FROM copies"
        for name in ("id", "days")
    }
    assert check(SOUND | {"copies.py": COPIES} | reads) == set()
    for code, files in ((None, {"gold/days.sql"}), (Code.of(KIND, ["other"], {}), set[str]())):
        run(Path("lake"), "copies", "raw/orders", code=code)
        assert {file for file, *_ in check()} == files


def test_a_spec_says_the_columns_of_a_table_without_a_log(check: Check) -> None:
    spec = (
        "import dagster as dg\n\ncolumns = dg.TableSchema([dg.TableColumn('id', 'int')])\n"
        "table = dg.AssetSpec('elsewhere', metadata={'dagster/column_schema': columns})\n"
    )
    text = "CREATE MATERIALIZED VIEW gold.of_spec AS\nSELECT id, day FROM elsewhere"
    assert check(SOUND | {"specs.py": spec, "gold/of_spec.sql": text}) == {
        ("gold/of_spec.sql", 2, 12, "VIEW_UNKNOWN_COLUMN")
    }


def test_a_function_of_classic_spark_at_the_top_of_a_plain_file_is_named_with_the_way_on(tmp_path: Path) -> None:
    """In a process of its own, because PySpark asks for a session of its process while the file is loaded."""
    text = 'from pyspark.sql import functions as F\n\n\n@F.udf("string")\ndef shout(word):\n    return word.upper()\n'
    (tmp_path / "definitions.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONNECT_MODE_ENABLED"}
    command = [sys.executable, "-m", "lakehouse", "check"]
    found = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert found.stdout.startswith("definitions.py:4:2 OF_CLASSIC_SPARK "), found.stdout + found.stderr
    assert found.returncode == 1 and "SPARK_CONNECT_MODE_ENABLED=1 into the file .env" in found.stdout
