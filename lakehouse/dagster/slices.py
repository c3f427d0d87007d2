"""Which part of a table belongs to partitions of an asset, and which partitions a row belongs to, by the log."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Self

import dagster as dg

from lakehouse.delta.log import Head, Log
from lakehouse.delta.partition_keys import Inverse, PartitionKey, Slice, Window, inverse, no_value
from lakehouse.delta.table import Table
from lakehouse.delta.text import fold
from lakehouse.errors import DefinitionError
from lakehouse.spark.types import as_struct, partition_types


def slice_of(asset: str, table: Table, partitions_def: dg.PartitionsDefinition[Any], keys: Iterable[str]) -> Slice:
    """The part of the table that belongs to some partitions.

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
    """A function from a partition's key to the time that it covers; None if the partitions are not of time."""
    if not isinstance(dimension, dg.TimeWindowPartitionsDefinition):
        return None

    def window(key: str) -> Window:
        time = dimension.time_window_for_partition_key(key)
        return Window(time.start, time.end, _keyless(time.start, time.end, dimension.fmt))

    return window


def _keyless(start: datetime, end: datetime, fmt: str) -> str | None:
    """The text of the first day in between that is neither the key of the partition nor that of the next one."""
    texts, day = {start.strftime(fmt), end.strftime(fmt)}, start + timedelta(days=1)
    while day < end:
        if (text := day.strftime(fmt)) not in texts:
            return text
        day += timedelta(days=1)
    return None


@dataclass(frozen=True, slots=True)
class KeysOfRows:
    """Finds the partitions whose runs read or write a row: the inverse of the predicate of `slice_of`."""

    dimensions: Mapping[str, tuple[str, Inverse]]

    @classmethod
    def of(cls, definition: dg.PartitionsDefinition[Any], columns: Mapping[str, str], types: Mapping[str, str]) -> Self:
        """The finder for a partitions definition; built once, because it looks at every key.

        Args:
            definition: How the table is partitioned.
            columns: The column of each dimension.
            types: The type of each column, as `DataType.simpleString()` gives it, by the column's name in lower case.

        Raises:
            WriteError: The partition keys are not values of their column, so every run is refused.
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
        """The partitions that a row belongs to: usually one, none if the row is outside all of them."""
        by_lower_case = {name.lower(): value for name, value in values.items()}
        parts: dict[str, Sequence[str]] = {
            name: finder.of(by_lower_case.get(column)) for name, (column, finder) in self.dimensions.items()
        }
        if parts.keys() == {""}:
            yield from parts[""]
            return
        for combination in product(*parts.values()):
            yield dg.MultiPartitionKey(dict(zip(parts, combination, strict=True)))


def keys_of_rows(
    name: str, table: Table, definition: dg.PartitionsDefinition[Any] | None, log: Log, head: Head
) -> KeysOfRows | None:
    """What finds the partitions of a table's rows by its log; None if it has none, or the log does not show them.

    Raises:
        WriteError: The partition keys are not values of their column, so every run is refused.
    """
    declared = fold(table.partition_columns)
    # With column mapping, the log has other names for the columns.
    if definition is None or not declared or not declared <= fold(head.partition_columns) or head.maps_columns:
        return None
    schema = log.file_schema(head.version)
    if schema is None:
        return None
    return KeysOfRows.of(definition, partition_columns(name, table, definition), partition_types(as_struct(schema)))


def why_no_rows(
    name: str,
    definition: dg.PartitionsDefinition[Any],
    rows: KeysOfRows | None,
    values: Sequence[Mapping[str, str | None]],
) -> str | None:
    """Why no partition has a row of a table, as a clause; None if one has, or if the table has no rows."""
    keys = definition.get_partition_keys()
    if rows is None or not keys or not values or any(True for each in values for _ in rows.of_row(each)):
        return None
    listed = sorted(", ".join(f"{column} = {value}" for column, value in each.items()) for each in values)
    return (
        f"no row of {name} is in a partition that Dagster knows: its files have {listed[0]} to {listed[-1]}, and the "
        f"keys are {keys[0]} to {keys[-1]}"
    )


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
