"""The changes from which a history is restated: an archive's, from a moment on (ADR 33)."""

from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import functions as F

from lakehouse.changes.changes import LOG_NAMES, Changes
from lakehouse.changes.content import Feed
from lakehouse.changes.latest_images import TIMESTAMP, VERSION
from lakehouse.changes.times import Times, times_of
from lakehouse.cursor.mark import Position
from lakehouse.errors import RestateRefusedError
from lakehouse.feed.archive import archived, archived_after
from lakehouse.feed.feed_reader import fitted
from lakehouse.feed.source import Source
from lakehouse.frames.driver_rows import computed
from lakehouse.log.log import commit_at
from lakehouse.log.versions import VersionRange
from lakehouse.spark.snapshot import TableRef


def restated(asset: str, source: Source, position: Position | None, archive: TableRef | None, moment: str) -> Changes:
    """The changes of a source whose commits came at a moment or later, with their times.

    Args:
        asset: The asset that keeps the history.
        source: The source.
        position: How far the history has read it; None if it has not.
        archive: The archive that the input names; None if it names none.
        moment: The moment, as the run tag gives it: ISO 8601, in UTC if it has no zone.

    Raises:
        RestateRefusedError: The moment is none, or the archive does not hold what came since.
    """
    at, after = _millis(asset, moment), None
    if archive is not None:
        after = archived_after(archive, source.at)
    if archive is None or after is None or position is None:
        raise RestateRefusedError(asset, moment, f"its input has no archive of '{source.at.ref.name}'")
    rows = archived(archive, source.at, VersionRange(after, source.at.version))
    if rows is None or rows.upto < position.version:
        reason = f"the archive does not hold every change up to version {position.version}, which the table has read"
        raise RestateRefusedError(asset, moment, reason)
    pinned = replace(source.at, version=rows.upto)
    frame = fitted(rows.frame, {name: column for column, name in LOG_NAMES.items()}, pinned.rows())
    feed = computed(frame if pinned.where is None else frame.where(pinned.where))
    content = Feed(feed, "the archive", archived=True)
    versions = content.frame.select(VERSION, F.unix_millis(TIMESTAMP)).distinct().collect()
    timestamps = {row[0]: row[1] for row in versions}
    timestamps |= {commit.version: commit.timestamp for commit in source.log.commits(rows.upto, max(after, 0))}
    times = times_of(sorted(timestamps.items()))
    before = [version for version, time in times.items() if time < at]
    if not before:
        raise RestateRefusedError(asset, moment, "the archive begins later")
    since, upto = max(before), times[max(times)] + rows.upto - max(times)
    if since > position.version:
        reason = f"the table has read version {position.version}, which is from before; materialize it first"
        raise RestateRefusedError(asset, moment, reason)
    newest = commit_at(source.log, rows.upto)
    later = Feed(content.frame.where(F.col(VERSION) > since), "the archive", archived=True, newest=newest)
    range_ = VersionRange(since, rows.upto)
    replayed = {version: time for version, time in times.items() if version > since}
    times_since = Times(times[since], upto, replayed)
    return Changes(pinned, range_, later, behind=source.head.version - rows.upto, times=times_since)


def _millis(asset: str, moment: str) -> int:
    try:
        time = datetime.fromisoformat(moment.strip())
    except ValueError as error:
        raise RestateRefusedError(asset, moment, "that is no time in the form 2026-01-31T12:00:00") from error
    return round((time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp() * 1000)
