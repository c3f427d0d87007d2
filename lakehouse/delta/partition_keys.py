"""A run's partitions as a literal predicate on the table's columns.

Literal, because Delta prunes files by literals and its conflict check looks at literals. A join on the partition column
defeats both (tests/upstream).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from lakehouse.delta.extents import Bounds, Extent, OneValue, Value, Window, extent, in_time, is_whole_number
from lakehouse.delta.text import literal, quote
from lakehouse.errors import WriteError

_SHORTEST_DAY = timedelta(hours=23)


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One partition: its key, and for each column the text and, if it has one, the time window."""

    key: str
    values: Mapping[str, str]
    windows: Mapping[str, Window]


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a table that a run writes or reads: its partitions, and nothing else."""

    partitions: tuple[PartitionKey, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(partition.key for partition in self.partitions)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.partitions[0].values) if self.partitions else ()

    def predicate(self, types: Mapping[str, str], prefix: str = "") -> str:
        """The SQL predicate that selects the slice.

        Args:
            types: The type of each column, as `DataType.simpleString()` says it; case does not matter in names.
            prefix: What stands before each column name ("t." for example).

        Raises:
            WriteError: A key that is not a value of its column's type, a window finer than the values of its column, or
                a window of several days whose key is the value of one of them.
        """
        if not self.partitions:
            return "FALSE"
        by_name = {column.lower(): kind for column, kind in types.items()}
        types = {column: by_name[column.lower()] for partition in self.partitions for column in partition.values}
        for partition in self.partitions:
            _check_windows(partition, types)
        extents = [_extents(partition, types) for partition in self.partitions]
        if len(self.columns) == 1:
            (column,) = self.columns
            values = {_literal(each.value) for of in extents if isinstance(each := of[column], OneValue)}
            if values:
                return f"{prefix}{quote(column)} IN ({', '.join(sorted(values))})"
            ranges = [each for of in extents if isinstance(each := of[column], Bounds)]
            extents = [{column: joined} for joined in _join(ranges)]
        alternatives = sorted({" AND ".join(_terms(each, prefix)) for each in extents})
        return " OR ".join(f"({alternative})" for alternative in alternatives)


def _extents(partition: PartitionKey, types: Mapping[str, str]) -> dict[str, Extent]:
    """What a partition is of each column."""
    extents = dict[str, Extent]()
    for column, text in partition.values.items():
        try:
            extents[column] = extent(text, partition.windows.get(column), types[column])
        except ValueError as error:
            raise no_value(text, column, types[column]) from error
    return extents


def no_value(text: str, column: str, column_type: str) -> WriteError:
    """The refusal of a partition key that no row can have."""
    return WriteError(
        f"Partition key {text!r} is no value of column {column}, which is a {column_type}.",
        "Nothing was written. Partition by strings, integers, dates, booleans or, of time partitions, timestamps.",
    )


def _terms(extents: Mapping[str, Extent], prefix: str) -> Iterable[str]:
    for column, each in extents.items():
        name = prefix + quote(column)
        match each:
            case OneValue(value):
                yield f"{name} = {_literal(value)}"
            case Bounds(start, end):
                yield f"{name} >= {_literal(start)} AND {name} < {_literal(end)}"
            case _:
                assert_never(each)


def _literal(value: Value) -> str:
    has_no_zone = isinstance(value, datetime) and value.tzinfo is None
    return literal(value, "timestamp_ntz" if has_no_zone else "")


def _join(ranges: Iterable[Bounds]) -> list[Bounds]:
    """Ranges that touch, as one, so that a year of days is one range and not 365."""
    joined = list[Bounds]()
    for each in sorted(ranges, key=lambda bounds: in_time(bounds.start)):
        if joined and in_time(each.start) <= in_time(joined[-1].end):
            joined[-1] = Bounds(joined[-1].start, max(joined[-1].end, each.end, key=in_time))
        else:
            joined.append(each)
    return joined


def _check_windows(partition: PartitionKey, types: Mapping[str, str]) -> None:
    """Refuses a window that is finer than the values of its column, or with days that are the key of no partition."""
    for column, window in partition.windows.items():
        is_within_a_day = window.end - window.start < _SHORTEST_DAY or window.start.date() == window.end.date()
        if types[column] == "date" and is_within_a_day:
            raise WriteError(
                f"Partition {partition.key!r} is shorter than a day, and column {column} is a date, which cannot tell "
                f"it from the others of its day.",
                "Nothing was written. Partition by a timestamp column.",
            )
        is_compared = types[column] == "string" or is_whole_number(types[column])
        if is_compared and window.keyless is not None:
            last = (window.end - timedelta(days=1)).date()
            raise WriteError(
                f"Partition {partition.key!r} covers {window.start.date()} to {last}, and column {column} is a "
                f"{types[column]}, which is compared with the partition's key: rows of other days, such as "
                f"{window.keyless!r}, would be left out.",
                f"Nothing was written. Make the column a date: CAST({column} AS DATE). If it names the whole "
                f"partition, let the key name no day either: fmt='%Y-%m' in the partitions definition.",
            )
        if types[column] == "timestamp_ntz" and any(map(_is_said_twice, (window.start, window.end))):
            raise WriteError(
                f"Partition {partition.key!r} begins or ends in an hour that clocks went through twice, and column "
                f"{column} has no time zone to tell which.",
                "Nothing was written. Partition by a timestamp column.",
            )


def _is_said_twice(at: datetime) -> bool:
    """Whether clocks showed this time twice, because they were set back."""
    first, second = at.replace(fold=0).utcoffset(), at.replace(fold=1).utcoffset()
    return first is not None and second is not None and first > second
