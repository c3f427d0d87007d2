"""How far a table is behind each of its sources, partition by partition."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeGuard

import dagster as dg

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.definition import digest
from lakehouse.cursor.definition import partitions as described
from lakehouse.cursor.find import cursor_of_each, find_cursor
from lakehouse.cursor.unread import OTHER_PARTITIONS, Backlog, Unread, backlog
from lakehouse.dagster.code_location import AssetTable
from lakehouse.dagster.follow.partitions import SourcePartitions, slice_read
from lakehouse.dagster.slices import keys_of_rows
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.expect import SUFFIX
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.log import Commits, Head, Log, commits_between
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.table import Read
from lakehouse.errors import LakehouseError, in_short
from lakehouse.spark.table_version import TableRef

_FIRST = Read(max_versions=1)


def backlogs_by_partition(
    cursors: Mapping[str, Cursor], log: Commits, name: str, head: Head, partitions: SourcePartitions
) -> Mapping[str, Backlog]:
    """What each partition has not read of a source: the commits that may have changed its rows.

    Each commit is read once, and the commits after the oldest position are listed once. For each partition only the
    first commits are looked at, which show whether its next run reads on.
    """
    walked, by_cursor = _Walked(log), dict[int, Backlog]()
    for cursor in cursors.values():  # many partitions may share one
        if id(cursor) not in by_cursor:
            by_cursor[id(cursor)] = backlog(cursor, walked, name, head, _FIRST)
    after = min((each.position.version for each in by_cursor.values() if reads_on(each)), default=head.version)
    unread = commits_between(walked, name, after, head.version) or ()
    changes = tuple(commit for commit in unread if commit.concerns_readers)
    changed = partitions.changed_by(changes)
    backlogs = dict[str, Backlog]()
    for partition, cursor in cursors.items():
        unread_part = by_cursor[id(cursor)]
        if reads_on(unread_part):
            commits = changes if changed is None else changed.get(partition, ())
            first = bisect_right(commits, unread_part.position.version, key=lambda commit: commit.version)
            unread_part = replace(unread_part, commits=tuple(commits[first:]))
        backlogs[partition] = unread_part
    return backlogs


def reads_on(backlog: Backlog) -> TypeGuard[Unread]:
    """Whether the next run reads on from a position, commit by commit; otherwise it reads all, or refuses."""
    return isinstance(backlog, Unread) and backlog.gap is None


@dataclass
class _Walked:
    """The commits of a log, each read only once, although each partition walks back over them."""

    log: Commits
    _read: dict[int, Commit] = field(default_factory=dict[int, Commit])

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        version = newest
        while version >= oldest and version in self._read:
            yield self._read[version]
            version -= 1
        for commit in self.log.commits(version, oldest) if version >= oldest else ():
            self._read[commit.version] = commit
            yield commit


Logs: TypeAlias = Callable[[TableRef], tuple[Log, Head | None]]
"""Gives the log of a table, and where the table stands; None if there is no table."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a table has not read is unknown: only Spark could find out, or it cannot be found out now."""

    reason: str
    missing: frozenset[dg.AssetKey] = frozenset()


@dataclass(frozen=True, slots=True)
class UpToDate:
    """A table has nothing to read.

    Args:
        waits_for: The inputs that have to run before the table has something to read at which its inputs agree.
    """

    waits_for: frozenset[dg.AssetKey] = frozenset()


def can_follow(look: object, selected: Collection[dg.AssetKey]) -> bool:
    """Whether a table can run after the selected ones, as these make every source that it lacks or waits for."""
    match look:
        case LeftOut(missing=missing):
            return bool(missing) and missing <= frozenset(selected)
        case UpToDate(waits_for=inputs):
            return inputs <= frozenset(selected)
        case _:
            return True


@dataclass(frozen=True, slots=True)
class Backlogs:
    """What a table has not read.

    Args:
        by_partition: What is unread of each source, in order, for each partition that the tables have rows in; a table
            without partitions has the one key None. The newest partitions come first.
        note: What else is worth knowing, as a sentence; empty if nothing is.
        own_mark_since: When the table's last own commit was made, in milliseconds since the epoch, if other writers
            have committed after it: log cleanup keeps only the newest commit. None for a table with partitions.
    """

    by_partition: Mapping[str | None, tuple[Backlog, ...]]
    note: str = ""
    own_mark_since: int | None = None


@dataclass(frozen=True, slots=True)
class FollowedSource:
    """A table whose changes are followed."""

    table: AssetTable
    ref: TableRef

    @property
    def key(self) -> dg.AssetKey:
        return self.table.key


@dataclass(frozen=True)
class Followed:
    """An incremental table."""

    table: AssetTable
    ref: TableRef
    sources: tuple[FollowedSource, ...]

    @property
    def asset(self) -> dg.AssetsDefinition:
        assert self.table.asset is not None, "a table that no asset makes follows nothing"
        return self.table.asset

    @property
    def is_partitioned(self) -> bool:
        return self.table.partitions_def is not None

    @property
    def refs(self) -> tuple[TableRef, ...]:
        """Every table whose log has to be read."""
        quarantine = () if self.quarantine is None else (self.quarantine,)
        return (self.ref, *quarantine, *(source.ref for source in self.sources))

    @property
    def quarantine(self) -> TableRef | None:
        """The quarantine of a table with partitions, unless it goes by a catalog name; None if there is none.

        It may have rows of a partition of which neither the table nor a source has any.
        """
        if not self.is_partitioned or not self.table.declared.quarantines:
            return None
        quarantine = self.ref.beside(SUFFIX)
        return None if quarantine.files is None else quarantine

    @property
    def source_keys(self) -> frozenset[dg.AssetKey]:
        return frozenset(source.key for source in self.sources)

    def found_at(self, addresses: Mapping[str, str]) -> "Followed":
        """The same table; given addresses, by the names of the assets, are used for tables with a catalog name."""
        sources = tuple(replace(source, ref=source.ref.found_among(addresses)) for source in self.sources)
        return replace(self, ref=self.ref.found_among(addresses), sources=sources)

    def why_out_of_reach(self) -> str | None:
        """Why a log cannot be read without Spark, as a clause; None if each can."""
        for ref in self.refs:
            if (why := ref.why_only_spark()) is not None:
                return why if ref.files is None else f"the log of {ref.name} is out of reach: {why}"
        return None

    def backlogs(self, logs: Logs) -> Backlogs | LeftOut:
        """What has not been read of each source. For a partition, commits with only rows of others do not count."""
        missing = {source.key: source.ref.location for source in self.sources if logs(source.ref)[1] is None}
        if missing:
            return LeftOut(f"there is no table at {' and '.join(missing.values())}", frozenset(missing))
        if self.is_partitioned:
            return self._by_partition(logs)
        own_log, own_head = logs(self.ref)
        cursor = find_cursor(own_log, own_head, self.ref.name)
        each = tuple(
            _mapped_anew(
                backlog(cursor, log, source.ref.name, head), partial(slice_read, self.asset, source.table, None)
            )
            for source, log, head in self._sources_at(logs)
        )
        return Backlogs({None: each}, own_mark_since=_mark_behind_others(cursor, own_log, own_head))

    def _by_partition(self, logs: Logs) -> Backlogs | LeftOut:
        assert self.table.partitions_def is not None
        listed = self.table.partitions_def.get_partition_keys()
        own = frozenset(listed)
        mapped = self._mappings(logs, own)
        if isinstance(mapped, LeftOut):
            return mapped
        log, head = logs(self.ref)
        candidates = frozenset[str]().union(*(partitions.present() for partitions in mapped))
        if head is not None and isinstance(log, FileLog):
            candidates |= self._written(log, head, own) | self._partitions_in_quarantine(logs, own)
        for source, partitions in zip(self.sources, mapped, strict=True):
            if not candidates and (why := partitions.why_no_rows(source.table)) is not None:
                return LeftOut(why)
        cursors = cursor_of_each(log, head, self.ref.name, candidates)
        each = [
            {
                partition: _mapped_anew(
                    unread,
                    partial(maps.slice, source.table, partition),
                    partial(slice_read, self.asset, source.table, partition),
                )
                for partition, unread in backlogs_by_partition(
                    cursors, source_log, source.ref.name, source_head, maps
                ).items()
            }
            for (source, source_log, source_head), maps in zip(self._sources_at(logs), mapped, strict=True)
        ]
        newest_first = [partition for partition in reversed(listed) if partition in candidates]
        return Backlogs(
            {partition: tuple(backlogs[partition] for backlogs in each) for partition in newest_first},
            " ".join(partitions.note for partitions in mapped if partitions.note),
        )

    def _written(self, log: FileLog, head: Head, own: frozenset[str]) -> frozenset[str]:
        """The partitions that the table has rows of; if its files do not show them, those its own commits wrote."""
        rows = keys_of_rows(self.table.name, self.table.declared, self.table.partitions_def, log, head)
        if rows is not None:
            return rows.of_rows(log.partition_values()) & own
        cursors = cursor_of_each(log, head, self.ref.name, own)
        return frozenset(partition for partition, cursor in cursors.items() if isinstance(cursor, Known))

    def _partitions_in_quarantine(self, logs: Logs, own: frozenset[str]) -> frozenset[str]:
        """The partitions that the table's quarantine has rows of: neither the table nor a source need have any."""
        log, head = (None, None) if self.quarantine is None else logs(self.quarantine)
        if head is None or not isinstance(log, FileLog):
            return frozenset()
        rows = keys_of_rows(self.table.name, self.table.declared, self.table.partitions_def, log, head)
        return frozenset() if rows is None else rows.of_rows(log.partition_values()) & own

    def _mappings(self, logs: Logs, own: frozenset[str]) -> tuple[SourcePartitions, ...] | LeftOut:
        """To which of the table's own partitions the rows of each source belong."""
        mapped = list[SourcePartitions]()
        for source in self.sources:
            log, head = logs(source.ref)
            if not isinstance(log, FileLog) or head is None:
                return LeftOut(f"the log of {source.ref.name} is out of reach: {source.ref.why_only_spark()}")
            try:
                partitions = SourcePartitions.of(self.asset, own, source.table, log, head)
            except LakehouseError:
                raise
            except Exception as error:  # a mapping may be the user's own code
                return LeftOut(f"its partitions for {source.ref.name} cannot be found: {in_short(error)}")
            mapped.append(partitions)
        return tuple(mapped)

    def _sources_at(self, logs: Logs) -> Iterator[tuple[FollowedSource, Log, Head]]:
        for source in self.sources:
            log, head = logs(source.ref)
            if head is not None:
                yield source, log, head


def _mapped_anew(unread: Backlog, *mapped: Callable[[], Slice | None]) -> Backlog:
    """A backlog, which is a gap if other partitions of the source are mapped to the next run than to the one before.

    Time may do that, without any commit: the rows of a new partition of the source may have been there before it.

    Args:
        unread: The backlog.
        mapped: What tells which partitions are mapped now, the cheapest first; a mapping may be the user's own code.
    """
    if not reads_on(unread) or unread.position.mapped is None:
        return unread
    for tell in mapped:
        now = tell()
        if now is None or digest(described(now)) == unread.position.mapped:
            return unread
    return replace(unread, commits=(), gap=OTHER_PARTITIONS)


def _mark_behind_others(cursor: Cursor, log: Log, head: Head | None) -> int | None:
    """When the last own commit was made, if it is no longer the table's newest."""
    if not isinstance(cursor, Known) or head is None or cursor.version == head.version:
        return None
    return next((commit.timestamp for commit in log.commits(cursor.version, cursor.version)), None)
