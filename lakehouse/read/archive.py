"""What answers if the feed no longer does: an archive of the feed, or for a history the source's own past."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.cursor.cursor import Cursor, Fresh, Known, Lost
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.mark import Position
from lakehouse.cursor.since_base import is_untouched
from lakehouse.cursor.unread import why_another_past, why_broken_off
from lakehouse.cursor.walk import Past
from lakehouse.delta.commit_info import SCHEMA_CHANGES, Commit
from lakehouse.delta.log import Head, Log, VersionRange, commit_at
from lakehouse.delta.text import fold
from lakehouse.errors import HistoryError
from lakehouse.read.content import LOG_NAMES, TIMESTAMP, VERSION, Feed, SourceRead, Times, as_inserted, times_of
from lakehouse.read.feed_reader import Feeds, fit, refuse_other_fields
from lakehouse.read.feed_trust import Source, why_retyped, why_unreliable
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.driver_rows import compute_once
from lakehouse.spark.fitting import conform
from lakehouse.spark.progress import watching
from lakehouse.spark.table_version import TableRef, TableVersion


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive holds of a source's feed."""

    at: TableVersion
    range: VersionRange

    @property
    def name(self) -> str:
        return self.at.ref.name

    @property
    def upto(self) -> int:
        """The last version of the source that it answers for."""
        return self.range.upto

    def rows(self) -> DataFrame:
        """The changes, under the names that `Changes.log()` gives the columns."""
        version = F.col(LOG_NAMES[VERSION])
        return self.at.rows().where((version > self.range.after) & (version <= self.range.upto))

    def feed(self, source: TableVersion) -> DataFrame:
        """The changes as the feed of the source would give them.

        The source is pinned at the end of the range.

        Raises:
            OtherFieldsError: A column has other fields, or has them in another order.
        """
        feed = fit(self.rows(), {name: column for column, name in LOG_NAMES.items()}, source.rows())
        return feed if source.where is None else feed.where(source.where)


class Unanswered(Enum):
    """Why an archive does not answer for a range."""

    LACKS = "it does not hold the changes"
    ONLY_SPARK = "only Spark can tell"


def ask_archive(archive: TableRef, source: Source, range_: VersionRange) -> Archived | Unanswered:
    """What an archive holds of a range of its source, or why it does not answer.

    It answers for the versions that its log shows it to hold (`held_upto`), if it has the columns of the source.
    """
    log = archive.log(lambda: source.at.spark)
    head = log.head()
    upto = held_upto(archive.name, log, head, source, range_)
    if head is None or upto is None:
        return Unanswered.LACKS
    at = TableVersion(source.at.session, archive, head.table_id, head.version)
    try:
        columns, of_source = _columns(log, at), _columns(source.log, replace(source.at, version=upto))
    except Exception as error:
        if why_unreadable(error) is None:
            raise
        return Unanswered.LACKS
    holds = columns == of_source.union(LOG_NAMES.values())
    return Archived(at, VersionRange(range_.after, upto)) if holds else Unanswered.LACKS


def ask_archive_by_log(archive: TableRef, source: Source, range_: VersionRange) -> Archived | Unanswered:
    """Like `ask_archive`, but does not start Spark for a log that only Spark can read."""
    return Unanswered.ONLY_SPARK if archive.why_only_spark() is not None else ask_archive(archive, source, range_)


def _columns(log: Log, at: TableVersion) -> frozenset[str]:
    schema = log.file_schema(at.version)
    return fold(at.rows().columns) if schema is None else frozenset(schema.types)


def held_upto(archive: str, log: Log, head: Head | None, source: Source, range_: VersionRange) -> int | None:
    """The last version of a range up to which an archive holds every change, by its own log; None if it cannot answer.

    It answers only if an asset of this lakehouse has appended every change of this source to it, from the start of the
    range on and of all partitions that are read, has read no other source, and if nobody else has changed its rows.
    """
    cursor = find_cursor(log, head, archive)
    if head is None or not isinstance(cursor, Known):
        return None
    position = cursor.reads.get(source.at.ref.name)
    if position is None or len(cursor.reads) > 1 or position.mapped not in (None, source.at.mapped):
        return None
    if position.version <= range_.after or _why_of_another_past(position, source) is not None:
        return None
    begins = cursor.mark.log_after
    if begins is None or begins > range_.after or not is_untouched(cursor, log, head):
        return None
    return min(range_.upto, position.version)


def _why_of_another_past(position: Position, source: Source) -> str | None:
    """Why a source does not go on from a position, as a clause; None if it does."""
    broken_off = why_broken_off(position, source.head.table_id, source.head.version)
    return broken_off or why_another_past(position, source.log)


def archive_begins(changes: SourceRead, cursor: Cursor, log: Log, head: Head | None) -> int | None:
    """The source's version after which a table holds every change once, when the log of these changes is appended.

    - A table that records such a version, that nobody else has changed, and whose position these changes follow: the
      recorded version.
    - A table that went on from a later version, or that somebody else has changed: from these changes on, but not below
      the recorded version. Below it, a clone holds rows of another table.
    - A table that has read another source of this name: from these changes on, above the versions of the other source,
      because the rows do not show which source they come from.
    - A table whose position is lost, or that has no position of this source: None, because it is not known which rows
      it holds.
    """
    begins = changes.range.upto if changes.is_initial else changes.range.after
    match cursor:
        case Fresh():
            return begins
        case Lost():
            return None
        case Known(mark=mark, reads=reads):
            position = reads.get(changes.name)
            if position is None:
                return None
            if position.table != changes.source_at.table_id:
                return max(begins, position.version)
            follows = mark.log_after is not None and position.version == changes.range.after
            if follows and head is not None and is_untouched(cursor, log, head):
                return mark.log_after
            return max(begins, mark.log_after or 0)


def read_backwards(changes: SourceRead, log: Log) -> SourceRead | None:
    """The longest tail of the source's history that can be read: the rows of its first version, and the feed since.

    If a tail can be read, so can every shorter one, so a binary search finds the longest.

    Returns:
        The same range as a feed, with its times; None if nothing before its last version can be read.
    """
    head = log.head()
    if head is None:
        return None
    commits = tuple(Past.of(log, replace(head, version=changes.range.upto)).back())[::-1]
    if not commits:
        return None
    longest = _tail(changes, log, head, commits)
    if longest is not None:
        return longest
    unreadable, readable = 0, len(commits) - 1  # the last version alone has no past
    while readable - unreadable > 1:
        middle = (unreadable + readable) // 2
        tail = _tail(changes, log, head, commits[middle:])
        if tail is None:
            unreadable = middle
        else:
            longest, readable = tail, middle
    return longest


def _tail(changes: SourceRead, log: Log, head: Head, commits: tuple[Commit, ...]) -> SourceRead | None:
    """The rows after the first commit, as inserted by it, and the changes of the later commits; None if unreadable."""
    first, at = commits[0], changes.source_at
    since = commits if first.is_first else commits[1:]
    if _is_unreliable(log, head, at, commits, since):
        return None
    stable = not any(commit.operation in SCHEMA_CHANGES for commit in since)
    try:
        with watching(at.spark, f"reading the past of {changes.name}"):
            content = Feeds().read(at, since, log, stable=stable)
            if isinstance(content, str):
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
    """Whether the feed of the commits, or the rows of the first one, may differ from the rows that there were."""
    freed = any(commit.freed_columns != frozenset() for commit in since)
    if freed and not commits[0].is_first:  # the first commit's rows have other column names
        return True
    if why_unreliable(log, since, at, maps=head.maps_columns or freed) is not None:
        return True
    return why_retyped(log, since, at, head) is not None


def restate(asset: str, source: Source, position: Position | None, archive: TableRef | None, moment: str) -> SourceRead:
    """The changes of a source that were committed at a moment or later, with their times.

    The moment is the text of the run tag: ISO 8601, in UTC if it has no zone.

    Raises:
        HistoryError (RESTATE_REFUSED): The text is not a moment, or no archive holds every change since.
    """
    at, after = _millis(asset, moment), None
    if archive is not None:
        log = archive.log(lambda: source.at.spark)
        cursor = find_cursor(log, log.head(), archive.name)
        after = cursor.mark.log_after if isinstance(cursor, Known) else None
    if archive is None or after is None or position is None:
        raise HistoryError.restate_refused(asset, moment, f"its input has no archive of '{source.at.ref.name}'")
    if (why := _why_of_another_past(position, source)) is not None:
        raise HistoryError.restate_refused(asset, moment, f"'{source.at.ref.name}' is not what was read: {why}")
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
        raise HistoryError.restate_refused(
            asset, moment, "that is not a time in the form 2026-01-31T12:00:00"
        ) from error
    return round((time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp() * 1000)
