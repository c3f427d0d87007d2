"""`Changes`: what changed in a source since this asset last read it."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.delta.log import VersionRange
from lakehouse.delta.text import fold, quote
from lakehouse.errors import ReadError
from lakehouse.read.content import (
    BEFORE,
    CHANGE,
    DELETE,
    INSERT,
    LOG_NAMES,
    VERSION,
    Everything,
    Feed,
    Nothing,
    SourceRead,
    Use,
    tells_otherwise,
)
from lakehouse.read.touched import Touched, require
from lakehouse.read.touched_keys import EveryKey, FromFeed, SomeKeys, UnreadRows
from lakehouse.spark.broken_promises import not_appended
from lakehouse.spark.driver_rows import Local, is_empty
from lakehouse.spark.exactness import named_in


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed in `source` in the versions `range`: `after` exclusive, `upto` inclusive.

    As the annotation of an input it makes the input incremental. The first read is the whole source as inserts.
    """

    _read: SourceRead

    @property
    def name(self) -> str:
        """The source's asset key, its parts joined by "/"."""
        return self._read.name

    @property
    def range(self) -> VersionRange:
        """The versions."""
        return self._read.range

    @property
    def is_initial(self) -> bool:
        """Whether the whole source is presented as inserts."""
        return self._read.is_initial

    @property
    def is_empty(self) -> bool:
        """Whether no row changed, as far as known: a feed that did not come to the driver is not read to find out."""
        return self._read.is_empty

    @property
    def source(self) -> DataFrame:
        """The source as it was at the end of the range."""
        self._read.uses.add(Use.SOURCE)
        return self._read.source

    @property
    def feed(self) -> DataFrame:
        """The change data feed of the range: the source's columns and the feed's own three."""
        self._read.uses.add(Use.CHANGED_ROWS)
        return self._read.feed

    def appended(self) -> DataFrame:
        """The rows inserted in the range, without the feed's columns.

        Raises:
            ReadError (NOT_APPEND_ONLY): The source updated or deleted rows in the range. If its commits do not record
                that, reading the rows finds it: a WriteError (BROKEN_PROMISE) is raised, and nothing is written.
        """
        for commit in self._read.commits_of_feed:
            if commit.rows.updated or commit.rows.deleted:
                raise ReadError.not_append_only(
                    self.name, self.range.after, self.range.upto, f"version {commit.version}: {commit.rows}"
                )
        problem = F.raise_error(not_appended(self.name, F.col(VERSION), F.col(CHANGE))).cast("boolean")
        only_inserts = F.when(F.col(CHANGE) == INSERT, F.lit(True)).otherwise(problem)
        return self.feed.where(only_inserts).drop(*LOG_NAMES)

    def net(self, *keys: str) -> DataFrame:
        """One row per key: its net `insert`, `update` or `delete` over the range, in `_change_type`.

        A key that was inserted and deleted again within the range stays a `delete`: a reader that has seen half
        of the range before must still remove it.

        Args:
            keys: The columns that identify a row of the source.

        Raises:
            ReadError (COLUMN_MISSING): The source lacks one of them.
        """
        require(self.feed.columns, keys, f"'{self.name}'")
        before = F.col(CHANGE).isin(DELETE, BEFORE)
        order = (F.col(VERSION), F.when(before, 0).otherwise(1))
        of_key = Window.partitionBy(*(F.col(quote(key)) for key in keys))
        first = F.first(before).over(of_key.orderBy(*order))
        newest = F.row_number().over(of_key.orderBy(*(column.desc() for column in order)))
        existed, exists = F.col("__existed"), ~before
        net = F.when(~exists, DELETE).when(existed, "update").otherwise(INSERT)
        return (
            self.feed.withColumn("__existed", first)
            .withColumn("__newest", newest)
            .where(F.col("__newest") == 1)
            .withColumn(CHANGE, net)
            .drop("__existed", "__newest")
        )

    def touched(self, *keys: str, also: str | None = None, **expressions: str) -> Touched:
        """The distinct keys of the range's changes, from pre-images and post-images.

        Args:
            keys: Columns of the source that are columns of the key; they need not identify a row.
            also: A condition on rows that concern every key, such as truncates: a change of such a row touches all
                keys, and `rows` contains such rows whatever their own key.
            expressions: Further columns of the key, each as an expression over a row of the source:
                `customer="lower(trim(customer))"`. `rows` has them under these names.

        Raises:
            ReadError: No column was named.
            ReadError (COLUMN_MISSING): The source lacks one of the columns.
        """
        if not keys and not expressions:
            raise ReadError(f"touched() of '{self.name}' needs the columns whose keys were touched.")
        read = self._read
        require(read.source.columns, keys, f"'{self.name}'")
        read.uses.add(Use.KEYS)
        columns, source = (*keys, *expressions), _with_expressions(read.source, expressions)
        conditions = () if also is None else (also,)
        return Touched(columns, _touched_keys(read, columns, expressions, also), source, (read,), conditions)

    def log(self) -> DataFrame:
        """The feed under column names that a table with a change data feed of its own may hold.

        Raises:
            ReadError: The source has a column of such a name.
        """
        read = self._read
        clash = [name for name in LOG_NAMES.values() if name in fold(read.source.columns)]
        if clash:
            raise ReadError(
                f"'{self.name}' already has a column {clash[0]}, which log() would add.",
                "Nothing was written. Rename the feed's columns in the asset instead of calling log().",
            )
        read.uses.add(Use.CHANGED_ROWS)
        return read.log


def read_of(changes: Changes) -> SourceRead:
    """What the run reads of the source, for the library: its own use of a frame must not count as the function's."""
    match changes:
        case Changes(read):
            return read


def _touched_keys(
    read: SourceRead, columns: tuple[str, ...], expressions: dict[str, str], also: str | None
) -> EveryKey | SomeKeys:
    match read.content:
        case Everything():
            return EveryKey()
        case Nothing():
            keys = _with_expressions(read.source, expressions).select(*map(quote, columns))
            return SomeKeys(columns, Local.empty(keys))
        case Feed(rows=rows) as content:
            if also is not None and not is_empty(_with_expressions(content.frame, expressions).where(also)):
                return EveryKey()
            most = read.counts.images if read.commits_of_feed else None
            if expressions and tells_otherwise(content, named_in(content.frame, expressions.values())):
                return EveryKey()
            if expressions:
                computed = _with_expressions(content.frame, expressions)
                return SomeKeys(columns, computed if isinstance(rows, Local) else UnreadRows(computed), most)
            of_key = FromFeed.NEW_ROWS if (read.counts.updated, read.counts.deleted) == (0, 0) else FromFeed.ROWS
            from_feed = of_key if fold(columns) == fold(read.key) else FromFeed.KEYS
            return SomeKeys(columns, rows if isinstance(rows, Local) else UnreadRows(rows), most, from_feed)


def _with_expressions(frame: DataFrame, expressions: dict[str, str]) -> DataFrame:
    """The frame with columns that are computed row by row."""
    return frame.withColumns({name: F.expr(text) for name, text in expressions.items()}) if expressions else frame
