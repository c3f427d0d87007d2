"""What the statistics of a table's files say of keys: which files can hold them."""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from lakehouse.delta.text import Literal

_LATER = timedelta(milliseconds=1)
"""The greatest instant of a file is cut to milliseconds (Delta: PROTOCOL.md, "Per-file Statistics")."""
_SAMPLE = 32
"""Of so many keys it is asked in how many files each of them can be."""


@dataclass(frozen=True, slots=True)
class FileShare:
    """How many files of a table a condition leaves.

    Args:
        files: How many files the table has.
        holding: How many of them can hold a row that is sought.
        scattered: The columns by which the files are not laid out: one value can be in most of them.
    """

    files: int
    holding: int
    scattered: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.files == 1:
            return f"{self.holding} of 1 file"
        why = f": not laid out by {' and '.join(self.scattered)}" if self.scattered else ""
        return f"{_percent(self.holding, self.files)} of {self.files:,} files{why}"


def _percent(part: int, of: int) -> str:
    """A share, of which neither none nor all is said unless it is."""
    share = round(100 * part / of) if of else 0
    return f"{min(99, max(1, share)) if 0 < part < of else share} %"


@dataclass(frozen=True, slots=True)
class _Range:
    """What one file says of one column: its least and its greatest value, and whether it may hold NULL."""

    least: Any
    greatest: Any
    may_be_null: bool


@dataclass(frozen=True, slots=True)
class FileRanges:
    """What the files of a table say of its columns.

    Args:
        files: How many files there are.
        ranges: What each file says, by the column's name in lower case; None of a file that does not say.
    """

    files: int
    ranges: Mapping[str, Sequence[_Range | None]]

    @classmethod
    def of(cls, actions: Any, columns: Collection[str]) -> Self:
        """The ranges of some columns.

        Args:
            actions: The files of a table as `deltalake` lists them, with flat names of columns.
            columns: The columns.
        """
        names = {name.lower(): name for name in actions.schema.names}

        def values(kind: str, column: str) -> list[Any] | None:
            name = names.get(f"{kind}.{column}".lower())
            return None if name is None else actions.column(name).to_pylist()

        rows = actions.column("num_records").to_pylist()
        ranges = dict[str, Sequence[_Range | None]]()
        for column in columns:
            partition, least, greatest = (values(kind, column) for kind in ("partition", "min", "max"))
            nulls = values("null_count", column) or [None] * len(rows)
            if partition is not None:
                ranges[column.lower()] = [_Range(value, value, value is None) for value in partition]
            elif least is not None and greatest is not None:
                ranges[column.lower()] = [*map(_range, least, greatest, nulls, rows)]
        return cls(len(rows), ranges)

    def holding(self, column: str, values: Collection[Literal]) -> frozenset[int] | None:
        """Which files can hold one of some values of a column, by their places; None if no file says."""
        ranges = self.ranges.get(column.lower())
        if ranges is None or all(each is None for each in ranges):
            return None
        sought = sorted({_order(value) for value in values if value is not None})
        has_null = None in values

        def can_hold(each: _Range | None) -> bool:
            if each is None or (has_null and each.may_be_null):
                return True
            if each.least is None:
                return False
            place = bisect_left(sought, _order(each.least))
            return place < len(sought) and sought[place] <= _upper(each.greatest)

        return frozenset(place for place, each in enumerate(ranges) if can_hold(each))

    def is_scattered(self, column: str, values: Sequence[Literal]) -> bool:
        """Whether one value of a column can be in most of the files, because they are not laid out by the column."""
        sample = values[:: max(1, len(values) // _SAMPLE)]
        shares = [len(files) for value in sample if (files := self.holding(column, [value])) is not None]
        return self.files > 1 and bool(shares) and 2 * sum(shares) > self.files * len(shares)


def _range(least: Any, greatest: Any, nulls: int | None, rows: int | None) -> _Range | None:
    """What a file says of a column; None if it does not say. A file of NULL alone has no least value."""
    if least is None or greatest is None:
        return _Range(None, None, may_be_null=True) if nulls is not None and nulls == rows else None
    return _Range(least, greatest, nulls != 0)


def _order(value: Any) -> Any:
    """A value in Spark's order: texts by their UTF-8 bytes."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    return value + _LATER if isinstance(value, datetime) else _order(value)
