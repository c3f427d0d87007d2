"""The code of the tables that are compared once if that code is another than in their marks."""

from typing import Any

import dagster as dg

from lakehouse.cursor.code import Code
from lakehouse.dagster.code_location import changes_of, is_function, writes_nothing
from lakehouse.dagster.io_manager import managers_of
from lakehouse.errors import LakehouseError
from lakehouse.read.decide import compares_new_code


def compared_code(defs: dg.Definitions) -> dict[str, Code]:
    """The code of each table whose next run compares everything if the code changed, by the table's name."""
    return {
        name: code for asset in defs.assets or [] for name, code in _code_to_compare(asset, managers_of(defs.resources))
    }


def _code_to_compare(asset: Any, managers: dict[str, Any]) -> list[tuple[str, Code]]:
    if not is_function(asset) or len(asset.specs_by_key) != 1 or writes_nothing(asset):
        return []
    manager = managers.get(asset.get_io_manager_key_for_asset_key(asset.key))
    if manager is None:
        return []
    try:
        described = manager.describe(asset, asset.key)
        leaves_rows_out = not all(read.is_whole for read in changes_of(asset).values())
    except LakehouseError:  # its next run is refused
        return []
    if described.code is None or not compares_new_code(described, leaves_rows_out=leaves_rows_out):
        return []
    return [(described.name, described.code)]
