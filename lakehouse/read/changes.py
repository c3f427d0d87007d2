"""`Changes`: what changed in a source since this asset last read it; and the touched keys of a query over several."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.delta.commit_info import NO_ROWS, Commit, Rows
from lakehouse.delta.log import VersionRange
from lakehouse.delta.text import fold, quote
from lakehouse.errors import NotAppendOnlyError, ReadError
from lakehouse.read.content import (
    BEFORE,
    CHANGE,
    DELETE,
    INSERT,
    TIMESTAMP,
    VERSION,
    Content,
    Everything,
    Feed,
    Nothing,
    Times,
    tells_otherwise,
)
from lakehouse.read.touched import Touched, require
from lakehouse.read.touched_keys import EveryKey, FromFeed, KeyRows, SomeKeys, UnreadRows
from lakehouse.spark.driver_rows import Local, is_empty
from lakehouse.spark.exactness import may_be_exact, named_in
from lakehouse.spark.fitting import not_appended
from lakehouse.spark.table_version import TableVersion

LOG_NAMES = {CHANGE: "change_type", VERSION: "commit_version", TIMESTAMP: "commit_timestamp"}


@dataclass(frozen=True)
class Changes:
    """What changed in `source` in the versions `range`: `after` exclusive, `upto` inclusive.

    As the annotation of an input it makes the input incremental. The first read is the whole source as inserts.

    Args:
        source_at: The source, pinned at the end of the range.
        range: The versions.
        content: What is in them.
        commits: The commits of the range; empty if everything is read, or if an archive answers.
        behind: Versions that a limit left to the next run.
        key: The columns that identify a row of the source in every version of the range; empty if unknown.
        refusal: Why the table's own position was refused; None unless a run tag named the version to continue from.
        times: When the versions of the range were committed; None unless the asset keeps a history.
    """

    source_at: TableVersion
    range: VersionRange
    content: Content
    commits: tuple[Commit, ...] = ()
    behind: int = 0
    key: tuple[str, ...] = ()
    refusal: str | None = None
    times: Times | None = None

    @property
    def name(self) -> str:
        return self.source_at.ref.name

    @property
    def newest(self) -> str | None:
        """The digest of the commit at the end of the range; None if it was not read."""
        match self.content:
            case Nothing(since=str() as since):
                return since
            case Everything(newest=Commit() as commit) | Feed(newest=Commit() as commit):
                return commit.digest
            case _:
                return self.commits[-1].digest if self.commits else None

    @property
    def is_initial(self) -> bool:
        """Whether the whole source is presented as inserts."""
        return isinstance(self.content, Everything)

    @property
    def is_empty(self) -> bool:
        """Whether no row changed, as far as known: a feed that did not come to the driver is not read to find out."""
        match self.content:
            case Everything():
                return False
            case Nothing():
                return True
            case Feed(rows=Local(rows=rows)):
                return rows == 0
            case Feed():
                return False

    @cached_property
    def source(self) -> DataFrame:
        """The source as it was at the end of the range."""
        return self.whole

    @cached_property
    def whole(self) -> DataFrame:
        """What `source` is, for the library's own use: the use of `source` tells that a result has all its rows."""
        return self.source_at.rows()

    @cached_property
    def feed(self) -> DataFrame:
        """The change data feed of the range: the source's columns and the feed's own three."""
        match self.content:
            case Everything() as everything:
                return self._with_feed_columns(
                    self.whole, F.lit(INSERT), F.timestamp_millis(F.lit(everything.committed))
                )
            case Nothing():
                nothing = self.whole.limit(0)
                return self._with_feed_columns(nothing, F.lit(INSERT), F.timestamp_millis(F.lit(0)))
            case Feed():
                return self.content.frame

    def appended(self) -> DataFrame:
        """The rows inserted in the range, without the feed's columns.

        Raises:
            NotAppendOnlyError: The source updated or deleted rows in the range. Where its commits do not say, that is
                found while the rows are read, as a BrokenPromiseError, and nothing is written.
        """
        for commit in self._read:
            if commit.rows.updated or commit.rows.deleted:
                raise NotAppendOnlyError(
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
            ColumnMissingError: The source lacks one of them.
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
            also: A condition on rows that concern every key, such as truncates: a change of one touches all keys, and
                `rows` has such rows whatever their own key.
            expressions: Further columns of the key, each as an expression over a row of the source:
                `customer="lower(trim(customer))"`. `rows` has them under these names.

        Raises:
            ReadError: No column was named.
            ColumnMissingError: The source lacks one of the columns.
        """
        if not keys and not expressions:
            raise ReadError(f"touched() of '{self.name}' needs the columns whose keys were touched.")
        require(self.whole.columns, keys, f"'{self.name}'")
        columns, source = (*keys, *expressions), self._with_expressions(self.whole, expressions)
        conditions = () if also is None else (also,)
        return Touched(columns, self._touched_keys(columns, expressions, also), source, (self.name,), conditions)

    def _touched_keys(
        self, columns: tuple[str, ...], expressions: dict[str, str], also: str | None
    ) -> EveryKey | SomeKeys:
        match self.content:
            case Everything():
                return EveryKey()
            case Nothing():
                keys = self._with_expressions(self.whole, expressions).select(*map(quote, columns))
                return SomeKeys(columns, Local.empty(keys))
            case Feed(rows=rows) as content:
                if also is not None and not is_empty(self._with_expressions(content.frame, expressions).where(also)):
                    return EveryKey()
                most = self.counts.images if self._read else None
                if expressions and tells_otherwise(content, named_in(content.frame, expressions.values())):
                    return EveryKey()
                if expressions:
                    computed = self._with_expressions(content.frame, expressions)
                    return SomeKeys(columns, computed if isinstance(rows, Local) else UnreadRows(computed), most)
                of_key = FromFeed.NEW_ROWS if (self.counts.updated, self.counts.deleted) == (0, 0) else FromFeed.ROWS
                from_feed = of_key if fold(columns) == fold(self.key) else FromFeed.KEYS
                return SomeKeys(columns, rows if isinstance(rows, Local) else UnreadRows(rows), most, from_feed)

    def _with_expressions(self, frame: DataFrame, expressions: dict[str, str]) -> DataFrame:
        """The frame with columns that are computed row by row."""
        return frame.withColumns({name: F.expr(text) for name, text in expressions.items()}) if expressions else frame

    @property
    def is_used(self) -> bool:
        """Whether the run uses the changed rows, by `feed`, `appended()`, `net()` or `log()`.

        Of a first read the source has them, too.
        """
        return "feed" in vars(self) or (self.is_initial and "source" in vars(self))

    @property
    def is_used_alone(self) -> bool:
        """Whether the run uses the changed rows, or the rows of touched keys, and not the whole source.

        In a range without changed rows both are empty, which is no reason to replace a table by no row.
        """
        return not self.is_initial and bool(vars(self).keys() & {"feed", "whole"}) and "source" not in vars(self)

    @property
    def read_no_feed(self) -> bool:
        """Whether no feed is read to compute: it was already read, there is none, or the source is read instead."""
        match self.content:
            case Feed(rows=rows):
                return isinstance(rows, Local)
            case Everything() | Nothing():
                return True

    def log(self) -> DataFrame:
        """The feed under column names that a table with a change data feed of its own may hold.

        Raises:
            ReadError: The source has a column of such a name.
        """
        clash = [name for name in LOG_NAMES.values() if name in fold(self.whole.columns)]
        if clash:
            raise ReadError(
                f"'{self.name}' already has a column {clash[0]}, which log() would add.",
                "Nothing was written. Rename the feed's columns in the asset instead of calling log().",
            )
        return self._log

    def is_log(self, rows: DataFrame) -> bool:
        """Whether rows are what `log()` gave, untouched, and the log of every commit of the range."""
        whole = not isinstance(self.content, Feed) or self.content.archived or self.content.commits == self.commits
        return whole and rows is self._log

    @cached_property
    def _log(self) -> DataFrame:
        return self.feed.withColumnsRenamed(LOG_NAMES)

    @property
    def counts(self) -> Rows:
        """How many rows the commits changed, by their own metrics."""
        return sum((commit.rows for commit in self._read), NO_ROWS)

    @property
    def are_of_the_feed(self) -> bool:
        """Whether the changes come from Delta's feed; an archive, or the whole source, needs another way."""
        return isinstance(self.content, Feed) and not self.content.archived

    @property
    def _read(self) -> tuple[Commit, ...]:
        return self.content.commits if isinstance(self.content, Feed) else ()

    def _with_feed_columns(self, rows: DataFrame, change: Column, at: Column) -> DataFrame:
        return rows.withColumns({CHANGE: change, VERSION: F.lit(self.range.upto).cast("bigint"), TIMESTAMP: at})


def touched_by(query: Callable[..., DataFrame], keys: str | Sequence[str], *changes: Changes) -> Touched:
    """The keys that rows of `query(*sources)` had or have because one of the sources changed.

    For each source the query is computed of its changed rows, before and after, beside the other sources as they are
    and as they were. So no key is left out, although a key may take columns of sources that changed together.

    Args:
        query: Takes a DataFrame for each of `changes`, in their order, and gives rows with the keys: inner joins,
            filters and projections. (Of an outer join a key may lack the side that is not there.)
        keys: The columns of the key in the query's result.
        changes: The sources.

    Raises:
        ReadError: No source, or no column is named.
        ColumnMissingError: The query's result lacks a column of the key.
    """
    columns = (keys,) if isinstance(keys, str) else tuple(keys)
    if not columns or not changes:
        raise ReadError("touched_by() needs the columns of a key, and the changes of at least one source.")
    now = query(*(of.whole for of in changes))
    require(now.columns, columns, "the result of touched_by()'s query")
    inputs = tuple(of.name for of in changes)
    if any(of.is_initial or _tells_otherwise(of) for of in changes):
        return Touched(columns, EveryKey(), None, inputs)
    both = [_now_and_before(of) for of in changes]
    touched = SomeKeys(columns, Local.empty(now.select(*map(quote, columns))), 0)
    for place, of in enumerate(changes):
        if not of.is_empty:
            of_changed = query(*both[:place], of.feed.drop(*LOG_NAMES), *both[place + 1 :])
            touched = touched.union(SomeKeys(columns, _rows(of_changed.select(*map(quote, columns)), changes)))
    return Touched(columns, touched, None, inputs)


def _rows(frame: DataFrame, changes: Sequence[Changes]) -> KeyRows:
    """Rows that may be brought to the driver where no feed has to be read for them."""
    unread = any(isinstance(of.content, Feed) and not isinstance(of.content.rows, Local) for of in changes)
    return UnreadRows(frame) if unread else frame


def _tells_otherwise(changes: Changes) -> bool:
    """Whether a value of the feed may be another one in the source, from which the query computes another key.

    A type that is never exact, such as MAP, does not count: nobody knows whether the query makes keys of it.
    """
    content = changes.content
    return isinstance(content, Feed) and tells_otherwise(content, filter(may_be_exact, content.frame.schema.fields))


def _now_and_before(changes: Changes) -> DataFrame:
    """The source's rows at the end of the range, and those that it no longer has."""
    if changes.is_empty:
        return changes.whole
    removed = changes.feed.where(F.col(CHANGE).isin(DELETE, BEFORE)).drop(*LOG_NAMES)
    return changes.whole.unionByName(removed)
