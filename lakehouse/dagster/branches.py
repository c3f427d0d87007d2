"""Branches: shallow clones of the tables of a code location, below a root of their own, which go on incrementally.

Production's tables are only read. At most a property of a table that this code location writes is set: the registration
that has upkeep keep files for longer than it otherwise would (ADR 52).
"""

import os
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse.commit.execute import save_mark
from lakehouse.cursor.branching import (
    CloneAt,
    cursors_at,
    goes_with,
    levels,
    mark_of_clone,
    oldest_clonable,
    versions_to_clone,
    why_none_carried,
    why_not_carried,
)
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.find import newest_own
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.standings import Standings
from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.expectation_checks import is_quarantine, writer_of_table
from lakehouse.dagster.io_manager import DeltaIOManager, code_location_of, managers_of
from lakehouse.delta.expect import SUFFIX
from lakehouse.delta.location import BRANCH, Location, Storage, branch_here
from lakehouse.delta.log import (
    BRANCH_READER,
    FILE_RETENTION,
    LOG_RETENTION,
    NO_TABLE,
    Head,
    Log,
    Opened,
    as_interval,
    commit_at,
    files_kept,
    log_kept,
)
from lakehouse.delta.text import literal
from lakehouse.errors import ReadError
from lakehouse.server.lifecycle import stop
from lakehouse.spark.abilities import USER_METADATA
from lakehouse.spark.session import session_of_its_own
from lakehouse.spark.table_version import TableRef
from lakehouse.upkeep.carry_out import change_properties
from lakehouse.upkeep.registration import registered_limits, registration, release, time_travel

_DAY = timedelta(days=1)
"""That files would be removed less than a day before the limit is not a reason to write to the log of a table."""
_CLONED = "lakehouse.cloned"
"""The property of a clone that names the id of the table that was cloned."""
_AT_ONCE = 4
"""How many tables are cloned at once: cloning is work of Spark's driver, with hardly any tasks."""


@dataclass(frozen=True, slots=True)
class Clone:
    """A table of a branch, and the version that was cloned.

    `until` is the time until which the files of that version are at least kept, in milliseconds since the epoch; None
    if it is not known here. `compares` holds the reasons why its first run cannot go on by the changes of its sources.
    `registers` is the limit with which the branch is registered in the table that was cloned; None if it is not.
    """

    name: str
    version: int
    until: int | None
    is_new: bool = False
    compares: tuple[str, ...] = ()
    registers: str | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch: its clones, the tables with a place of their own, which are read there, and the missing tables.

    `others` are tables of the branch that are not clones of the tables that are there now.
    """

    name: str
    roots: tuple[str, ...]
    clones: tuple[Clone, ...]
    elsewhere: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def until(self) -> int | None:
        """The time until which all of it can at least be read, in milliseconds since the epoch."""
        return min((clone.until for clone in self.clones if clone.until is not None), default=None)


@contextmanager
def on_branch(name: str | None) -> Generator[None]:
    """Has this process work on a branch; on the roots themselves, if None."""
    before = branch_here()
    os.environ[BRANCH] = name or ""
    try:
        yield
    finally:
        os.environ[BRANCH] = before or ""


def make_branch(
    defs: dg.Definitions, name: str, tables: Sequence[str], limit: timedelta, root: str | None = None
) -> Branch:
    """Clones tables to a branch, each with a mark by which its next run reads only what changes on the branch.

    A branch that exists already gets the clones that it lacks.

    Args:
        defs: The definitions.
        name: The name of the branch, which is at `<root>_branches/<name>`.
        tables: The tables, which are cloned along with all that they read; all tables of the definitions, if none is
            named.
        limit: For how long the cloned files are kept.
        root: The root of the tables that are cloned; that of the definitions, if None.

    Raises:
        SetupError: A branch of this name is not possible, or another JVM has its root.
    """
    both, now = _Both.of(defs, name, root), int(time.time() * 1000)
    wanted = {*tables}.union(*map(both.trunk.ways.before, tables)) or {*both.names, *both.elsewhere}
    here = [each for each in both.names if each in wanted]
    present = [each for each in here if each in both.open_tables]
    existing = both.clones(present)
    clones = {each: clone for each, clone in existing.items() if clone is not None}
    cloned = {each: clone.source for each, clone in clones.items() if both.is_of_table(each, clone)}
    versions = versions_to_clone(both.standings, present, now, cloned)
    others = existing.keys() - cloned.keys()
    registered = {each: _register(both, each, versions[each], limit, now) for each in present if each not in others}
    made = list[Clone]()
    with on_branch(name), ThreadPoolExecutor(_AT_ONCE) as pool:
        for level in levels(both.standings, versions):
            sessions = {each: both.manager(each).writing_session() for each in level if each not in existing}
            begun = {
                each: pool.submit(_clone, both, each, session, versions[each], clones, limit, now)
                for each, session in sessions.items()
            }
            new = {each: clone.result() for each, clone in begun.items()}
            clones |= {each: clone for each, (clone, _) in new.items()}
            for each in (each for each in level if each not in others):
                until = _until(*both.open_tables[each], versions[each], now)
                compares = new[each][1] if each in new else ()
                made.append(Clone(each, versions[each], until, each in new, compares, registered[each]))
    elsewhere = tuple(each for each in both.elsewhere if each in wanted)
    missing = tuple(each for each in here if each not in versions)
    return Branch(name, both.roots, tuple(made), elsewhere, missing, tuple(sorted(others)))


def branches_of(defs: dg.Definitions) -> list[Branch]:
    """The branches next to the roots of definitions, each with its clones."""
    branches, now = list[Branch](), int(time.time() * 1000)
    for name in sorted({path.name for path in _directories(defs)}):
        both = _Both.of(defs, name)
        clones = {each: clone for each, clone in both.clones(both.names).items() if clone is not None}
        until = {
            each: _until(*both.open_tables[each], clone.source, now)
            for each, clone in clones.items()
            if both.is_of_table(each, clone)
        }
        listed = (Clone(each, clone.source, until.get(each)) for each, clone in clones.items())
        branches.append(Branch(name, both.roots, tuple(listed)))
    return branches


def tables_of_branch(defs: dg.Definitions, name: str) -> dict[str, AssetTable]:
    """The tables of a branch: clones, quarantines, and tables that were made on the branch.

    Raises:
        ReadError: There is no such branch.
    """
    both = _Both.of(defs, name)
    quarantines = [each.name for each in both.own.tables.values() if is_quarantine(each)]
    present = both.clones([*both.names, *quarantines])
    if not present:
        raise _no_branch(name)
    return {each: _table_of(both.own, each) for each in present}


def drop_branch(defs: dg.Definitions, name: str) -> None:
    """Removes the files of a branch, and releases it in the tables where it is registered.

    Raises:
        ReadError: There is no such branch.
        SetupError (SERVER): A process uses its Spark server.
    """
    directories = [path for path in _directories(defs) if path.name == name]
    if not directories:
        raise _no_branch(name)
    for path in directories:
        stop(path)  # before anything is released, because a branch that is in use stays
    both, reader = _Both.of(defs, name), BRANCH_READER + name
    with on_branch(None):
        for each in both.open_tables:
            for ref, head in both.heads(each):
                if reader in registered_limits(head.properties):
                    change_properties(both.manager(each).writing_session(), ref, release(head, ref.name, reader))
    for path in directories:
        shutil.rmtree(path)


def _directories(defs: dg.Definitions) -> list[Path]:
    """The directories of all branches."""
    with on_branch(None):
        branches = [root.branches for root in _roots(code_location_of(defs))]
    far = next((each.address for each in branches if each.storage is not Storage.FILES), None)
    if far is not None:
        raise ReadError(
            f"The branches at {far} are not on this machine.",
            "Nothing was changed. List and remove the directories with the tools of the store; "
            "`lakehouse readers TABLE --release branch/NAME` releases a table that the branch has registered.",
        )
    return [path for each in branches for path in Path(each.path).glob("*/")]


def _no_branch(name: str) -> ReadError:
    return ReadError(f"There is no branch '{name}'.", "Nothing was changed. `lakehouse branch --list` lists them.")


def _is_elsewhere(table: AssetTable) -> bool:
    return (table.declared.name or table.declared.path) is not None


def _table_of(tables: CodeLocation, name: str) -> AssetTable:
    return tables[dg.AssetKey.from_user_string(name)]


def _roots(tables: CodeLocation) -> list[Location]:
    """The roots of tables, each once."""
    roots = {table.root.address: table.root for table in tables.tables.values() if table.root is not None}
    return [roots[address] for address in sorted(roots)]


@dataclass(frozen=True)
class _Both:
    """The tables that a branch clones, and the tables of the branch."""

    defs: dg.Definitions
    name: str
    trunk: CodeLocation
    own: CodeLocation
    is_here: bool

    @classmethod
    def of(cls, defs: dg.Definitions, name: str, root: str | None = None) -> "_Both":
        """The tables of definitions, on whichever branch this process works; below another root, if one is given."""
        with on_branch(None):
            trunk = code_location_of(defs)
            if root is not None:
                location = Location.of_root(root, next(iter(_roots(trunk))).options)
                moved = {
                    key: replace(each, root=None if each.root is None else location)
                    for key, each in trunk.tables.items()
                }
                trunk = CodeLocation(moved, lambda _: location)
        with on_branch(name):
            return cls(defs, name, trunk, code_location_of(defs), root is None)

    @cached_property
    def standings(self) -> Standings:
        manager = next(iter(managers_of(self.defs.resources).values()))
        return Standings(self.trunk.ways, self.trunk.logs(manager.session))

    @cached_property
    def names(self) -> list[str]:
        """The tables below a root, including sources that nothing defines; a quarantine is cloned with its table."""
        read = (source for sources in self.trunk.ways.inputs.values() for source in sources)
        tables = (_table_of(self.trunk, each) for each in dict.fromkeys((*self.trunk.by_name, *read)))
        return [each.name for each in tables if each.root and not (_is_elsewhere(each) or is_quarantine(each))]

    @property
    def elsewhere(self) -> list[str]:
        """The tables with a place of their own."""
        return sorted(each.name for each in self.trunk.tables.values() if each.root and _is_elsewhere(each))

    @property
    def roots(self) -> tuple[str, ...]:
        return tuple(root.address for root in _roots(self.own))

    def manager(self, name: str) -> DeltaIOManager:
        return managers_of(self.defs.resources)[_table_of(self.trunk, name).manager]

    def refs(self, name: str) -> tuple[TableRef, TableRef]:
        """Where a table is, and where it is on the branch."""
        ref, own = _table_of(self.trunk, name).ref, _table_of(self.own, name).ref
        assert ref is not None, f"{name} has a manager"
        assert own is not None, f"{name} has a manager"
        return ref, own

    @property
    def open_tables(self) -> Opened:
        """The tables that exist and can be cloned."""
        return {name: self.standings.open_logs[name] for name in self.names if self.standings.head(name) is not None}

    def is_of_table(self, name: str, clone: CloneAt) -> bool:
        """Whether a clone is of the table that is there now, and not of another root's, or of a former one."""
        _, head = self.open_tables.get(name, (None, None))
        return head is not None and head.table_id == clone.of and clone.source <= head.version

    def heads(self, name: str) -> list[tuple[TableRef, Head]]:
        """Where a table that is to be cloned stands, and where its quarantine does."""
        ref, table = self.refs(name)[0], _table_of(self.trunk, name)
        refs = [ref, ref.beside(SUFFIX)] if table.declared.quarantines else [ref]
        heads = [(each, each.log(self.manager(name).session).head()) for each in refs]
        return [(each, head) for each, head in heads if head is not None]

    def clones(self, names: Sequence[str]) -> dict[str, CloneAt | None]:
        """The tables that the branch has; None for a table that was made there and is not a clone."""
        logs = {name: self.refs(name)[1].log(self.manager(name).session) for name in names}
        return {name: _clone_at(log, head) for name, log in logs.items() if (head := log.head()) is not None}


def _clone_at(log: Log, head: Head) -> CloneAt | None:
    """What a table of a branch is the clone of; None if it is not a clone."""
    first = commit_at(log, 0)
    if first is None or first.operation != "CLONE":
        return None
    since = log.commits(head.version, 1)
    changing = [commit.version for commit in since if commit.concerns_readers]
    version = min(changing, default=head.version + 1) - 1
    source = int(first.parameters.get("sourceVersion") or 0)
    return CloneAt(source, head.table_id, version, head.properties.get(_CLONED, ""))


def _end_of(log: Log, head: Head, version: int, now: int) -> int:
    """When the next version replaced a version; now, if the version is the newest."""
    later = commit_at(log, version + 1) if version < head.version else None
    return now if later is None else later.timestamp


def _until(log: Log, head: Head, version: int, now: int) -> int:
    newest = log.head() or head
    retention = max([time_travel(newest), *registered_limits(newest.properties).values()])
    return _end_of(log, head, version, now) + int(retention.total_seconds() * 1000)


def _register(both: _Both, name: str, version: int, limit: timedelta, now: int) -> str | None:
    """Registers the branch in a table that would not keep a version's files for that long; the limit, or None."""
    (log, head), reader = both.open_tables[name], BRANCH_READER + both.name
    registered = registered_limits(head.properties).get(reader)
    needed = limit + timedelta(milliseconds=now - _end_of(log, head, version, now))
    whole = _DAY * -(-needed // _DAY)
    is_ours = both.is_here and writer_of_table(_table_of(both.trunk, name), both.trunk) is not None
    if needed <= max(time_travel(head), registered or timedelta()) + _DAY or not is_ours:
        return None if registered is None else as_interval(registered)
    with on_branch(None):
        for ref, at in both.heads(name):
            if registered_limits(at.properties).get(reader, timedelta()) < whole:
                change_properties(both.manager(name).writing_session(), ref, registration(at, reader, whole))
    return as_interval(whole)


def _clone(
    both: _Both,
    name: str,
    session: SparkSession,
    version: int,
    clones: Mapping[str, CloneAt],
    limit: timedelta,
    now: int,
) -> tuple[CloneAt, tuple[str, ...]]:
    """Clones a table with its quarantine; also gives, as clauses, why its first run cannot go on from positions."""
    (log, head), (ref, own), table = both.open_tables[name], both.refs(name), _table_of(both.trunk, name)
    reasons = dict[str, None]()
    cursors = cursors_at(log, head, name, version, by_partition=name in both.standings.ways.partitioned)
    beside = _clone_quarantine(both, session, name, cursors, limit, now)
    marks = list[Callable[[int], Mark]]()
    for cursor in cursors:
        carried, why_none = dict[str, CloneAt](), why_none_carried(log, head, cursor, version)
        for source, at in cursor.reads.items():
            if source in clones:
                why = why_none or why_not_carried(*both.open_tables[source], source, at, clones[source])
                carried |= {source: clones[source]} if why is None else {}
                reasons |= {} if why is None or at.is_snapshot else {why: None}
        if not marks or any(source in carried and not at.is_snapshot for source, at in cursor.reads.items()):
            marks.append(partial(mark_of_clone, cursor, carried, beside(cursor), BRANCH_READER + both.name))
    if not cursors and table.changes:
        reasons["its log says no position"] = None
    return _execute(session, ref, own, head, limit, version, marks), tuple(reasons)


def _clone_quarantine(
    both: _Both, session: SparkSession, name: str, cursors: Sequence[Known], limit: timedelta, now: int
) -> Callable[[Known], CloneAt | None]:
    """Clones the quarantine of a table, if it has one; gives what finds the clone that goes with a position."""
    if not _table_of(both.trunk, name).declared.quarantines:
        return lambda _: None
    ref, own = (each.beside(SUFFIX) for each in both.refs(name))
    log, own_log = ref.log(lambda: session), own.log(lambda: session)
    head, own_head = log.head(), own_log.head()
    if head is None:
        return lambda _: None
    read = max((cursor.mark.version_of_quarantine for cursor in cursors), default=head.version)
    version = read if oldest_clonable(log, head, now) <= read <= head.version else head.version
    newest = newest_own(log, replace(head, version=version), ref.name)
    marks = [] if newest is None else [partial(mark_of_clone, newest, {}, None, BRANCH_READER + both.name)]
    clone = (
        _execute(session, ref, own, head, limit, version, marks) if own_head is None else _clone_at(own_log, own_head)
    )
    return lambda cursor: clone if clone is not None and goes_with(log, head, ref.name, cursor, clone) else None


def _execute(
    session: SparkSession,
    ref: TableRef,
    own: TableRef,
    head: Head,
    limit: timedelta,
    version: int,
    marks: Sequence[Callable[[int], Mark]],
) -> CloneAt:
    """Makes a clone: the first mark is in the commit that clones, each other mark in one without rows.

    The clone keeps its own past as long, because `compare` reads the version with which it began.
    """
    properties = {_CLONED: head.table_id}
    for name, retention in ((FILE_RETENTION, files_kept(head)), (LOG_RETENTION, log_kept(head))):
        properties |= {name: as_interval(limit)} if limit > retention else {}
    with session_of_its_own(session, {USER_METADATA: marks[0](NO_TABLE).to_json()} if marks else {}) as one:
        source = f"{ref.identifier} VERSION AS OF {version}"
        listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        one.sql(f"CREATE TABLE {own.identifier} SHALLOW CLONE {source} TBLPROPERTIES ({listed})").collect()
    for at, mark in enumerate(marks[1:]):
        save_mark(session, own, mark(at))
    log = own.log(lambda: session)
    made = log.head()
    clone = None if made is None else _clone_at(log, made)
    assert clone is not None, f"{own.location} was cloned"
    return clone
