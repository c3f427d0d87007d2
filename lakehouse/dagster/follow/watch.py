"""What the tables of a code location have not read, by their logs alone: for the sensor and the automation condition.

A table is behind if a source has commits that may have changed a row, if a source has to be read whole, or, once a day,
if log cleanup nears its position. No row is read and no Spark is needed, so a table whose log only Spark can read is
left out, with the reason. `Pauses` hold what the sensor and the condition remember of their requests.
"""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import dagster as dg

from lakehouse.cursor.cuts import Agreement, agreement
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.standings import Standings
from lakehouse.cursor.unread import Backlog, Unbegun, Unread, commits_last
from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.follow.followed import Backlogs, Followed, FollowedSource, LeftOut, UpToDate, reads_on
from lakehouse.dagster.table_facts import content_version, noted_locations
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.log import Head, Log
from lakehouse.errors import LakehouseError, in_short
from lakehouse.spark.table_version import TableRef

THREADS = 32
"""Logs that are opened at once: on an object store each costs a few round trips."""
WHOLE = ""
"""Takes the place of a partition key for a table without partitions."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A table has changes to read.

    Args:
        states: For each partition with changes to read, the newest first, a text that changes when what is unread
            does; a table without partitions has the one key `WHOLE`.
        oldest: When the oldest of the changes was committed, in milliseconds since the epoch; None if sources are read
            whole.
        newest: When the newest of the changes was committed.
        note: What else is worth knowing, as a sentence.
    """

    states: Mapping[str, str]
    oldest: int | None = None
    newest: int | None = None
    note: str = ""


Look: TypeAlias = Behind | UpToDate | LeftOut


class Watch:
    """The incremental tables of a code location, and what each has not read."""

    def __init__(self, code_location: CodeLocation) -> None:
        self._ways, self._log_of = code_location.ways, code_location.logs()
        self.tables: dict[dg.AssetKey, Followed] = {}
        self.left_out: dict[dg.AssetKey, str] = {}
        for key, table in code_location.tables.items():
            sources = code_location.followed_by(table) if table.is_written else ()
            match _follow(table, sources) if sources else None:
                case Followed() as followed:
                    self.tables[key] = followed
                case str() as why:
                    self.left_out[key] = why
                case None:
                    pass

    def siblings(self, key: dg.AssetKey) -> frozenset[dg.AssetKey]:
        """The siblings of a table, the table itself among them."""
        group = self._ways.siblings(self.tables[key].ref.name)
        return (
            frozenset(self.tables.keys() & map(dg.AssetKey.from_user_string, group.tables))
            if group
            else frozenset({key})
        )

    def look(self, instance: dg.DagsterInstance) -> "Looks":
        """What each table has not read now; each log is opened once."""
        logs, standings = _Logs(), Standings(self._ways, self._log_of)
        tables = {key: _found_at(table, instance) for key, table in self.tables.items()}
        reachable = [table for table in tables.values() if table.why_out_of_reach() is None]
        foreign = {source.key: source.ref for table in reachable for source in table.sources if source.table.is_spec}
        refs = {ref for table in reachable for ref in table.refs}

        def look_at(table: Followed) -> Look:
            with dg.partition_loading_context(dynamic_partitions_store=instance):  # each thread has its own
                return _look_at(table, logs, standings)

        with ThreadPoolExecutor(THREADS) as readers:
            list(readers.map(logs.open, refs))
            looks = list(readers.map(look_at, tables.values()))
            versions = list(readers.map(logs.data_version, foreign.values()))
        data_versions = {key: version for key, version in zip(foreign, versions, strict=True) if version is not None}
        return Looks(dict(zip(self.tables, looks, strict=True)), data_versions)


def _follow(table: AssetTable, sources: Sequence[AssetTable]) -> Followed | str:
    """A table with the tables whose changes it reads; or why it is left out, as a clause."""
    refs = list[TableRef]()
    for each in (table, *sources):
        ref = each.ref
        if ref is None:
            return f"{each.name} is no table of a DeltaIOManager"
        refs.append(ref)
    followed = Followed(table, refs[0], tuple(map(FollowedSource, sources, refs[1:])))
    are_named = any(ref.files is None for ref in refs)  # the last run knows where they are
    return followed if are_named else followed.why_out_of_reach() or followed


@dataclass(frozen=True, slots=True)
class Looks:
    """What one look showed."""

    tables: Mapping[dg.AssetKey, Look]
    data_versions: Mapping[dg.AssetKey, str]


@dataclass
class _Logs:
    """The logs that one look has opened."""

    opened: dict[str, tuple[FileLog, Head | Exception | None]] = field(
        default_factory=dict[str, tuple[FileLog, Head | Exception | None]]
    )

    def open(self, ref: TableRef) -> None:
        assert ref.files is not None
        log = FileLog(ref.files, ref.name)
        try:
            head: Head | Exception | None = log.head()
        except Exception as error:  # it becomes the error of the tables that read this log
            head = error
        self.opened[ref.location] = (log, head)

    def __call__(self, ref: TableRef) -> tuple[Log, Head | None]:
        """The log of a table, and where it stands."""
        log, head = self.opened[ref.location]
        if isinstance(head, Exception):
            raise head
        return log, head

    def data_version(self, ref: TableRef) -> str | None:
        """The table's id and its last version that changed a row; None if its log does not show them."""
        log, head = self.opened[ref.location]
        if not isinstance(head, Head):
            return None
        try:
            return content_version(log, head)
        except Exception:  # the look at a table that reads this log reports what is wrong with it
            return None


def _found_at(table: Followed, instance: dg.DagsterInstance) -> Followed:
    """The table with the addresses that its last run noted for catalog names."""
    if all(ref.files is not None for ref in table.refs):
        return table
    return table.found_at(noted_locations(instance, table.table.key))


def _look_at(table: Followed, logs: _Logs, standings: Standings) -> Look:
    why = table.why_out_of_reach()
    if why is not None:
        return LeftOut(why)
    try:
        all_of = table.backlogs(logs)
        if isinstance(all_of, LeftOut):
            return all_of
        settled = _agreement(table, logs, standings)
        waits = settled.waits_for and not settled.moves
        due = {} if waits else _due(all_of, (lambda _: True) if settled.moves else _waits)
        if not due and not table.is_partitioned:
            due = _due(all_of, _expires)
        since, head = all_of.own_mark_since, logs(table.ref)[1]
        if not due and since is not None and head is not None and _now() - since > commits_last(head):
            due = _due(all_of, lambda _: True)
        if due:
            return _behind(due, all_of.note)
        return UpToDate(frozenset(dg.AssetKey.from_user_string(lag.table) for lag in settled.waits_for))
    except LakehouseError as error:
        return LeftOut(str(error))
    except Exception as error:  # one table may be odd, and all the others wait for this look
        return LeftOut(in_short(error))


def _due(all_of: Backlogs, wanted: Callable[[Backlog], bool]) -> dict[str, list[Backlog]]:
    """What is unread of the sources that want a run, for the table or for each of its partitions."""
    each = {partition: list(filter(wanted, backlogs)) for partition, backlogs in all_of.by_partition.items()}
    return {partition or WHOLE: backlogs for partition, backlogs in each.items() if backlogs}


def _behind(due: Mapping[str, Sequence[Backlog]], note: str) -> Behind:
    changes = [each.changes or () for backlogs in due.values() for each in backlogs if reads_on(each)]
    times = [commit.timestamp for commits in changes for commit in commits]
    states = {partition: _state(backlogs) for partition, backlogs in due.items()}
    return Behind(states, min(times, default=None), max(times, default=None), note)


def _state(backlogs: Iterable[Backlog]) -> str:
    """A text that identifies what is unread: with table ids, as a replaced source may have the same versions."""
    parts = list[object]()
    for each in backlogs:
        position = None if isinstance(each, Unbegun) else each.position
        parts += [each.source, each.head.table_id, position and position.version, position and position.mapped]
        parts += [each.changes[-1].version] if reads_on(each) and each.changes else ["all"]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _agreement(table: Followed, logs: _Logs, standings: Standings) -> Agreement:
    """How far a run would read so that the inputs agree."""
    name, reads = table.ref.name, table.table.changes
    if not standings.ways.concerns(name):
        return Agreement()
    of_sources = {table.table.inputs[each].to_user_string(): read for each, read in reads.items()}
    return agreement(standings, name, find_cursor(*logs(table.ref), name), of_sources)


def _waits(backlog: Backlog) -> bool:
    """Whether there is something to read: all of a source, or commits that may have changed a row."""
    return not reads_on(backlog) or bool(backlog.changes)


def _expires(backlog: Backlog) -> bool:
    """Whether commits without rows follow a position that has to be recorded again before log cleanup.

    Not used for partitions: most of them are old, and each would get a run.
    """
    return isinstance(backlog, Unread) and backlog.log_cleanup_is_near(_now())


def _now() -> int:
    return int(time.time() * 1000)


FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3_600.0
"""Seconds after which a run is requested again for the same unread changes; twice as many after each further run."""


@dataclass(frozen=True, slots=True)
class Pause:
    """How long a run of a table, or of a partition, is not requested again for the same unread changes.

    Args:
        state: What was unread when a run was requested last, as a short text.
        at: When that was, in seconds since the epoch.
        times: How often a run was requested for the same state.
    """

    state: str = ""
    at: float = 0.0
    times: int = 0

    @property
    def end(self) -> float:
        return self.at + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** max(0, self.times - 1))

    def allows(self, state: str, now: float) -> bool:
        """Whether a run may be requested for a state: at once if the state is another, else after the pause."""
        return state != self.state or now >= self.end

    def again(self, state: str, now: float) -> "Pause":
        """The pause once a run is requested."""
        return Pause(state, now, self.times + 1 if state == self.state else 1)


@dataclass(frozen=True, slots=True)
class Pauses:
    """What is remembered of one table: a pause for each partition, so that a failing partition delays no other."""

    by_partition: Mapping[str, Pause] = field(default_factory=dict[str, Pause])

    def allow(self, states: Mapping[str, str], now: float) -> list[str]:
        """The keys whose pause allows a run, given the state of each; those requested least often come first."""
        allowed = [key for key, state in states.items() if self._of(key).allows(state, now)]
        return sorted(allowed, key=lambda key: self._of(key).times)

    def again(self, states: Mapping[str, str], requested: Collection[str], now: float) -> "Pauses":
        """What is remembered once runs of some keys are requested; keys that are no longer behind are left out."""
        previous = {key: self.by_partition[key] for key in states if key in self.by_partition}
        return Pauses(previous | {key: self._of(key).again(states[key], now) for key in requested})

    def end(self, keys: Collection[str]) -> float:
        """When the first pause of some keys ends, in seconds since the epoch."""
        return min(self._of(key).end for key in keys)

    def to_json(self) -> dict[str, list[Any]]:
        return {key: [each.state, each.at, each.times] for key, each in self.by_partition.items()}

    @classmethod
    def from_json(cls, pauses: Mapping[str, list[Any]]) -> "Pauses":
        return cls({key: Pause(*each) for key, each in pauses.items()})

    def _of(self, key: str) -> Pause:
        return self.by_partition.get(key, Pause())
