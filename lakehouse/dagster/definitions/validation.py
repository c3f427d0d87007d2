"""Refuses a definition that cannot work when its code location loads."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

import dagster as dg

from lakehouse.dagster.code_location import (
    asset_definitions,
    changes_of,
    input_kind,
    is_function,
    kind_of,
    manager_keys,
    partition_columns,
    table_ref,
    tables_of,
)
from lakehouse.dagster.definitions.pools import manager_of, with_pools
from lakehouse.dagster.follow.automation import automate
from lakehouse.dagster.io_manager import DeltaIOManager, managers_of
from lakehouse.delta.location import Location
from lakehouse.delta.read_options import Read
from lakehouse.delta.table import Table
from lakehouse.errors import DefinitionError, MissingKeyError
from lakehouse.read.asset import PastRows
from lakehouse.read.changes import Changes
from lakehouse.server.versions import refuse_untested
from lakehouse.spark.table_version import TableRef
from lakehouse.writes.write import Declaration


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
        if writer is not None and is_function(writer) and kind_of(writer).past is not PastRows.APPENDED:
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


def validate(definitions: dg.Definitions) -> dg.Definitions:
    """The same definitions, once every asset on a `DeltaIOManager` is known to make sense.

    In the result, the writers of one table share a Dagster pool, each asset shows the writers with which it can
    conflict (docs/conflicts.md), and the conditions `automation()` know the tables.

    Raises:
        DefinitionError: A definition that could never work; docs/how-to/definitions.md lists them.
        VersionError: This version of Dagster is not tested.
    """
    refuse_untested("Dagster", dg.__version__)
    for name, manager in managers_of(definitions.resources).items():
        if (misfit := manager.location.misfit()) is not None:
            raise DefinitionError(f"The storage_options of '{name}' do not fit its root: {misfit}. Correct them.")
    refs: list[TableRef] = []
    for asset in asset_definitions(definitions.assets or []):
        for key in asset.keys:
            manager = manager_of(definitions, asset, key)
            if manager is not None:
                refs.append(_check(asset, key, manager.location))
            elif is_function(asset):
                _refuse_changes(asset)
    _refuse_nested([*refs, *_of_specs(definitions)])
    refuse_lost_archives(definitions)
    return automate(with_pools(definitions))


def _of_specs(definitions: dg.Definitions) -> Iterator[TableRef]:
    """The tables that no asset of the location makes."""
    specs = [spec for spec in definitions.assets or [] if isinstance(spec, dg.AssetSpec)]
    keys, own = manager_keys(specs), managers_of(definitions.resources)
    for spec in specs:
        manager = own.get(keys[spec.key])
        if manager is not None:
            yield table_ref(manager.location, spec.key, Table.from_metadata(spec.metadata))


def _refuse_changes(asset: dg.AssetsDefinition) -> None:
    """Refuses `Changes` if the asset writes no table of ours, because no commit would hold the position."""
    name = " and ".join(key.to_user_string() for key in asset.keys)
    for input_name in changes_of(asset):
        raise DefinitionError(
            f"Input '{input_name}' of asset '{name}' is annotated with Changes, but the asset writes no table through "
            f"a DeltaIOManager, in whose commits its position would be. Annotate it with DataFrame, or let the asset "
            f"return a write."
        )


def _refuse_inline_checks(asset: dg.AssetsDefinition, name: str) -> None:
    """Refuses checks inside an asset, because Dagster 1.13 drops a check's result that is returned beside a write."""
    for check in asset.check_specs:
        raise DefinitionError(
            f"Asset '{name}' declares the check '{check.name}' in its check_specs. Dagster drops the result of a check "
            f"that a function returns beside its table, so the check would never be evaluated. Write it as a function "
            f"of its own: @dg.asset_check(asset=...), whose input is the table."
        )


def _refuse_doubled_inputs(asset: dg.AssetsDefinition, name: str) -> None:
    """Refuses two inputs of one upstream asset: Dagster keeps the last one and resolves the other by nothing."""
    read = asset.keys_by_input_name
    for lost in (input_name for input_name in asset.op.ins if input_name not in read):
        others = " or ".join(f"'{other}' ('{key.to_user_string()}')" for other, key in read.items())
        raise DefinitionError(
            f"Input '{lost}' of asset '{name}' names the upstream asset of another input, {others}, and Dagster gives "
            f"an upstream asset to one input alone. Take the table once: of an input with Changes, .source is the "
            f"whole table at the version up to which the changes are read."
        )


def _refuse_ranges(asset: dg.AssetsDefinition, name: str) -> None:
    """Refuses a backfill of several partitions in one run if changes are read: each partition has its own position."""
    policy = asset.backfill_policy
    if policy is not None and policy.max_partitions_per_run != 1 and changes_of(asset):
        raise DefinitionError(
            f"Asset '{name}' reads Changes, and each of its partitions has a position of its own, but its backfill "
            f"policy puts several partitions into one run. Leave backfill_policy out, or give "
            f"dg.BackfillPolicy.multi_run()."
        )


def _refuse_nested(refs: Iterable[TableRef]) -> None:
    """Refuses a table inside another's directory, because the VACUUM of the outer table would delete its files."""
    directories = {str(PurePosixPath(ref.path)): ref.name for ref in refs if ref.path is not None}
    for path, name in directories.items():
        outer = next((directories[str(p)] for p in PurePosixPath(path).parents if str(p) in directories), None)
        if outer is not None:
            raise DefinitionError(
                f"The table of asset '{name}' would be inside that of '{outer}', whose VACUUM would remove its files. "
                f"Rename one of them, so that neither key is the beginning of the other."
            )


def _check(asset: dg.AssetsDefinition, key: dg.AssetKey, root: Location) -> TableRef:
    name = key.to_user_string()
    table = Table.from_metadata(asset.specs_by_key[key].metadata)
    ref = table_ref(root, key, table)
    if len(list(asset.keys)) > 1:
        raise DefinitionError(
            f"Asset '{name}' is one of several in a multi_asset; give each table an @asset of its own."
        )
    _refuse_doubled_inputs(asset, name)
    kind = kind_of(asset)
    _refuse_inline_checks(asset, name)
    kind.refuse(Declaration(name, table, asset.partitions_def is not None, changes_of(asset)))
    if kind.needs_key and not table.key_columns:
        raise MissingKeyError(name, kind.__name__)
    if asset.partitions_def is not None:
        partition_columns(name, table, asset.partitions_def)
        _refuse_ranges(asset, name)
    for input_ in asset.op.input_defs:
        if input_.dagster_type.is_nothing:
            continue
        is_read = input_kind(name, input_.name, input_.dagster_type.typing_type)
        if len(Read.from_metadata(input_.metadata or {})) and is_read is not Changes:
            raise DefinitionError(
                f"Input '{input_.name}' of asset '{name}' has Read(...) options but is not annotated with Changes, so "
                f"nothing would follow them. Annotate it with Changes, or remove them."
            )
    return ref
