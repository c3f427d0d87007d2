"""The cursor: how far an asset has read, found in its own table's commits (DESIGN law 3, ADR 1).

Read backwards from the newest commit, so it costs what lies behind it since the last own commit, not the
length of the history. A RESTORE is followed to the version that it restored; a commit that emptied or
replaced the table ends the line.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lakehouse.errors import UnreadableLogError
from lakehouse.log import Commit, Head, Log
from lakehouse.mark import Mark, Position, application_id

FIRST_GENERATION = "0"


@dataclass(frozen=True, slots=True)
class Known:
    """The table says how far it has read.

    Args:
        mark: The newest own commit that still holds.
        version: Its version.
        generation: The generation that the next commit counts in.
        epoch: The last epoch of that generation.
        reads: The position of every source.
    """

    mark: Mark
    version: int
    generation: str
    epoch: int
    reads: Mapping[str, Position]


@dataclass(frozen=True, slots=True)
class Fresh:
    """The asset has never written this table (or this partition of it).

    Args:
        foreign: The version of the newest commit by somebody else that put rows in; None where there is none.
    """

    generation: str = FIRST_GENERATION
    epoch: int = 0
    foreign: int | None = None
    reads: Mapping[str, Position] = field(default_factory=dict[str, Position])


@dataclass(frozen=True, slots=True)
class Lost:
    """The asset has written this table, but what it had read can no longer be told.

    Args:
        reason: What happened, as the second half of a sentence.
    """

    reason: str
    generation: str
    epoch: int = 0
    reads: Mapping[str, Position] = field(default_factory=dict[str, Position])


Cursor: TypeAlias = Known | Fresh | Lost


def find_cursor(
    log: Log, head: Head | None, asset: str, partitions: tuple[str, ...] = (), *, reads: bool = True
) -> Cursor:
    """The cursor of an asset, or of some partitions of it.

    Args:
        log: The log of the asset's own table.
        head: Where that table stands; None where there is no table.
        asset: The asset key, its parts joined by "/".
        partitions: The partition keys of this run. With several of them the cursor is the one that has read
            least: by the write law, what is read twice is applied once.
        reads: Whether the positions matter. An asset that reads no changes needs only its epoch, and a log
            that knows it answers without reading history.

    Raises:
        UnreadableLogError: One of our own marks is damaged.
    """
    if head is None:
        return Fresh()
    if not partitions:
        return _newest(log, head, asset, None)
    own_id = application_id(asset, partitions, FIRST_GENERATION)
    epoch = log.epoch(own_id)
    if not reads and epoch is not None:
        return Fresh(epoch=epoch)
    cursors = [_newest(log, head, asset, partition) for partition in partitions]
    least = _least_read(cursors)
    generation = least.generation
    same_id = application_id(asset, partitions, generation)
    known_epoch = log.epoch(same_id)
    return replace(least, epoch=known_epoch if known_epoch is not None else _epoch_of(cursors, same_id))


def _least_read(cursors: list[Cursor]) -> Cursor:
    """The cursor to start from so that no partition misses a change: unknown before known, behind before ahead."""
    for cursor in cursors:
        if not isinstance(cursor, Known):
            return cursor
    known = [cursor for cursor in cursors if isinstance(cursor, Known)]
    reads: dict[str, Position] = {}
    for source in known[0].reads:
        if not all(source in cursor.reads for cursor in known):
            continue
        positions = [cursor.reads[source] for cursor in known]
        if len({position.table for position in positions}) == 1:
            reads[source] = min(positions, key=lambda position: position.version)
    return replace(known[0], reads=reads)


def _epoch_of(cursors: list[Cursor], own_id: str) -> int:
    return max((c.epoch for c in cursors if isinstance(c, Known) and c.mark.application_id == own_id), default=0)


def _newest(log: Log, head: Head, asset: str, partition: str | None) -> Cursor:
    commits = log.commits(head.version)
    generation: str | None = None
    undone_above: int | None = None
    foreign: int | None = None
    oldest = head.version + 1
    for commit in commits:
        oldest = commit.version
        if undone_above is not None and commit.version > undone_above:
            continue
        if commit.operation == "RESTORE":
            generation = generation or str(commit.version)
            undone_above = commit.restored
            if undone_above is None:
                return Lost(f"version {commit.version} restored the table to a point in time", generation)
            continue
        mark = _own_mark(commit, asset, partition)
        if mark is not None:
            return _known(commits, commit, mark, generation)
        if commit.empties and commit.version > 0:
            return Lost(
                f"version {commit.version} ({commit.operation}) replaced all its rows",
                generation or str(commit.version),
            )
        if commit.operation == "CLONE":
            return Lost("the table is a clone, and a clone does not carry the position", generation or FIRST_GENERATION)
        if foreign is None and not commit.is_quiet and Mark.from_json(_safe(commit)) is None:
            foreign = commit.version
    if oldest > 0:
        return Lost(
            f"the log was cleaned up to version {oldest}, and with it the last own commit",
            generation or f"cleaned-{head.version}",
        )
    return Fresh(generation=generation or FIRST_GENERATION, foreign=foreign)


def _known(older: Iterator[Commit], commit: Commit, mark: Mark, generation: str | None) -> Cursor:
    """The cursor in `mark`, unless the table was taken back between the plan of that commit and the commit.

    A writer that planned before a RESTORE and committed after it claims positions that the restored rows do
    not have. Nothing in Delta stops it (the RESTORE is older than its transaction), so its mark is not believed.
    """
    for between in older:
        if between.version <= mark.base:
            break
        if between.operation == "RESTORE" or between.empties:
            return Lost(
                f"version {commit.version} was planned on version {mark.base}, and version {between.version} "
                f"({between.operation}) changed the table in between",
                generation or str(between.version),
            )
    if generation is not None:
        return Known(mark, commit.version, generation, 0, mark.reads)
    return Known(mark, commit.version, mark.generation, mark.epoch, mark.reads)


def _own_mark(commit: Commit, asset: str, partition: str | None) -> Mark | None:
    try:
        mark = Mark.from_json(commit.user_metadata)
    except ValueError as error:
        raise UnreadableLogError(
            asset,
            f"version {commit.version} carries a damaged mark: {error}",
            "Materialize once with the run tag lakehouse/full_refresh=true: it compares every row and starts anew.",
        ) from error
    if mark is None or mark.asset != asset:
        return None
    if partition is None:
        return mark
    return mark if partition in mark.partitions else None


def _safe(commit: Commit) -> str | None:
    try:
        Mark.from_json(commit.user_metadata)
    except ValueError:
        return None
    return commit.user_metadata
