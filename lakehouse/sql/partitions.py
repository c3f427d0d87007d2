"""A run's partitions as a literal predicate on the table's columns.

Literal, because Delta prunes files by literals and its conflict check looks at literals. A join on the partition column
defeats both (tests/upstream).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from lakehouse.errors import WriteError
from lakehouse.sql.text import literal, quote

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_SHORTEST_DAY, _LONGEST_DAY = timedelta(hours=23), timedelta(hours=25)


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a partition covers: `start` inclusive, `end` exclusive."""

    start: datetime
    end: datetime


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
        if len(self.columns) == 1 and not any(self._ranged(types, column) for column in self.columns):
            column = self.columns[0]
            values = sorted({_value(partition.values[column], types[column], column) for partition in self.partitions})
            return f"{prefix}{quote(column)} IN ({', '.join(values)})"
        alternatives = sorted({self._one(partition, types, prefix) for partition in _joined(self.partitions)})
        return " OR ".join(f"({alternative})" for alternative in alternatives)

    def _ranged(self, types: Mapping[str, str], column: str) -> bool:
        return types[column] in ("date", "timestamp", "timestamp_ntz") and bool(self.partitions[0].windows.get(column))

    def _one(self, partition: PartitionKey, types: Mapping[str, str], prefix: str) -> str:
        terms: list[str] = []
        for column, text in partition.values.items():
            name = prefix + quote(column)
            if self._ranged(types, column):
                window = partition.windows[column]
                start, end = _bound(window.start, types[column]), _bound(window.end, types[column])
                terms.append(f"{name} >= {start} AND {name} < {end}")
            else:
                terms.append(f"{name} = {_value(text, types[column], column)}")
        return " AND ".join(terms)


def _joined(partitions: tuple[PartitionKey, ...]) -> list[PartitionKey]:
    """Partitions whose windows touch, as one, so that a year of days is one range and not 365."""
    if any(len(partition.values) > 1 or not partition.windows for partition in partitions):
        return list(partitions)
    (column,) = partitions[0].values
    ordered = sorted(partitions, key=lambda partition: partition.windows[column].start)
    joined = [ordered[0]]
    for partition in ordered[1:]:
        last = joined[-1]
        if partition.windows[column].start <= last.windows[column].end:
            whole = Window(last.windows[column].start, max(last.windows[column].end, partition.windows[column].end))
            joined[-1] = PartitionKey(last.key, last.values, {column: whole})
        else:
            joined.append(partition)
    return joined


def _check_windows(partition: PartitionKey, types: Mapping[str, str]) -> None:
    """Refuses a window that is finer than the values of its column, or of which the key names only the first day."""
    for column, window in partition.windows.items():
        if types[column] == "date" and window.end - window.start < _SHORTEST_DAY:
            raise WriteError(
                f"Partition {partition.key!r} is shorter than a day, and column {column} is a date, which cannot tell "
                f"it from the others of its day.",
                "Nothing was written. Partition by a timestamp column.",
            )
        if (types[column] == "string" or types[column] in _BITS) and _is_first_of_several_days(partition, column):
            last = (window.end - timedelta(days=1)).date()
            raise WriteError(
                f"Partition {partition.key!r} covers {window.start.date()} to {last}, and column {column} is a "
                f"{types[column]}, which is compared with the partition's key: rows of the other days would be left "
                f"out.",
                f"Nothing was written. Make the column a date: CAST({column} AS DATE). If it names the whole "
                f"partition, let the key name no day either: fmt='%Y-%m' in the partitions definition.",
            )
        if types[column] == "timestamp_ntz" and any(map(_is_said_twice, (window.start, window.end))):
            raise WriteError(
                f"Partition {partition.key!r} begins or ends in an hour that clocks went through twice, and column "
                f"{column} has no time zone to tell which.",
                "Nothing was written. Partition by a timestamp column.",
            )


def _is_first_of_several_days(partition: PartitionKey, column: str) -> bool:
    """Whether the window is longer than a day, and the partition's text for the column is a day all the same."""
    window = partition.windows[column]
    try:
        date.fromisoformat(partition.values[column][:10])
    except ValueError:
        return False
    return window.end - window.start > _LONGEST_DAY


def _is_said_twice(at: datetime) -> bool:
    """Whether clocks showed this time twice, because they were set back."""
    first, second = at.replace(fold=0).utcoffset(), at.replace(fold=1).utcoffset()
    return first is not None and second is not None and first > second


def _bound(at: datetime, column_type: str) -> str:
    match column_type:
        case "date":
            return literal(at.date())
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ'{at.replace(tzinfo=None).isoformat(sep=' ')}'"
        case _:
            return literal(at)


def _value(text: str, column_type: str, column: str) -> str:
    try:
        match column_type:
            case "string" if text:  # Delta stores an empty one as NULL
                return literal(text)
            case "tinyint" | "smallint" | "int" | "bigint":
                return literal(_whole_number(text, _BITS[column_type]))
            case "date":
                return literal(date.fromisoformat(text))
            case "boolean":
                return literal({"true": True, "false": False}[text.lower()])
            case _:
                raise ValueError(column_type)
    except (ValueError, KeyError) as error:
        raise WriteError(
            f"Partition key {text!r} is no value of column {column}, which is a {column_type}.",
            "Nothing was written. Partition by strings, integers, dates, booleans or, of time partitions, timestamps.",
        ) from error


def _whole_number(text: str, bits: int) -> int:
    """The number that SQL would read in the text; Python alone would also take "1_0" and other scripts' digits."""
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise ValueError(text)
    return int(text)
