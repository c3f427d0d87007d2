"""How far a table is behind each of its sources, partition by partition."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeGuard

import dagster as dg

from lakehouse.cursor.cursor import Cursor, Known, Lost
from lakehouse.cursor.definition import digest
from lakehouse.cursor.find import cursor_of_each, find_cursor
from lakehouse.cursor.unread import Backlog, Unread, backlog
from lakehouse.dagster.code_location import AssetTable
from lakehouse.dagster.follow.partitions import SourcePartitions
from lakehouse.dagster.slices import keys_of_rows
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.log import Commits, Head, Log
from lakehouse.errors import LakehouseError, in_short
from lakehouse.read.asset import PastRows
from lakehouse.read.decide import may_compare
from lakehouse.spark.table_version import TableRef


def backlogs_by_partition(
    cursors: Mapping[str, Cursor],
    log: Commits,
    name: str,
    head: Head,
    partitions: SourcePartitions,
    *,
    refuses_gaps: bool,
) -> Mapping[str, tuple[Backlog, Commit | None]]:
    """What each partition has not read of a source: the commits that may have changed its rows. Each is read once.

    Returns:
        For each partition: its backlog, and, if the whole source must be read, the newest commit that changed its rows,
        or None if that commit is unknown. Such a commit justifies one more run. If the run would refuse the gap, there
        is no such commit.
    """
    walked, by_cursor = _Walked(log), dict[int, Backlog]()
    for cursor in cursors.values():  # many partitions may have one
        if id(cursor) not in by_cursor:
            by_cursor[id(cursor)] = backlog(cursor, walked, name, head)
    ranges = [each.commits or () for each in by_cursor.values() if reads_on(each)]
    if len(ranges) < len(by_cursor):
        ranges.append(tuple(reversed(list(recent(walked, head)))))
    with_rows = list(filter(has_rows, max(ranges, key=len, default=())))
    changed = partitions.changed_by(with_rows)
    backlogs = dict[str, tuple[Backlog, Commit | None]]()
    for partition, cursor in cursors.items():
        unread_part, newest = by_cursor[id(cursor)], None
        commits = with_rows if changed is None else changed.get(partition, ())
        if reads_on(unread_part):
            first = bisect_right(commits, unread_part.position.version, key=_version)
            unread_part = replace(unread_part, commits=tuple(commits[first:]))
        elif commits and not (refuses_gaps and (isinstance(cursor, Lost) or isinstance(unread_part, Unread))):
            newest = commits[-1]
        backlogs[partition] = (unread_part, newest)
    return backlogs


def reads_on(backlog: Backlog) -> TypeGuard[Unread]:
    """Whether the next run reads on from a position, commit by commit; otherwise it reads all, or refuses."""
    return isinstance(backlog, Unread) and backlog.gap is None


RECENT = 30
"""So many of the newest commits of a source are searched for the last commit with rows of a partition."""


def recent(log: Commits, head: Head) -> Iterator[Commit]:
    """The newest commits of a source, the newest first."""
    return log.commits(head.version, max(0, head.version - RECENT + 1))


def has_rows(commit: Commit) -> bool:
    return not commit.is_quiet


def _version(commit: Commit) -> int:
    return commit.version


@dataclass
class _Walked:
    """The commits of a log, each read once, however often they are walked back over: once for each partition."""

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
"""Gives the log of a table, and where the table stands; None if there is none."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a table has not read is unknown: only Spark could tell, or nobody can tell now.

    Args:
        reason: Why, as a clause or a sentence.
        missing: The sources that have no table; none where the reason is another.
    """

    reason: str
    missing: frozenset[dg.AssetKey] = frozenset()


def can_follow(look: object, selected: Collection[dg.AssetKey]) -> bool:
    """Whether a table can run behind the selected ones: these make every source that the table lacks."""
    return not isinstance(look, LeftOut) or bool(look.missing and look.missing <= frozenset(selected))


@dataclass(frozen=True, slots=True)
class Backlogs:
    """What a table has not read.

    Args:
        by_partition: What is left of each source, in order, for each partition that rows of the tables are in; a table
            without partitions has the one key None. The newest partitions come first.
        newest: For each source that must be read whole: its newest commit that may have changed a row. None if no
            commit did, or if that commit is not among the newest ones.
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
        table: The table.
        ref: Where it is.
    """

    table: AssetTable
    ref: TableRef

    @property
    def key(self) -> dg.AssetKey:
        return self.table.key


@dataclass(frozen=True)
class Followed:
    """An incremental table.

    Args:
        table: The table of an asset.
        ref: Where it is.
        sources: The tables whose changes it follows.
    """

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
        return (self.ref, *(source.ref for source in self.sources))

    @property
    def source_keys(self) -> frozenset[dg.AssetKey]:
        return frozenset(source.key for source in self.sources)

    @property
    def declaration(self) -> str:
        """What the asset declares, in short: of its table, its inputs, and its code version."""
        reads = {name: dict(read) for name, read in self.table.changes.items()}
        declared = [dict(self.table.declared), reads, self.asset.code_versions_by_key.get(self.table.key)]
        return digest(declared)

    def found_at(self, addresses: Mapping[str, str]) -> "Followed":
        """The same, with the tables that have a catalog name where they are known to be, by the names of the assets."""
        sources = tuple(replace(source, ref=source.ref.found_among(addresses)) for source in self.sources)
        return replace(self, ref=self.ref.found_among(addresses), sources=sources)

    def why_out_of_reach(self) -> str | None:
        """Why a log cannot be read without Spark, as a clause; None if each can."""
        for ref in self.refs:
            if (why := ref.why_only_spark()) is not None:
                return why if ref.files is None else f"the log of {ref.name} is out of reach: {why}"
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
        sources = list(self._sources_at(logs))
        each = tuple(backlog(cursor, log, name, head) for name, log, head in sources)
        newest = tuple(
            None
            if reads_on(unread_part) or self._refuses_gaps(source.key)
            else next(filter(has_rows, recent(log, head)), None)
            for source, unread_part, (_, log, head) in zip(self.sources, each, sources, strict=True)
        )
        return Backlogs({None: each}, {None: newest}, own_mark_since=_mark_behind_others(cursor, own_log, own_head))

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
            candidates |= self._written(log, head, own)
        cursors = cursor_of_each(log, head, self.ref.name, candidates)
        each = [
            backlogs_by_partition(
                cursors, source_log, name, source_head, partitions, refuses_gaps=self._refuses_gaps(source.key)
            )
            for source, (name, source_log, source_head), partitions in zip(
                self.sources, self._sources_at(logs), mapped, strict=True
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
        rows = keys_of_rows(self.table.name, self.table.declared, self.table.partitions_def, log, head)
        if rows is not None:
            return rows.of_rows(log.partition_values()) & own
        cursors = cursor_of_each(log, head, self.ref.name, own)
        return frozenset(partition for partition, cursor in cursors.items() if isinstance(cursor, Known))

    def _refuses_gaps(self, source: dg.AssetKey) -> bool:
        """Whether a run refuses a gap of a source, for which no archive may answer, instead of reading all of it."""
        reads = [read for name, read in self.table.changes.items() if self.table.inputs.get(name) == source]
        past, declared = self.table.past or PastRows.COMPUTED, self.table.declared
        return all(read.archive is None and not may_compare(past, declared, read, self.table.policy) for read in reads)

    def _mappings(self, logs: Logs, own: frozenset[str]) -> tuple[SourcePartitions, ...] | LeftOut:
        """To which of the table's own partitions the rows of each source belong."""
        mapped = list[SourcePartitions]()
        for source in self.sources:
            log, head = logs(source.ref)
            if not isinstance(log, FileLog) or head is None:
                return LeftOut(f"the log of {source.ref.name} is out of reach: {source.ref.why_only_spark()}")
            try:
                partitions = SourcePartitions.of(self.asset, own, source.table, log, head)
                if (why := partitions.why_no_rows(source.table)) is not None:
                    return LeftOut(why)
            except LakehouseError:
                raise
            except Exception as error:  # a mapping may be anybody's
                return LeftOut(f"its partitions for {source.ref.name} cannot be found: {in_short(error)}")
            mapped.append(partitions)
        return tuple(mapped)

    def _sources_at(self, logs: Logs) -> Iterator[tuple[str, Log, Head]]:
        for source in self.sources:
            log, head = logs(source.ref)
            if head is not None:
                yield source.ref.name, log, head


def _mark_behind_others(cursor: Cursor, log: Log, head: Head | None) -> int | None:
    """When the last own commit was made, if it is no longer the table's newest."""
    if not isinstance(cursor, Known) or head is None or cursor.version == head.version:
        return None
    return next((commit.timestamp for commit in log.commits(cursor.version, cursor.version)), None)
