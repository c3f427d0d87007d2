"""Which tables Dagster's pages call "Unsynced", for each kind of source: exactly those that have something to read."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster_graphql.test.utils import execute_dagster_graphql
from pyspark.sql import DataFrame

from lakehouse import Changes, Merge, Overwrite, Table, View, incremental
from tests.support.dagster_house import House
from tests.support.tables import DAY_1, DAY_2, carried, copies, orders, totals

pytestmark = [pytest.mark.served, pytest.mark.slow, pytest.mark.timeout(2400)]
STATUS = "{ assetNodes { assetKey { path } staleStatus staleCauses { reason dependency { path } } } }"
NAMED = "lakehouse_stale_status"
"""The catalog name of a table that another program writes."""
by_name = dg.AssetSpec("by_name", metadata=Table(key="id", name=NAMED))
elsewhere = dg.AssetSpec("elsewhere", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="id"))
def of_elsewhere(elsewhere: Changes) -> Merge:
    touched = elsewhere.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id"))
def of_name(by_name: Changes) -> Merge:
    touched = by_name.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id"))
def whole(orders: DataFrame) -> Overwrite:
    return Overwrite(orders)


@dg.asset(metadata=Table(key="day"))
def viewed(orders: Changes, copies: Changes) -> View:
    query = (
        "SELECT o.day, count(*) AS orders, sum(c.v) AS total FROM orders o JOIN copies c ON o.id = c.id GROUP BY o.day"
    )
    return View(query)


HERE = [copies, whole, viewed, totals, of_elsewhere, of_name]
THERE = dg.asset(name="elsewhere", metadata=Table(key="id"))(carried)


@contextmanager
def pages(instance: dg.DagsterInstance, **code_locations: dg.Definitions) -> Generator[WorkspaceProcessContext]:
    """The web server's view: code locations, here in this process, and an instance."""
    origins = list[InProcessCodeLocationOrigin]()
    with pytest.MonkeyPatch.context() as patch:
        for name, definitions in code_locations.items():
            module: Any = ModuleType(f"lakehouse_location_{name}")
            module.defs = definitions
            patch.setitem(sys.modules, module.__name__, module)
            target = LoadableTargetOrigin(module_name=module.__name__, attribute="defs")
            origins.append(InProcessCodeLocationOrigin(target, location_name=name))
        with WorkspaceProcessContext(instance, InProcessWorkspaceLoadTarget(origins)) as workspace:
            yield workspace


def test_a_table_is_stale_exactly_while_it_has_something_to_read(house: House, tmp_path: Path) -> None:
    """Whoever looks at a source first, the sensor or a run, and whether or not there was a run before the sensor."""
    lake, instance = house.lake, dg.DagsterInstance.local_temp(str(tmp_path))
    resources = {"io_manager": house.io_manager}
    here = incremental(dg.Definitions([orders, elsewhere, by_name, *HERE], resources=resources), sensor="carry_on")
    there = incremental(dg.Definitions([orders, THERE], resources=resources))
    sensor = here.get_repository_def().get_sensor_def("carry_on")

    def stale() -> set[str]:
        nodes = execute_dagster_graphql(workspace.create_request_context(), STATUS).data["assetNodes"]
        assert {node["staleStatus"] for node in nodes} <= {"FRESH", "STALE"}, "no table is missing"
        return {"/".join(node["assetKey"]["path"]) for node in nodes if node["staleStatus"] == "STALE"}

    def look() -> set[str]:
        context = dg.build_sensor_context(instance, definitions=here)
        for event in sensor.evaluate_tick(context).asset_events:
            instance.report_runless_asset_event(event)
        return stale()

    def run(definitions: dg.Definitions, *keys: dg.AssetKey) -> None:
        job: Any = definitions.resolve_implicit_global_asset_job_def()
        job.execute_in_process(instance=instance, asset_selection=[*keys] or None)

    def run_alone(*names: str) -> None:
        """Runs tables without a code location."""
        given = [orders, elsewhere, by_name, *HERE]
        dg.materialize(given, selection=[*names], resources=resources, instance=instance)

    lake.sql(
        f"CREATE TABLE {NAMED} USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS SELECT * FROM {{orders}}"
    )
    try:
        with pages(instance, here=here, there=there) as workspace:
            run(there)
            run(here)
            assert stale() == set() == look() == look(), "no sensor has looked before the runs"
            lake.insert("orders", [(4, DAY_1, 40)])
            assert look() == {"copies", "whole", "viewed", "elsewhere"}
            run(here, copies.key)
            assert stale() == {"whole", "viewed", "elsewhere", "gold/totals"}
            run_alone("whole", "viewed", "gold/totals")
            run(there)
            assert look() == {"of_elsewhere"}, "of which the other code location has written more"
            run(here, of_elsewhere.key)
            assert look() == set()
            lake.sql(f"UPDATE {NAMED} SET v = 5 WHERE id = 1")
            lake.insert("orders", [(5, DAY_2, 50)])
            run_alone("copies")
            assert stale() == {"whole", "viewed", "elsewhere", "gold/totals"}, "a run has seen what the others have not"
            assert look() == {"whole", "viewed", "elsewhere", "gold/totals", "of_name"}
            run(there)
            run(here)
            assert stale() == set() == look()
            lake.sql("OPTIMIZE {orders}")
            assert look() == set(), "no row has changed"
    finally:
        lake.spark.sql(f"DROP TABLE IF EXISTS {NAMED}")
