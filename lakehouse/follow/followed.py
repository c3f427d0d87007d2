"""An incremental table and the sources whose changes it follows: what is unread, partition by partition.

The sensor, the automation condition and the checks ask here; a run goes by the same `lakehouse.cursor.unread`.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import dagster as dg

from lakehouse.cursor.cursor import Cursor
from lakehouse.cursor.each import cursor_of_each
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.unread import Backlog, Unread, backlog
from lakehouse.declare.table import Table
from lakehouse.errors import LakehouseError
from lakehouse.follow.partitions import SourcePartitions, is_dynamic, names_partitions, rows_of
from lakehouse.log.commit_info import Commit
from lakehouse.log.file_log import FileLog
from lakehouse.log.log import FileSchema, Head, Log
from lakehouse.log.size import Size
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


def first_line(error: Exception) -> str:
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
            without partitions has the one key None.
        note: What is worth knowing beside that, as a sentence; empty if nothing is.
    """

    by_partition: Mapping[str | None, tuple[Backlog, ...]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Source:
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
    sources: tuple[Source, ...]

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
        cursor = find_cursor(*logs(self.ref), self.ref.name)
        return Backlogs({None: tuple(backlog(cursor, log, name, head) for name, log, head in self._standing(logs))})

    def _by_partition(self, logs: Logs) -> Backlogs | LeftOut:
        mapped = self._mapped(logs)
        if isinstance(mapped, LeftOut):
            return mapped
        log, head = logs(self.ref)
        candidates = frozenset[str]().union(*(partitions.present() for partitions in mapped))
        if head is not None and isinstance(log, FileLog):
            candidates |= rows_of(self.asset, self.declared, log)
        cursors = cursor_of_each(log, head, self.ref.name, candidates)
        each = [
            _of_each(cursors, source_log, name, source_head, partitions)
            for (name, source_log, source_head), partitions in zip(self._standing(logs), mapped, strict=True)
        ]
        by_partition: dict[str | None, tuple[Backlog, ...]] = {
            partition: tuple(backlogs[partition] for backlogs in each) for partition in sorted(candidates)
        }
        return Backlogs(by_partition, " ".join(partitions.note for partitions in mapped if partitions.note))

    def _mapped(self, logs: Logs) -> tuple[SourcePartitions, ...] | LeftOut:
        """To which of the table's partitions the rows of each source belong."""
        if is_dynamic(self.asset.partitions_def):
            return LeftOut("its partitions are dynamic, and logs do not name them")
        mapped = list[SourcePartitions]()
        for source in self.sources:
            log, head = logs(source.ref)
            if not isinstance(log, FileLog) or head is None:
                return LeftOut(f"the log of {source.ref.name} is out of reach: {source.ref.why_only_spark()}")
            if is_dynamic(source.partitions_def) and names_partitions(source.declared, head):
                return LeftOut(f"the partitions of {source.ref.name} are dynamic, and logs do not name them")
            try:
                of = SourcePartitions.of(self.asset, source.key, source.partitions_def, source.declared, log, head)
            except LakehouseError:
                raise
            except Exception as error:  # a mapping may be anybody's
                return LeftOut(f"which of its partitions {source.ref.name} maps to, is not known: {first_line(error)}")
            mapped.append(of)
        return tuple(mapped)

    def _standing(self, logs: Logs) -> Iterator[tuple[str, Log, Head]]:
        for source in self.sources:
            log, head = logs(source.ref)
            if head is not None:
                yield source.ref.name, log, head


def _of_each(
    cursors: Mapping[str, Cursor], log: Log, name: str, head: Head, partitions: SourcePartitions
) -> Mapping[str, Backlog]:
    """What each partition has not read of a source: the commits that may have changed its rows. Each is read once."""
    walked, by_cursor = _Walked(log), dict[int, Backlog]()
    for cursor in cursors.values():  # many partitions may have one
        if id(cursor) not in by_cursor:
            by_cursor[id(cursor)] = backlog(cursor, walked, name, head)
    unread = [of for of in by_cursor.values() if isinstance(of, Unread) and of.gap is None]
    longest = max((of.commits or () for of in unread), key=len, default=())
    with_rows = [commit for commit in longest if not commit.is_quiet]
    changed = partitions.changed_by(with_rows)
    backlogs = dict[str, Backlog]()
    for partition, cursor in cursors.items():
        of = by_cursor[id(cursor)]
        if isinstance(of, Unread) and of.gap is None:
            commits = with_rows if changed is None else changed.get(partition, ())
            of = replace(of, commits=tuple(commits[bisect_right(commits, of.position.version, key=_version) :]))
        backlogs[partition] = of
    return backlogs


def _version(commit: Commit) -> int:
    return commit.version


@dataclass
class _Walked:
    """A log whose commits are read once, however often they are walked back over: once for each partition."""

    log: Log
    _read: list[Commit] = field(default_factory=list[Commit])

    def head(self) -> Head | None:
        return self.log.head()

    def size(self) -> Size | None:
        return self.log.size()

    def live_rows(self, version: int) -> int | None:
        return self.log.live_rows(version)

    def file_schema(self, version: int) -> FileSchema | None:
        return self.log.file_schema(version)

    def epoch(self, application_id: str, version: int) -> int | None:
        return self.log.epoch(application_id, version)

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        first = self._read[0].version if self._read else newest
        yield from self._read[first - newest : first - oldest + 1]
        unread = self._read[-1].version - 1 if self._read else newest
        for commit in self.log.commits(unread, oldest) if unread >= oldest else ():
            self._read.append(commit)
            yield commit
