"""What an asset's definition says: how each input is read, how the result is written, which partitions there are."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse.delta.location import Location
from lakehouse.delta.partition_keys import PartitionKey, Slice, Window
from lakehouse.delta.read_options import Read
from lakehouse.delta.table import Table
from lakehouse.errors import DefinitionError, PartitionColumnError, UnsupportedAnnotationError
from lakehouse.read.changes import Changes
from lakehouse.server.rendezvous import SCRATCH
from lakehouse.spark.table_version import TableRef
from lakehouse.writes.aggregate import Aggregate
from lakehouse.writes.append import Append
from lakehouse.writes.history import History
from lakehouse.writes.merge import Merge
from lakehouse.writes.overwrite import Overwrite
from lakehouse.writes.snapshot import Snapshot
from lakehouse.writes.write import Write

InputKind: TypeAlias = type[Changes] | type[DataFrame]

_READS = ("Changes", "pyspark.sql.DataFrame")
KINDS: tuple[type[Write], ...] = (Append, Overwrite, Merge, Aggregate, History, Snapshot)
_WRITES = (*(kind.__name__ for kind in KINDS), "pyspark.sql.DataFrame")


def input_kind(asset: str, name: str, annotation: Any) -> InputKind:
    """How an input is read: as `Changes`, or as a `DataFrame` at one pinned version.

    Raises:
        UnsupportedAnnotationError: The annotation is neither of them, or is missing.
    """
    if annotation is Changes:
        return Changes
    if _is_frame(annotation):
        return DataFrame
    raise UnsupportedAnnotationError(asset, f"its input '{name}'", _name_of_annotation(annotation), _READS)


def write_kind(asset: str, annotation: Any) -> type[Write]:
    """How the result is written; a plain `DataFrame` is an `Overwrite`.

    Raises:
        UnsupportedAnnotationError: The annotation is not a write, or is missing.
    """
    for kind in KINDS:
        if annotation is kind:
            return kind
    if _is_frame(annotation):
        return Overwrite
    raise UnsupportedAnnotationError(asset, "its result", _name_of_annotation(annotation), _WRITES)


def result_annotation(asset: dg.AssetsDefinition) -> Any:
    """What the function of an asset is annotated to return, whether or not that is a write."""
    return asset.op.output_defs[0].dagster_type.typing_type


def kind_of(asset: dg.AssetsDefinition) -> type[Write]:
    """How the result of an asset is written.

    Raises:
        UnsupportedAnnotationError: The annotation is not a write, or is missing.
    """
    return write_kind(asset.key.to_user_string(), result_annotation(asset))


def writes_nothing(asset: dg.AssetsDefinition) -> bool:
    """Whether the asset is annotated `-> None` or `-> dg.MaterializeResult`: its result goes to no IO manager.

    Its checks do not count.
    """
    outputs = (asset.op.output_def_named(name) for name in asset.keys_by_output_name)
    return all(output.dagster_type.is_nothing for output in outputs) or _returns_no_value(asset)


def _returns_no_value(asset: dg.AssetsDefinition) -> bool:
    """Whether a function is annotated with a `MaterializeResult` without a value, of which Dagster makes `Any`."""
    annotation = getattr(function_of(asset), "__annotations__", dict[str, Any]()).get("return")
    return annotation is dg.MaterializeResult or annotation in ("dg.MaterializeResult", "MaterializeResult")


def changes_of(asset: dg.AssetsDefinition) -> dict[str, Read]:
    """The inputs that are read as `Changes`, and how."""
    return {
        input_.name: Read.from_metadata(input_.metadata or {})
        for input_ in asset.op.input_defs
        if input_.dagster_type.typing_type is Changes
    }


def asset_definitions(definitions: Iterable[Any]) -> Iterator[dg.AssetsDefinition]:
    """The definitions that are materializable assets."""
    for asset in definitions:
        if isinstance(asset, dg.AssetsDefinition) and asset.is_executable:
            yield asset


def tables_of(definitions: Iterable[Any]) -> dict[dg.AssetKey, Table]:
    """What is declared of each table.

    Args:
        definitions: Asset definitions, and the specs of tables that no asset makes.
    """
    return {key: Table.from_metadata(metadata) for asset in definitions for key, metadata in _declarations(asset)}


def partitions_of(definitions: Iterable[Any]) -> dict[dg.AssetKey, dg.PartitionsDefinition[Any] | None]:
    """The partitions of each asset, and of each spec of a table that no asset makes; None if it has none."""
    return {
        spec.key: spec.partitions_def
        for asset in definitions
        for spec in ([asset] if isinstance(asset, dg.AssetSpec) else getattr(asset, "specs", ()))
    }


def _declarations(asset: Any) -> Iterator[tuple[dg.AssetKey, Mapping[str, Any]]]:
    """The keys and the metadata of a definition of any kind: an asset, a spec, a source of Dagster's older kind."""
    match asset:
        case dg.AssetSpec():
            yield asset.key, asset.metadata
        case dg.SourceAsset():
            yield asset.key, asset.raw_metadata
        case _:
            yield from ((spec.key, spec.metadata) for spec in asset.specs)


def manager_keys(definitions: Iterable[Any]) -> dict[dg.AssetKey, str]:
    """The key of the IO manager of each table: Dagster has it read the table wherever it is an input.

    Args:
        definitions: Asset definitions, and the specs of tables that no asset makes.
    """
    listed = list(definitions)
    specs = [spec for spec in listed if isinstance(spec, dg.AssetSpec)]
    read_by = {spec.key: str(spec.metadata.get("dagster/io_manager_key", "io_manager")) for spec in specs}
    read_by |= {source.key: source.get_io_manager_key() for source in listed if isinstance(source, dg.SourceAsset)}
    made = {key: asset for asset in asset_definitions(listed) for key in asset.keys}
    return read_by | {key: asset.get_io_manager_key_for_asset_key(key) for key, asset in made.items()}


def maps_partitions(asset: dg.AssetsDefinition, source: dg.AssetKey) -> bool:
    """Whether a run reads only those of the source's partitions that are mapped to it.

    An asset without partitions reads the whole table, unless it names a mapping. A mapping of all partitions also means
    the whole table, because the set of keys grows and a row of no partition is still in the table.
    """
    mapping = asset.get_partition_mapping_for_dep(source)
    if isinstance(mapping, dg.AllPartitionMapping):
        return False
    return mapping is not None or asset.partitions_def is not None


def is_function(asset: Any) -> TypeGuard[dg.AssetsDefinition]:
    """Whether one function computes the asset. A graph of ops has no function whose annotations say how to read."""
    return (
        isinstance(asset, dg.AssetsDefinition) and asset.is_executable and isinstance(asset.node_def, dg.OpDefinition)
    )


def function_of(asset: dg.AssetsDefinition) -> Any:
    """The function that was decorated to be the asset; None if ops were made without a decorator."""
    return getattr(asset.op.compute_fn, "decorated_fn", None)


def table_ref(root: Location, key: dg.AssetKey, table: Table) -> TableRef:
    """Where an asset's table is: its catalog name, its own address, or its key as a directory below the root.

    Raises:
        DefinitionError: A key that would leave the root, or lies where Spark keeps its own files.
    """
    name = key.to_user_string()
    if table.name is not None:
        return TableRef.in_catalog(name, table.name)
    if table.path is not None:
        return TableRef.at(name, Location(table.path.rstrip("/"), root.options))
    parts = key.path
    if parts[0] == SCRATCH or any(part in ("", ".", "..") or "/" in part or "\\" in part for part in parts):
        raise DefinitionError(
            f"Asset key '{name}' cannot be a directory below {root.address}, where {SCRATCH} belongs to Spark. "
            f"Rename the asset."
        )
    return TableRef.at(name, root.below(name))


def slice_of(asset: str, table: Table, partitions_def: dg.PartitionsDefinition[Any], keys: Iterable[str]) -> Slice:
    """The part of the table that some partitions are.

    Raises:
        PartitionColumnError: The table does not say which column holds them.
    """
    columns = partition_columns(asset, table, partitions_def)
    return Slice(tuple(_partition(partitions_def, columns, key) for key in keys))


def partition_columns(asset: str, table: Table, partitions_def: dg.PartitionsDefinition[Any]) -> dict[str, str]:
    """The table's column for each partition dimension; the one dimension of a plain definition is named ""."""
    declared = table.partition_columns
    if not declared:
        raise PartitionColumnError(asset, "its table does not say by which column. Add Table(partition_by=...).")
    if isinstance(partitions_def, dg.MultiPartitionsDefinition):
        dimensions = [dimension.name for dimension in partitions_def.partitions_defs]
        missing = [name for name in dimensions if name not in declared]
        if missing:
            raise PartitionColumnError(
                asset,
                f"no column is named like its dimension {missing[0]}. "
                f"Table(partition_by=...) must name them: {', '.join(dimensions)}.",
            )
        return {name: name for name in dimensions}
    return {"": declared[0]}


def dimensions_of(partitions_def: dg.PartitionsDefinition[Any]) -> dict[str, dg.PartitionsDefinition[Any]]:
    """The definition of each dimension; the one dimension of a plain definition is named ""."""
    if isinstance(partitions_def, dg.MultiPartitionsDefinition):
        return {dimension.name: dimension.partitions_def for dimension in partitions_def.partitions_defs}
    return {"": partitions_def}


def windows_of(dimension: dg.PartitionsDefinition[Any]) -> Callable[[str], Window] | None:
    """What gives the time that a partition covers; None if the partitions cover none."""
    if not isinstance(dimension, dg.TimeWindowPartitionsDefinition):
        return None

    def window(key: str) -> Window:
        time = dimension.time_window_for_partition_key(key)
        return Window(time.start, time.end)

    return window


def _partition(partitions_def: dg.PartitionsDefinition[Any], columns: dict[str, str], key: str) -> PartitionKey:
    parts: Mapping[str, str] = {"": key}
    if isinstance(partitions_def, dg.MultiPartitionsDefinition):
        parts = partitions_def.get_partition_key_from_str(key).keys_by_dimension
    windows = {name: windows_of(dimension) for name, dimension in dimensions_of(partitions_def).items()}
    return PartitionKey(
        key,
        {columns[name]: part for name, part in parts.items()},
        {columns[name]: window(part) for name, part in parts.items() if (window := windows[name]) is not None},
    )


def _is_frame(annotation: Any) -> bool:
    """Subclasses count because Spark Connect has its own, whose import would add a second to loading a location."""
    return isinstance(annotation, type) and issubclass(annotation, DataFrame)


def _name_of_annotation(annotation: Any) -> str | None:
    """The annotation for a message, with the library of a DataFrame; None if there is none."""
    if annotation is Any or annotation is None:
        return None
    name = getattr(annotation, "__name__", str(annotation))
    return f"{annotation.__module__.split('.')[0]}.{name}" if name == "DataFrame" else name
