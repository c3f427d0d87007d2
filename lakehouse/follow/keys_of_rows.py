"""Which partitions a table's rows belong to, by the values of their columns in its log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import dagster as dg

from lakehouse.dagster.code_location import dimensions_of, windows_of
from lakehouse.sql.extents import Inverse, inverse
from lakehouse.sql.partitions import no_value


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
        """The partitions that a row belongs to; mostly one, none if it is outside of all.

        Args:
            values: Those of the partition columns, as Delta's log writes them.
        """
        by_lower_case = {name.lower(): value for name, value in values.items()}
        parts: dict[str, Sequence[str]] = {
            name: finder.of(by_lower_case.get(column)) for name, (column, finder) in self.dimensions.items()
        }
        if parts.keys() == {""}:
            yield from parts[""]
            return
        for combination in product(*parts.values()):
            yield dg.MultiPartitionKey(dict(zip(parts, combination, strict=True)))
