"""Refuses an archive that a run would not find, or that keeps no feed, when the code location loads."""

from collections.abc import Iterator, Mapping

import dagster as dg

from lakehouse.dagster.code_location import (
    asset_definitions,
    changes_of,
    is_function,
    kind_of,
    manager_keys,
    table_ref,
    tables_of,
)
from lakehouse.dagster.io_manager import DeltaIOManager, managers_of
from lakehouse.declare.table import Table
from lakehouse.errors import DefinitionError
from lakehouse.results.kind import Kind


def refuse_lost_archives(definitions: dg.Definitions) -> None:
    """Refuses `Read(archive=...)` unless it names an `Append` whose table lies where the reading asset looks for it.

    A run looks below the root of the reading asset's own IO manager, at the key of the archive.

    Raises:
        DefinitionError: The definitions have no such asset, it is no `Append`, or its table is elsewhere.
    """
    assets, own = list(definitions.assets or []), managers_of(definitions.resources)
    tables, managers = tables_of(assets), manager_keys(assets)
    made = {key: asset for asset in asset_definitions(assets) for key in asset.keys}
    for reader, input_name, archive in _archives(made):
        where = f"Input '{input_name}' of asset '{reader.to_user_string()}' names the archive '{archive}'"
        key = dg.AssetKey(archive.split("/"))
        table, manager = tables.get(key), own.get(managers.get(reader, ""))
        if table is None:
            raise DefinitionError(
                f"{where}, and these definitions have no such asset. Correct the name, or add a "
                f"dg.AssetSpec('{archive}') if another code location makes the table."
            )
        if manager is not None and not _is_found(own, manager, key, table, managers[key]):
            raise DefinitionError(
                f"{where}, which a run looks for at {manager.location.below(archive).address}, and its table is "
                f"elsewhere. Give both assets IO managers of one root, and the archive no Table(name=...) or "
                f"Table(path=...)."
            )
        writer = made.get(key)
        if writer is not None and is_function(writer) and kind_of(writer) is not Kind.APPEND:
            raise DefinitionError(
                f"{where}, which is no Append, so it keeps no feed. Return Append(changes.log()) there, or name "
                f"another asset."
            )


def _archives(made: dict[dg.AssetKey, dg.AssetsDefinition]) -> Iterator[tuple[dg.AssetKey, str, str]]:
    """The asset, the input and the archive of each `Read(archive=...)`."""
    for key, asset in made.items():
        if is_function(asset):
            yield from ((key, name, read.archive) for name, read in changes_of(asset).items() if read.archive)


def _is_found(
    own: Mapping[str, DeltaIOManager], manager: DeltaIOManager, archive: dg.AssetKey, table: Table, keeper: str
) -> bool:
    """Whether a table lies where its key says, below the root of a manager."""
    if keeper not in own:
        return False
    return table_ref(own[keeper].location, archive, table) == table_ref(manager.location, archive, Table())
