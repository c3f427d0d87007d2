"""The definitions contain what the YAML declares."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster.components.core.component_tree import ComponentTreeException
from deltalake import write_deltalake

from dagster_delta_lakehouse.attributes import PolicyAttributes, RetryAttributes, TableAttributes
from lakehouse import ClusterSpark, LocalSpark, Nightly, Policy, Retry, Table, incremental
from lakehouse.dagster.definitions.definitions import Additions
from lakehouse.dagster.resources import Where
from lakehouse.errors import DefinitionError
from lakehouse.errors.views import ViewError
from tests.components.sandbox import LAKE, UNSTABLE, assets_of, definitions_of, lakehouse_of, root_of
from tests.support.for_each import for_each

pytestmark = pytest.mark.filterwarnings(*UNSTABLE)
VIEW = """
CREATE MATERIALIZED VIEW gold.cities (city STRING COMMENT 'Where', orders BIGINT, PRIMARY KEY (city))
COMMENT 'Orders by city'
AS SELECT city, count(*) FROM raw.orders GROUP BY city
"""
SOURCE = "type: dagster_delta_lakehouse.DeltaSources\nattributes: {tables: [{asset: raw/orders}]}\n"
SQL = "type: dagster_delta_lakehouse.SqlTables\n"


def resources_of(definitions: dg.Definitions) -> Mapping[str, Any]:
    return definitions.resources or {}


def test_dg_looks_at_the_components_without_pyspark_and_with_no_more_of_the_library_than_its_declarations():
    loaded = "import sys, dagster_delta_lakehouse; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert {"pyspark", "deltalake", "sqlglot", "pyarrow"} & set(said) == set()
    assert {name.split(".")[1] for name in said if name.startswith("lakehouse.")} == {"delta", "errors"}


@for_each("attributes, value", [(PolicyAttributes, Policy), (RetryAttributes, Retry), (TableAttributes, Table)])
def test_yaml_can_say_every_field_of_a_value_of_the_library(attributes: Any, value: Any):
    assert set(attributes.model_fields) == {field.name for field in fields(value) if field.init}
    assert attributes().value == value()


def test_the_lakehouse_has_what_its_yaml_says():
    yaml = """
    type: dagster_delta_lakehouse.Lakehouse
    attributes:
      root: tables/all
      spark: {type: local, idle: 60, where: process, spark_config: {spark.driver.memory: 2g}}
      policy: {refresh: strict, show_rows: 5}
      retry: {attempts: 3}
      sensor: follow
      nightly_checks: {cron_schedule: "0 4 * * *", timezone: Europe/Berlin, limit_minutes: 30}
      upkeep: {cron_schedule: "0 5 * * 0", limit_minutes: 90, max_bytes: 1000000}
    """
    with definitions_of({"lake/defs.yaml": yaml}) as definitions:
        complete = incremental(definitions)
    spark, manager = resources_of(complete)["spark"], resources_of(complete)["io_manager"]
    assert isinstance(spark, LocalSpark)
    assert (spark.idle, spark.where, spark.spark_config) == (60, Where.PROCESS, {"spark.driver.memory": "2g"})
    assert manager.policy == Policy(refresh="strict", show_rows=5)
    assert manager.conflicts == Retry(attempts=3)
    assert root_of(complete) == spark.directory
    assert spark.directory.parts[-2:] == ("tables", "all")
    assert spark.directory.parent.parent.is_absolute()
    assert complete.executor is dg.in_process_executor
    assert [sensor.name for sensor in complete.sensors or ()] == ["follow"]
    nights = [each for each in complete.schedules or () if isinstance(each, dg.ScheduleDefinition)]
    assert [(each.name, each.cron_schedule, each.execution_timezone) for each in nights] == [
        ("nightly_checks", "0 4 * * *", "Europe/Berlin"),
        ("upkeep", "0 5 * * 0", None),
    ]


def test_a_lakehouse_on_a_cluster_keeps_its_address():
    yaml = """
    type: dagster_delta_lakehouse.Lakehouse
    attributes:
      root: s3a://bucket/lake
      storage_options: {}
      spark: {type: cluster, spark_config: {spark.sql.session.timeZone: UTC}}
      sensor: null
      executor: null
    """
    with definitions_of({"lake/defs.yaml": yaml}) as definitions:
        complete = incremental(definitions)
    assert isinstance(resources_of(complete)["spark"], ClusterSpark)
    assert resources_of(complete)["io_manager"].root == "s3a://bucket/lake"
    assert resources_of(complete)["io_manager"].storage_options == {}
    assert not complete.sensors
    assert complete.executor is None


ENVIRONMENTS = """
    type: dagster_delta_lakehouse.Lakehouse
    attributes:
      root: lake
      storage_options: {timeout: 20s}
      environments:
        staging: {root: staging}
        production: {root: "s3a://bucket/lake", spark: {type: cluster}, storage_options: {}}
    """


@for_each(
    "name, root, spark, options",
    [
        (None, "lake", LocalSpark, {"timeout": "20s"}),
        ("staging", "staging", LocalSpark, {"timeout": "20s"}),
        ("production", "lake", ClusterSpark, {}),
    ],
)
def test_one_variable_chooses_the_environment(
    name: str | None, root: str, spark: type, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LAKEHOUSE_ENV", name or "")
    with definitions_of({"lake/defs.yaml": ENVIRONMENTS}) as definitions:
        resources = resources_of(definitions)
    manager = resources["io_manager"]
    assert (Path(manager.root).name, manager.storage_options) == (root, options)
    assert type(resources["spark"]) is type(manager.spark) is spark


def test_an_environment_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKEHOUSE_ENV", "prod")
    with pytest.raises(ComponentTreeException) as error, definitions_of({"lake/defs.yaml": ENVIRONMENTS}):
        pass
    assert "LAKEHOUSE_ENV = prod: there is no such environment. Use staging or production" in str(error.value.__cause__)


def test_what_the_caller_of_incremental_names_wins_over_the_component():
    night = Nightly("0 5 * * *", timedelta(minutes=5), "Europe/Paris")
    upkeep = Nightly("0 5 * * 0", timedelta(minutes=9), max_bytes=7)
    named = Additions.of(dg.Definitions(metadata=Additions("follow", night, upkeep).metadata).metadata)
    assert named == Additions("follow", night, upkeep)
    assert named.with_named("other", "0 6 * * *") == Additions("other", Nightly("0 6 * * *"), upkeep)
    assert named.with_named(None, None, "0 6 * * 1").upkeep == Nightly("0 6 * * 1")
    assert named.with_named(None, None) == named
    assert Additions.of(dg.Definitions().metadata) == Additions()


def test_a_folder_of_files_gives_its_tables():
    yaml = """
    type: dagster_delta_lakehouse.SqlTables
    attributes:
      folder: sql
      group_name: gold
      owners: ["team:orders"]
      tags: {tier: one}
      automation_condition: "{{ automation }}"
    """
    with lakehouse_of({"gold/defs.yaml": yaml, "gold/sql/cities.sql": VIEW, "raw/defs.yaml": SOURCE}) as definitions:
        assets = assets_of(definitions)
    spec = assets["gold/cities"]
    assert (spec.group_name, spec.owners, spec.tags["tier"]) == ("gold", ["team:orders"], "one")
    assert spec.description == "Orders by city"
    assert spec.automation_condition is not None
    assert Table.from_metadata(spec.metadata).key_columns == ("city",)
    assert [dep.asset_key.to_user_string() for dep in spec.deps] == ["raw/orders"]
    assert {sensor.name for sensor in definitions.sensors or ()} == {"carry_changes", "lakehouse_automation"}
    assert {key.name for check in definitions.asset_checks or () for key in check.check_keys} >= {
        "equals_full_recompute"
    }


def test_capital_letters_of_an_asset_key_are_found_again():
    source = "type: dagster_delta_lakehouse.DeltaSources\nattributes: {tables: [{asset: Raw/Orders}]}\n"
    yaml = f"{SQL}attributes: {{sources: [Raw/Orders]}}\n"
    with lakehouse_of({"gold/defs.yaml": yaml, "gold/cities.sql": VIEW, "raw/defs.yaml": source}) as definitions:
        (dep,) = assets_of(definitions)["gold/cities"].deps
    assert dep.asset_key == dg.AssetKey(["Raw", "Orders"])


def error_of(caught: pytest.ExceptionInfo[BaseException]) -> BaseException:
    """The error that Dagster's tree of components wraps."""
    error = caught.value
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def test_an_error_in_the_head_of_a_file_names_file_and_line():
    view = VIEW.replace("PRIMARY KEY (city)", "PRIMARY KEY (town)")
    with (
        pytest.raises(ComponentTreeException) as caught,
        definitions_of({"gold/defs.yaml": SQL, "gold/cities.sql": view}),
    ):
        pass
    error = error_of(caught)
    assert isinstance(error, ViewError)
    assert error.place is not None
    assert error.place.line == 4
    assert "gold/cities.sql: the list of columns has no column town (line 4" in str(error)


def test_a_table_that_nothing_defines_is_refused_with_file_and_line():
    files = {"lake/defs.yaml": LAKE, "gold/defs.yaml": SQL, "gold/cities.sql": VIEW}
    with (
        definitions_of(files) as definitions,
        pytest.raises(ViewError, match=r"gold/cities\.sql: .* defines raw/orders \(line 4"),
    ):
        incremental(definitions)


def test_a_misspelt_attribute_is_refused_with_its_place_in_the_yaml():
    yaml = f"{SQL}attributes: {{foldr: sql}}\n"
    with pytest.raises(ComponentTreeException) as caught, definitions_of({"gold/defs.yaml": yaml}):
        pass
    assert "defs.yaml:2" in str(caught.value.__cause__)
    assert "foldr" in str(caught.value.__cause__)


ROWS = pa.table({"order_id": [1], "city": ["Bonn"]})


def test_sources_show_the_columns_of_their_logs(tmp_path: Path):
    write_deltalake(tmp_path / "raw" / "orders", ROWS)
    write_deltalake(tmp_path / "raw" / "crm" / "customers", ROWS)
    (tmp_path / "raw" / "notes").mkdir()
    yaml = f"type: dagster_delta_lakehouse.DeltaSources\nattributes: {{root: {tmp_path}, group_name: raw}}\n"
    with lakehouse_of({"raw/defs.yaml": yaml}) as definitions:
        assets = assets_of(definitions)
    assert sorted(assets) == ["raw/crm/customers", "raw/orders"]
    (columns,) = {
        tuple((c.name, c.type) for c in assets[key].metadata["dagster/column_schema"].columns) for key in assets
    }
    assert columns == (("order_id", "bigint"), ("city", "string"))
    assert Table.from_metadata(assets["raw/orders"].metadata).path == f"{tmp_path}/raw/orders"
    assert assets["raw/orders"].group_name == "raw"


def test_sources_show_the_columns_of_the_environment_that_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_deltalake(tmp_path / "here" / "orders", ROWS)
    write_deltalake(tmp_path / "there" / "orders", pa.table({"order_id": [1]}))
    lake = LAKE.replace("root: lake", f"root: {tmp_path}/here, environments: {{other: {{root: {tmp_path}/there}}}}")
    yaml = "type: dagster_delta_lakehouse.DeltaSources\nattributes: {tables: [{asset: orders}]}\n"
    monkeypatch.setenv("LAKEHOUSE_ENV", "other")
    with lakehouse_of({"lake/defs.yaml": lake, "raw/defs.yaml": yaml}) as definitions:
        columns = assets_of(definitions)["orders"].metadata["dagster/column_schema"].columns
    assert [column.name for column in columns] == ["order_id"]


def test_sources_below_the_root_of_the_lakehouse_show_their_columns_too(tmp_path: Path):
    write_deltalake(tmp_path / "raw" / "orders", ROWS)
    lake = LAKE.replace("root: lake", f"root: {tmp_path}")
    yaml = """
    type: dagster_delta_lakehouse.DeltaSources
    attributes:
      tables:
        - {asset: raw/orders, key: order_id, trust_key: true, description: What was ordered}
        - {asset: raw/returns}
        - {asset: raw/rates, name: main.raw.rates}
    """
    with lakehouse_of({"lake/defs.yaml": lake, "raw/defs.yaml": yaml}) as definitions:
        assets = assets_of(definitions)
    assert {key for key, spec in assets.items() if "dagster/column_schema" in spec.metadata} == {"raw/orders"}
    assert Table.from_metadata(assets["raw/orders"].metadata) == Table(key="order_id", trust_key=True)
    assert Table.from_metadata(assets["raw/rates"].metadata) == Table(name="main.raw.rates")
    assert assets["raw/orders"].description == "What was ordered"


@for_each(
    "attributes, problem",
    [
        ("{}", "neither a root nor tables"),
        ("{root: nowhere}", "finds no folder"),
        ("{root: .}", "finds no Delta table"),
    ],
)
def test_sources_that_are_nowhere_are_refused(attributes: str, problem: str):
    yaml = f"type: dagster_delta_lakehouse.DeltaSources\nattributes: {attributes}\n"
    with pytest.raises(ComponentTreeException) as caught, definitions_of({"raw/defs.yaml": yaml}):
        pass
    assert isinstance(error_of(caught), DefinitionError)
    assert problem in str(error_of(caught))
