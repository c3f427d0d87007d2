"""An archive of a source's feed, the fallback if the feed itself cannot answer."""

from dataclasses import dataclass, replace
from typing import assert_never

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.cursor.cursor import Cursor, Fresh, Known, Lost
from lakehouse.cursor.find import find_cursor
from lakehouse.delta.log import Head, Log, VersionRange, commits_between
from lakehouse.delta.text import fold
from lakehouse.read.content import LOG_NAMES, VERSION, SourceRead
from lakehouse.read.feed_trust import SourceState
from lakehouse.spark.table_version import TableRef, TableVersion

COMMIT_VERSION = LOG_NAMES[VERSION]


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive holds of a source's feed.

    Args:
        frame: The rows, under the names that `Changes.log()` gives them.
        upto: The last version of the source that the archive has read.
    """

    frame: DataFrame
    upto: int


def read_archive(archive: TableRef, source: TableVersion, range_: VersionRange) -> Archived | None:
    """What an archive holds of a range of its source; None if it cannot answer.

    It answers for what its log says that it holds (`held_upto`), if it has the columns of the source.
    """
    log = archive.log(lambda: source.spark)
    head = log.head()
    state = SourceState(source.ref.name, source.table_id, source.version, source.mapped)
    upto = held_upto(archive.name, log, head, state, range_)
    if head is None or upto is None:
        return None
    rows = TableVersion.of(source.spark, archive, head).rows()
    columns = fold(replace(source, version=upto).rows().columns)
    if fold(rows.columns) != columns.union(LOG_NAMES.values()):
        return None
    return Archived(rows.where((F.col(COMMIT_VERSION) > range_.after) & (F.col(COMMIT_VERSION) <= upto)), upto)


def held_upto(archive: str, log: Log, head: Head | None, source: SourceState, range_: VersionRange) -> int | None:
    """The last version of a range up to which an archive holds every change, by its own log; None if it cannot answer.

    It answers only if an asset of this lakehouse has appended to it every change of the same source and no other, of no
    fewer partitions, from the start of the range on, and if nobody else has changed its rows.

    Args:
        archive: The archive's name.
        log: Its log.
        head: Where it stands; None if there is no table.
        source: The source of the archive.
        range_: Versions of the source.
    """
    cursor = find_cursor(log, head, archive)
    if head is None or not isinstance(cursor, Known):
        return None
    position = cursor.reads.get(source.name)
    if position is None or len(cursor.reads) > 1 or position.mapped not in (None, source.mapped):
        return None
    if position.table != source.table_id or position.version <= range_.after:
        return None
    begins = cursor.mark.log_after
    if begins is None or begins > range_.after or not is_untouched(cursor, log, head):
        return None
    return min(range_.upto, position.version)


def archived_after(archive: TableRef, source: TableVersion) -> int | None:
    """The version of its source after which an archive holds every change; None if its commits do not say."""
    log = archive.log(lambda: source.spark)
    cursor = find_cursor(log, log.head(), archive.name)
    return cursor.mark.log_after if isinstance(cursor, Known) else None


def archive_begins(changes: SourceRead, cursor: Cursor, log: Log, head: Head | None) -> int | None:
    """The version of the source after which a table holds every change once, when the log of these changes is appended.

    - A table that says so, that nobody else has changed, and whose position these changes follow: as before.
    - A table that went on from a later version, or that somebody else has changed: from these changes on.
    - A table that has read another source of this name: from these changes on, beyond the versions of the other source,
      because the rows do not say of which source they are.
    - A table whose position is lost: None, because nobody knows which rows it holds.

    Args:
        changes: What is appended: their whole log.
        cursor: Where the table stood when the run began.
        log: The table's log.
        head: The table as the append finds it.
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
            return mark.log_after if follows and head is not None and is_untouched(cursor, log, head) else begins
        case _:
            assert_never(cursor)


def is_untouched(cursor: Known, log: Log, head: Head) -> bool:
    """Whether no commit but the last own one has changed a row since that one was planned."""
    since = commits_between(log, cursor.mark.asset, cursor.mark.base, head.version)
    return since is not None and all(commit.is_quiet or commit.version == cursor.version for commit in since)
