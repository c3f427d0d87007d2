"""Commits that came between a comparison and the commit that follows from it.

Delta checks what is committed while a transaction runs. Nobody has checked what was committed after the comparison and
before the transaction began. Such commits are found in the log by reading the mark.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self, TypeAlias

from lakehouse.cursor.generation import Generation
from lakehouse.cursor.mark import FORMAT, Mark, NewerFormatError, Position
from lakehouse.delta.commit_info import COMPACTING, Commit
from lakehouse.delta.log import Head, Log
from lakehouse.errors import FULL_REFRESH, ReadError, UnreadableLogError


@dataclass(frozen=True, slots=True)
class Past:
    """The commits up to the head of a table. Each is read once, however often the walk passes it."""

    log: Log
    head: Head
    _read: list[Commit]
    _rest: Iterator[Commit]

    @classmethod
    def of(cls, log: Log, head: Head) -> Self:
        return cls(log, head, [], log.commits(head.version))

    def back(self, before: int | None = None, after: int = -1) -> Iterator[Commit]:
        """The commits from the newest, or from before a version, down to the first missing one, or to after a version.

        No commit beyond these is read.
        """
        first = 0 if before is None else max(0, self.head.version - before + 1)
        for place in range(first, self.head.version - after):
            while place >= len(self._read):
                commit = next(self._rest, None)
                if commit is None or commit.version != self.head.version - len(self._read):
                    return
                self._read.append(commit)
            yield self._read[place]

    def epoch(self, application_id: str) -> int | None:
        """See `Log.epoch`."""
        return self.log.epoch(application_id, self.head.version)


def standing(commits: Iterable[Commit]) -> Iterator[Commit]:
    """The commits whose rows the table still has, newest first, without those that a RESTORE or an emptying undid.

    The last one may be the commit that emptied the table, or a RESTORE that does not name its version.
    """
    undone_above: int | None = None
    for commit in commits:
        if undone_above is not None and commit.version > undone_above:
            continue
        if commit.operation == "RESTORE" and commit.restored_version is not None:
            undone_above = commit.restored_version
            continue
        yield commit
        if commit.operation == "RESTORE" or commit.empties:
            return


def standing_by_generation(past: Past) -> Iterator[tuple[Commit, Generation | None]]:
    """The commits that stand, each with the generation that began after it; None if none did.

    The newest RESTORE names the generation, or the newest commit that emptied the table.
    """
    generations = dict[int, Generation | None]()

    def observed_commits() -> Iterator[Commit]:
        newest: Generation | None = None
        for commit in past.back():
            generations[commit.version] = newest
            if newest is None and hides(commit):
                newest = Generation.after(commit.version)
            yield commit

    for commit in standing(observed_commits()):
        yield commit, generations[commit.version]


def hides(commit: Commit) -> bool:
    """Whether no commit before this one gives a position by itself: it restored the table, or emptied it."""
    return commit.operation == "RESTORE" or (commit.empties and not commit.is_first)


@dataclass(frozen=True, slots=True)
class BaseHolds:
    """The rows of an own commit are those of its position, whoever came between its base and the commit."""

    rivals: tuple[Commit, ...] = ()


@dataclass(frozen=True, slots=True)
class StaleBase:
    """Rivals may have changed rows that the commit had compared; the same range, read again, sets these rows right."""

    rivals: tuple[Commit, ...]


@dataclass(frozen=True, slots=True)
class BaseReverted:
    """The table may no longer hold what the comparison saw, so that the position of the commit is not believed."""

    reason: str
    rivals: tuple[Commit, ...] = ()


Base: TypeAlias = BaseHolds | StaleBase | BaseReverted
"""What rivals left of the base of an own commit; `rivals` are those that may concern its partitions, newest first."""


def judge_base(between: Iterable[Commit], commit: Commit, mark: Mark) -> Base:
    """What the commits between the base of an own commit and that commit left of its base.

    The run asks this of its own commit, and the next run of the newest own commit. Another run of the asset can come in
    between only in another generation or set of partitions; otherwise Delta refuses the second. The start of its range
    is not recorded, and after a blind append its rows may be there twice.

    Args:
        between: The commits between the base and the own commit that the log has, newest first.
        commit: The own commit.
        mark: Its mark.
    """
    planned = f"version {commit.version} was planned on version {mark.base}"
    if mark.base >= commit.version:
        return BaseReverted(f"{planned}, of a table that was deleted meanwhile")
    oldest, rivals = commit.version, tuple[Commit, ...]()
    for rival in between:
        if rival.version < oldest - 1:
            break
        oldest = rival.version
        if may_concern(rival, mark.asset, mark.partitions):
            rivals += (rival,)
        if rival.operation == "RESTORE" or rival.empties:
            what = f"version {rival.version} ({rival.operation}) changed the table in between"
            return BaseReverted(f"{planned}, and {what}", rivals)
    if oldest > mark.base + 1:
        return BaseReverted(f"{planned}, and what happened in between was cleaned up", rivals)
    own = any(readable_mark(rival, mark.asset) is not None for rival in rivals)
    if own and not leaves_nothing_older(commit, mark):
        return BaseReverted(f"{planned}, and another run of the asset came in between", rivals)
    return StaleBase(rivals) if rivals and mark.compared else BaseHolds(rivals)


def leaves_nothing_older(commit: Commit, mark: Mark) -> bool:
    """Whether an own commit replaced every row of its partitions, whatever came before."""
    return not mark.compared and commit.operation == "WRITE" and commit.parameters.get("mode") == "Overwrite"


def may_concern(commit: Commit, asset: str, partitions: Collection[str]) -> bool:
    """Whether a commit may have changed rows of the given partitions (none: of any)."""
    mark = readable_mark(commit, asset)
    return not commit.is_quiet and (mark is None or mark.meets(partitions))


def reads_before(past: Past, mark: Mark) -> Mapping[str, Position]:
    """The positions from which to continue if a rival changed rows between the comparison and the commit of `mark`.

    The run itself corrects that in a second commit. If there is none, the run died, or its rows were not concerned. By
    the write law a range that is read twice is applied once, so the next run reads the range again. If the commit
    before wrote only some of these partitions, its position is unknown, so everything is read again.
    """
    sources = set(mark.reads)
    for commit in past.back():
        if commit.version > mark.base:
            continue
        if commit.operation == "RESTORE" or commit.empties:
            break
        before = mark_of(commit, mark.asset)
        if before is None or not before.meets(mark.partitions):
            continue
        if not before.covers(mark.partitions):
            break
        sources &= set(before.reads)
        match judge_base(past.back(commit.version, before.base), commit, before):
            case BaseHolds():
                return {source: before.reads[source] for source in sources}
            case StaleBase():
                mark = before
            case BaseReverted():
                break
    return {}


def readable_mark(commit: Commit, asset: str) -> Mark | None:
    """The asset's own mark in a commit; None also if the mark is damaged."""
    try:
        return mark_of(commit, asset)
    except UnreadableLogError:
        return None


_parsed = lru_cache(maxsize=4_096)(Mark.from_json)
"""A walk asks for the same marks once for each partition, and each attempt of a write walks again."""


def mark_of(commit: Commit, asset: str) -> Mark | None:
    """The asset's own mark in a commit, whichever partitions it wrote.

    Raises:
        UnreadableLogError: The mark is damaged.
        ReadError (NEWER_MARK): A newer version of the library wrote the mark.
    """
    if commit.operation == "RESTORE":  # its session may give every commit the metadata that a run gave one commit
        return None
    try:
        mark = _parsed(commit.user_metadata)
    except NewerFormatError as error:
        if error.asset != asset:
            return None
        raise ReadError.newer_mark(asset, commit.version, error.number, FORMAT) from error
    except ValueError as error:
        raise UnreadableLogError.unreadable_log(
            asset,
            f"version {commit.version} carries a damaged mark: {error}",
            f"RESTORE the table to an earlier version of its own. Or materialize once with the run tag "
            f"{FULL_REFRESH}=true, which compares every row and writes a new mark (not for a History or Snapshot).",
            damaged=commit.version,
        ) from error
    # Delta compacts files after a commit, in the session and with the metadata of that commit.
    return mark if mark is not None and mark.asset == asset and commit.operation not in COMPACTING else None
