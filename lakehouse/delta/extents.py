"""What a partition is of one column: a value, or a range of values.

The predicate of a run follows from it, and so does the partition that a row belongs to: neither can drift.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

Value: TypeAlias = str | int | date

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_TIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a partition covers: `start` inclusive, `end` exclusive.

    Args:
        start: The first moment.
        end: The moment after the last one.
        keyless: The text that the format of the keys gives to a day in between, although no partition has this key;
            None if each day has the text of a key.
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
        return in_time(self.start) <= in_time(value) < in_time(self.end)


Extent: TypeAlias = OneValue | Bounds


def extent(text: str, window: Window | None, column_type: str) -> Extent:
    """What the partition of a text, or of a time window, is of a column.

    Args:
        text: The partition's key, or the part of the key that is about the column.
        window: The time that the partition covers; None if it covers none.
        column_type: The type of the column, as `DataType.simpleString()` says it.

    Raises:
        ValueError: The text is no value of the type.
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


def is_whole_number(column_type: str) -> bool:
    return column_type in _BITS


def in_time(value: date) -> Any:
    """What orders the values of a column: a moment by UTC, because a clock that is set back shows some times twice."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


@dataclass(frozen=True, slots=True)
class ByValue:
    """The partitions that are values of a column; several if their keys are one value to it ("01" and "1")."""

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
        after = bisect_right(self.texts, in_time(value), key=lambda text: in_time(self._bounds(text).start))
        return [text for text in self.texts[max(0, after - 1) : after] if value in self._bounds(text)]

    def _bounds(self, text: str) -> Bounds:
        """Only those that are looked at: Dagster takes 25 microseconds for a window, and there may be 100,000."""
        if text not in self._looked_at:
            bounds = extent(text, self.window(text), self.column_type)
            assert isinstance(bounds, Bounds)
            self._looked_at[text] = bounds
        return self._looked_at[text]


Inverse: TypeAlias = ByValue | ByTime


def inverse(texts: Sequence[str], window: Callable[[str], Window] | None, column_type: str) -> Inverse:
    """What finds the partitions that a row belongs to: those whose extent has the row's value.

    Args:
        texts: The partitions' keys, or the parts of the keys that are about the column; in the order of time if they
            have windows.
        window: The time window of a key; None if the keys have none.
        column_type: The type of the column.

    Raises:
        ValueError: No key is a value of the type; the first of them.
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
        case "string" if text:  # Delta stores an empty one as NULL
            return text
        case "tinyint" | "smallint" | "int" | "bigint":
            return _whole_number(text, _BITS[column_type])
        case "date":
            return date.fromisoformat(text)
        case "boolean" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case _:
            raise ValueError(f"{text!r} is no value of the type {column_type}")


def _value_in_log(text: str | None, column_type: str) -> Value | None:
    """The value that a text of the log stands for; None for NULL, and for a time that Python does not know."""
    try:
        match column_type:
            case _ if text is None:
                return None
            case "timestamp":  # Spark writes a Z; what has no zone, delta-rs has written, in UTC
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
