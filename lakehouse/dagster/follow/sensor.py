"""A sensor that carries changes on: it reads logs, never rows, and needs no Spark."""

from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.follow.tick import Pace, Tick
from lakehouse.dagster.follow.watch import Watch
from lakehouse.dagster.io_manager import managed_tables
from lakehouse.dagster.resources import value_of
from lakehouse.delta.location import Location
from lakehouse.errors import DefinitionError


def change_sensor(
    name: str,
    assets: Iterable[Any],
    *,
    root: str | None = None,
    resources: Mapping[str, Any] | None = None,
    pace: Pace = Pace(),
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """A sensor that asks for a run of every table with unread changes, and of the tables downstream of them.

    It compares the position in each table's own commits with the newest change of its sources, so it forgets nothing
    when Dagster's storage is lost. Commits that changed no row wake nobody. Of a partitioned asset it asks for the
    partitions whose rows changed. Tables of a run that is under way are left to that run. After a failed run it waits
    for the tables to move. Each tick says what it looked at, what it left out and why.

    A table that has an automation condition is looked at, and not asked for: the condition does that. A new data
    version of a table that no asset makes is reported as a materialization of no run, so that Dagster knows which
    tables are stale.

    Args:
        name: The sensor's name.
        assets: The asset definitions, and the specs of tables that no asset makes.
        root: The root of the one `DeltaIOManager`, as that manager takes it.
        resources: Instead of `root` the resources of the definitions: each table is where its own manager has it.
        pace: When it asks for runs, and for how many.
        minimum_interval_seconds: Seconds between two looks.
        default_status: Whether it runs as soon as the location is loaded.

    Raises:
        DefinitionError: Neither `root` nor `resources` is given, or both are.
    """
    if (root is None) == (resources is None):
        raise DefinitionError(
            f"change_sensor '{name}' does not know where its tables are. Give either root=..., the root of the one "
            f"DeltaIOManager, or resources=..., those of the definitions."
        )
    if root is None:
        code_location = managed_tables(assets, resources)
    else:
        location = Location.of_root(value_of(root))
        code_location = CodeLocation.of(assets, lambda _: location)
    return sensor_of(code_location, name, pace, minimum_interval_seconds, default_status)


def sensor_of(
    code_location: CodeLocation,
    name: str,
    pace: Pace = Pace(),
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """The `change_sensor` of the tables of a code location."""
    watch = Watch(code_location)
    requested = {key for key, table in watch.tables.items() if not table.asset.automation_conditions_by_key.get(key)}

    @dg.sensor(
        name=name,
        asset_selection=dg.AssetSelection.assets(*requested),
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description="Requests a run of every table whose sources hold changes that it has not read.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        return Tick(context, watch, name, pace, requested).result()

    return look
