"""Which partitions of an asset the rows of a source map to, by the partition values in the source's log."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import dagster as dg

from lakehouse.dagster.code_location import AssetTable, maps_partitions
from lakehouse.dagster.slices import KeysOfRows, keys_of_rows, why_no_rows
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.log import Head
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.text import fold

PartitionsDef: TypeAlias = dg.PartitionsDefinition[Any]


@dataclass(frozen=True, slots=True)
class SourcePartitions:
    """How a source's rows map to the partitions of one asset.

    Args:
        own: The asset's partitions.
        log: The source's log.
        keys: The partition of the source that rows with some values belong to, and the asset's partitions for each;
            None: each row may belong to any partition.
        note: What is worth reporting about it, as a sentence.
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
        """The mapping of Dagster, if the source's files are partitioned by the columns that it declares."""
        own_def, source_def = asset.partitions_def, source.partitions_def
        assert own_def is not None
        if not maps_partitions(asset, source.key):  # each run reads the whole source, rows outside its partitions too
            return cls(own, log)
        rows = keys_of_rows(source.name, source.declared, source_def, log, head)
        if source_def is None or rows is None:
            return cls(
                own,
                log,
                note=f"Its log does not say to which partitions the rows of {source.name} belong, so each of them may "
                f"be concerned.",
            )
        mapping = asset.get_partition_mapping_for_dep(source.key) or _usual(own_def, source_def)
        columns = fold(head.partition_columns)
        mapped = _mapping_by_key(mapping, source_def, own_def)
        return cls(own, log, _Mapped(rows, mapped, columns, _is_one_to_one(mapping, source_def, own_def)))

    def why_no_rows(self, source: AssetTable) -> str | None:
        """Why no run reads a row of the source, as a clause; None if one does, or may."""
        if self.keys is None or source.partitions_def is None:
            return None
        return why_no_rows(source.name, source.partitions_def, self.keys.rows, self.log.partition_values())

    def present(self) -> frozenset[str]:
        """The asset's partitions that rows of the source map to now."""
        return self.own if self.keys is None else self.keys.of(self.log.partition_values()) & self.own

    def slice(self, source: AssetTable, partition: str) -> Slice | None:
        """The part of the source that maps to one of the asset's partitions; None if time cannot change which it is."""
        if self.keys is None or self.keys.is_one_to_one:
            return None
        return source.slice(self.keys.sources.get(partition, ()))

    def changed_by(self, commits: Iterable[Commit]) -> Mapping[str, Sequence[Commit]] | None:
        """The commits that may have changed rows of each partition, in order; None if any may have changed any."""
        if self.keys is None:
            return None
        changed: dict[str, list[Commit]] = defaultdict(list)
        for commit in commits:
            # A change of the columns concerns the rows of all partitions.
            values = None if commit.is_quiet else self.log.partition_values_in(commit.version)
            if values is not None and any(fold(each) != self.keys.columns for each in values):
                values = None  # the table has renamed its columns since, or unmapped them
            for partition in self.own if values is None else self.keys.of(values):
                changed[partition].append(commit)
        return changed


@dataclass(frozen=True)
class _Mapped:
    """The asset's partitions for each partition of the source, and how the source's are found in its log."""

    rows: KeysOfRows
    mapped: Mapping[str, frozenset[str]]
    columns: frozenset[str]
    is_one_to_one: bool

    @cached_property
    def sources(self) -> Mapping[str, Sequence[str]]:
        """The source's partitions for each of the asset's."""
        sources: dict[str, list[str]] = defaultdict(list)
        for key, every in self.mapped.items():
            for own in every:
                sources[own].append(key)
        return sources

    def of(self, combinations: Iterable[Mapping[str, str | None]]) -> frozenset[str]:
        return frozenset(own for key in self.rows.of_rows(combinations) for own in self.mapped.get(key, ()))


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
    """The asset's partitions for each of the source's. If both are equal, not by Dagster: it needs 1 ms for each.

    Of days that read hours, the hours are found by the day, because there are fewer days.
    """
    keys, own_keys = source.get_partition_keys(), own.get_partition_keys()
    if _is_one_to_one(mapping, source, own):
        return {key: frozenset((key,)) for key in keys}
    if not isinstance(mapping, dg.TimeWindowPartitionMapping) or len(own_keys) >= len(keys):
        return {key: _downstream(mapping, key, source, own) for key in keys}
    by_key: dict[str, set[str]] = defaultdict(set)
    for own_key in own_keys:
        for key in _upstream(mapping, own_key, source, own):
            by_key[key].add(own_key)
    return {key: frozenset(by_key.get(key, ())) for key in keys}


def _is_one_to_one(mapping: dg.PartitionMapping, source: PartitionsDef, own: PartitionsDef) -> bool:
    return source == own and mapping in (dg.IdentityPartitionMapping(), dg.TimeWindowPartitionMapping())


def _downstream(mapping: dg.PartitionMapping, key: str, source: PartitionsDef, own: PartitionsDef) -> frozenset[str]:
    subset = source.subset_with_partition_keys([key])
    return frozenset(mapping.get_downstream_partitions_for_partitions(subset, source, own).get_partition_keys())


def _upstream(
    mapping: dg.PartitionMapping, key: str | None, source: PartitionsDef, own: PartitionsDef | None
) -> list[str]:
    """The source's partitions that map to one of the asset's; without partitions, to the asset."""
    subset = None if own is None or key is None else own.subset_with_partition_keys([key])
    result = mapping.get_upstream_mapped_partitions_result_for_partitions(subset, own, source)
    return list(result.partitions_subset.get_partition_keys())


def upstream_keys(
    asset: dg.AssetsDefinition, source: dg.AssetKey, source_def: PartitionsDef, partition: str | None
) -> list[str]:
    """The partitions of a source that Dagster maps to a run."""
    own_def, mapping = asset.partitions_def, asset.get_partition_mapping_for_dep(source)
    if own_def is None or partition is None:
        return _upstream(mapping or dg.AllPartitionMapping(), None, source_def, None)
    return _upstream(mapping or _usual(own_def, source_def), partition, source_def, own_def)


def slice_read(asset: dg.AssetsDefinition, source: AssetTable, partition: str | None) -> Slice | None:
    """The partitions of a source that a run reads; None if it reads all of the source."""
    definition = source.partitions_def
    if definition is None or not source.declared.partition_columns or not maps_partitions(asset, source.key):
        return None
    return source.slice(upstream_keys(asset, source.key, definition, partition))
