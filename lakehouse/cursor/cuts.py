"""What a version of a table stands for, and how far a run reads so that its inputs agree: on logs alone.

A version of a table stands for a version of each source from which ways lead to it: by its mark, and through the marks
of its inputs. A table that no asset makes stands for itself, and commits without rows change nothing of that. A cut is
one version of each of some tables such that all ways to one source end at the same version of it. Of two cuts the newer
version of each table is a cut again, so there is a greatest one (ADR 50).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from lakehouse.cursor.cursor import Cursor
from lakehouse.cursor.find import newest_covering, newest_mark
from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import cap, pending, why_another_past
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.log import NOTHING_READ, Head, Log, Opened
from lakehouse.delta.table import Read
from lakehouse.errors import LakehouseError, ReadError, in_short

StandsFor: TypeAlias = Mapping[str, int]
"""A version of each source, by its name; `NOTHING_READ` of a source that has not been read yet."""
Logs: TypeAlias = Callable[[str], Log | None]
"""Gives the log of a table; None of a table whose log is out of reach."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """Tables on the ways from shared sources to a table whose inputs are to agree; and these sources."""

    tables: frozenset[str]
    sources: frozenset[str]


@dataclass(frozen=True)
class Ways:
    """Which tables lead to which.

    Args:
        inputs: The tables that each table reads, of those that one asset makes; every other table is a source.
        agreeing: The tables whose inputs are to agree.
        partitioned: The tables whose partitions have a position each, so that no version stands for one state.
    """

    inputs: Mapping[str, Collection[str]]
    agreeing: frozenset[str] = frozenset()
    partitioned: frozenset[str] = frozenset()
    _sources: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]], compare=False, repr=False)

    def sources(self, table: str) -> frozenset[str]:
        """The sources from which ways lead to a table; of a source, itself."""
        if table not in self._sources:
            each = [self.sources(name) for name in self.inputs.get(table, ())]
            self._sources[table] = frozenset[str]().union(*each) if each else frozenset({table})
        return self._sources[table]

    def common(self, table: str) -> frozenset[str]:
        """The sources from which ways lead to a table over several of its inputs."""
        pairs = combinations([self.sources(name) for name in self.inputs.get(table, ())], 2)
        return frozenset[str]().union(*(one & other for one, other in pairs))

    @cached_property
    def groups(self) -> tuple[Siblings, ...]:
        """The siblings before each table whose inputs are to agree. Two groups with a table in common are one."""
        groups = list[Siblings]()
        for meeting in sorted(self.agreeing - self.partitioned):
            group = Siblings(self._between(self.common(meeting), meeting), self.common(meeting))
            for other in [other for other in groups if other.tables & group.tables]:
                groups.remove(other)
                group = Siblings(group.tables | other.tables, group.sources | other.sources)
            groups.append(group)
        return tuple(groups)

    def _between(self, sources: frozenset[str], table: str) -> frozenset[str]:
        """The tables that assets make on the ways from sources to a table."""
        members, ahead = set[str](), [*self.inputs.get(table, ())]
        while ahead:
            name = ahead.pop()
            if name in self.inputs and name not in members and self.sources(name) & sources:
                members.add(name)
                ahead += self.inputs[name]
        return frozenset(members)

    def siblings(self, table: str) -> Siblings | None:
        """The siblings of a table, itself among them; None if it has none."""
        return next((group for group in self.groups if table in group.tables), None)

    def with_marks(self, table: str, logs: Logs) -> "Ways":
        """The same, where the tables before a table are not defined: by what their newest marks say that they read."""
        inputs, partitioned, ahead = dict(self.inputs), set(self.partitioned), {*self.inputs.get(table, ())}
        while ahead:
            name = ahead.pop()
            log = None if name in inputs else logs(name)
            head = None if log is None else log.head()
            mark = None if log is None or head is None else newest_mark(log, head, name)
            read = () if mark is None else tuple(sorted(mark.reads.keys() - {name}))
            if mark is not None and read:
                inputs[name] = read
                partitioned |= {name} if mark.partitions else set()
                ahead |= {*read} - inputs.keys()
        return Ways(inputs, self.agreeing, frozenset(partitioned))

    def concerns(self, table: str) -> bool:
        """Whether a run of the table has to mind how far it reads."""
        return table in self.agreeing and (bool(self.common(table)) or self.siblings(table) is not None)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a version of a table stands for.

    Args:
        sources: The version of each source; the newest, if inputs disagree.
        torn: The sources over which its inputs disagree, with the version by each input.
        unknown: Why it is not known, as a clause; None if it is.
    """

    sources: StandsFor = field(default_factory=dict[str, int])
    torn: Mapping[str, StandsFor] = field(default_factory=dict[str, StandsFor])
    unknown: str | None = None

    @property
    def exact(self) -> StandsFor | None:
        """The versions, if it stands for one state of its sources."""
        return None if self.torn or self.unknown is not None else self.sources

    @property
    def why_inexact(self) -> str | None:
        """Why it does not stand for one state of its sources, as a clause; None if it does."""
        if self.unknown is not None or not self.torn:
            return self.unknown
        source, at = next(iter(self.torn.items()))
        apart = count_of(max(at.values()) - min(at.values()), "version")
        which = " and ".join(f"{name} stands for version {version}" for name, version in at.items())
        return f"its inputs disagree over {source} by {apart}: {which}"


class Standings:
    """What versions of tables stand for; each is looked up once."""

    def __init__(self, ways: Ways, logs: Logs) -> None:
        self.ways, self._log_of = ways, logs
        self._logs = dict[str, Log | None]()
        self._heads = dict[str, Head | None]()
        self._by_version = dict[tuple[str, int], Standing]()
        self._ids = dict[str, str]()

    def log(self, table: str) -> Log | None:
        """The log of a table; None if it is out of reach."""
        if table not in self._logs:
            self._logs[table] = self._log_of(table)
        return self._logs[table]

    def head(self, table: str) -> Head | None:
        """Where a table stands; None if there is none, or if its log is out of reach."""
        if table not in self._heads:
            log = self.log(table)
            self._heads[table] = head = None if log is None else log.head()
            if head is not None:
                self._ids.setdefault(table, head.table_id)
        return self._heads[table]

    @property
    def open_logs(self) -> Opened:
        """The logs of the tables that it has found."""
        return {
            table: (log, head)
            for table, head in self._heads.items()
            if head is not None and (log := self.log(table)) is not None
        }

    def newest(self, table: str) -> Standing | None:
        """What a table stands for now; None if there is no table."""
        try:
            head = self.head(table)
        except LakehouseError as error:
            return Standing(unknown=in_short(error))
        return None if head is None else self.of(table, head.version)

    def of(self, table: str, version: int) -> Standing:
        """What a version of a table stands for."""
        if (table, version) not in self._by_version:
            try:
                standing = (
                    self._of_source(table, version) if table not in self.ways.inputs else self._by_mark(table, version)
                )
            except LakehouseError as error:
                standing = Standing(unknown=in_short(error))
            self._by_version[table, version] = standing
        return self._by_version[table, version]

    def exact(self, table: str, version: int) -> StandsFor | None:
        """What a version of a table stands for, if that is one state of its sources."""
        return self.of(table, version).exact

    def _of_source(self, table: str, version: int) -> Standing:
        """The last version, up to this one, that may have changed a row."""
        log, oldest = self.log(table), version
        for commit in () if log is None else log.commits(version):
            if commit.is_first or not commit.is_quiet:
                return Standing({table: commit.version})
            oldest = commit.version - 1
        return Standing({table: oldest})

    def _by_mark(self, table: str, version: int) -> Standing:
        if table in self.ways.partitioned:
            return Standing(unknown=f"{table} has partitions, each with positions of its own")
        log = self.log(table)
        if log is None:
            return Standing(unknown=f"the log of {table} is out of reach")
        cursor = newest_covering(log, Head(version, "", {}, ()), table, ())
        if cursor is None or cursor.stale_base:
            why = "another writer committed just before its last run" if cursor else "its log says no position"
            return Standing(unknown=f"what version {version} of {table} stands for is not known, because {why}")
        return self.through(table, cursor.reads)

    def through(self, table: str, reads: Mapping[str, Position]) -> Standing:
        """What a table stands for that has read its inputs up to these positions."""
        by_source = dict[str, dict[str, int]]()
        for name in self.ways.inputs.get(table, ()):
            position = reads.get(name)
            sources: StandsFor = dict.fromkeys(self.ways.sources(name), NOTHING_READ)
            if position is not None:
                standing = self._at(name, position)
                if standing.exact is None:
                    return Standing(unknown=f"{name} does not stand for one state ({standing.why_inexact})")
                sources = standing.exact
            for source, version in sources.items():
                by_source.setdefault(source, {})[name] = version
        torn = {source: at for source, at in sorted(by_source.items()) if len(set(at.values())) > 1}
        return Standing({source: max(at.values()) for source, at in sorted(by_source.items())}, torn)

    def _at(self, table: str, position: Position) -> Standing:
        """What the version at a position stands for, unless another table, or another past, has taken its place."""
        log = self.log(table)
        if self._ids.setdefault(table, position.table) != position.table:
            return Standing(unknown=f"another table has taken the place of {table}")
        why = None if log is None else why_another_past(position, log)
        return self.of(table, position.version) if why is None else Standing(unknown=f"of {table} {why}")


def reach(own: StandsFor, others: Iterable[StandsFor], shared: Collection[str]) -> StandsFor | None:
    """How far a table may read the sources that it shares with siblings; None: to their heads.

    A table that is behind the foremost of its siblings in any source reads all of them as far as the foremost.

    Args:
        own: What it stands for; nothing before its first run.
        others: What its siblings stand for.
        shared: The sources that the siblings share.
    """
    foremost = dict[str, int]()
    for other in others:
        foremost |= {source: max(at, foremost.get(source, at)) for source, at in other.items() if source in shared}
    is_behind = any(own.get(source, NOTHING_READ) < at for source, at in foremost.items())
    return {source: max(at, own.get(source, at)) for source, at in foremost.items()} if is_behind else None


Stands: TypeAlias = Callable[[str, int], StandsFor | None]
"""What a version of a table stands for; None if it does not stand for one state of its sources."""


def greatest_cut(
    stands: Stands, heads: Mapping[str, int], floors: Mapping[str, int], most: StandsFor
) -> Mapping[str, int] | None:
    """The greatest cut of tables; None if there is none.

    Args:
        stands: What each version of each table stands for, which grows with the version.
        heads: The newest version of each table.
        floors: The oldest version of each that may be in the cut; 0 if it is not named.
        most: The newest version of sources that the cut may stand for.
    """
    cut = dict(heads)
    while True:
        for name, newest in cut.items():
            version = _lower(stands, name, newest, floors.get(name, 0), most)
            if version is None:
                return None
            cut[name] = version
        at = {name: stands(name, version) or {} for name, version in cut.items()}
        most = dict[str, int]()
        for versions in at.values():
            most |= {source: min(version, most.get(source, version)) for source, version in versions.items()}
        if all(version == most[source] for versions in at.values() for source, version in versions.items()):
            return cut


def _lower(stands: Stands, table: str, newest: int, oldest: int, most: StandsFor) -> int | None:
    """The newest version of a table that stands for no more. The steps back double, so a long way costs little."""

    def fits(version: int) -> bool:
        sources = stands(table, version)
        return sources is not None and all(at <= most.get(source, at) for source, at in sources.items())

    version, above, step = newest, newest + 1, 1
    while version >= oldest and not fits(version):
        if version == oldest:
            return None
        above, version, step = version, max(oldest, version - step), 2 * step
    if version < oldest:
        return None
    while version + 1 < above:
        middle = (version + above) // 2
        version, above = (middle, above) if fits(middle) else (version, middle)
    return version


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a run reads its inputs so that they agree.

    Args:
        upto: The version at which each input is read; empty if the newest are.
        exact: The inputs that share a source with another one, so that no limit may end their range earlier.
        stands_for: What the table stands for after the run; None if the run reads the newest.
        moves: Whether that is something else than before.
        waits_for: For whom the table waits, as sentences.
        newest: Why the run reads the newest versions all the same, as a clause; None if it does not.
    """

    upto: Mapping[str, int] = field(default_factory=dict[str, int])
    exact: frozenset[str] = frozenset()
    stands_for: StandsFor | None = None
    moves: bool = False
    waits_for: tuple[str, ...] = ()
    newest: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the log of the run says of it: sentences whose subject is the table."""
        if self.newest is not None:
            return (f"reads the newest version of each input, because {self.newest}",)
        return tuple(f"waits for {each}" for each in self.waits_for)


def agreement(standings: Standings, table: str, cursor: Cursor, reads: Mapping[str, Read]) -> Agreement:
    """How far a run of a table reads its inputs: to the greatest cut that is not before its positions.

    Args:
        standings: What tables stand for.
        table: The table.
        cursor: How far it has read.
        reads: The options of the inputs that it reads as changes.

    Raises:
        ReadError (NO_CUT): It has no position yet, and there is no cut at which it could begin.
    """
    ways = standings.ways
    heads = {name: at.version for name in ways.inputs[table] if (at := standings.head(name)) is not None}
    newest = {name: standings.of(name, version) for name, version in heads.items()}
    why = next((each.why_inexact for each in newest.values() if each.exact is None), None)
    if table in ways.partitioned:
        why = "it has partitions, each with positions of its own"
    if why is not None or len(heads) < len(ways.inputs[table]):
        return Agreement(newest=why)
    floors = {
        name: max(position.version, cursor.furthest(name))
        for name, position in cursor.reads.items()
        if name in heads and position.table == _id_of(standings, name)
    }
    own, limit = standings.through(table, cursor.reads), _limit(standings, table, cursor)
    ends = _ends(standings, cursor, heads, reads)
    cut = greatest_cut(standings.exact, heads | ends, floors, limit)
    if ends and cut in (None, floors):  # a limit gives way where no cut is within it
        cut = greatest_cut(standings.exact, heads, floors, limit)
    waits = tuple(who_is_behind(newest)) if cut is None or _is_behind(standings, cut, newest) else ()
    if cut is None:
        if floors.keys() != heads.keys():
            raise ReadError.no_cut(table, waits)
        return Agreement(floors, frozenset(heads), own.exact, waits_for=waits)
    shared = {name for name in heads if any(ways.sources(name) & ways.sources(o) for o in heads if o != name)}
    stands_for = {source: at for name in cut for source, at in (standings.exact(name, cut[name]) or {}).items()}
    return Agreement(cut, frozenset(shared), stands_for, own.exact != stands_for, waits)


def _id_of(standings: Standings, table: str) -> str | None:
    head = standings.head(table)
    return None if head is None else head.table_id


def _limit(standings: Standings, table: str, cursor: Cursor) -> StandsFor:
    """How far the table may read because of its siblings; nothing of sources that it may read to the head."""
    group, own = standings.ways.siblings(table), standings.through(table, cursor.reads)
    if group is None or own.unknown is not None:
        return {}
    others = [standings.newest(name) for name in sorted(group.tables - {table})]
    exact = [other.exact for other in others if other is not None and other.exact is not None]
    return reach(own.sources, exact, group.sources & standings.ways.sources(table)) or {}


def _ends(standings: Standings, cursor: Cursor, heads: Mapping[str, int], reads: Mapping[str, Read]) -> dict[str, int]:
    """Where the limits of inputs end their ranges."""
    ends = dict[str, int]()
    for name, read in reads.items():
        log, position = standings.log(name), cursor.reads.get(name)
        if (read.max_versions or read.max_bytes) and log is not None and position is not None and name in heads:
            furthest = cursor.furthest(name)
            commits = pending(log, name, position.version, heads[name], read, furthest)
            batch = cap(commits or (), read, furthest)
            ends |= {name: batch[-1].version} if batch else {}
    return ends


def _is_behind(standings: Standings, cut: Mapping[str, int], newest: Mapping[str, Standing]) -> bool:
    return any(standings.exact(name, at) != newest[name].exact for name, at in cut.items())


def who_is_behind(newest: Mapping[str, Standing]) -> Iterator[str]:
    """For whom a table waits whose inputs do not agree now, a sentence for each source."""
    for source in sorted({source for each in newest.values() for source in each.sources}):
        at = {name: each.sources[source] for name, each in newest.items() if source in each.sources}
        behind, ahead = min(at, key=lambda name: at[name]), max(at, key=lambda name: at[name])
        if at[behind] < at[ahead]:
            yield f"{behind}, which stands for version {at[behind]} of {source}: {ahead} stands for {at[ahead]}"
