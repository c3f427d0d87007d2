"""Tables that are defined by YAML alone: their definitions, and what they hold."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException

from dagster_delta_lakehouse.extracts import ExtractConfig, Extracts
from lakehouse import DeltaIOManager, Table, incremental
from lakehouse.cursor.cursor import Fresh, Known, Lost
from lakehouse.cursor.extract_version import ExtractVersion
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark
from lakehouse.errors import DefinitionError
from tests.components.sandbox import LAKE, UNSTABLE, assets_of, definitions_of, lakehouse_of
from tests.support.for_each import for_each
from tests.support.lake import Lake

pytestmark = pytest.mark.filterwarnings(*UNSTABLE)


def known(extract: str | None) -> Known:
    """The cursor of a table that holds an extract."""
    version = None if extract is None else ExtractVersion.parse(extract)
    mark = Mark("past", (), FIRST_GENERATION, 1, "run", "attempt", -1, extract=version)
    return Known.of(mark, 0)


SOURCES = """
type: dagster_delta_lakehouse.DeltaSources
attributes: {tables: [{asset: raw/orders}, {asset: raw/customers}]}
"""
TOTALS = """
type: dagster_delta_lakehouse.Aggregate
attributes:
  asset: {key: gold/totals, group_name: gold, description: Money by city, automation_condition: "{{ automation }}"}
  source: raw/orders
  by: {city: upper(city)}
  count: orders
  sums: {amount: amount}
  where: amount > 0
"""
PAST = """
type: dagster_delta_lakehouse.History
attributes:
  asset: {key: gold/customers_past, owners: ["team:crm"], tags: {tier: one}, kinds: [scd2]}
  table: {key: customer_id, columns: {city: Where they live}, policy: {show_rows: 3}}
  source: raw/customers
  track: city
"""
NEWEST = """
type: dagster_delta_lakehouse.Snapshot
attributes:
  asset: {key: crm/customers}
  table: {key: customer_id}
  extracts: {files: "FOLDER/customers-{version}.csv", columns: "customer_id INT, city STRING"}
  max_deleted: 0.5
---
type: dagster_delta_lakehouse.History
attributes:
  asset: {key: crm/customers_past}
  table: {key: customer_id}
  extracts: {files: "FOLDER/customers-{version}.csv", columns: "customer_id INT, city STRING"}
---
type: dagster_delta_lakehouse.Snapshot
attributes:
  asset: {key: crm/customers_of_cities}
  table: {key: customer_id}
  extracts: {files: "FOLDER/customers-{version}.csv", columns: "customer_id INT, city STRING"}
  scope: city
"""
CITIES = """
CREATE MATERIALIZED VIEW gold.cities (city STRING, largest INT, PRIMARY KEY (city))
AS SELECT city, max(amount) FROM raw.orders GROUP BY city
"""


def test_a_table_of_yaml_is_an_asset_with_all_that_dagster_lets_yaml_say():
    with lakehouse_of({"raw/defs.yaml": SOURCES, "a/defs.yaml": TOTALS, "b/defs.yaml": PAST}) as definitions:
        assets = assets_of(definitions)
    totals, past = assets["gold/totals"], assets["gold/customers_past"]
    assert Table.from_metadata(totals.metadata).key_columns == ("city",)
    assert (totals.group_name, totals.description) == ("gold", "Money by city")
    assert totals.automation_condition is not None
    declared = Table.from_metadata(past.metadata)
    assert (declared.key_columns, declared.columns, declared.policy.shown_rows) == (
        ("customer_id",),
        {"city": "Where they live"},
        3,
    )
    assert (past.owners, past.tags["tier"], past.kinds) == (["team:crm"], "one", {"deltalake", "scd2"})
    assert [dep.asset_key.to_user_string() for dep in past.deps] == ["raw/customers"]


def test_the_code_version_is_what_decides_the_rows():
    def version(yaml: str) -> str | None:
        with definitions_of({"raw/defs.yaml": SOURCES, "a/defs.yaml": yaml}) as definitions:
            return assets_of(definitions)["gold/totals"].code_version

    assert version(TOTALS) == version(TOTALS.replace("Money by city", "Something else"))
    assert version(TOTALS) != version(TOTALS.replace("amount > 0", "amount > 1"))
    assert version(TOTALS.replace("group_name: gold", "code_version: v7")) == "v7"


@for_each("what", ["", "source: raw/customers\n  extracts: {files: 'a-{version}', columns: a INT}"])
def test_a_history_of_nothing_or_of_two_things_is_refused(what: str):
    yaml = PAST.replace("source: raw/customers", what)
    with pytest.raises(ComponentTreeException) as caught, definitions_of({"b/defs.yaml": yaml}):
        pass
    assert isinstance(caught.value.__cause__, DefinitionError)


def test_a_key_is_missing_as_it_is_in_python():
    yaml = PAST.replace("key: customer_id, ", "")
    files = {"lake/defs.yaml": LAKE, "raw/defs.yaml": SOURCES, "b/defs.yaml": yaml}
    with definitions_of(files) as definitions, pytest.raises(DefinitionError, match="declares no key"):
        incremental(definitions)


@pytest.mark.parametrize(
    ("kind", "names", "newest"),
    [
        ("date", ["a-2026-01-09.csv", "a-2026-01-10.csv", "a-notes.csv", "b-2027-01-01.csv"], "2026-01-10"),
        ("int", ["a-9.csv", "a-10.csv", "a-2026-01-10.csv"], "10"),
        ("datetime", ["a-2026-01-09T10:00.csv", "a-2026-01-09T09:30:00Z.csv"], "2026-01-09T10:00"),
    ],
)
def test_the_newest_extract_is_that_of_the_greatest_version(tmp_path: Path, kind: Any, names: list[str], newest: str):
    for name in names:
        (tmp_path / name).touch()
    extracts = Extracts(files="{version}", version=kind, columns="")
    assert extracts.versions(f"{tmp_path}/a-{{version}}.csv")[-1] == newest


def test_the_version_may_be_the_name_of_a_folder(tmp_path: Path):
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.csv").touch()
    extracts = Extracts(files="{version}", version="int", columns="")
    assert extracts.versions(f"{tmp_path}/{{version}}/rows.csv") == ["1", "2"]


@for_each(
    "address, version, problem",
    [
        ("/nowhere/a-{version}.csv", None, "There is no extract at /nowhere/a-{version}.csv"),
        ("s3://bucket/a-{version}.csv", None, "Only files of this machine are listed"),
        ("/nowhere/a-{version}.csv", "seven", "names version 'seven', and a version is of type date"),
    ],
)
def test_an_extract_that_is_not_there_fails_the_run_and_is_not_tried_again(
    address: str, version: str | None, problem: str
):
    with pytest.raises(dg.Failure) as caught:
        Extracts(files="{version}", columns="").newest(Any, address, ExtractConfig(version=version))
    assert problem in str(caught.value.description)
    assert caught.value.allow_retries is False


@pytest.fixture
def location(lake: Lake) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The assets of a project over tables of this test, and its resources."""
    lake.create("raw/orders", [(1, "bonn", 5), (2, "Bonn", 7), (3, "ulm", 9)], "order_id int, city string, amount int")
    lake.create("raw/customers", [(1, "Bonn"), (2, "Ulm")], "customer_id int, city string")
    files = {
        "raw/defs.yaml": SOURCES,
        "a/defs.yaml": TOTALS,
        "b/defs.yaml": PAST,
        "c/defs.yaml": NEWEST.replace("FOLDER", str(lake.root)),
        "d/defs.yaml": "type: dagster_delta_lakehouse.SqlTables\n",
        "d/cities.sql": CITIES,
    }
    with lakehouse_of(files) as definitions:
        spark = SimpleNamespace(spark_session=lake.spark)
        resources = {"spark": spark, "io_manager": DeltaIOManager(spark=spark, root=str(lake.root))}
        yield [*(definitions.assets or ()), *(definitions.asset_checks or ())], resources


def run(location: tuple[list[Any], dict[str, Any]], *keys: str, config: Any = None) -> dict[str, bool]:
    """Materializes tables; returns which of their comparisons with a recompute passed."""
    assets, resources = location
    result = dg.materialize(
        assets,
        selection=dg.AssetSelection.assets(*(key.split("/") for key in keys)),
        resources=resources,
        run_config=config,
        tags={"lakehouse/checks": "true"},
    )
    checks = result.get_asset_check_evaluations()
    return {
        check.asset_key.to_user_string(): check.passed
        for check in checks
        if check.check_name == "equals_full_recompute"
    }


@pytest.mark.slow
def test_sums_in_yaml_follow_their_source(lake: Lake, location: tuple[list[Any], dict[str, Any]]):
    assert run(location, "gold/totals") == {"gold/totals": True}
    assert lake.rows("gold/totals") == [("BONN", 2, 12), ("ULM", 1, 9)]
    lake.sql(f"UPDATE {lake.ref('raw/orders').identifier} SET amount = -1 WHERE order_id = 2")
    assert run(location, "gold/totals") == {"gold/totals": True}
    assert lake.rows("gold/totals") == [("BONN", 1, 5), ("ULM", 1, 9)]


def test_a_folder_of_sql_files_follows_its_source(lake: Lake, location: tuple[list[Any], dict[str, Any]]):
    assert run(location, "gold/cities") == {"gold/cities": True}
    lake.sql(f"UPDATE {lake.ref('raw/orders').identifier} SET amount = -1 WHERE order_id = 2")
    assert run(location, "gold/cities") == {"gold/cities": True}
    assert lake.rows("gold/cities") == [("Bonn", -1), ("bonn", 5), ("ulm", 9)]


@pytest.mark.slow
def test_a_history_in_yaml_keeps_the_past_of_its_source(lake: Lake, location: tuple[list[Any], dict[str, Any]]):
    run(location, "gold/customers_past")
    lake.sql(f"UPDATE {lake.ref('raw/customers').identifier} SET city = 'Köln' WHERE customer_id = 1")
    assert run(location, "gold/customers_past") == {"gold/customers_past": True}
    past = lake.frame("gold/customers_past").select("customer_id", "city", "__END_AT").collect()
    rows = sorted((customer, city, end is None) for customer, city, end in past)
    assert rows == [(1, "Bonn", False), (1, "Köln", True), (2, "Ulm", True)]


@pytest.mark.slow
def test_extracts_in_yaml_are_the_newest_file_or_the_one_that_the_config_names(
    lake: Lake, location: tuple[list[Any], dict[str, Any]]
):
    header, both = "customer_id,city\n", ("crm/customers", "crm/customers_past")
    (lake.root / "customers-2026-01-01.csv").write_text(f"{header}1,Bonn\n2,Ulm\n")
    (lake.root / "customers-2026-01-02.csv").write_text(f"{header}1,Jena\n2,Ulm\n")
    config = {"ops": {key.replace("/", "__"): {"config": {"version": "2026-01-01"}} for key in both}}
    run(location, *both, config=config)
    assert lake.rows("crm/customers") == [(1, "Bonn"), (2, "Ulm")]
    run(location, *both)
    assert lake.rows("crm/customers") == [(1, "Jena"), (2, "Ulm")]
    past = lake.frame("crm/customers_past").select("customer_id", "city").collect()
    assert sorted(map(tuple, past)) == [(1, "Bonn"), (1, "Jena"), (2, "Ulm")]


@for_each(
    "cursor, left",
    [
        (Fresh(), ["1", "2", "10"]),
        (known("int 1"), ["2", "10"]),
        (known("int 10"), []),
        (known("date 2026-01-01"), ["10"]),
    ],
)
def test_the_extracts_that_a_table_does_not_hold_yet_are_the_newer_ones(cursor: Any, left: list[str]):
    extracts = Extracts(files="{version}", version="int", columns="")
    assert extracts.after(cursor, ["1", "2", "10"]) == left


@for_each("cursor", [Lost("it was emptied", FIRST_GENERATION), known(None)])
def test_a_table_that_does_not_say_which_extract_it_holds_has_no_next_one(cursor: Any):
    with pytest.raises(dg.Failure, match="does not say which extract it holds"):
        Extracts(files="{version}", version="int", columns="").after(cursor, ["1", "2"])


@pytest.mark.slow
def test_a_history_skips_no_extract_and_a_scoped_snapshot_neither(
    lake: Lake, location: tuple[list[Any], dict[str, Any]], capfd: pytest.CaptureFixture[str]
):
    header, keys = "customer_id,city\n", ("crm/customers_past", "crm/customers_of_cities")
    for day, rows in {9: "1,Bonn\n", 10: "2,Ulm\n3,Ulm\n", 11: "2,Ulm\n"}.items():
        (lake.root / f"customers-2026-01-{day:02}.csv").write_text(header + rows)
    past, of_cities = [], []
    for _ in range(4):
        run(location, *keys)
        table = lake.frame("crm/customers_past").select("customer_id", "__END_AT").collect()
        past.append(sorted((customer, end is None) for customer, end in table))
        of_cities.append([customer for customer, _ in lake.rows("crm/customers_of_cities")])
    third = [(1, False), (2, True), (3, False)]
    assert past == [[(1, True)], [(1, False), (2, True), (3, True)], third, third]
    assert of_cities == [[1], [1, 2, 3], [1, 2], [1, 2]]
    said = capfd.readouterr().err
    assert said.count("This run takes the extract 2026-01-09. Extracts that are left: 2, up to 2026-01-11.") == 2
    assert "takes the extract 2026-01-11" not in said


@for_each("files", ["a.csv", "{version}/a-{version}.csv", ""])
def test_the_place_of_the_version_in_a_name_is_said_once(files: str):
    with pytest.raises(ValueError, match="once, where the versions of the extracts are"):
        Extracts(files=files, columns="id INT")
