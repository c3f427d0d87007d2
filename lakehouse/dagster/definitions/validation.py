"""Refuses a definition that cannot work when its code location loads."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import Any

import dagster as dg

from lakehouse.dagster.code.view_texts import texts_of
from lakehouse.dagster.code_location import (
    AssetTable,
    CodeLocation,
    archive_ref,
    function_of,
    input_kind,
    is_function,
    writes_nothing,
)
from lakehouse.dagster.definitions.pools import with_pools, written_ref
from lakehouse.dagster.follow.automation import automate
from lakehouse.dagster.io_manager import code_location_of, managers_of
from lakehouse.dagster.remake import with_each_once
from lakehouse.dagster.slices import partition_columns
from lakehouse.delta.location import Location
from lakehouse.delta.table import Read
from lakehouse.errors import DefinitionError
from lakehouse.errors.base import apart, gathering
from lakehouse.read.asset import PastRows
from lakehouse.read.changes import Changes
from lakehouse.server.versions import refuse_untested
from lakehouse.writes.view import View
from lakehouse.writes.write import refuse_definition, refuse_left_out_rows, refuse_partial_reads


def refuse_lost_archives(code_location: CodeLocation) -> None:
    """Refuses `Read(archive=...)` unless it names an `Append` whose table is where the reading asset looks for it.

    A run looks below the root of the reading asset's own IO manager, at the key of the archive.

    Raises:
        DefinitionError: The definitions have no such asset, it is not an `Append`, or its table is elsewhere.
    """
    for reader, input_name, archive in _archives(code_location):
        where = f"Input '{input_name}' of asset '{reader.name}' names the archive '{archive}'"
        table, root = code_location.tables.get(dg.AssetKey.from_user_string(archive)), reader.root
        if table is None:
            raise DefinitionError(
                f"{where}, and these definitions have no such asset. Correct the name, or add a "
                f"dg.AssetSpec('{archive}') if another code location makes the table."
            )
        if root is not None and table.ref != archive_ref(root, archive):
            raise DefinitionError(
                f"{where}, which a run looks for at {root.below(archive).address}, and its table is "
                f"elsewhere. Give both assets IO managers of one root, and the archive no Table(name=...) or "
                f"Table(path=...)."
            )
        if is_function(table.asset) and table.kind.past is not PastRows.APPENDED:
            raise DefinitionError(
                f"{where}, which is not an Append, so it keeps no feed. Return Append(changes.log()) there, or name "
                f"another asset."
            )


def _archives(code_location: CodeLocation) -> Iterator[tuple[AssetTable, str, str]]:
    """The asset's table, the input and the archive of each `Read(archive=...)`."""
    for table in code_location.tables.values():
        yield from ((table, name, read.archive) for name, read in table.changes.items() if read.archive)


def validate(definitions: dg.Definitions) -> dg.Definitions:
    """The same definitions, once every asset on a `DeltaIOManager` is known to make sense.

    In the result, the writers of one table share a Dagster pool, each asset shows the writers with which it can
    conflict (docs/conflicts.md), and the conditions `automation()` know the tables.

    Raises:
        DefinitionError: A definition that could never work; docs/how-to/definitions.md lists them.
        SetupError (VERSION): This version of Dagster is not tested.
    """
    given = with_each_once(definitions)
    return validate_location(given, code_location_of(given))


def validate_location(definitions: dg.Definitions, code_location: CodeLocation) -> dg.Definitions:
    """What `validate` returns for definitions that list each object once; the same ones, if errors are gathered."""
    refuse_untested("Dagster", dg.__version__)
    for name, manager in managers_of(definitions.resources).items():
        if (misfit := manager.location.misfit()) is not None:
            raise DefinitionError(f"The storage_options of '{name}' do not fit its root: {misfit}. Correct them.")
    _refuse_circles(code_location)
    written = list[AssetTable]()
    for table in code_location.tables.values():
        with apart(table.name):
            if table.asset is not None and _refuse_table(table, table.asset, code_location):
                written.append(table)
    with apart():
        _refuse_targets(definitions, {table.key for table in written})
    with apart():
        _refuse_nested([*written, *(table for table in code_location.tables.values() if table.is_spec)])
    with apart():
        refuse_lost_archives(code_location)
    return automate(with_pools(definitions, code_location), code_location) if gathering() is None else definitions


def _refuse_table(table: AssetTable, asset: dg.AssetsDefinition, code_location: CodeLocation) -> bool:
    """Refuses an asset that can never work. Returns whether a `DeltaIOManager` writes its table."""
    if written_ref(table) is None:
        _refuse_changes(table, asset)
        return False
    _check(table, asset)
    _refuse_other_places(table, asset, code_location)
    if table.declared.readers:
        raise DefinitionError(
            f"Asset '{table.name}' declares readers, which only the spec of a table that another program writes does. "
            f"Register them: lakehouse readers {table.name} --register NAME --limit 14d."
        )
    if table.kind is View:
        _refuse_view(table, asset, code_location)
    return True


def _refuse_changes(table: AssetTable, asset: dg.AssetsDefinition) -> None:
    """Refuses `Changes` if no `DeltaIOManager` writes the asset's table, as no commit would hold the position."""
    name, gathered = " and ".join(key.to_user_string() for key in asset.keys), gathering()
    for input_name in table.changes:
        problem = (
            f"Input '{input_name}' of asset '{name}' reads Changes, but the asset writes no table through a "
            f"DeltaIOManager, in whose commits its position would be"
        )
        if table.root is not None or writes_nothing(asset):
            raise DefinitionError(f"{problem}. Return a write, or annotate the input with DataFrame.")
        if gathered is None or not gathered.hides_more:  # else the manager may be in a file that could not be read
            raise DefinitionError(
                f"{problem}: none of the resources is a DeltaIOManager with the key '{table.manager}'. Add a component "
                f"Lakehouse (dg scaffold defs dagster_delta_lakehouse.Lakehouse lakehouse), or give the DeltaIOManager "
                f"that key, or the asset its key: io_manager_key. A function that writes elsewhere reads a DataFrame."
            )


def _refuse_targets(definitions: dg.Definitions, written: AbstractSet[dg.AssetKey]) -> None:
    """Refuses the definition of an asset as a target, because an asset with a pool is a new object."""
    for schedule in definitions.schedules or []:
        targets = [schedule.target] if isinstance(schedule, dg.ScheduleDefinition) else []
        _refuse_target(f"Schedule '{schedule.name}'", targets, written)
    for sensor in definitions.sensors or []:
        _refuse_target(f"Sensor '{sensor.name}'", sensor.targets, written)


def _refuse_target(what: str, targets: Iterable[Any], written: AbstractSet[dg.AssetKey]) -> None:
    each: list[dg.AssetsDefinition] = [asset for target in targets for asset in target.assets_defs or ()]
    for asset in each:
        if not written.isdisjoint(asset.keys):
            name = asset.key.to_user_string()
            raise DefinitionError(
                f"{what} has the definition of asset '{name}' as its target, and the completed definitions hold "
                f"another object of that key, with its pool. Name the key: target=dg.AssetSelection.assets('{name}')."
            )


def _refuse_inline_checks(asset: dg.AssetsDefinition, name: str) -> None:
    """Refuses checks inside an asset, because Dagster 1.13 drops a check's result that is returned with a write."""
    for check in asset.check_specs:
        raise DefinitionError(
            f"Asset '{name}' declares the check '{check.name}' in its check_specs. Dagster drops the result of a check "
            f"that a function returns beside its table, so the check would never be evaluated. Write it as a function "
            f"of its own: @dg.asset_check(asset=...), whose input is the table."
        )


def _refuse_doubled_inputs(asset: dg.AssetsDefinition, name: str) -> None:
    """Refuses two inputs of one upstream asset: Dagster keeps the last one and does not resolve the other."""
    read = asset.keys_by_input_name
    for lost in (input_name for input_name in asset.op.ins if input_name not in read):
        others = " or ".join(f"'{other}' ('{key.to_user_string()}')" for other, key in read.items())
        raise DefinitionError(
            f"Input '{lost}' of asset '{name}' names the upstream asset of another input, {others}, and Dagster gives "
            f"an upstream asset to one input alone. Take the table once: of an input with Changes, .source is the "
            f"whole table at the version up to which the changes are read."
        )


def _refuse_ranges(table: AssetTable, asset: dg.AssetsDefinition) -> None:
    """Refuses a backfill of several partitions in one run if changes are read: each partition has its own position."""
    policy = asset.backfill_policy
    if policy is not None and policy.max_partitions_per_run != 1 and table.changes:
        raise DefinitionError(
            f"Asset '{table.name}' reads Changes, and each of its partitions has a position of its own, but its "
            f"backfill policy puts several partitions into one run. Leave backfill_policy out, or give "
            f"dg.BackfillPolicy.multi_run()."
        )


def _refuse_full(table: AssetTable) -> None:
    """Refuses `refresh="full"` of a table whose rows cannot be computed again; a manager's own policy may have it."""
    if table.declared.policy.refresh != "full":
        return
    if table.kind.past in (PastRows.APPENDED, PastRows.KEPT):
        raise DefinitionError(
            f"Asset '{table.name}' has the policy refresh='full', and its {table.kind.__name__} keeps the rows of "
            f"earlier runs, so its table cannot be computed again. Leave the word out."
        )
    for name, read in table.changes.items():
        if not read.is_whole:
            raise DefinitionError(
                f"Asset '{table.name}' has the policy refresh='full', and its input '{name}' leaves changes out "
                f"(Read(start=..., exclude_operations=...)), so what is left out would come in. Leave one of them out."
            )


def _refuse_expectations(table: AssetTable) -> None:
    """Refuses expectations that no run could follow, as far as their texts show that."""
    if not table.declared.expectations:
        return
    from lakehouse.views.sql.conditions import refuse_conditions  # it imports sqlglot

    refuse_conditions(table.name, table.declared.expectations)
    refuse_left_out_rows(table.name, table.declared, table.kind)


def _refuse_circles(code_location: CodeLocation) -> None:
    """Refuses tables that read each other: Dagster could not say which comes first."""
    tables = {table.name: table for table in code_location.tables.values()}
    try:
        TopologicalSorter({name: table.upstream - {name} for name, table in tables.items()}).prepare()
    except CycleError as error:
        first, *rest = reversed(error.args[1])
        circle = ", which reads ".join(f"'{name}'" for name in rest)
        raise DefinitionError(
            f"Asset '{first}' reads {circle}, so none of them could be made first. Let one of them read something else."
        ) from None


def _refuse_nested(tables: Iterable[AssetTable]) -> None:
    """Refuses a table inside another's directory, because the VACUUM of the outer table would delete its files."""
    paths = ((table.declared.external_path or (table.ref and table.ref.path), table.name) for table in tables)
    directories = {str(PurePosixPath(Location(path).place)): name for path, name in paths if path is not None}
    for path, name in directories.items():
        outer = next((directories[str(p)] for p in PurePosixPath(path).parents if str(p) in directories), None)
        if outer is not None:
            raise DefinitionError(
                f"The table of asset '{name}' would be inside that of '{outer}', whose VACUUM would remove its files. "
                f"Rename one of them, so that neither key is the beginning of the other."
            )


def _check(table: AssetTable, asset: dg.AssetsDefinition) -> None:
    name, declared = table.name, table.declared
    if not table.stands_alone:
        raise DefinitionError(
            f"Asset '{name}' is one of several in a multi_asset; give each table an @asset of its own."
        )
    _refuse_doubled_inputs(asset, name)
    kind = table.kind
    _refuse_inline_checks(asset, name)
    refuse_partial_reads(kind, table.declaration)
    refuse_definition(kind, table.declaration)
    _refuse_expectations(table)
    _refuse_full(table)
    if asset.partitions_def is not None:
        partition_columns(name, declared, asset.partitions_def)
        _refuse_ranges(table, asset)
    for input_ in asset.op.input_defs:
        if input_.dagster_type.is_nothing:
            continue
        is_read = input_kind(name, input_.name, input_.dagster_type.typing_type)
        if len(Read.from_metadata(input_.metadata or {})) and is_read is not Changes:
            raise DefinitionError(
                f"Input '{input_.name}' of asset '{name}' has Read(...) options but is not annotated with Changes, so "
                f"nothing would follow them. Annotate it with Changes, or remove them."
            )


def _refuse_other_places(table: AssetTable, asset: dg.AssetsDefinition, code_location: CodeLocation) -> None:
    """Refuses an input that is read at a place other than its table's own, which is where a sensor looks."""
    for input_ in asset.op.input_defs:
        key, manager = table.inputs.get(input_.name), input_.input_manager_key
        root = None if manager is None else code_location.root_of(manager)
        if key is None or root is None or root == code_location[key].root:
            continue
        source = key.to_user_string()
        raise DefinitionError(
            f"Input '{input_.name}' of asset '{table.name}' has input_manager_key='{manager}', under whose root "
            f"{root.address} the table '{source}' is another than the one that the sensor, the checks and the commands "
            f"know. Name the manager where the table is defined: "
            f"dg.AssetSpec('{source}').with_io_manager_key('{manager}')."
        )


def _refuse_view(table: AssetTable, asset: dg.AssetsDefinition, code_location: CodeLocation) -> None:
    """Refuses a view whose text shows that no run could follow it. A text that is not constant waits for the run."""
    from lakehouse.views.input_refusals import (  # only where there is a view, because it imports sqlglot
        refuse_other_inputs,
        refuse_other_parameters,
        refuse_split_keys,
        refuse_undefined,
    )

    inputs = [input_.name for input_ in asset.op.input_defs if not input_.dagster_type.is_nothing]
    for known_text in texts_of(function_of(asset)):
        refuse_other_inputs(known_text.text, inputs, table.name)
        if table.declared.asks_for_unique_keys and table.declared.key_columns and known_text.text.touch:
            refuse_split_keys(known_text.text, table.declared.key_columns, table.name)
        if known_text.has_known_args:
            refuse_other_parameters(known_text.text, table.name)
        for name, input_name in known_text.text.inputs.items():
            source, gathered = table.inputs[input_name], gathering()
            if source not in code_location.tables and (gathered is None or not gathered.hides(source.to_user_string())):
                others = (key for key in code_location.tables if ".".join(key.path).lower() == name)
                alike = next(others, None)
                refuse_undefined(known_text.text, name, table.name, None if alike is None else alike.to_user_string())
