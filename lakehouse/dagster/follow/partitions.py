"""Which partitions of an asset the rows of a source map to, by the partition values in the source's log."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self, TypeAlias

import dagster as dg

from lakehouse.dagster.code_location import AssetTable, maps_partitions
from lakehouse.dagster.slices import dimensions_of, partition_columns, windows_of
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.log import Head
from lakehouse.delta.partition_keys import Inverse, Slice, inverse, no_value
from lakehouse.delta.table import Table
from lakehouse.delta.text import fold
from lakehouse.spark.types import as_struct, partition_types


@dataclass(frozen=True, slots=True)
class KeysOfRows:
    """The partitions whose run reads or writes a row: the inverse of the predicate of `slice_of`.

    Args:
        dimensions: What finds the part of the key, by the name of the dimension, and the column in lower case.
    """

    dimensions: Mapping[str, tuple[str, Inverse]]

    @classmethod
    def of(cls, definition: dg.PartitionsDefinition[Any], columns: Mapping[str, str], types: Mapping[str, str]) -> Self:
        """What finds the partitions of a definition; built once, because it looks at every key.

        Args:
            definition: How the table is partitioned.
            columns: The column of each dimension.
            types: The type of each column, as `DataType.simpleString()` says it, by its name in lower case.

        Raises:
            WriteError: No partition key is a value of its column, so that every run is refused.
        """
        dimensions = dict[str, tuple[str, Inverse]]()
        for name, dimension in dimensions_of(definition).items():
            column = columns[name].lower()
            try:
                finder = inverse(dimension.get_partition_keys(), windows_of(dimension), types[column])
            except ValueError as error:
                raise no_value(str(error), columns[name], types[column]) from error
            dimensions[name] = column, finder
        return cls(dimensions)

    def of_rows(self, combinations: Iterable[Mapping[str, str | None]]) -> frozenset[str]:
        """The partitions of several rows."""
        return frozenset(key for values in combinations for key in self.of_row(values))

    def of_row(self, values: Mapping[str, str | None]) -> Iterator[str]:
        """The partitions that a row belongs to; mostly one, none if it is outside of all."""
        by_lower_case = {name.lower(): value for name, value in values.items()}
        parts: dict[str, Sequence[str]] = {
            name: finder.of(by_lower_case.get(column)) for name, (column, finder) in self.dimensions.items()
        }
        if parts.keys() == {""}:
            yield from parts[""]
            return
        for combination in product(*parts.values()):
            yield dg.MultiPartitionKey(dict(zip(parts, combination, strict=True)))


PartitionsDef: TypeAlias = dg.PartitionsDefinition[Any]


@dataclass(frozen=True, slots=True)
class SourcePartitions:
    """How a source's rows map to the partitions of one asset.

    Args:
        own: The asset's partitions.
        log: The source's log.
        keys: The partition of the source that rows with some values belong to, and the asset's partitions of each;
            None: each row may be any partition's.
        note: What is worth saying of it, as a sentence.
    """

    own: frozenset[str]
    log: FileLog
    keys: "_Mapped | None" = None
    note: str = ""

    @classmethod
    def of(
        cls,
        asset: dg.AssetsDefinition,
        own: frozenset[str],
        source: AssetTable,
        log: FileLog,
        head: Head,
    ) -> Self:
        """As Dagster maps them, where the source's files are partitioned by the columns that it declares."""
        own_def, source_def = asset.partitions_def, source.partitions_def
        assert own_def is not None
        if not maps_partitions(asset, source.key):  # each run reads the whole source, rows outside its partitions too
            return cls(own, log)
        rows = keys_of_rows(source, log, head)
        if source_def is None or rows is None:
            return cls(
                own,
                log,
                note=f"Its log does not say to which partitions the rows of {source.name} belong, so each of them may "
                f"be concerned.",
            )
        mapping = asset.get_partition_mapping_for_dep(source.key) or _usual(own_def, source_def)
        columns = fold(head.partition_columns)
        return cls(own, log, _Mapped(rows, _mapping_by_key(mapping, source_def, own_def), columns))

    def present(self) -> frozenset[str]:
        """The asset's partitions that rows of the source map to now."""
        return self.own if self.keys is None else self.keys.of(self.log.partition_values()) & self.own

    def changed_by(self, commits: Iterable[Commit]) -> Mapping[str, Sequence[Commit]] | None:
        """The commits that may have changed rows of each partition, in their order; None if any may have, of any."""
        if self.keys is None:
            return None
        changed: dict[str, list[Commit]] = defaultdict(list)
        for commit in commits:
            values = self.log.partition_values_in(commit.version)
            if values is not None and any(fold(each) != self.keys.columns for each in values):
                values = None  # the table has renamed its columns since, or unmapped them
            for partition in self.own if values is None else self.keys.of(values):
                changed[partition].append(commit)
        return changed


@dataclass(frozen=True, slots=True)
class _Mapped:
    """The asset's partitions of each of the source's, and how the source's are found in its log."""

    rows: KeysOfRows
    mapped: Mapping[str, frozenset[str]]
    columns: frozenset[str]

    def of(self, combinations: Iterable[Mapping[str, str | None]]) -> frozenset[str]:
        return frozenset(own for key in self.rows.of_rows(combinations) for own in self.mapped.get(key, ()))


def names_partitions(table: Table, head: Head) -> bool:
    """Whether a table's log has the values of the columns that it declares; of mapped columns it has other names."""
    declared = fold(table.partition_columns)
    return bool(declared) and declared <= fold(head.partition_columns) and not head.maps_columns


def keys_of_rows(table: AssetTable, log: FileLog, head: Head) -> KeysOfRows | None:
    """What finds the partitions of a table's rows in its log; None if there are none, or the log does not name them.

    Raises:
        WriteError: No partition key is a value of its column, so that every run is refused.
    """
    definition = table.partitions_def
    if definition is None or not names_partitions(table.declared, head):
        return None
    schema = log.file_schema(head.version)
    if schema is None:
        return None
    columns = partition_columns(table.name, table.declared, definition)
    return KeysOfRows.of(definition, columns, partition_types(as_struct(schema)))


def _usual(own: PartitionsDef, source: PartitionsDef) -> dg.PartitionMapping:
    """The mapping that Dagster uses if none is named."""
    multi = isinstance(own, dg.MultiPartitionsDefinition) != isinstance(source, dg.MultiPartitionsDefinition)
    if multi:
        return dg.MultiToSingleDimensionPartitionMapping()
    if all(isinstance(definition, dg.TimeWindowPartitionsDefinition) for definition in (own, source)):
        return dg.TimeWindowPartitionMapping()
    return dg.IdentityPartitionMapping()


def _mapping_by_key(
    mapping: dg.PartitionMapping, source: PartitionsDef, own: PartitionsDef
) -> Mapping[str, frozenset[str]]:
    """The asset's partitions of each of the source's; not by Dagster if they are equal: it takes a millisecond each."""
    keys = source.get_partition_keys()
    if source == own and mapping in (dg.IdentityPartitionMapping(), dg.TimeWindowPartitionMapping()):
        return {key: frozenset((key,)) for key in keys}
    return {key: _downstream(mapping, key, source, own) for key in keys}


def _downstream(mapping: dg.PartitionMapping, key: str, source: PartitionsDef, own: PartitionsDef) -> frozenset[str]:
    subset = source.subset_with_partition_keys([key])
    return frozenset(mapping.get_downstream_partitions_for_partitions(subset, source, own).get_partition_keys())


def upstream_keys(
    asset: dg.AssetsDefinition, source: dg.AssetKey, source_def: PartitionsDef, partition: str | None
) -> list[str]:
    """The partitions of a source that Dagster maps to a run.

    Args:
        asset: The asset.
        source: The source's key.
        source_def: Its partitions.
        partition: The partition of the run; None if the asset has none.
    """
    own_def, mapping = asset.partitions_def, asset.get_partition_mapping_for_dep(source)
    if own_def is None or partition is None:
        own_def, own = None, None
        mapping = mapping or dg.AllPartitionMapping()
    else:
        own = own_def.subset_with_partition_keys([partition])
        mapping = mapping or _usual(own_def, source_def)
    mapped = mapping.get_upstream_mapped_partitions_result_for_partitions(own, own_def, source_def)
    return list(mapped.partitions_subset.get_partition_keys())


def slice_read(asset: dg.AssetsDefinition, source: AssetTable, partition: str | None) -> Slice | None:
    """The partitions of a source that a run reads; None if it reads all of the source.

    Args:
        asset: The asset that reads.
        source: The source.
        partition: The partition of the run; None if the asset has none.
    """
    definition = source.partitions_def
    if definition is None or not source.declared.partition_columns or not maps_partitions(asset, source.key):
        return None
    return source.slice(upstream_keys(asset, source.key, definition, partition))
