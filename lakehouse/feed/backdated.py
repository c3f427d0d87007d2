"""The first read of a history: not the source as it stands, but as far back as its own log and files tell."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.changes.changes import Changes
from lakehouse.changes.content import Feed
from lakehouse.changes.latest_images import CHANGE, INSERT, TIMESTAMP, VERSION
from lakehouse.changes.times import Times, times_of
from lakehouse.feed.feed_reader import Feeds
from lakehouse.feed.feed_trust import why_retyped, why_unreliable
from lakehouse.feed.feed_weight import Contradicted
from lakehouse.frames.driver_rows import computed
from lakehouse.frames.fitting import conformed
from lakehouse.log.commit_info import SCHEMA_CHANGES, Commit
from lakehouse.log.log import Head, Log
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.progress import doing, heard
from lakehouse.spark.snapshot import TableVersion


def backdated(changes: Changes, log: Log) -> Changes | None:
    """The longest tail of the source's history that can be read: the rows of its first version, and the feed since.

    Where a tail can be read, so can each shorter one; so the longest is searched for by halves.

    Args:
        changes: The first read of the source.
        log: The source's log.

    Returns:
        The same range as a feed, with its times; None if nothing before its last version can be read.
    """
    head, commits = log.head(), _contiguous(log, changes.range.upto)
    if head is None or not commits:
        return None
    doing(f"reading the past of {changes.name}")
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


def _tail(changes: Changes, log: Log, head: Head, commits: tuple[Commit, ...]) -> Changes | None:
    """The first commit's rows as inserted by that commit, and what the later ones changed; None if unreadable."""
    first, at = commits[0], changes.source_at
    since = commits if first.is_first else commits[1:]
    if _is_unreliable(log, head, at, commits, since):
        return None
    stable = not any(commit.operation in SCHEMA_CHANGES for commit in since)
    try:
        with heard(at.spark):
            content = Feeds().read(at, since, log, stable=stable)
            if isinstance(content, Contradicted):
                return None
            images = [content.frame] if isinstance(content, Feed) else []
            if not first.is_first:
                images.append(_as_inserted(at, first))
            if not images:
                return None
            feed = Feed(computed(at.united(images)), "the feed of its whole history")
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
    freed = any(commit.freed != frozenset() for commit in since)
    if freed and not commits[0].is_first:  # its rows have columns by other names
        return True
    if why_unreliable(log, since, at, maps=head.maps_columns or freed) is not None:
        return True
    return bool(since) and why_retyped(log, since, at, head) is not None


def _as_inserted(at: TableVersion, first: Commit) -> DataFrame:
    """All rows of a version, as images of rows that its commit inserted."""
    rows = conformed(replace(at, version=first.version).rows(), at.rows().schema)
    committed = F.timestamp_millis(F.lit(first.timestamp))
    return rows.withColumns({CHANGE: F.lit(INSERT), VERSION: F.lit(first.version).cast("bigint"), TIMESTAMP: committed})
