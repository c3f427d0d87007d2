"""Which keys changes touched: every key, or those that were found, as rows, as literals or as the side of a join."""

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, reduce
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from lakehouse.delta.keys import KeyPredicate, KeySet
from lakehouse.delta.limits import limits
from lakehouse.delta.text import Literal, quote
from lakehouse.spark.driver_rows import Local, small
from lakehouse.spark.types import column_types


class FromFeed(Enum):
    """What changes give in addition to the keys that they touched.

    KEYS: Nothing. ROWS: The rows with these keys, because the columns identify a row of the source in every version of
    the range. NEW_ROWS: The same rows; by its commits, the range only inserted rows, so a table seldom holds the keys.
    """

    KEYS = "keys"
    ROWS = "rows"
    NEW_ROWS = "new rows"


@dataclass(frozen=True, slots=True)
class EveryKey:
    """Every key counts as touched: a first read, a comparison of everything, or a change that concerns all keys."""


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """Rows of many changes: they are read while the result is written, and by then change files may be gone."""

    frame: DataFrame


KeyRows: TypeAlias = Local | DataFrame | UnreadRows
"""Rows with keys: at the driver, to be brought there if they turn out to be few, or not to be read before the write."""


@dataclass(frozen=True)
class SomeKeys:
    """The keys of rows that were found.

    Args:
        columns: The key's columns.
        rows: Rows with the keys, perhaps repeated; `UnreadRows` are not brought to the driver before the write.
        most: The highest possible number of keys, by the metrics of the commits; None if they do not record it.
        from_feed: What the changes give in addition to the keys.
    """

    columns: tuple[str, ...]
    rows: KeyRows
    most: int | None = None
    from_feed: FromFeed = field(default=FromFeed.KEYS)

    @cached_property
    def values(self) -> list[tuple[Literal, ...]] | None:
        """The distinct keys, if they have literals."""
        return self._rows.values(self.columns) if isinstance(self._rows, Local) else None

    @cached_property
    def distinct(self) -> DataFrame:
        """The distinct keys, brought to the driver once where they are few."""
        match self._rows:
            case Local() as local if self.values is not None:
                return _relation(local, self.columns, self.values)
            case Local(frame=frame) | frame:
                return frame

    @property
    def sent(self) -> DataFrame:
        """The keys as the side of a join: broadcast to the other side's tasks unless they are too many for that.

        A feed has no statistics, so Spark by itself would shuffle both sides.
        """
        is_sent = self.most is not None and self.most <= limits().broadcast_rows
        return F.broadcast(self.distinct) if is_sent else self.distinct

    def predicate(self, schema: StructType) -> KeyPredicate | None:
        """The keys as a literal predicate on rows of a schema, if the keys are few and have its columns' types."""
        if self.values is None or not isinstance(self._rows, Local):
            return None
        kinds = {column.name.lower(): column.dataType for column in schema.fields}
        keys = {column.name.lower(): column.dataType for column in self._rows.schema.fields}
        if any(kinds.get(column.lower()) != keys[column.lower()] for column in self.columns):
            return None
        return self._predicate

    def same_key(self, frame: DataFrame, renamed: dict[str, str]) -> Column:
        """The join condition that a row of the frame has a key."""
        nulls = not isinstance(self._rows, Local) or self._rows.has_nulls(self.columns)
        pairs = zip(as_keys(frame, tuple(renamed.values())), map(F.col, renamed), strict=True)
        return reduce(Column.__and__, (row.eqNullSafe(key) if nulls else row == key for row, key in pairs))

    def union(self, other: "SomeKeys") -> "SomeKeys":
        """The keys of both."""
        most = None if self.most is None or other.most is None else self.most + other.most
        return SomeKeys(self.columns, _unite(self.rows, other.rows, self.columns), most)

    @cached_property
    def _predicate(self) -> KeyPredicate | None:
        if self.values is None or not isinstance(self._rows, Local):
            return None
        kinds = column_types(self._rows.schema)
        return KeySet.of(self.columns, self.values, [kinds[column.lower()] for column in self.columns]).predicate()

    @cached_property
    def _rows(self) -> Local | DataFrame:
        """Rows with the keys: as they were found if their keys have literals, otherwise distinct."""
        match self.rows:
            case Local() as local if local.values(self.columns) is not None:
                return local
            case UnreadRows(frame=frame):
                return frame.select(*as_keys(frame, self.columns)).distinct()
            case Local(frame=frame) | frame:
                distinct = frame.select(*as_keys(frame, self.columns)).distinct()
                few = small(distinct)
                return distinct if few is None else few


def _frame_of(rows: KeyRows) -> DataFrame:
    return rows.frame if isinstance(rows, Local | UnreadRows) else rows


def as_keys(frame: DataFrame, columns: tuple[str, ...]) -> list[Column]:
    """The columns, with texts in the form in which the feed gives them.

    Delta gives texts in the feed's rows as Java strings, in which bytes that are not UTF-8 have become U+FFFD. So texts
    that differ only in such bytes are one key, which touches all of them.
    """
    kinds = {column.name.lower(): column.dataType for column in frame.schema.fields}
    return [
        F.make_valid_utf8(quote(column)).alias(column)
        if isinstance(kinds[column.lower()], StringType)
        else F.col(quote(column))
        for column in columns
    ]


def _unite(left: KeyRows, right: KeyRows, columns: tuple[str, ...]) -> KeyRows:
    if isinstance(left, Local) and isinstance(right, Local):
        both = left.select(columns).union(right.select(columns))
        if both is not None:
            return both
    one, other = (_frame_of(side).select(*map(quote, columns)) for side in (left, right))
    frame = one.union(other)
    return UnreadRows(frame) if isinstance(left, UnreadRows) or isinstance(right, UnreadRows) else frame


def _relation(local: Local, columns: tuple[str, ...], values: list[tuple[Literal, ...]]) -> DataFrame:
    """Keys that were read as values, as a local relation again, under their original names and types."""
    rows = local.select(columns)
    listed = zip(*values, strict=True) if values else [()] * len(columns)
    arrow: Any = pa.table(dict(zip(columns, map(list, listed), strict=True)), schema=rows.arrow.schema)
    return Local(rows.spark, rows.schema, arrow).frame
