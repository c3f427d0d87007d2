"""What a run reads of one source as changes: the whole source, nothing, or the change data feed, with its times."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.delta.commit_info import NO_ROWS, Commit, Rows
from lakehouse.delta.log import VersionRange
from lakehouse.spark.driver_rows import Local, is_empty
from lakehouse.spark.exactness import are_exact, inexact_in
from lakehouse.spark.table_version import TableVersion


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a range of versions, in milliseconds since the epoch.

    Args:
        since: The time of the version after which the range begins; None if nothing was read before.
        of: The time of each version of the range; if everything is compared, only that of the last version.
        upto: The time of the last version of the range.
    """

    since: int | None
    upto: int
    of: Mapping[int, int] = field(default_factory=dict[int, int])


def times_of(commits: Iterable[tuple[int, int]], before: tuple[int, int] | None = None) -> dict[int, int]:
    """The time of each version: that of its commit, but at least one millisecond later than the version before.

    Args:
        commits: Versions and the times in their commits, in the order of the versions; some may be missing.
        before: The version before them, and its time; None if nothing was read before.
    """
    times: dict[int, int] = {}
    for version, timestamp in commits:
        times[version] = timestamp if before is None else max(timestamp, before[1] + version - before[0])
        before = version, times[version]
    return times


CHANGE, VERSION, TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
LOG_NAMES = {CHANGE: "change_type", VERSION: "commit_version", TIMESTAMP: "commit_timestamp"}
"""The names of the feed's columns in a table that keeps them."""


def as_inserted(rows: DataFrame, version: int, committed: int) -> DataFrame:
    """Rows in the form in which the feed gives inserted rows; `committed` is in milliseconds since the epoch."""
    at = F.timestamp_millis(F.lit(committed))
    return rows.withColumns({CHANGE: F.lit(INSERT), VERSION: F.lit(version).cast("bigint"), TIMESTAMP: at})


def rows_after(images: Local, key: Sequence[str], columns: Sequence[str]) -> Local | None:
    """The source's rows with the keys of a range, as of the end of the range; None if the images may be inexact.

    None also if a key is NULL, because in SQL a unique key may be NULL in many rows.
    """
    if images.values(key) is None:
        return None
    kinds = {field.name.lower(): field.dataType for field in images.schema.fields}
    if not all(are_exact(images.arrow.column(column), kinds[column.lower()]) for column in columns):
        return None
    key_columns = [images.column(column) for column in key]
    if any(column.null_count for column in key_columns):
        return None
    places, numbers = _newest(key_columns, images.arrow.column(VERSION))
    after = np.isin(images.arrow.column(CHANGE).to_numpy(), (INSERT, AFTER))[places]
    if np.bincount(numbers[after]).max(initial=0) > 1:
        return None  # the key does not identify a row after all
    return images.take(places[after]).select(columns)


def _newest(key: Sequence[Any], versions: Any) -> tuple[Any, Any]:
    """The indexes of the images of each key's newest version, and for each of these images the number of its key."""
    names = [str(index) for index, _ in enumerate(key)]
    table: Any = pa.table([*key, versions, pa.array(np.arange(len(versions)))], names=[*names, "version", "place"])
    table = table.sort_by([*((name, "ascending") for name in names), ("version", "descending")]).combine_chunks()
    begins = np.zeros(len(table), bool)
    begins[:1] = True
    for name in names:
        values = table.column(name)
        begins[1:] |= pc.not_equal(values[1:], values[:-1]).to_numpy()
    numbers: Any = np.cumsum(begins) - 1
    of_image = table.column("version").to_numpy()
    is_newest = of_image == of_image[begins][numbers]
    return table.column("place").to_numpy()[is_newest], numbers[is_newest]


@dataclass(frozen=True, slots=True)
class Everything:
    """The whole source counts as inserted: a first read, or a comparison of everything.

    Args:
        reason: Why the known position is not continued; None at a first read.
        newest: The commit of the version that is read; None if it was cleaned up.
        for_cost: Whether the position could be continued, but that would take more work.
    """

    reason: str | None = None
    newest: Commit | None = None
    for_cost: bool = False

    @property
    def committed_at(self) -> int:
        """When the version that is read was committed, in milliseconds since the epoch."""
        return 0 if self.newest is None else self.newest.timestamp


@dataclass(frozen=True, slots=True)
class Nothing:
    """No row changed in the range.

    Args:
        since: The digest of the commit that was read last; None if it is not known.
    """

    since: str | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """The change data feed of the range.

    Args:
        rows: The rows that changed, with the feed's three columns; at the driver if they are few.
        via: How they were read if the plain feed could not answer; None if it could.
        commits: The commits that were read; empty if the rows come from an archive.
        archived: Whether the rows come from an archive, and not from Delta's feed.
        newest: The commit at the end of the range, if the rows come from an archive; None if it was cleaned up.
    """

    rows: DataFrame | Local
    via: str | None = None
    commits: tuple[Commit, ...] = ()
    archived: bool = False
    newest: Commit | None = None

    @property
    def frame(self) -> DataFrame:
        return self.rows.frame if isinstance(self.rows, Local) else self.rows


def tells_otherwise(feed: Feed, columns: Iterable[StructField]) -> bool:
    """Whether the feed has a value in one of the columns that may differ from the value in the table.

    An expression over such a value may give a key that no row has.
    """
    inexact = inexact_in(columns)
    return inexact is not None and not is_empty(feed.frame.where(inexact))


Content: TypeAlias = Everything | Nothing | Feed


class Use(Enum):
    """What an asset's function took from a source that it reads as changes.

    SOURCE: the whole source. CHANGED_ROWS: rows of the feed. KEYS: touched keys. TOUCHED_ROWS: the rows of a frame that
    have touched keys.
    """

    SOURCE = auto()
    CHANGED_ROWS = auto()
    KEYS = auto()
    TOUCHED_ROWS = auto()


@dataclass(frozen=True, eq=False)
class SourceRead:
    """What a run reads of one source: the content of the versions `range`, and how it was found.

    Args:
        source_at: The source, pinned at the end of the range.
        range: The versions.
        content: What is read of these versions.
        commits: The commits of the range; empty if everything is read, or if an archive answers.
        behind: How many versions a limit left to later runs.
        key: The columns that identify a row of the source in every version of the range; empty if unknown.
        refusal: Why the table's own position was refused; None unless a run tag named the version to continue from.
        times: When the versions of the range were committed; None unless the asset keeps a history.
        uses: What the asset's function has taken so far, as `Changes` and `Touched` record it.
    """

    source_at: TableVersion
    range: VersionRange
    content: Content
    commits: tuple[Commit, ...] = ()
    behind: int = 0
    key: tuple[str, ...] = ()
    refusal: str | None = None
    times: Times | None = None
    uses: set[Use] = field(default_factory=set[Use])

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

    @property
    def source(self) -> DataFrame:
        """The source as it was at the end of the range."""
        return self.source_at.rows()

    @cached_property
    def feed(self) -> DataFrame:
        """The change data feed of the range: the source's columns and the feed's own three."""
        match self.content:
            case Everything(committed_at=committed):
                return as_inserted(self.source, self.range.upto, committed)
            case Nothing():
                return as_inserted(self.source.limit(0), self.range.upto, 0)
            case Feed():
                return self.content.frame

    @cached_property
    def log(self) -> DataFrame:
        """The feed under the names of `LOG_NAMES`."""
        return self.feed.withColumnsRenamed(LOG_NAMES)

    def is_log(self, rows: DataFrame) -> bool:
        """Whether a frame is the unedited `log`, and this log covers every commit of the range."""
        whole = not isinstance(self.content, Feed) or self.content.archived or self.content.commits == self.commits
        return whole and rows is self.log

    @property
    def commits_of_feed(self) -> tuple[Commit, ...]:
        """The commits whose feed was read."""
        return self.content.commits if isinstance(self.content, Feed) else ()

    @property
    def counts(self) -> Rows:
        """How many rows the commits changed, by their own metrics."""
        return sum((commit.rows for commit in self.commits_of_feed), NO_ROWS)

    @property
    def are_of_the_feed(self) -> bool:
        """Whether the changes come from Delta's feed, and not from an archive or the whole source."""
        return isinstance(self.content, Feed) and not self.content.archived

    @property
    def read_no_feed(self) -> bool:
        """Whether computing reads no feed: it was already read, there is none, or the source is read instead."""
        match self.content:
            case Feed(rows=rows):
                return isinstance(rows, Local)
            case Everything() | Nothing():
                return True

    @property
    def gave_changes(self) -> bool:
        """Whether the function took the changed rows, as an `Append` must. At a first read the source is these rows."""
        return Use.CHANGED_ROWS in self.uses or (self.is_initial and Use.SOURCE in self.uses)

    @property
    def gave_a_part(self) -> bool:
        """Whether the function took only rows about the changes: an `Overwrite` of them would lose all other rows.

        A function that takes the whole source in addition to touched keys only looks which keys they are. Taking the
        source in addition to changed rows proves nothing, because a line that logs something may do that.
        """
        if self.is_initial:
            return False
        rows = {Use.CHANGED_ROWS, Use.TOUCHED_ROWS} & self.uses
        return bool(rows) or (Use.KEYS in self.uses and Use.SOURCE not in self.uses)
