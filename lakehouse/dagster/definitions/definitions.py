"""Definitions made complete in one call: what `validate`, `checks` and `change_sensor` do, each asset named once."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from lakehouse.dagster.code_location import manager_keys
from lakehouse.dagster.definitions.checks import checked_tables, checks_beside
from lakehouse.dagster.definitions.nightly import Nightly, nightly
from lakehouse.dagster.definitions.recompute import with_proof
from lakehouse.dagster.definitions.steps import ending_early, may_have_nothing_to_do, with_result_type
from lakehouse.dagster.definitions.validation import validate
from lakehouse.dagster.follow.sensor import change_sensor
from lakehouse.dagster.io_manager import managers_of
from lakehouse.dagster.remake import with_assets


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
    assets, resources = list(definitions.assets or []), dict(definitions.resources or {})
    own = {key for check in definitions.asset_checks or [] for key in check.check_keys}
    tables = _tables(assets, resources)
    added = checks_beside(own, tables)
    sensors = [] if sensor is None else [change_sensor(sensor, assets, resources=resources)]
    night = Nightly(nightly_checks) if isinstance(nightly_checks, str) else nightly_checks
    more = [dg.Definitions(asset_checks=added, sensors=sensors)]
    if night is not None:
        more.append(nightly([*(definitions.asset_checks or []), *added], checked_tables(tables), night))
    complete = validate(dg.Definitions.merge(definitions, *more))
    managed = {key for asset in tables for key in _keys(asset)}
    return with_assets(complete, lambda asset: _finish(asset, night) if managed.issuperset(_keys(asset)) else asset)


def _finish(asset: Any, night: Nightly | None) -> Any:
    """The asset whose result has our type, whose step may end before its function is called, and with its proof."""
    finished = ending_early(asset) if may_have_nothing_to_do(asset) else with_result_type(asset)
    if not isinstance(finished, dg.AssetsDefinition) or not finished.is_executable:
        return finished
    return with_proof(finished, None if night is None else night.cron_schedule)


def _tables(assets: list[Any], resources: Mapping[str, Any]) -> list[Any]:
    """The assets and specs whose tables a `DeltaIOManager` has."""
    own = managers_of(resources)
    managed = {key for key, name in manager_keys(assets).items() if name in own}
    return [asset for asset in assets if managed.issuperset(_keys(asset))]


def _keys(asset: Any) -> list[dg.AssetKey]:
    return [asset.key] if isinstance(asset, dg.AssetSpec | dg.SourceAsset) else list(asset.keys)
