"""From a decision to `Changes`: the feed, or the next fallback that is exact.

1. The feed of the range, read in pieces around schema changes, without commits that changed no row.
2. An archive of the feed, if the input names one.
3. Everything: the whole source, which the write compares with the table, if the table allows it.
4. `GapError`, which says what to do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import why_another_past
from lakehouse.delta.commit_info import SCHEMA_CHANGES, Commit
from lakehouse.delta.log import NOTHING_READ, VersionRange, commit_at
from lakehouse.delta.read_options import Read
from lakehouse.errors import GO_ON_FROM, ChangeFeedDisabledError, GapError, StartError
from lakehouse.read.archive import Archived
from lakehouse.read.asset import Asset
from lakehouse.read.content import LOG_NAMES, Everything, Feed, Nothing, SourceRead
from lakehouse.read.decide import Continue, Decision, FirstRead, Reconcile, Refuse, may_compare, recomputes, remedy
from lakehouse.read.feed_reader import Feeds, fit
from lakehouse.read.feed_trust import (
    Contradicted,
    Source,
    why_laid_out_behind,
    why_laid_out_meanwhile,
    why_retyped,
    why_unreliable,
)
from lakehouse.read.ranges import cap, pending, start_version, unique_key
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.driver_rows import small
from lakehouse.spark.progress import watching
from lakehouse.spark.table_version import TableVersion


@dataclass(frozen=True, slots=True)
class Reader:
    """The asset that reads, and the fallbacks that it may use.

    Args:
        asset: The asset that reads.
        read: The input's options.
        gap: Why the feed cannot be read, if an earlier try found that out; None if it did not.
        archive: The archive's rows of a range of versions; None if the input names no archive.
        furthest: How far rows of the table may reflect the source: a batch that ends earlier would take them back.
        go_on_from: The version of the source that an `Append` continues from instead of being refused, or "now".
        feeds: What this run has read so far.
        ahead: Called before Spark reads a feed, to fetch in the meantime what is needed later.
    """

    asset: Asset
    read: Read
    gap: str | None = None
    archive: Callable[[VersionRange], Archived | None] | None = None
    furthest: int = NOTHING_READ
    go_on_from: int | Literal["now"] | None = None
    feeds: Feeds = field(default_factory=Feeds)
    ahead: Callable[[], None] = lambda: None


def read_changes(source: Source, decision: Decision, position: Position | None, reader: Reader) -> SourceRead:
    """The changes of a source, up to the version that the source is pinned at.

    Args:
        source: The source.
        decision: What to do with the input.
        position: The table's position of the source; None if it has none.
        reader: The asset that reads.

    Raises:
        ChangeFeedDisabledError: A first read of a source that keeps no feed.
        StartError: The read should start outside the source's history.
        GapError: The changes cannot be read, and no fallback is allowed.
        UnreadableLogError: A commit in the middle of the range is missing.
    """
    match decision:
        case Reconcile(reason=reason):
            return _everything(source, reason)
        case Refuse():
            return _from_named_version(source, position, reader, decision.reason, decision.remedy)
        case FirstRead():
            return _first_read(source, reader)
        case Continue():
            return _continue(source, decision.position, reader)
        case _:
            assert_never(decision)


def _first_read(source: Source, reader: Reader) -> SourceRead:
    if not source.head.keeps_feed:
        raise ChangeFeedDisabledError(reader.asset.name, source.at.ref.name, source.at.ref.identifier)
    if reader.read.start == "snapshot":
        return _everything(source, None)
    start = start_version(reader.asset.name, source.at.ref.name, source.log, source.head, reader.read)
    return _continue(source, Position(source.head.table_id, start), reader)


def _continue(source: Source, position: Position, reader: Reader) -> SourceRead:
    whole = VersionRange(position.version, source.head.version)
    if whole.is_empty:
        return SourceRead(source.at, whole, Nothing(position.commit))
    another = why_another_past(position, source.log)
    if another is not None:
        return _gap(source, position, reader, another, archive=False)
    commits = pending(source.log, source.at.ref, position, source.head, reader.read, reader.furthest)
    if commits is None:
        # Nobody knows whether a name has changed hands there, of which no row of an archive tells.
        reason = reader.gap or f"the log after version {position.version} was cleaned up"
        return _gap(source, position, reader, reason, archive=not source.head.maps_columns)
    batch = cap(commits, reader.read, reader.furthest)
    at = replace(source.at, version=batch[-1].version)
    try:
        unreliable = _why_unreliable(source, at, commits, batch, reader)
        if unreliable is None and reader.gap is None:
            changes = _read_feed(source, at, position, commits, batch, reader)
            unreliable = _why_disbelieved(changes, source, at)
            if isinstance(changes, SourceRead) and unreliable is None:
                return changes
    except Exception as error:
        reason = why_unreadable(error)
        if reason is None:
            raise
        return _gap(source, position, reader, reason, error)
    # An archive has kept the wrong rows of an unreliable feed.
    return _gap(source, position, reader, unreliable or str(reader.gap), archive=unreliable is None)


def _why_unreliable(
    source: Source, at: TableVersion, commits: tuple[Commit, ...], batch: tuple[Commit, ...], reader: Reader
) -> str | None:
    maps = source.head.maps_columns or any(commit.freed_columns != frozenset() for commit in batch)
    unreliable = why_unreliable(source.log, batch, at, maps=maps)
    if unreliable is None and not source.head.maps_columns:
        unreliable = why_laid_out_behind(source, at, commits[len(batch) :])
    if unreliable is None and recomputes(reader.asset, reader.read):
        return why_retyped(source.log, batch, source.at, source.head)
    return unreliable


def _why_disbelieved(changes: SourceRead | Contradicted, source: Source, at: TableVersion) -> str | None:
    """Why a feed that was read is not believed; None if it is."""
    match changes:
        case Contradicted(reason=reason):
            return reason
        case SourceRead():
            return None if changes.is_empty else why_laid_out_meanwhile(source, at)
        case _:
            assert_never(changes)


def _read_feed(
    source: Source,
    at: TableVersion,
    position: Position,
    commits: tuple[Commit, ...],
    batch: tuple[Commit, ...],
    reader: Reader,
) -> SourceRead | Contradicted:
    """The feed of the commits that one run reads."""
    included = tuple(commit for commit in batch if not reader.read.leaves_out(commit.operation, commit.user_metadata))
    if not all(commit.is_quiet for commit in included):
        reader.ahead()
    is_complete = commits[-1].version == source.head.version
    stable = is_complete and not any(commit.operation in SCHEMA_CHANGES for commit in commits)
    content = reader.feeds.read(at, included, source.log, stable=stable)
    if isinstance(content, Contradicted):
        return content
    range_, behind = VersionRange(position.version, at.version), source.head.version - at.version
    return SourceRead(at, range_, content, batch, behind, _key(source, batch, included))


def _key(source: Source, commits: tuple[Commit, ...], included: tuple[Commit, ...]) -> tuple[str, ...]:
    """The columns by which the feed gives the source's rows, if all commits are read, under one schema."""
    if included != commits or any(commit.operation in SCHEMA_CHANGES for commit in commits):
        return ()
    if not source.key:
        return ()
    promised = source.key if source.trusts_key else ()
    return unique_key(source.log, source.head, source.at.ref.name, promised, commits)


def _gap(
    source: Source,
    position: Position,
    reader: Reader,
    reason: str,
    error: BaseException | None = None,
    *,
    archive: bool = True,
) -> SourceRead:
    """The fallbacks below the feed. An archive is used only if the feed that it kept was reliable."""
    if archive and position.table == source.head.table_id and position.version < source.head.version:
        archived = _from_archive(source, VersionRange(position.version, source.head.version), reader)
        if archived is not None:
            return archived
    if reader.read.archive is not None:
        reason = f"{reason}; the archive '{reader.read.archive}' does not answer for it"
    if may_compare(reader.asset, reader.read):
        return _everything(source, reason)
    return _from_named_version(source, position, reader, reason, remedy(reader.asset, reader.read), error)


def _from_named_version(
    source: Source,
    position: Position | None,
    reader: Reader,
    reason: str,
    what_to_do: str,
    error: BaseException | None = None,
) -> SourceRead:
    """The changes from the version that a run tag names, because the run's own position is refused.

    Raises:
        GapError: No tag names a version, or rows after that version would be added a second time.
        StartError: The source ends before that version.
    """
    name, newest = source.at.ref.name, source.head.version
    after = NOTHING_READ if position is None or position.table != source.head.table_id else position.version
    if reader.go_on_from is None:
        raise GapError(reader.asset.name, name, after, newest, reason, what_to_do) from error
    start = newest if reader.go_on_from == "now" else reader.go_on_from
    if start < after:
        twice = f"{reason}; and to go on from version {start} would add the rows up to version {after} a second time"
        raise GapError(reader.asset.name, name, after, newest, twice, what_to_do)
    if start > newest:
        tag = f"{GO_ON_FROM}{reader.asset.name}"
        raise StartError(reader.asset.name, name, f"version {start}", f"ends at version {newest}", tag=tag)
    continuing = replace(reader, go_on_from=None, gap=None)
    changes = _continue(source, Position(source.head.table_id, start, mapped=source.at.mapped), continuing)
    return replace(changes, refusal=reason)


def _from_archive(source: Source, range_: VersionRange, reader: Reader) -> SourceRead | None:
    """What the archive holds of the range; None if it cannot answer, or its last version cannot be read."""
    try:
        # It holds the commits, too, that the input leaves out.
        archived = None if reader.archive is None or reader.read.excludes else reader.archive(range_)
        if archived is None or archived.upto < reader.furthest:
            return None
        at = replace(source.at, version=min(range_.upto, archived.upto))
        frame = fit(archived.frame, {name: feed for feed, name in LOG_NAMES.items()}, at.rows())
        frame = frame if at.where is None else frame.where(at.where)
        with watching(at.spark):
            rows = small(frame) or frame
    except Exception as error:
        if why_unreadable(error) is None:
            raise
        return None
    read = VersionRange(range_.after, at.version)
    content = Feed(rows, "the archive", archived=True, newest=commit_at(source.log, at.version))
    return SourceRead(at, read, content, behind=source.head.version - read.upto)


def _everything(source: Source, reason: str | None) -> SourceRead:
    newest = commit_at(source.log, source.head.version)
    return SourceRead(source.at, VersionRange(NOTHING_READ, source.head.version), Everything(reason, newest))
