"""What stands between the comparison that a commit follows from and the commit itself.

Delta checks what is committed while a transaction runs. What was committed after the rows were compared and before the
transaction began, nobody has checked: it is found in the log, by whoever reads the commit's mark.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Self

from lakehouse.cursor.mark import FORMAT, Mark, NewerFormatError, Position
from lakehouse.errors import FULL_REFRESH, NewerMarkError, UnreadableLogError
from lakehouse.log.commit_info import COMPACTING, Commit
from lakehouse.log.log import Head, Log


@dataclass(frozen=True, slots=True)
class Past:
    """The commits up to the head of a table: each is read once, however often it is walked back over."""

    log: Log
    head: Head
    _read: list[Commit]
    _rest: Iterator[Commit]

    @classmethod
    def of(cls, log: Log, head: Head) -> Self:
        return cls(log, head, [], log.commits(head.version))

    def back(self, before: int | None = None) -> Iterator[Commit]:
        """From the newest, or the one before a version, to the first that is missing: older ones are not believed."""
        first = 0 if before is None else max(0, self.head.version - before + 1)
        for place in count(first):
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
    """The commits whose rows the table still has, newest first: not what a RESTORE took back, nor what was emptied.

    The last one may be that which emptied the table, or a RESTORE that does not say to which version.
    """
    undone_above: int | None = None
    for commit in commits:
        if undone_above is not None and commit.version > undone_above:
            continue
        if commit.operation == "RESTORE" and commit.restored is not None:
            undone_above = commit.restored
            continue
        yield commit
        if commit.operation == "RESTORE" or commit.empties:
            return


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The table may no longer hold what the comparison saw: it was restored or emptied, or nobody can tell."""

    reason: str


def intervening(past: Past, commit: Commit, mark: Mark) -> bool | RolledBack:
    """Whether a rival's rows came between the comparison and the commit, or the position cannot be believed for them.

    Another run of the asset can come in between in another generation or set of partitions only: else Delta refuses
    the second. From where it had read is nowhere told, and beside a blind append the rows may be there twice.
    """
    planned = f"version {commit.version} was planned on version {mark.base}"
    if mark.base >= commit.version:
        return RolledBack(f"{planned}, of a table that was deleted meanwhile")
    oldest, rivals = commit.version, list[Commit]()
    for between in past.back(commit.version):
        if between.version <= mark.base:
            break
        oldest = between.version
        if may_concern(between, mark.asset, mark.partitions):
            rivals.append(between)
        if between.operation == "RESTORE" or between.empties:
            what = f"version {between.version} ({between.operation}) changed the table in between"
            return RolledBack(f"{planned}, and {what}")
    if oldest > mark.base + 1:
        return RolledBack(f"{planned}, and what happened in between was cleaned up")
    own = any(readable_mark(rival, mark.asset) is not None for rival in rivals)
    if own and not leaves_nothing_older(commit, mark):
        return RolledBack(f"{planned}, and another run of the asset came in between")
    return bool(rivals) and mark.compared


def leaves_nothing_older(commit: Commit, mark: Mark) -> bool:
    """Whether an own commit replaced every row of its partitions, whatever had come before."""
    return not mark.compared and commit.operation == "WRITE" and commit.parameters.get("mode") == "Overwrite"


def may_concern(commit: Commit, asset: str, partitions: Collection[str]) -> bool:
    """Whether a commit may have changed rows of some partitions (none: of any): not where the asset wrote others."""
    theirs = readable_mark(commit, asset)
    return not commit.is_quiet and (theirs is None or theirs.meets(partitions))


def reads_before(past: Past, mark: Mark) -> Mapping[str, Position]:
    """The positions to read on from where a rival's rows came between the comparison and the commit of `mark`.

    The run itself mends that in a second commit; where there is none it died, or its rows were not concerned. By the
    write law a range that is read twice is applied once, so the next run reads it again. Where the commit before was of
    some of these partitions only, and may stand anywhere, everything is.
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
        stale_base = intervening(past, commit, before)
        if isinstance(stale_base, RolledBack):
            break
        if not stale_base:
            return {source: before.reads[source] for source in sources}
        mark = before  # that commit slipped as well
    return {}


def readable_mark(commit: Commit, asset: str) -> Mark | None:
    """The asset's own mark in a commit; None where it is damaged, too."""
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
        NewerMarkError: A newer version of the library wrote the mark.
    """
    if commit.operation == "RESTORE":  # whose session may say of every commit what ours said of one
        return None
    try:
        mark = _parsed(commit.user_metadata)
    except NewerFormatError as error:
        if error.asset != asset:
            return None
        raise NewerMarkError(asset, commit.version, error.number, FORMAT) from error
    except ValueError as error:
        raise UnreadableLogError(
            asset,
            f"version {commit.version} carries a damaged mark: {error}",
            f"Materialize once with the run tag {FULL_REFRESH}=true: it compares every row and starts anew.",
            damaged=commit.version,
        ) from error
    # Delta compacts files after a commit, in its session, with what that said of itself.
    return mark if mark is not None and mark.asset == asset and commit.operation not in COMPACTING else None
