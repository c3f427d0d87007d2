"""An incremental table and the sources whose changes it follows: what is unread, partition by partition.

The sensor, the automation condition and the checks ask here; a run goes by the same `lakehouse.cursor.unread`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import dagster as dg

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.definition import digest
from lakehouse.cursor.each import cursor_of_each
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.unread import Backlog, backlog
from lakehouse.dagster.code_location import changes_of, result_annotation
from lakehouse.declare.table import Table
from lakehouse.errors import LakehouseError
from lakehouse.follow.backlogs import backlogs_by_partition, has_rows, reads_on, recent
from lakehouse.follow.partitions import SourcePartitions, keys_of_rows
from lakehouse.log.commit_info import Commit
from lakehouse.log.file_log import FileLog
from lakehouse.log.log import Head, Log
from lakehouse.results.writes import Append
from lakehouse.spark.snapshot import TableRef

Logs: TypeAlias = Callable[[TableRef], tuple[Log, Head | None]]
"""Gives the log of a table, and where the table stands; None if there is none."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a table has not read is not known without Spark, or not now.

    Args:
        reason: Why, as a clause or a sentence.
        missing: The sources that have no table; none where the reason is another.
    """

    reason: str
    missing: frozenset[dg.AssetKey] = frozenset()


def error_in_short(error: Exception) -> str:
    """What an unexpected error says, without what it says at length."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def can_follow(look: object, selected: Collection[dg.AssetKey]) -> bool:
    """Whether a table can run behind those that are selected: all that it misses is made by them."""
    return not isinstance(look, LeftOut) or bool(look.missing and look.missing <= frozenset(selected))


@dataclass(frozen=True, slots=True)
class Backlogs:
    """What a table has not read.

    Args:
        by_partition: What is left of each source, in order, for each partition that rows of the tables are in; a table
            without partitions has the one key None. The newest partitions come first.
        newest: The last commit of each source that makes another run worth while, if all of the source is read: it may
            have changed rows. None if it is not among the newest, or if no commit does.
        note: What is worth knowing beside that, as a sentence; empty if nothing is.
        own_mark_since: When the table's last own commit was made, in milliseconds since the epoch, if others have
            committed after it: log cleanup keeps the newest commit alone. None for a table of partitions.
    """

    by_partition: Mapping[str | None, tuple[Backlog, ...]]
    newest: Mapping[str | None, tuple[Commit | None, ...]]
    note: str = ""
    own_mark_since: int | None = None


@dataclass(frozen=True, slots=True)
class FollowedSource:
    """A table whose changes are followed.

    Args:
        key: Its asset key.
        ref: Where it is.
        declared: What it declares.
        partitions_def: Its partitions in Dagster; None if it has none there.
    """

    key: dg.AssetKey
    ref: TableRef
    declared: Table
    partitions_def: dg.PartitionsDefinition[Any] | None = None


@dataclass(frozen=True)
class Followed:
    """An incremental table.

    Args:
        asset: The asset.
        ref: Where its table is.
        declared: What it declares.
        sources: The tables whose changes it follows.
    """

    asset: dg.AssetsDefinition
    ref: TableRef
    declared: Table
    sources: tuple[FollowedSource, ...]

    @property
    def is_partitioned(self) -> bool:
        return self.asset.partitions_def is not None

    @property
    def refs(self) -> tuple[TableRef, ...]:
        """Every table whose log has to be read."""
        return (self.ref, *(source.ref for source in self.sources))

    @property
    def source_keys(self) -> frozenset[dg.AssetKey]:
        return frozenset(source.key for source in self.sources)

    @property
    def declaration(self) -> str:
        """What the asset declares, in short: of its table, its inputs, and its code version."""
        reads = {name: dict(read) for name, read in changes_of(self.asset).items()}
        declared = [dict(self.declared), reads, self.asset.code_versions_by_key.get(self.asset.key)]
        return digest(declared)

    def found_at(self, addresses: Mapping[str, str]) -> "Followed":
        """The same, with the tables that have a catalog name where they are known to be, by the names of the assets."""

        def resolved(ref: TableRef) -> TableRef:
            return ref.found_at(addresses[ref.name]) if ref.files is None and ref.name in addresses else ref

        sources = tuple(replace(source, ref=resolved(source.ref)) for source in self.sources)
        return replace(self, ref=resolved(self.ref), sources=sources)

    def why_out_of_reach(self) -> str | None:
        """Why a log cannot be read without Spark, as a clause; None if each can."""
        for ref in self.refs:
            if ref.files is None:
                return f"where {ref.identifier} is, is not known before a run has resolved the name"
            if (why := ref.why_only_spark()) is not None:
                return f"the log of {ref.name} is out of reach: {why}"
        return None

    def backlogs(self, logs: Logs) -> Backlogs | LeftOut:
        """What has not been read of each source. For a partition, commits whose rows belong to others do not count.

        Raises:
            UnreadableLogError: A log cannot be read, or a mark is damaged.
        """
        missing = {source.key: source.ref.location for source in self.sources if logs(source.ref)[1] is None}
        if missing:
            return LeftOut(f"there is no table at {' and '.join(missing.values())}", frozenset(missing))
        if self.is_partitioned:
            return self._by_partition(logs)
        own_log, own_head = logs(self.ref)
        cursor = find_cursor(own_log, own_head, self.ref.name)
        standing = list(self._standing(logs))
        each = tuple(backlog(cursor, log, name, head) for name, log, head in standing)
        newest = tuple(
            next(filter(has_rows, recent(log, head)), None) if not reads_on(unread_part) else None
            for unread_part, (_, log, head) in zip(each, standing, strict=True)
        )
        return Backlogs({None: each}, {None: newest}, own_mark_since=_mark_behind_others(cursor, own_log, own_head))

    def _by_partition(self, logs: Logs) -> Backlogs | LeftOut:
        assert self.asset.partitions_def is not None
        listed = self.asset.partitions_def.get_partition_keys()
        own = frozenset(listed)
        mapped = self._mapped(logs, own)
        if isinstance(mapped, LeftOut):
            return mapped
        log, head = logs(self.ref)
        candidates = frozenset[str]().union(*(partitions.present() for partitions in mapped))
        if head is not None and isinstance(log, FileLog):
            candidates |= self._written(log, head, own)
        cursors = cursor_of_each(log, head, self.ref.name, candidates)
        each = [
            backlogs_by_partition(
                cursors, source_log, name, source_head, partitions, refuses_gaps=self._refuses_gaps(source.key)
            )
            for source, (name, source_log, source_head), partitions in zip(
                self.sources, self._standing(logs), mapped, strict=True
            )
        ]
        newest_first = [partition for partition in reversed(listed) if partition in candidates]
        return Backlogs(
            {partition: tuple(backlogs[partition][0] for backlogs in each) for partition in newest_first},
            {partition: tuple(backlogs[partition][1] for backlogs in each) for partition in newest_first},
            " ".join(partitions.note for partitions in mapped if partitions.note),
        )

    def _written(self, log: FileLog, head: Head, own: frozenset[str]) -> frozenset[str]:
        """The partitions that the table has rows of; if its files name none, those that its own commits wrote."""
        assert self.asset.partitions_def is not None
        rows = keys_of_rows(self.ref.name, self.asset.partitions_def, self.declared, log, head)
        if rows is not None:
            return rows.of_rows(log.partition_values()) & own
        cursors = cursor_of_each(log, head, self.ref.name, own)
        return frozenset(partition for partition, cursor in cursors.items() if isinstance(cursor, Known))

    def _refuses_gaps(self, source: dg.AssetKey) -> bool:
        """Whether a run refuses a gap of a source, for which no archive may answer, instead of reading all of it."""
        names = [name for name, key in self.asset.keys_by_input_name.items() if key == source]
        reads = [read for name, read in changes_of(self.asset).items() if name in names]
        refuses = result_annotation(self.asset) is Append or self.declared.on_gap == "fail"
        return all(read.archive is None and (refuses or not read.is_whole) for read in reads)

    def _mapped(self, logs: Logs, own: frozenset[str]) -> tuple[SourcePartitions, ...] | LeftOut:
        """To which of the table's own partitions the rows of each source belong."""
        mapped = list[SourcePartitions]()
        for source in self.sources:
            log, head = logs(source.ref)
            if not isinstance(log, FileLog) or head is None:
                return LeftOut(f"the log of {source.ref.name} is out of reach: {source.ref.why_only_spark()}")
            try:
                partitions = SourcePartitions.of(
                    self.asset, own, source.key, source.partitions_def, source.declared, log, head
                )
            except LakehouseError:
                raise
            except Exception as error:  # a mapping may be anybody's
                return LeftOut(f"its partitions for {source.ref.name} cannot be found: {error_in_short(error)}")
            mapped.append(partitions)
        return tuple(mapped)

    def _standing(self, logs: Logs) -> Iterator[tuple[str, Log, Head]]:
        for source in self.sources:
            log, head = logs(source.ref)
            if head is not None:
                yield source.ref.name, log, head


def _mark_behind_others(cursor: Cursor, log: Log, head: Head | None) -> int | None:
    """When the last own commit was made, if it is no longer the table's newest."""
    if not isinstance(cursor, Known) or head is None or cursor.version == head.version:
        return None
    return next((commit.timestamp for commit in log.commits(cursor.version, cursor.version)), None)
