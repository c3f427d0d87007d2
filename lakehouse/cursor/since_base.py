"""Commits that came between a comparison and the commit that follows from it.

Delta checks what is committed while a transaction runs. It does not check what was committed after the comparison and
before the transaction began. Such commits are found in the log, by the base that the mark records.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.mark import Mark, Position
from lakehouse.cursor.walk import Past, mark_of, readable_mark
from lakehouse.delta.commit_info import COLUMN_CHANGES, Commit
from lakehouse.delta.log import Head, Log, commits_between


@dataclass(frozen=True, slots=True)
class BaseHolds:
    """The rows of an own commit are those of its position, whatever was committed between its base and the commit."""

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
    """Whether the base of an own commit still holds after the commits between the base and that commit.

    The run asks this about its own commit, and the next run about the newest own commit. Another run of the asset can
    come in between only in another generation or set of partitions; otherwise Delta refuses the second. A mark does not
    record where the range of its run began, so after a blind append the rows of a range may be in the table twice.
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
        # Delta would add a column again that a rival dropped or renamed, and rows that the run does not write lack it.
        loses_columns = mark.compared and rival.operation in COLUMN_CHANGES
        if rival.operation == "RESTORE" or rival.empties or loses_columns:
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
    the write law, a range that is read twice is applied once, so the next run reads the range again. If the commit
    before wrote only some of these partitions, no position holds for all of them, so everything is read again.
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


def is_untouched(cursor: Known, log: Log, head: Head) -> bool:
    """Whether no commit except the last own one has changed a row, or the columns, since the own one was planned."""
    since = commits_between(log, cursor.mark.asset, cursor.mark.base, head.version)
    others = (commit for commit in since or () if commit.version != cursor.version)
    return since is not None and not any(commit.concerns_readers for commit in others)


def why_other_rows(log: Log, head: Head, cursor: Known, partitions: Collection[str]) -> str | None:
    """Why the table may not hold what its last run left, as a clause; None if the log shows that it does."""
    since = commits_between(log, cursor.mark.asset, cursor.mark.base, head.version)
    if since is None:
        return "the log was cleaned up to its last commit"
    for commit in reversed(since):
        if commit.operation in COLUMN_CHANGES:
            return f"version {commit.version} ({commit.operation}) changed its columns"
        if commit.version != cursor.version and may_concern(commit, cursor.mark.asset, partitions):
            return f"version {commit.version} ({commit.operation}) has written to it since"
    return None


def why_names_taken(log: Log, head: Head, cursor: Known, names: Collection[str] | None) -> str | None:
    """Why a column of the table may have lost its name since its last commit, as a clause; None if none of `names` has.

    `names` are columns and the fields within them, as paths in lower case; None means every column.
    """
    for commit in log.commits(head.version, cursor.version + 1):
        freed = None if commit.operation == "REPLACE COLUMNS" else commit.freed_columns
        if freed is None or not freed.isdisjoint(freed if names is None else names):
            return f"version {commit.version} ({commit.operation}) of its table has taken a name that its result has"
    return None
