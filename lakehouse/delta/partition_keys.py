"""What a partition is: for a column, a value or a range of values; for a table, a literal predicate on its columns.

The predicate of a run follows from the extents, and so does the partition that a row belongs to, so the two cannot
differ. The predicate is literal, because Delta prunes files by literals and its conflict check looks at literals. A
join on the partition column defeats both (tests/upstream).
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias

from lakehouse.delta.text import own_literal, quote
from lakehouse.errors import WriteError

Value: TypeAlias = str | int | date

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_TIMES = ("date", "timestamp", "timestamp_ntz")
_SHORTEST_DAY = timedelta(hours=23)


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a partition covers: `start` inclusive, `end` exclusive.

    Args:
        start: The first moment.
        end: The moment after the last one.
        keyless: The text that the format of the keys gives to a day of the window, although no partition has this key;
            None if the text of each day is the key of a partition.
    """

    start: datetime
    end: datetime
    keyless: str | None = None


@dataclass(frozen=True, slots=True)
class OneValue:
    """The rows whose column has a value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rows whose column is in a range: `start` inclusive, `end` exclusive."""

    start: date
    end: date

    def __contains__(self, value: date) -> bool:
        return _in_time(self.start) <= _in_time(value) < _in_time(self.end)


Extent: TypeAlias = OneValue | Bounds


def extent(text: str, window: Window | None, column_type: str) -> Extent:
    """Which values of a column belong to the partition of a text, or of a time window.

    Raises:
        ValueError: The text is not a value of the type.
    """
    match column_type:
        case "date" if window is not None:
            return Bounds(window.start.date(), window.end.date())
        case "timestamp" if window is not None:
            return Bounds(window.start, window.end)
        case "timestamp_ntz" if window is not None:
            return Bounds(window.start.replace(tzinfo=None), window.end.replace(tzinfo=None))
        case _:
            return OneValue(_value(text, column_type))


def _in_time(value: date) -> Any:
    """The form in which a column's values are ordered: moments in UTC, as clocks set back show some times twice."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


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

        Raises:
            WriteError: A key is not a value of its column's type; or a window is finer than the values of its column,
                has days that are no partition's key, or begins or ends at a local time that occurs twice.
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
            values = {own_literal(each.value) for of in extents if isinstance(each := of[column], OneValue)}
            if values:
                return f"{prefix}{quote(column)} IN ({', '.join(sorted(values))})"
            ranges = [each for of in extents if isinstance(each := of[column], Bounds)]
            extents = [{column: joined} for joined in _join(ranges)]
        alternatives = sorted({" AND ".join(_terms(each, prefix)) for each in extents})
        return " OR ".join(f"({alternative})" for alternative in alternatives)


def _extents(partition: PartitionKey, types: Mapping[str, str]) -> dict[str, Extent]:
    """The extent of a partition in each column."""
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
        f"Partition key {text!r} is not a value of column {column}, which is a {column_type}.",
        "Nothing was written. Partition by strings, integers, dates, booleans or, of time partitions, timestamps.",
    )


def _terms(extents: Mapping[str, Extent], prefix: str) -> Iterable[str]:
    for column, each in extents.items():
        name = prefix + quote(column)
        match each:
            case OneValue(value):
                yield f"{name} = {own_literal(value)}"
            case Bounds(start, end):
                yield f"{name} >= {own_literal(start)} AND {name} < {own_literal(end)}"


def _join(ranges: Iterable[Bounds]) -> list[Bounds]:
    """The ranges, with those that touch joined, so that a year of days is one range and not 365."""
    joined = list[Bounds]()
    for each in sorted(ranges, key=lambda bounds: _in_time(bounds.start)):
        if joined and _in_time(each.start) <= _in_time(joined[-1].end):
            joined[-1] = Bounds(joined[-1].start, max(joined[-1].end, each.end, key=_in_time))
        else:
            joined.append(each)
    return joined


def _check_windows(partition: PartitionKey, types: Mapping[str, str]) -> None:
    """Refuses a window that is finer than its column, has days that are no partition's key, or has an ambiguous end."""
    for column, window in partition.windows.items():
        is_within_a_day = window.end - window.start < _SHORTEST_DAY or window.start.date() == window.end.date()
        if types[column] == "date" and is_within_a_day:
            raise WriteError(
                f"Partition {partition.key!r} is shorter than a day, and column {column} is a date, which cannot tell "
                f"it from the others of its day.",
                "Nothing was written. Partition by a timestamp column.",
            )
        is_compared = types[column] == "string" or types[column] in _BITS
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


@dataclass(frozen=True, slots=True)
class ByValue:
    """Partitions that are values of a column; a value has several if their keys mean the same to it ("01" and "1")."""

    column_type: str
    by_value: Mapping[Value, Sequence[str]]

    def of(self, logged: str | None) -> Sequence[str]:
        """The partitions whose predicate selects a row, by the text that Delta's log has for the row's column."""
        value = _value_in_log(logged, self.column_type)
        return () if value is None else self.by_value.get(value, ())


@dataclass(frozen=True, slots=True)
class ByTime:
    """The partitions that are ranges of a column: their texts in the order of time, and the window of each."""

    column_type: str
    texts: Sequence[str]
    window: Callable[[str], Window]
    _looked_at: dict[str, Bounds] = field(default_factory=dict[str, Bounds])

    def of(self, logged: str | None) -> Sequence[str]:
        """The partitions whose predicate selects a row, by the text that Delta's log has for the row's column."""
        value = _value_in_log(logged, self.column_type)
        if not isinstance(value, date):
            return ()
        after = bisect_right(self.texts, _in_time(value), key=lambda text: _in_time(self._bounds(text).start))
        return [text for text in self.texts[max(0, after - 1) : after] if value in self._bounds(text)]

    def _bounds(self, text: str) -> Bounds:
        """The range of a text, computed on demand: Dagster takes 25 microseconds for one, and there may be 100,000."""
        if text not in self._looked_at:
            bounds = extent(text, self.window(text), self.column_type)
            assert isinstance(bounds, Bounds)
            self._looked_at[text] = bounds
        return self._looked_at[text]


Inverse: TypeAlias = ByValue | ByTime


def inverse(texts: Sequence[str], window: Callable[[str], Window] | None, column_type: str) -> Inverse:
    """An index from a row's value to the partitions that the row belongs to: those whose extent contains the value.

    Texts with time windows have to be in the order of time.

    Raises:
        ValueError: No key is a value of the type; the error names the first key.
    """
    if window is not None and column_type in _TIMES:
        return ByTime(column_type, texts, window)
    by_value, refused = dict[Value, list[str]](), None
    for text in texts:
        try:
            by_value.setdefault(_value(text, column_type), []).append(text)
        except ValueError:  # the run of such a key is refused, and no row has it
            refused = text if refused is None else refused
    if refused is not None and not by_value:
        raise ValueError(refused)
    return ByValue(column_type, by_value)


def _value(text: str, column_type: str) -> Value:
    match column_type:
        case "string" if text:  # Delta stores an empty text as NULL
            return text
        case "tinyint" | "smallint" | "int" | "bigint":
            return _whole_number(text, _BITS[column_type])
        case "date":
            return date.fromisoformat(text)
        case "boolean" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case _:
            raise ValueError(f"{text!r} is not a value of the type {column_type}")


def _value_in_log(text: str | None, column_type: str) -> Value | None:
    """The value of a text of the log; None for NULL, and for a time that Python cannot represent."""
    try:
        match column_type:
            case _ if text is None:
                return None
            case "timestamp":  # Spark writes a Z; a text without a zone is from delta-rs, in UTC
                moment = datetime.fromisoformat(text)
                return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            case "timestamp_ntz":
                return datetime.fromisoformat(text)
            case _:
                return _value(text, column_type)
    except ValueError:
        return None


def _whole_number(text: str, bits: int) -> int:
    """The number that SQL would read in the text; Python alone would also take "1_0" and other scripts' digits."""
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise ValueError(f"{text!r} is no {bits}-bit whole number")
    return int(text)
