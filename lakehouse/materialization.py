"""One materialization of one asset, from its first input to its commit; knows nothing of Dagster."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession

from lakehouse.commit.commit import commit
from lakehouse.commit.outcome import Outcome
from lakehouse.commit.superseded import refuse_foreign, refuse_unsafe
from lakehouse.cursor.find import Cursor, Fresh, Known, Lost, find_cursor
from lakehouse.cursor.mark import Position
from lakehouse.declare.read import Read
from lakehouse.declare.retry import REAL_CLOCK, Clock, Retry
from lakehouse.declare.table import Table
from lakehouse.errors import FULL_REFRESH, GapError, PartitionRangeError, WriteError
from lakehouse.log.log import Head, version_of
from lakehouse.log.size import Size, total
from lakehouse.log.versions import NOTHING_READ
from lakehouse.read.archive import archived
from lakehouse.read.changes import Changes, Everything
from lakehouse.read.feed_reader import Feeds
from lakehouse.read.resolve import Reader, Source, read_changes
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import is_empty
from lakehouse.spark.prefetch import prefetch
from lakehouse.spark.snapshot import TableRef, TableVersion
from lakehouse.spark.types import column_types
from lakehouse.sql.partitions import Slice
from lakehouse.write.aggregate import Aggregate, unsummed
from lakehouse.write.writes import Append, Write

DAY = 24 * 60 * 60 * 1000
WEEK = 7 * DAY
"""Milliseconds. Delta keeps 30 days of a log unless told otherwise."""
APPEND_REMEDY = (
    "An Append cannot take rows back. Name an archive of the source in Read(archive=...), or delete the table and "
    "materialize it anew."
)
LOST_REMEDY = (
    "An Append cannot take rows back, and nobody knows which it has. Restore the table to a version that it wrote "
    "itself, or delete the table and materialize it anew."
)
PARTIAL_REMEDY = (
    "Its input leaves changes out (Read(start=..., exclude_operations=...)), so it is not compared with the whole "
    f"source unasked: what was left out would come in. Materialize once with the run tag {FULL_REFRESH}=true to do "
    "that; under its former code version it goes on from its position."
)


@dataclass(frozen=True, slots=True)
class Asset:
    """What an asset's definition says about its table.

    Args:
        name: The asset key, its parts joined by "/".
        table: What it declares.
        ref: Where the table is.
        appends: Whether it returns an `Append`, which cannot take rows back.
        incremental: Whether it reads changes.
        inputs: The sources that it reads, as they are named now.
        code_version: Its code version.
    """

    name: str
    table: Table
    ref: TableRef
    appends: bool
    incremental: bool
    inputs: frozenset[str] = frozenset()
    code_version: str | None = None


@dataclass
class Materialization:
    """Pins what one run reads, input by input, and makes its result one commit.

    Args:
        spark: Gives the session; asked only when rows are read or written.
        asset: The asset.
        run_id: Dagster's id of the run.
        slice: The partitions that the run writes.
        compare: Why everything is to be compared, where somebody asked for it.
        gap: Why the feeds cannot be read, where the run has found that out before.
        aliases: Ids of runs whose commits count as this run's own.
        feeds: What this run has read so far, for other assets.
        now: When it began, in milliseconds since the epoch.
    """

    spark: Callable[[], SparkSession]
    asset: Asset
    run_id: str
    slice: Slice | None = None
    compare: str | None = None
    gap: str | None = None
    aliases: frozenset[str] = frozenset()
    feeds: Feeds = field(default_factory=Feeds)
    now: int = field(default_factory=lambda: int(time.time() * 1000))
    cursor: Cursor = field(init=False)
    began: float = field(init=False, default_factory=time.monotonic)
    _head: Head | None = field(init=False)
    _prefetched: bool = field(init=False, default=False)
    _changes: list[Changes] = field(init=False, default_factory=list[Changes])
    _partial: set[str] = field(init=False, default_factory=set[str])
    _reason: str | None = field(init=False)
    _lookups: dict[str, Position] = field(init=False, default_factory=dict[str, Position])
    _sizes: list[Size | None] = field(init=False, default_factory=list[Size | None])

    def __post_init__(self) -> None:
        log = self.asset.ref.log(self.spark)
        self._head = head = log.head()
        partitions = self.slice.keys if self.slice else ()
        self.cursor = find_cursor(
            log, head, self.asset.name, partitions, positions=self.asset.incremental, asked=self.compare is not None
        )
        if self.asset.incremental and len(partitions) > 1:
            raise PartitionRangeError(self.asset.name, partitions)
        if isinstance(self.cursor, Lost) and self._holds_nothing():
            self.cursor = Fresh(self.cursor.generation, self.cursor.epoch)
        self._reason = None if self.compare is not None else self._own_reason()
        run = self.pinned()
        refuse_unsafe(run, head)
        refuse_foreign(run, self.cursor)

    def lookup(self, source: Source) -> DataFrame:
        """The source at its pinned version: rows written earlier do not follow it when it changes."""
        self._sizes.append(source.log.size())
        self._lookups[source.at.ref.name] = Position(
            source.head.table_id, source.head.version, lookup=True, mapped=source.at.mapped
        )
        return source.at.rows()

    def changes(self, source: Source, read: Read, archive: Callable[[str], TableRef]) -> Changes:
        """The changes of the source since the table's own position.

        Raises:
            GapError: They cannot be told any more, and the table may not be compared instead.
        """
        name, asset = source.at.ref.name, self.asset
        position = self._position(name, source.head.table_id)
        recomputes = not asset.appends and read.is_whole
        reader = Reader(
            asset=asset.name,
            read=read,
            recomputes=recomputes,
            may_compare=recomputes and asset.table.on_gap == "reconcile",
            remedy=self._remedy if read.is_whole or asset.appends else PARTIAL_REMEDY,
            compare=self._why_everything(source, read, position),
            gap=self.gap,
            archive=None if read.archive is None else partial(archived, archive(read.archive), source.at),
            furthest=self.cursor.furthest(name) if isinstance(self.cursor, Known) else NOTHING_READ,
            feeds=self.feeds,
            ahead=self._prefetch,
        )
        changes = read_changes(source, None if position is not None and position.lookup else position, reader)
        # A long history may hold more changes than the source has rows.
        self._sizes.append(source.log.size() if changes.read_no_feed else None)
        self._changes.append(changes)
        if not read.is_whole:
            self._partial.add(name)
        return changes

    def _why_everything(self, source: Source, read: Read, position: Position | None) -> str | None:
        """Why the whole source is compared from the start; None where it is read on, or for the first time.

        Raises:
            GapError: It cannot be read on, and may not be compared.
        """
        if self.compare is not None:
            return self.compare
        if self._reason is not None:
            if read.is_whole:
                return self._reason
            raise self._gap(source, position, self._reason, PARTIAL_REMEDY)
        if isinstance(self.cursor, Lost):
            raise self._gap(source, None, self.cursor.reason, LOST_REMEDY if self.asset.appends else self._remedy)
        return self._again if read.is_whole else None

    def _gap(self, source: Source, position: Position | None, reason: str, remedy: str) -> GapError:
        after = NOTHING_READ if position is None else position.version
        return GapError(self.asset.name, source.at.ref.name, after, source.head.version, reason, remedy)

    def pinned(self) -> Run:
        """What has been pinned so far."""
        return Run(
            asset=self.asset.name,
            table=self.asset.table,
            ref=self.asset.ref,
            run_id=self.run_id,
            cursor=self.cursor,
            aliases=self.aliases,
            changes=tuple(self._changes),
            kept=self._kept(),
            lookups=dict(self._lookups),
            slice=self.slice,
            code_version=self.asset.code_version,
            compares_everything=(self.compare or self._reason) is not None,
            asked=self.compare is not None,
            ages=self._ages or any(map(self._lags, self._changes)),
            began_at=version_of(self._head),
            table_id=None if self._head is None else self._head.table_id,
            inputs=total(self._sizes),
        )

    def commit(
        self, write: Write, retry: Retry, clock: Clock = REAL_CLOCK, tell: Callable[[str], None] = lambda _: None
    ) -> Outcome:
        """Makes the write true of the table in one commit; see `lakehouse.commit.commit.commit`."""
        run = self.pinned()
        self._refuse_doubling(run, write)
        if isinstance(write, Aggregate) and write.changes.name in self._partial:
            raise WriteError(f"{unsummed(run.asset, write.changes.name)} Nothing was written.")
        return commit(self.spark(), run, write, retry, clock, tell)

    def _holds_nothing(self) -> bool:
        """Whether the run's partitions have no row: then nothing can be doubled, and there is nothing to compare."""
        if self.slice is None or self._head is None:
            return False
        rows = TableVersion.of(self.spark(), self.asset.ref, self._head).rows()
        return is_empty(rows.where(self.slice.predicate(column_types(rows.schema))))

    @cached_property
    def _ages(self) -> bool:
        """Whether log cleanup could reach the last own commit some day: behind it are others', or it is a week old.

        One that is the newest stays, but in a burst of others' it is reached before the next run.
        """
        if not self.asset.incremental or not isinstance(self.cursor, Known) or self._head is None:
            return False
        log, own, newest = self.asset.ref.log(self.spark), self.cursor.version, self._head.version
        times = [commit.timestamp for version in {own, newest} for commit in log.commits(version, version)]
        return max(times) - min(times) > DAY or self.now - min(times) > WEEK

    def _lags(self, changes: Changes) -> bool:
        """Whether log cleanup could reach the commits behind the position some day, none of which has rows."""
        return bool(changes.commits) and self.now - changes.commits[0].timestamp > DAY

    def _prefetch(self) -> None:
        """Has Delta replay the table's log, once: the comparison and the commit need it."""
        if self._head is not None and not self._prefetched:
            self._prefetched = True
            prefetch(self.spark(), self.asset.ref)

    def _position(self, name: str, table_id: str) -> Position | None:
        """How far a source has been read; an `Append` knows it by its table, too, should that have another name now.

        A first read would add everything once more. What is compared may be read from the beginning. A copied directory
        has the table's id as well: a name that is still read is no old one.
        """
        known = self.cursor.reads.get(name)
        if known is not None or not self.asset.appends:
            return known
        reads = [at for was, at in self.cursor.reads.items() if was not in self.asset.inputs]
        return next((at for at in reads if at.table == table_id and not at.lookup), None)

    def _kept(self) -> dict[str, Position]:
        """Positions of sources that an `Append` no longer reads: its rows from them stay, should they be read again."""
        if not self.asset.appends:
            return {}
        read = {changes.name for changes in self._changes} | self._lookups.keys()
        tables = {changes.source_at.table_id for changes in self._changes}
        return {
            name: at
            for name, at in self.cursor.reads.items()
            if name not in read and at.table not in tables and not at.lookup
        }

    def _own_reason(self) -> str | None:
        """Why everything is compared although nobody asked: a lost position, or changed logic."""
        asset = self.asset
        if asset.appends or not asset.incremental:
            return None
        match self.cursor:
            case Lost(reason=reason) if asset.table.on_gap == "reconcile":
                return reason
            case Known(mark=mark) if mark.code_version != asset.code_version:
                return f"the asset's code version is now {asset.code_version} and was {mark.code_version}"
            case _:
                return None

    @property
    def _again(self) -> str | None:
        """Why everything is compared once more, although nobody asked."""
        match self.cursor:
            case Known(compare_again=True, version=version) if not self.asset.appends:
                return f"a rival's rows came just before version {version}, which had compared everything"
            case _:
                return None

    def _refuse_doubling(self, run: Run, write: Write) -> None:
        """An `Append` cannot take rows back, so it never adds everything a second time."""
        if not isinstance(write, Append):
            return
        for changes in run.changes:
            before = self._position(changes.name, changes.source_at.table_id)
            match self.cursor:
                case Fresh(foreign=None):  # other partitions may have been other keys, with these rows among theirs
                    unread = self.slice is None or self._head is None or self._holds_nothing()
                case Known():
                    unread = before is None
                case _:
                    unread = False
            if isinstance(changes.content, Everything) and not unread:
                after = before.version if before is not None else NOTHING_READ
                reason = changes.content.reason or "the table holds rows of another origin"
                raise GapError(run.asset, changes.name, after, changes.range.upto, reason, APPEND_REMEDY)

    @property
    def _remedy(self) -> str:
        if self.asset.appends:
            return APPEND_REMEDY
        return (
            f"Materialize once with the run tag {FULL_REFRESH}=true: everything is compared, differences are written."
        )
