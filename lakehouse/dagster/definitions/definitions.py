"""Definitions made complete in one call: what `validate`, `checks` and `change_sensor` do, each asset named once."""

from typing import Any

import dagster as dg

from lakehouse.dagster.code_location import AssetTable
from lakehouse.dagster.definitions.checks import checked_tables, checks_beside
from lakehouse.dagster.definitions.nightly import Nightly, nightly
from lakehouse.dagster.definitions.recompute import with_proof
from lakehouse.dagster.definitions.steps import ending_early, may_have_nothing_to_do, with_result_type
from lakehouse.dagster.definitions.validation import validate_location
from lakehouse.dagster.follow.sensor import sensor_of
from lakehouse.dagster.io_manager import code_location_of
from lakehouse.dagster.remake import with_assets, with_each_once


def incremental(
    definitions: dg.Definitions, sensor: str | None = None, nightly_checks: str | Nightly | None = None
) -> dg.Definitions:
    """The same definitions, validated and complete: pools, metadata, checks, and a sensor and nightly checks if named.

    The writers of one table share a Dagster pool, and each asset shows which writers it can conflict with. Each table
    has the checks that can be made of it. A check of the same table and name that the definitions bring takes the place
    of the added one. A run that materializes an asset leaves out the checks that read the whole table. Who names a cron
    schedule for nightly checks has agreed to them: the schedule runs from the start. A night makes the checks of this
    library, those that have waited longest first, and starts none after two hours. The sensor is stopped until somebody
    starts it in Dagster.

    Args:
        definitions: The code location: assets, specs of tables that it only reads, resources, and all else.
        sensor: The name of a `change_sensor` for these tables; None for no sensor.
        nightly_checks: When the nights begin, as a cron schedule; `Nightly(...)` for another limit or time zone. None:
            tables are compared with a recompute only if somebody runs the check.

    Raises:
        DefinitionError: A definition that could never work; see `validate`.
    """
    given = with_each_once(definitions)
    code_location = code_location_of(given)
    brought = list(given.asset_checks or [])
    tables = checked_tables(code_location)
    added = checks_beside({key for check in brought for key in check.check_keys}, tables)
    sensors = [] if sensor is None else [sensor_of(code_location, sensor)]
    night = Nightly(nightly_checks) if isinstance(nightly_checks, str) else nightly_checks
    more = [dg.Definitions(asset_checks=added, sensors=sensors)]
    if night is not None:
        more.append(nightly([*brought, *added], tables, night))
    complete = validate_location(dg.Definitions.merge(given, *more), code_location)

    def finish(asset: Any) -> Any:
        if not isinstance(asset, dg.AssetsDefinition) or not asset.is_executable:
            return asset
        made = [code_location[key] for key in asset.keys]
        is_ours = bool(made) and all(table.root is not None for table in made)
        return _finish(asset, made[0], night) if is_ours else asset

    return with_assets(complete, finish)


def _finish(asset: dg.AssetsDefinition, table: AssetTable, night: Nightly | None) -> dg.AssetsDefinition:
    """The asset whose result has our type, whose step may end before its function is called, and with its proof."""
    finished = ending_early(asset) if may_have_nothing_to_do(table) else with_result_type(asset)
    return with_proof(finished, table, None if night is None else night.cron_schedule)
