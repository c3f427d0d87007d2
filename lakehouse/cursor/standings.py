"""What a version of a table stands for: from logs alone.

A version of a table stands for a version of each source from which ways lead to it: by its mark, and by the marks of
its inputs. A table that no asset makes stands for its own last version that may have changed a row.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from lakehouse.cursor.find import newest_covering, newest_mark
from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import why_another_past, why_broken_off
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.log import NOTHING_READ, Head, Log, Opened
from lakehouse.errors import LakehouseError, in_short

StandsFor: TypeAlias = Mapping[str, int]
"""A version of each source, by its name; `NOTHING_READ` for a source that has not been read yet."""
Logs: TypeAlias = Callable[[str], Log | None]
"""Gives the log of a table; None if the log is out of reach."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """Tables on the ways from shared sources to a table whose inputs are to agree, and these sources."""

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
    _before: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]], compare=False, repr=False)

    def before(self, table: str) -> frozenset[str]:
        """The tables from which ways lead to a table; itself among them only if the ways go round in a circle."""
        if table not in self._before:
            tables, ahead = set[str](), [*self.inputs.get(table, ())]
            while ahead:
                name = ahead.pop()
                if name not in tables:
                    tables.add(name)
                    ahead += self.inputs.get(name, ())
            self._before[table] = frozenset(tables)
        return self._before[table]

    def sources(self, table: str) -> frozenset[str]:
        """The sources from which ways lead to a table; for a source, the source itself."""
        return frozenset(name for name in self.before(table) if not self.inputs.get(name)) or frozenset({table})

    def common(self, table: str) -> frozenset[str]:
        """The sources from which ways lead to a table through several of its inputs."""
        pairs = combinations([self.sources(name) for name in self.inputs.get(table, ())], 2)
        return frozenset[str]().union(*(one & other for one, other in pairs))

    @cached_property
    def groups(self) -> Mapping[str, Siblings]:
        """The siblings of each table before tables whose inputs are to agree. Groups that share a table become one."""
        groups = dict[str, Siblings]()
        for meeting in sorted(self.agreeing - self.partitioned):
            common = self.common(meeting)
            made = (name for name in self.before(meeting) if name in self.inputs)
            group = Siblings(frozenset(name for name in made if self.sources(name) & common), common)
            for other in {groups[name] for name in group.tables if name in groups}:
                group = Siblings(group.tables | other.tables, group.sources | other.sources)
            groups |= dict.fromkeys(group.tables, group)
        return groups

    def siblings(self, table: str) -> Siblings | None:
        """The siblings of a table, itself among them; None if it has none."""
        return self.groups.get(table)

    def with_marks(self, table: str, logs: Logs) -> "Ways":
        """The same, with the inputs of undefined tables that come before a table, as their newest marks name them."""
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
        """Whether a run of the table must take care how far it reads."""
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
        self._furthest = dict[Siblings, Mapping[str, list[tuple[int, str]]]]()

    def log(self, table: str) -> Log | None:
        """The log of a table; None if it is out of reach."""
        if table not in self._logs:
            self._logs[table] = self._log_of(table)
        return self._logs[table]

    def head(self, table: str) -> Head | None:
        """Where a table stands; None if there is none, or if its log is out of reach."""
        if table not in self._heads:
            log = self.log(table)
            self._heads[table] = None if log is None else log.head()
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

    def furthest(self, group: Siblings, besides: str) -> StandsFor:
        """How far the foremost sibling except `besides` is in each source; the tables of a group are looked up once."""
        if group not in self._furthest:
            by_source = dict[str, list[tuple[int, str]]]()
            for name in group.tables:
                standing = self.newest(name)
                for source, at in ((None if standing is None else standing.exact) or {}).items():
                    by_source[source] = sorted([*by_source.get(source, ()), (at, name)])[-2:]
            self._furthest[group] = by_source
        two_of_each = self._furthest[group].items()
        return {source: at for source, two in two_of_each for at, name in two if name != besides}

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
        if table in self.ways.before(table):  # only marks can show this, after the order of the tables was reversed
            return Standing(unknown=f"{table} and a table that it reads have read each other")
        log = self.log(table)
        if log is None:
            return Standing(unknown=f"the log of {table} is out of reach")
        cursor = newest_covering(log, Head(version, "", {}, ()), table, ())
        if cursor is None or cursor.stale_base:
            why = "another writer committed just before its last run" if cursor else "its log says no position"
            return Standing(unknown=f"what version {version} of {table} stands for is not known, because {why}")
        return self.through(table, cursor.reads)

    def through(self, table: str, reads: Mapping[str, Position]) -> Standing:
        """What a table stands for if it has read its inputs up to these positions."""
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
        why = self.why_broken_off(table, position)
        return (
            self.of(table, position.version)
            if why is None
            else Standing(unknown=f"{table} is not what was read: {why}")
        )

    def why_broken_off(self, table: str, position: Position) -> str | None:
        """Why a table does not go on from a position, as a clause; None if it does, or if its log is out of reach."""
        log, head = self.log(table), self.head(table)
        if log is None or head is None:
            return None
        return why_broken_off(position, head.table_id, head.version) or why_another_past(position, log)
