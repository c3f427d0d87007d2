"""The keys that a range of changes touched, and the rows that belong to them."""

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, overload

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.delta.keys import KeyPredicate
from lakehouse.delta.limits import limits
from lakehouse.delta.text import Literal, fold, quote
from lakehouse.errors import ReadError, WriteError
from lakehouse.read.content import SourceRead, Use, rows_after
from lakehouse.read.touched_keys import EveryKey, FromFeed, SomeKeys, UnreadRows
from lakehouse.scd.events import Events
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.types import pads


@dataclass(frozen=True)
class Touched:
    """The distinct keys that appear in either image of a range of changes: exactly these may have changed.

    Args:
        columns: The key's columns; the target has them under the same names.
        touched: Which keys they are.
        source: The rows that `rows` restricts: the source at the end of the range, with the key's columns; None if
            the keys of two sources were united.
        reads: What the run reads of the sources whose changes touched the keys.
        also: Conditions on rows of the source; rows that fulfil one are among `rows` whatever their key.
    """

    columns: tuple[str, ...]
    touched: EveryKey | SomeKeys
    source: DataFrame | None
    reads: tuple[SourceRead, ...]
    also: tuple[str, ...] = ()

    if not TYPE_CHECKING:  # a type checker knows the attributes

        def __getattr__(self, name: str) -> object:
            if hasattr(DataFrame, name):
                raise AttributeError(
                    f"Touched keys are not a DataFrame, so they have no `{name}`. The rows of the source with these "
                    f"keys are touched.rows, and the rows of another frame are touched.of(frame)."
                )
            return object.__getattribute__(self, name)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The sources whose changes touched the keys."""
        return tuple(read.name for read in self.reads)

    @property
    def name(self) -> str:
        """The sources, as messages name them."""
        return " and ".join(self.inputs)

    @property
    def is_everything(self) -> bool:
        return isinstance(self.touched, EveryKey)

    @property
    def keys(self) -> DataFrame:
        """The distinct keys, brought to the driver once where they are few.

        Raises:
            WriteError: Every key is touched, and the keys come from two sources.
        """
        if isinstance(self.touched, SomeKeys):
            return self.touched.distinct
        if self.source is None:
            raise WriteError("Every key is touched, and of two sources together no list of them exists; use of().")
        return self.source.select(*map(quote, self.columns)).distinct()

    @property
    def values(self) -> list[tuple[Literal, ...]] | None:
        """The distinct keys, if they have literals."""
        return self.touched.values if isinstance(self.touched, SomeKeys) else None

    @property
    def few(self) -> bool:
        """Whether the changes were so few that what follows from them may be brought to the driver."""
        return isinstance(self.touched, SomeKeys) and not isinstance(self.touched.rows, UnreadRows)

    @property
    def is_one_task(self) -> bool:
        """Whether the keys are so few that one task computes and compares the rows that they identify."""
        return self.values is not None and len(self.values) <= limits().one_task_keys

    @property
    def from_feed(self) -> FromFeed:
        """What the changes give in addition to the keys."""
        return self.touched.from_feed if isinstance(self.touched, SomeKeys) else FromFeed.KEYS

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
        self._record_rows()
        match self.touched:
            case EveryKey():
                return self.source
            case SomeKeys(rows=Local() as images, from_feed=FromFeed.ROWS | FromFeed.NEW_ROWS) if not self.also:
                rows = rows_after(images, self.columns, self.source.columns)
                if rows is not None and not pads(self.source.schema):  # the feed does not show which text is a CHAR
                    return rows.frame
            case _:
                pass
        return self._with_others(self.source)

    @overload
    def of(self, frame: DataFrame) -> DataFrame: ...

    @overload
    def of(self, frame: Events) -> Events: ...

    def of(self, frame: DataFrame | Events) -> DataFrame | Events:
        """Any frame, or events, restricted to the touched keys; two NULLs are the same key.

        If the keys have a condition (`also=`) and the frame has its columns, also the rows that match the condition.

        Raises:
            ReadError (COLUMN_MISSING): The frame lacks a column of the keys.
        """
        if isinstance(frame, Events):
            return replace(frame, rows=self.of(frame.rows))
        self._record_rows()
        return self._with_others(frame) if self.also and self._resolves(frame) else self.restrict(frame)

    def _record_rows(self) -> None:
        for read in self.reads:
            read.uses.add(Use.TOUCHED_ROWS)

    def restrict(self, frame: DataFrame) -> DataFrame:
        """The rows of a frame that have a touched key, and no others.

        Raises:
            ReadError (COLUMN_MISSING): The frame lacks a column of the keys.
        """
        require(frame.columns, self.columns, f"the frame that of() restricts to keys of {self.name}")
        keys = self.touched
        if isinstance(keys, EveryKey):
            return frame
        predicate = keys.predicate(frame.schema)
        if predicate is not None:
            frame = frame.where(predicate.sql)
            if predicate.is_exact:
                return frame
        renamed = {f"__touched_{index}": column for index, column in enumerate(self.columns)}
        sent = keys.sent.select(*(F.col(quote(column)).alias(alias) for alias, column in renamed.items()))
        return frame.join(sent, keys.same_key(frame, renamed), "left_semi")

    def predicate(self, schema: StructType) -> KeyPredicate | None:
        """The keys as a literal predicate on rows of a schema, if the keys are few and have its columns' types."""
        return self.touched.predicate(schema) if isinstance(self.touched, SomeKeys) else None

    def via(self, frame: DataFrame, *columns: str) -> "Touched":
        """The `columns` of the frame's rows that hold touched keys: carries a dimension's change to its facts.

        Raises:
            ReadError (COLUMN_MISSING): The frame lacks one of the columns, or a column of the keys.
        """
        require(frame.columns, columns, f"the frame that via() looks keys of {self.name} up in")
        match self.touched:
            case EveryKey():
                keys = EveryKey()
            case SomeKeys(values=[]):
                keys = SomeKeys(columns, Local.empty(frame.select(*map(quote, columns))))
            case SomeKeys(rows=rows):
                facts = self.restrict(frame).select(*map(quote, columns))
                keys = SomeKeys(columns, UnreadRows(facts) if isinstance(rows, UnreadRows) else facts)
        return Touched(columns, keys, frame, self.reads, self.also)

    def __or__(self, other: "Touched") -> "Touched":
        """The keys touched on either side; both name the same columns.

        Raises:
            WriteError: They name different ones.
        """
        if [*map(str.lower, self.columns)] != [*map(str.lower, other.columns)]:
            raise WriteError(
                f"Touched keys of ({', '.join(self.columns)}) and of ({', '.join(other.columns)}) cannot be united: "
                f"carry one of them over with via(frame, {', '.join(map(repr, self.columns))})."
            )
        match self.touched, other.touched:
            case SomeKeys() as one, SomeKeys() as two:
                keys = one.union(two)
            case _:
                keys = EveryKey()
        source = self.source if self.source is other.source else None
        return Touched(
            self.columns,
            keys,
            source,
            tuple(dict.fromkeys([*self.reads, *other.reads])),
            tuple(dict.fromkeys([*self.also, *other.also])),
        )

    def _with_others(self, source: DataFrame) -> DataFrame:
        """The source's rows with touched keys, and the rows that match a condition of `also`."""
        predicate = self.predicate(source.schema)
        if not self.also or self.values == []:
            return self.restrict(source)
        others = reduce(Column.__or__, (F.coalesce(F.expr(condition), F.lit(False)) for condition in self.also))
        if predicate is not None and predicate.is_exact:
            return source.where(F.expr(predicate.sql) | others)
        return self.restrict(source.where(~others)).union(source.where(others))

    def _resolves(self, frame: DataFrame) -> bool:
        """Whether a frame has the columns that the conditions name."""
        try:
            _ = frame.selectExpr(*self.also).schema
        except AnalysisException:
            return False
        return True


def require(columns: list[str], names: tuple[str, ...], name: str) -> None:
    """Refuses a column that does not exist, before Spark does so in its own words."""
    present = fold(columns)
    for column in names:
        if column.lower() not in present:
            raise ReadError.column_missing(name, column, columns)
