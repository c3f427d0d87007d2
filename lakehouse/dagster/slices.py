"""Which part of a table the partitions of an asset are: a column for each dimension, a value or window for each key."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import dagster as dg

from lakehouse.delta.partition_keys import PartitionKey, Slice, Window
from lakehouse.delta.table import Table
from lakehouse.errors import DefinitionError


def slice_of(asset: str, table: Table, partitions_def: dg.PartitionsDefinition[Any], keys: Iterable[str]) -> Slice:
    """The part of the table that some partitions are.

    Raises:
        DefinitionError (PARTITION_COLUMN): The table does not say which column holds them.
    """
    columns = partition_columns(asset, table, partitions_def)
    return Slice(tuple(_partition(partitions_def, columns, key) for key in keys))


def partition_columns(asset: str, table: Table, partitions_def: dg.PartitionsDefinition[Any]) -> dict[str, str]:
    """The table's column for each partition dimension; the one dimension of a plain definition is named ""."""
    declared = table.partition_columns
    if not declared:
        raise DefinitionError.partition_column(
            asset, "its table does not say by which column. Add Table(partition_by=...)."
        )
    if isinstance(partitions_def, dg.MultiPartitionsDefinition):
        dimensions = [dimension.name for dimension in partitions_def.partitions_defs]
        missing = [name for name in dimensions if name not in declared]
        if missing:
            raise DefinitionError.partition_column(
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
        return Window(time.start, time.end, _keyless(time.start, time.end, dimension.fmt))

    return window


def _keyless(start: datetime, end: datetime, fmt: str) -> str | None:
    """The text of the first day in between that is not the key of the partition, nor that of the next one."""
    texts, day = {start.strftime(fmt), end.strftime(fmt)}, start + timedelta(days=1)
    while day < end:
        if (text := day.strftime(fmt)) not in texts:
            return text
        day += timedelta(days=1)
    return None


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
