"""What the tables of a code location have not read, by their logs alone: for the sensor and the automation condition.

No row is read and no Spark is needed, so a table whose log only Spark can read is left out, with the reason.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import dagster as dg

from lakehouse.cursor.find import Cursor, Known, find_cursor
from lakehouse.cursor.unread import DAY, unread
from lakehouse.dagster.code_location import changes_of, is_function, manager_keys, table_ref, tables_of, writes_nothing
from lakehouse.dagster.io_manager import DeltaIOManager
from lakehouse.dagster.partitions import SourcePartitions, rows_of
from lakehouse.declare.table import Table
from lakehouse.errors import LakehouseError
from lakehouse.log.commit_info import Commit
from lakehouse.log.file_log import FileLog
from lakehouse.log.location import Location
from lakehouse.log.log import FileSchema, Head
from lakehouse.log.size import Size
from lakehouse.spark.snapshot import TableRef

THREADS = 32
"""Logs that are opened at once: on an object store each costs a few round trips."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A table has changes to read.

    Args:
        state: A text that changes when what is unread does, by the ids and versions of the tables.
        partitions: The partitions that have; none for a table without partitions.
        oldest: When the oldest of the changes was committed, in milliseconds since the epoch; None: not known.
        newest: When the newest was.
        note: What is worth knowing beside that, as a sentence.
    """

    state: str
    partitions: tuple[str, ...] = ()
    oldest: int | None = None
    newest: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class UpToDate:
    """A table has read every change of its sources."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Nothing can be told of a table without Spark, or now.

    Args:
        reason: Why, as a clause or a sentence.
        missing: The sources that have no table; none where the reason is another.
    """

    reason: str
    missing: frozenset[dg.AssetKey] = frozenset()


Look: TypeAlias = Unread | UpToDate | LeftOut


@dataclass(frozen=True, slots=True)
class Watched:
    """An incremental table, and the sources whose changes it reads."""

    asset: dg.AssetsDefinition
    ref: TableRef
    sources: Mapping[dg.AssetKey, TableRef]


def by_manager(assets: Iterable[Any], resources: Mapping[str, Any]) -> Callable[[dg.AssetKey], Location | None]:
    """Where the tables of each asset's manager are.

    Args:
        assets: The asset definitions, and the specs of tables that no asset makes.
        resources: Those of the definitions.
    """
    keys = manager_keys(assets)

    def place(key: dg.AssetKey) -> Location | None:
        manager = resources.get(keys.get(key, "io_manager"))
        return manager.location if isinstance(manager, DeltaIOManager) else None

    return place


class Watch:
    """The incremental tables of a code location, and what can be told of each.

    Args:
        assets: Asset definitions, and the specs of tables that no asset makes.
        place: Where the tables of an asset's manager are; None: no `DeltaIOManager` has it.
    """

    def __init__(self, assets: Iterable[Any], place: Callable[[dg.AssetKey], Location | None]) -> None:
        listed = list(assets)
        self.declared = tables_of(listed)
        self.partitions = {
            spec.key: spec.partitions_def
            for asset in listed
            for spec in ([asset] if isinstance(asset, dg.AssetSpec) else getattr(asset, "specs", ()))
        }
        self.specs = {asset.key for asset in listed if isinstance(asset, dg.AssetSpec)}
        self.tables: dict[dg.AssetKey, Watched] = {}
        self.left_out: dict[dg.AssetKey, str] = {}
        for asset in listed:
            if not is_function(asset) or writes_nothing(asset):
                continue
            sources = [asset.keys_by_input_name[name] for name in changes_of(asset)]
            if sources:
                self._add(asset, sources, place)

    def _add(
        self,
        asset: dg.AssetsDefinition,
        sources: Iterable[dg.AssetKey],
        place: Callable[[dg.AssetKey], Location | None],
    ) -> None:
        refs = dict[dg.AssetKey, TableRef]()
        for key in (asset.key, *sources):
            root = place(key)
            if root is None:
                self.left_out[asset.key] = f"{key.to_user_string()} is no table of a DeltaIOManager"
                return
            refs[key] = ref = table_ref(root, key, self.declared.get(key, Table()))
            why = ref.why_only_spark()
            if why is not None:
                self.left_out[asset.key] = f"the log of {ref.name} is out of reach: {why}"
                return
        self.tables[asset.key] = Watched(asset, refs.pop(asset.key), refs)

    def look(self) -> "Looks":
        """What can be told of each table now; each log is opened once."""
        logs = _Logs()
        foreign = {
            key: ref for table in self.tables.values() for key, ref in table.sources.items() if key in self.specs
        }
        refs = {ref for table in self.tables.values() for ref in (table.ref, *table.sources.values())}

        def looked(table: Watched) -> Look:
            return _looked(self, table, logs)

        with ThreadPoolExecutor(THREADS) as readers:
            list(readers.map(logs.open, refs))
            looks = list(readers.map(looked, self.tables.values()))
            versions = list(readers.map(logs.data_version, foreign.values()))
        data_versions = {key: version for key, version in zip(foreign, versions, strict=True) if version is not None}
        return Looks(dict(zip(self.tables, looks, strict=True)), data_versions)


@dataclass(frozen=True, slots=True)
class Looks:
    """What one look told.

    Args:
        tables: Of each incremental table.
        data_versions: Of each source that no asset makes, its id and the last version that changed a row.
    """

    tables: Mapping[dg.AssetKey, Look]
    data_versions: Mapping[dg.AssetKey, str]


@dataclass
class _Logs:
    """The logs that one look has opened."""

    opened: dict[str, tuple[FileLog, Head | LakehouseError | None]] = field(
        default_factory=dict[str, tuple[FileLog, Head | LakehouseError | None]]
    )

    def open(self, ref: TableRef) -> None:
        assert ref.files is not None
        log = FileLog(ref.files, ref.name)
        try:
            head: Head | LakehouseError | None = log.head()
        except LakehouseError as error:
            head = error
        self.opened[ref.location] = (log, head)

    def log(self, ref: TableRef) -> FileLog:
        return self.opened[ref.location][0]

    def head(self, ref: TableRef) -> Head | None:
        """Where a table stands.

        Raises:
            LakehouseError: Its log cannot be read.
        """
        head = self.opened[ref.location][1]
        if isinstance(head, LakehouseError):
            raise head
        return head

    def data_version(self, ref: TableRef) -> str | None:
        """The table's id and its last version that changed a row; None where nobody can tell."""
        log, head = self.opened[ref.location]
        if not isinstance(head, Head):
            return None
        try:
            changing = (c.version for c in log.commits(head.version) if c.is_first or not c.is_quiet)
            return f"{head.table_id}@{next(changing, head.version)}"
        except LakehouseError:
            return None


def _looked(watch: Watch, table: Watched, logs: _Logs) -> Look:
    try:
        missing = {key: ref.location for key, ref in table.sources.items() if logs.head(ref) is None}
        if missing:
            return LeftOut(f"there is no table at {' and '.join(missing.values())}", frozenset(missing))
        own = logs.head(table.ref)
        if table.asset.partitions_def is not None:
            return _partitions(watch, table, own, logs)
        cursor = find_cursor(logs.log(table.ref), own, table.ref.name)
        spans = [span for ref in table.sources.values() if (span := _span(cursor, ref, logs)) is not None]
        if not spans:
            spans = [span for ref in table.sources.values() if (span := _expiring(cursor, ref, logs)) is not None]
    except LakehouseError as error:
        return LeftOut(str(error))
    return _unread(spans, own) if spans else UpToDate()


@dataclass(frozen=True, slots=True)
class _Span:
    """What is unread of one source.

    Args:
        state: By the source's id and versions, as a text.
        commits: The commits that changed rows; of a whole source the newest. None where the log was cleaned up.
        whole: Whether all of the source is unread.
    """

    state: str
    commits: tuple[Commit, ...] = ()
    whole: bool = True


def _span(cursor: Cursor, ref: TableRef, logs: _Logs) -> _Span | None:
    """What the table has not read of a source; None where it has read every change.

    A table that was replaced may stand at the same version, so its id is part of the answer.
    """
    log, head = logs.log(ref), logs.head(ref)
    assert head is not None
    again = isinstance(cursor, Known) and cursor.compare_again
    position = cursor.reads.get(ref.name) if isinstance(cursor, Known) else None
    backlog = None if position is None or position.lookup or again else unread(log, ref.name, position, head)
    if position is None or backlog is None or backlog.is_replaced or backlog.is_behind:
        return _Span(f"{ref.name} {head.table_id}@{head.version}", tuple(log.commits(head.version, head.version)))
    at = f"{ref.name} {head.table_id}@{position.version}"
    changes = backlog.changes
    if changes is None:
        return _Span(f"{at}-{head.version}")
    if changes:
        return _Span(f"{at}-{changes[-1].version}", changes, whole=False)
    return None


def _expiring(cursor: Cursor, ref: TableRef, logs: _Logs) -> _Span | None:
    """The commits without rows behind a position that has to be put down again, before log cleanup reaches them.

    It is asked for once a day. Not for partitions: most of them are old, and would each have a run a day.
    """
    head, position, now = logs.head(ref), cursor.reads.get(ref.name), int(time.time() * 1000)
    if head is None or position is None or position.lookup:
        return None
    backlog = unread(logs.log(ref), ref.name, position, head)
    if backlog is None or not backlog.expires(now):
        return None
    return _Span(f"{ref.name} {head.table_id}@{position.version} day {now // DAY}", backlog.commits or ())


def _unread(spans: list[_Span], own: Head | None, partitions: tuple[str, ...] = (), note: str = "") -> Unread:
    times = [commit.timestamp for span in spans for commit in span.commits]
    at = "none" if own is None else f"{own.table_id}@{own.version}"
    state = f"{','.join(span.state for span in spans)} by {at}"
    return Unread(state, partitions, min(times, default=None), max(times, default=None), note)


def _partitions(watch: Watch, table: Watched, own: Head | None, logs: _Logs) -> Look:
    """The partitions that have changes to read; those that no row of the sources maps to are left to schedules."""
    if isinstance(table.asset.partitions_def, dg.DynamicPartitionsDefinition):
        return LeftOut("its partitions are dynamic, and logs do not name them")
    sources = dict[TableRef, SourcePartitions]()
    for key, ref in table.sources.items():
        head, declared = logs.head(ref), watch.declared.get(key, Table())
        assert head is not None
        sources[ref] = SourcePartitions.of(table.asset, key, watch.partitions.get(key), declared, logs.log(ref), head)
    walked = _Walked(logs.log(table.ref))
    present = frozenset[str]()
    if own is not None:
        present = rows_of(table.asset, watch.declared[table.asset.key], walked.log)
    candidates = present.union(*(source.present() for source in sources.values()))
    spans = dict[str, list[_Span]]()
    for partition in sorted(candidates):
        cursor = find_cursor(walked, own, table.ref.name, (partition,))
        for ref, source in sources.items():
            span = _span(cursor, ref, logs)
            if span is not None and (span.whole or source.concerns(partition, span.commits)):
                spans.setdefault(partition, []).append(span)
    if not spans:
        return UpToDate()
    notes = " ".join(source.note for source in sources.values() if source.note)
    return _unread([span for each in spans.values() for span in each], own, tuple(spans), notes)


@dataclass
class _Walked:
    """A log whose commits are read once, however often they are walked back over: once for each partition."""

    log: FileLog
    _read: dict[int, Commit] = field(default_factory=dict[int, Commit])

    def head(self) -> Head | None:
        return self.log.head()

    def size(self) -> Size | None:
        return self.log.size()

    def live_rows(self) -> int | None:
        return self.log.live_rows()

    def file_schema(self, version: int) -> FileSchema | None:
        return self.log.file_schema(version)

    def epoch(self, application_id: str, version: int) -> int | None:
        return self.log.epoch(application_id, version)

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        while newest >= oldest and newest in self._read:
            yield self._read[newest]
            newest -= 1
        for commit in self.log.commits(newest, oldest):
            self._read[commit.version] = commit
            yield commit
