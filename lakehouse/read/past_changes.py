"""The changes of a history's past: for its first read, and for a restatement from an archive."""

from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import functions as F

from lakehouse.cursor.mark import Position
from lakehouse.delta.commit_info import SCHEMA_CHANGES, Commit
from lakehouse.delta.log import Head, Log, VersionRange, commit_at
from lakehouse.errors import HistoryError
from lakehouse.read.archive import Unanswered, archived_after, ask_archive
from lakehouse.read.content import TIMESTAMP, VERSION, Feed, SourceRead, Times, as_inserted, times_of
from lakehouse.read.feed_reader import Feeds, refuse_other_fields
from lakehouse.read.feed_trust import Contradicted, Source, why_retyped, why_unreliable
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.driver_rows import compute_once
from lakehouse.spark.fitting import conform
from lakehouse.spark.progress import watching
from lakehouse.spark.table_version import TableRef, TableVersion


def read_backwards(changes: SourceRead, log: Log) -> SourceRead | None:
    """The longest tail of the source's history that can be read: the rows of its first version, and the feed since.

    Where a tail can be read, so can each shorter one; so the longest is searched for by halves.

    Returns:
        The same range as a feed, with its times; None if nothing before its last version can be read.
    """
    head, commits = log.head(), _contiguous(log, changes.range.upto)
    if head is None or not commits:
        return None
    longest = _tail(changes, log, head, commits)
    if longest is not None:
        return longest
    unreadable, readable = 0, len(commits) - 1  # of the last version alone there is no past
    while readable - unreadable > 1:
        middle = (unreadable + readable) // 2
        tail = _tail(changes, log, head, commits[middle:])
        if tail is None:
            unreadable = middle
        else:
            longest, readable = tail, middle
    return longest


def _contiguous(log: Log, upto: int) -> tuple[Commit, ...]:
    """The commits up to a version, back to where one is missing; the oldest first."""
    commits: list[Commit] = []
    for commit in log.commits(upto):
        if commit.version != upto - len(commits):
            break
        commits.append(commit)
    return tuple(reversed(commits))


def _tail(changes: SourceRead, log: Log, head: Head, commits: tuple[Commit, ...]) -> SourceRead | None:
    """The first commit's rows as inserted by that commit, and what the later ones changed; None if unreadable."""
    first, at = commits[0], changes.source_at
    since = commits if first.is_first else commits[1:]
    if _is_unreliable(log, head, at, commits, since):
        return None
    stable = not any(commit.operation in SCHEMA_CHANGES for commit in since)
    try:
        with watching(at.spark, f"reading the past of {changes.name}"):
            content = Feeds().read(at, since, log, stable=stable)
            if isinstance(content, Contradicted):
                return None
            images = [content.frame] if isinstance(content, Feed) else []
            if not first.is_first:
                rows = replace(at, version=first.version).rows()
                refuse_other_fields(rows.schema, at.rows().schema)
                rows = conform(rows, at.rows().schema)
                images.append(as_inserted(rows, first.version, first.timestamp))
            if not images:
                return None
            feed = Feed(compute_once(at.unite(images)), "the feed of its whole history")
    except Exception as error:
        if why_unreadable(error) is None:
            raise
        return None
    times = times_of((commit.version, commit.timestamp) for commit in commits)
    return replace(changes, content=feed, commits=commits, times=Times(None, times[changes.range.upto], times))


def _is_unreliable(
    log: Log, head: Head, at: TableVersion, commits: tuple[Commit, ...], since: tuple[Commit, ...]
) -> bool:
    """Whether the feed of the commits, or the rows of the first one, may be other rows than there were."""
    freed = any(commit.freed_columns != frozenset() for commit in since)
    if freed and not commits[0].is_first:  # its rows have columns by other names
        return True
    if why_unreliable(log, since, at, maps=head.maps_columns or freed) is not None:
        return True
    return bool(since) and why_retyped(log, since, at, head) is not None


def restate(asset: str, source: Source, position: Position | None, archive: TableRef | None, moment: str) -> SourceRead:
    """The changes of a source whose commits came at a moment or later, with their times.

    Args:
        asset: The asset that keeps the history.
        source: The source.
        position: How far the history has read it; None if it has not.
        archive: The archive that the input names; None if it names none.
        moment: The moment, as the run tag gives it: ISO 8601, in UTC if it has no zone.

    Raises:
        HistoryError (RESTATE_REFUSED): The moment is none, or the archive does not hold what came since.
    """
    at, after = _millis(asset, moment), None
    if archive is not None:
        after = archived_after(archive, source.at)
    if archive is None or after is None or position is None:
        raise HistoryError.restate_refused(asset, moment, f"its input has no archive of '{source.at.ref.name}'")
    archived = ask_archive(archive, source, VersionRange(after, source.at.version))
    if isinstance(archived, Unanswered) or archived.upto < position.version:
        reason = f"the archive does not hold every change up to version {position.version}, which the table has read"
        raise HistoryError.restate_refused(asset, moment, reason)
    pinned = replace(source.at, version=archived.upto)
    content = Feed(compute_once(archived.feed(pinned)), "the archive", archived=True)
    versions = content.frame.select(VERSION, F.unix_millis(TIMESTAMP)).distinct().collect()
    timestamps = {row[0]: row[1] for row in versions}
    timestamps |= {commit.version: commit.timestamp for commit in source.log.commits(archived.upto, max(after, 0))}
    times = times_of(sorted(timestamps.items()))
    before = [version for version, time in times.items() if time < at]
    if not before:
        raise HistoryError.restate_refused(asset, moment, "the archive begins later")
    since, upto = max(before), times[max(times)] + archived.upto - max(times)
    if since > position.version:
        reason = f"the table has read version {position.version}, which is from before; materialize it first"
        raise HistoryError.restate_refused(asset, moment, reason)
    newest = commit_at(source.log, archived.upto)
    later = Feed(content.frame.where(F.col(VERSION) > since), "the archive", archived=True, newest=newest)
    range_ = VersionRange(since, archived.upto)
    replayed = {version: time for version, time in times.items() if version > since}
    times_since = Times(times[since], upto, replayed)
    return SourceRead(pinned, range_, later, behind=source.head.version - archived.upto, times=times_since)


def _millis(asset: str, moment: str) -> int:
    try:
        time = datetime.fromisoformat(moment.strip())
    except ValueError as error:
        raise HistoryError.restate_refused(asset, moment, "that is no time in the form 2026-01-31T12:00:00") from error
    return round((time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp() * 1000)
