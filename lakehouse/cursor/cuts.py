"""How far a run reads so that its inputs agree.

A cut is one version of each of some tables such that all ways to one source end at the same version of it. The newer
version of each table from two cuts is a cut again, so there is a greatest cut (ADR 50).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakehouse.cursor.cursor import Cursor
from lakehouse.cursor.standings import Standing, Standings, StandsFor
from lakehouse.cursor.unread import cap, pending
from lakehouse.delta.log import NOTHING_READ
from lakehouse.delta.table import Read


def reach(own: StandsFor, foremost: StandsFor) -> StandsFor:
    """How far a table may read the sources that it shares with siblings; empty if it may read them to their heads.

    A table that is behind its foremost sibling in any shared source reads each of them as far as the foremost sibling.
    """
    is_behind = any(own.get(source, NOTHING_READ) < at for source, at in foremost.items())
    return {source: max(at, own.get(source, at)) for source, at in foremost.items()} if is_behind else {}


Stands: TypeAlias = Callable[[str, int], StandsFor | None]
"""What a version of a table stands for; None if it does not stand for one state of its sources."""


def greatest_cut(
    stands: Stands, heads: Mapping[str, int], floors: Mapping[str, int], most: StandsFor
) -> Mapping[str, int] | None:
    """The greatest cut of tables; None if there is none.

    Args:
        stands: What each version of each table stands for, which grows with the version.
        heads: The newest version of each table.
        floors: The oldest version of each table that may be in the cut; 0 for a table that is not named.
        most: The newest version of each source that the cut may stand for; any for a source that is not named.
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
    """The newest version of a table that stands for no more than `most`. Steps back double, so a long way is cheap."""

    def exact(version: int) -> int | None:
        """The nearest version, at or before this one, that stands for one state of its sources."""
        back = range(version, max(oldest, version - _LOOKED_AT) - 1, -1)
        return next((each for each in back if stands(table, each) is not None), None)

    def fits(version: int) -> bool:
        sources = {} if (nearest := exact(version)) is None else stands(table, nearest) or {}
        return all(at <= most.get(source, at) for source, at in sources.items())

    version, above, step = newest, newest + 1, 1
    while not fits(version):  # no version before the oldest stands for anything, so the search ends there
        above, version, step = version, max(oldest - 1, version - step), 2 * step
    while version + 1 < above:
        middle = (version + above) // 2
        version, above = (middle, above) if fits(middle) else (version, middle)
    return exact(version)


_LOOKED_AT = 100
"""At most this many versions in a row are searched for one that stands for one state of its sources."""


@dataclass(frozen=True, slots=True)
class Lag:
    """A table that stands for an older version of a source than another table does."""

    table: str
    version: int
    source: str
    ahead: str
    newest: int

    def __str__(self) -> str:
        behind = f"{self.table}, which stands for version {self.version} of {self.source}"
        return f"{behind}: {self.ahead} stands for {self.newest}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a run reads its inputs so that they agree.

    Args:
        upto: The version at which each input is read; empty if the newest are read, or if no cut is there to begin at.
        exact: The inputs that share a source with another one, so that no limit may end their range earlier.
        stands_for: What the table stands for after the run; None if the run reads the newest.
        moves: Whether that differs from what it stood for before.
        waits_for: The inputs for which the table waits.
        newest: Why the run reads the newest versions all the same, as a clause; None if it does not.
    """

    upto: Mapping[str, int] = field(default_factory=dict[str, int])
    exact: frozenset[str] = frozenset()
    stands_for: StandsFor | None = None
    moves: bool = False
    waits_for: tuple[Lag, ...] = ()
    newest: str | None = None

    @property
    def has_no_cut(self) -> bool:
        """Whether the table has no position yet, and there is no cut at which it could begin."""
        return bool(self.exact) and not self.upto

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the log of the run shows of it, as sentences with the table as their subject."""
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
        if name in heads and standings.why_broken_off(name, position) is None
    }
    own, limit = standings.through(table, cursor.reads), _limit(standings, table, cursor)
    ends = _ends(standings, cursor, heads, reads)
    cut = greatest_cut(standings.exact, heads | ends, floors, limit)
    if ends and cut in (None, floors):  # a limit is dropped if no cut beyond the positions is within it
        cut = greatest_cut(standings.exact, heads, floors, limit)
    is_newest = cut is not None and all(standings.exact(name, at) == newest[name].exact for name, at in cut.items())
    waits = () if is_newest else tuple(who_is_behind(newest))
    if cut is None:
        begun = floors if floors.keys() == heads.keys() else {}
        return Agreement(begun, frozenset(heads), own.exact, waits_for=waits)
    shared = {name for name in heads if any(ways.sources(name) & ways.sources(o) for o in heads if o != name)}
    stands_for = {source: at for name in cut for source, at in (standings.exact(name, cut[name]) or {}).items()}
    return Agreement(cut, frozenset(shared), stands_for, own.exact != stands_for, waits)


def _limit(standings: Standings, table: str, cursor: Cursor) -> StandsFor:
    """How far the table may read because of its siblings; sources that it may read to the head are left out."""
    group, own = standings.ways.siblings(table), standings.through(table, cursor.reads)
    if group is None or own.unknown is not None:
        return {}
    others, shared = standings.furthest(group, besides=table), group.sources & standings.ways.sources(table)
    return reach(own.sources, {source: at for source, at in others.items() if source in shared})


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


def who_is_behind(newest: Mapping[str, Standing]) -> Iterator[Lag]:
    """For each source over which a table's inputs do not agree now: which input the table waits for."""
    by_source = dict[str, dict[str, int]]()
    for name, each in newest.items():
        for source, version in each.sources.items():
            by_source.setdefault(source, {})[name] = version
    for source, at in sorted(by_source.items()):
        behind, ahead = min(at, key=lambda name: at[name]), max(at, key=lambda name: at[name])
        if at[behind] < at[ahead]:
            yield Lag(behind, at[behind], source, ahead, at[ahead])
