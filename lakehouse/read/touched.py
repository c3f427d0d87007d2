"""The keys that a range of changes touched, and the rows that belong to them."""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from lakehouse.errors import ColumnMissingError, WriteError
from lakehouse.read.latest_images import rows_after
from lakehouse.spark.driver_rows import Local, small
from lakehouse.spark.types import pads
from lakehouse.sql.keys import KeyPredicate, key_predicate
from lakehouse.sql.text import Literal, folded, quote

SENT = 1_000_000
"""So many rows are sent to every task to be joined there."""


class Tells(Enum):
    """What changes tell beside the keys that they touched.

    KEYS: Nothing. ROWS: The rows with these keys, for the columns identify a row of the source in every version of the
    range. NEW_ROWS: Those, and that the range only added them, as its commits say; then few tables hold the keys.
    """

    KEYS = "keys"
    ROWS = "rows"
    NEW_ROWS = "new rows"


@dataclass(frozen=True)
class Touched:
    """The distinct keys that appear in either image of a range of changes: exactly these may have changed.

    Args:
        columns: The key's columns, as the target names them too.
        found: Rows with the keys, perhaps repeated; None where every key counts as touched (a first read, or one
            that compares everything).
        source: The rows that `rows` restricts: the source at the end of the range; None where two sources'
            keys were united.
        name: The source's name in messages.
        few: Whether the changes were few enough to be at the driver already. Only then are the keys brought there
            at once: what may fail because change files are gone must fail while writing, not in the asset's body.
        most: At most so many keys there are, by the metrics of the commits; None where those do not say.
        tells: What the changes that were found tell.
    """

    columns: tuple[str, ...]
    found: DataFrame | Local | None
    source: DataFrame | None
    name: str
    few: bool = True
    most: int | None = None
    tells: Tells = Tells.KEYS

    @property
    def is_everything(self) -> bool:
        return self.found is None

    @property
    def keys(self) -> DataFrame:
        """The distinct keys, brought to the driver once where they are few.

        Raises:
            WriteError: Every key is touched, of two sources together.
        """
        if self.found is None:
            if self.source is None:
                raise WriteError("Every key is touched, and of two sources together no list of them exists; use of().")
            return self.source.select(*map(quote, self.columns)).distinct()
        return self._distinct

    @property
    def sent(self) -> DataFrame:
        """The keys as the side of a join: sent to the other side's tasks where they are not too many for that.

        A feed has no statistics, so Spark would shuffle both sides.
        """
        return F.broadcast(self.keys) if self.most is not None and self.most <= SENT else self.keys

    @cached_property
    def values(self) -> list[tuple[Literal, ...]] | None:
        """The distinct keys, where they can be said as literals."""
        if self.found is None or not isinstance(self._held, Local):
            return None
        return self._held.values(self.columns)

    @cached_property
    def _held(self) -> Local | DataFrame:
        """Rows with the keys: as they were found where those can be said as literals, else distinct."""
        match self.found:
            case None:
                raise AssertionError("every key is touched: nothing was found")
            case Local() as local if local.values(self.columns) is not None:
                return local
            case Local(frame=frame) | frame:
                distinct = frame.select(*as_keys(frame, self.columns)).distinct()
                few = small(distinct) if self.few else None
                return distinct if few is None else few

    @cached_property
    def _distinct(self) -> DataFrame:
        match self._held:
            case Local() as local if self.values is not None:
                return _relation(local, self.columns, self.values)
            case Local(frame=frame) | frame:
                return frame

    @cached_property
    def rows(self) -> DataFrame:
        """The source's rows with the touched keys, as of the end of the range.

        Raises:
            WriteError: The keys come from two sources.
        """
        if self.source is None:
            raise WriteError(
                f"The touched keys of {self.name} come from two sources, so `rows` of which? Use of(frame)."
            )
        if self.tells is not Tells.KEYS and isinstance(self.found, Local):
            told = rows_after(self.found, self.columns, self.source.columns)
            if told is not None and not pads(self.source.schema):  # the feed has its texts, and not that it is a CHAR
                return told.frame
        return self.of(self.source)

    def of(self, frame: DataFrame) -> DataFrame:
        """Any frame, restricted to the touched keys; two NULLs are the same key.

        Raises:
            ColumnMissingError: The frame lacks a column of the keys.
        """
        require(frame.columns, self.columns, f"the frame that of() restricts to keys of {self.name}")
        if self.found is None:
            return frame
        near = self.predicate(frame.schema)
        if near is not None:
            frame = frame.where(near.sql)
            if near.is_exact:
                return frame
        renamed = {f"__touched_{index}": column for index, column in enumerate(self.columns)}
        keys = self.sent.select(*(F.col(quote(column)).alias(alias) for alias, column in renamed.items()))
        return frame.join(keys, self.same_key(frame, renamed), "left_semi")

    def same_key(self, frame: DataFrame, renamed: dict[str, str]) -> Column:
        """That a row of the frame has the key that a row of `keys` is, whose columns go by the aliases of `renamed`."""
        held = self._held
        nulls = not isinstance(held, Local) or held.has_nulls(self.columns)
        pairs = zip(as_keys(frame, tuple(renamed.values())), map(F.col, renamed), strict=True)
        return reduce(Column.__and__, (ours.eqNullSafe(key) if nulls else ours == key for ours, key in pairs))

    def predicate(self, schema: StructType) -> KeyPredicate | None:
        """The keys as a literal predicate on rows of a schema, where they are few and its columns have their types."""
        if self.values is None or not isinstance(self._held, Local):
            return None
        kinds = {column.name.lower(): column.dataType for column in schema.fields}
        keys = {column.name.lower(): column.dataType for column in self._held.schema.fields}
        if any(kinds.get(column.lower()) != keys[column.lower()] for column in self.columns):
            return None
        return self._said

    @cached_property
    def _said(self) -> KeyPredicate | None:
        return None if self.values is None else key_predicate(self.columns, self.values)

    def via(self, frame: DataFrame, *columns: str) -> "Touched":
        """The `columns` of the frame's rows that hold touched keys: carries a dimension's change to its facts.

        Raises:
            ColumnMissingError: The frame lacks one of the columns, or a column of the keys.
        """
        require(frame.columns, columns, f"the frame that via() looks keys of {self.name} up in")
        if self.found is None:
            return Touched(columns, None, frame, self.name, few=self.few)
        if self.values == []:
            return Touched(columns, Local.empty(frame.select(*map(quote, columns))), frame, self.name)
        found = self.of(frame).select(*map(quote, columns))
        return Touched(columns, found, frame, self.name, few=self.few)

    def __or__(self, other: "Touched") -> "Touched":
        """The keys touched on either side; both name the same columns.

        Raises:
            WriteError: They name different ones.
        """
        if self.columns != other.columns:
            raise WriteError(
                f"Touched keys of ({', '.join(self.columns)}) and of ({', '.join(other.columns)}) cannot be united: "
                f"carry one of them over with via(frame, {', '.join(map(repr, self.columns))})."
            )
        found = _united(self.found, other.found, self.columns)
        source = self.source if self.source is other.source else None
        name = self.name if self.name == other.name else f"{self.name} and {other.name}"
        most = None if self.most is None or other.most is None else self.most + other.most
        return Touched(self.columns, found, source, name, few=self.few and other.few, most=most)


def _united(
    ours: DataFrame | Local | None, theirs: DataFrame | Local | None, columns: tuple[str, ...]
) -> DataFrame | Local | None:
    match ours, theirs:
        case (None, _) | (_, None):
            return None
        case Local(), Local():
            mine, yours = ours.select(columns), theirs.select(columns)
            return mine.union(yours) or mine.frame.union(yours.frame)
        case _:
            mine, yours = (side.frame if isinstance(side, Local) else side for side in (ours, theirs))
            return mine.select(*map(quote, columns)).union(yours.select(*map(quote, columns)))


def _relation(local: Local, columns: tuple[str, ...], values: list[tuple[Literal, ...]]) -> DataFrame:
    """Keys that are values as a local relation again, under the names and types that they came with."""
    rows = local.select(columns)
    listed = zip(*values, strict=True) if values else [()] * len(columns)
    arrow: Any = pa.table(dict(zip(columns, map(list, listed), strict=True)), schema=rows.arrow.schema)
    return Local(rows.spark, rows.schema, arrow).frame


def as_keys(frame: DataFrame, columns: tuple[str, ...]) -> list[Column]:
    """The columns with texts as the feed tells them.

    Delta hands the feed's rows out as Java's strings, in which bytes that are no UTF-8 have become U+FFFD. So such
    texts are one key, which touches all of them.
    """
    kinds = {field.name.lower(): field.dataType for field in frame.schema.fields}
    return [
        F.make_valid_utf8(quote(column)).alias(column)
        if isinstance(kinds[column.lower()], StringType)
        else F.col(quote(column))
        for column in columns
    ]


def require(there: list[str], columns: tuple[str, ...], name: str) -> None:
    """Refuses a column that is not there, before Spark does in its own words."""
    known = folded(there)
    for column in columns:
        if column.lower() not in known:
            raise ColumnMissingError(name, column, there)
