"""An archive of a source's feed, the fallback if the feed itself cannot answer."""

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.mark import Mark
from lakehouse.log.log import Head, Log, commits_between
from lakehouse.log.versions import VersionRange
from lakehouse.read.changes import LOG_NAMES, VERSION, Changes
from lakehouse.spark.snapshot import TableRef, TableVersion
from lakehouse.sql.text import folded

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


def archived(archive: TableRef, source: TableVersion, range_: VersionRange) -> Archived | None:
    """What an archive holds of a range of its source; None if it cannot answer.

    It answers for a range only if an asset of this lakehouse has appended to it every change of the same source and no
    other, of no fewer partitions, from the range's start on; if nobody else has changed its rows; and if it has the
    source's columns: anything less would skip changes.
    """
    log = archive.log(lambda: source.spark)
    head = log.head()
    cursor = find_cursor(log, head, archive.name)
    if head is None or not isinstance(cursor, Known):
        return None
    position = cursor.reads.get(source.ref.name)
    if position is None or len(cursor.reads) > 1 or position.mapped not in (None, source.mapped):
        return None
    if position.table != source.table_id or position.version <= range_.after:
        return None
    begins = cursor.mark.log_after
    if begins is None or begins > range_.after or not is_untouched(cursor, log, head):
        return None
    rows = TableVersion.of(source.spark, archive, head).rows()
    upto = min(range_.upto, position.version)
    columns = folded(replace(source, version=upto).rows().columns)
    if folded(rows.columns) != columns.union(LOG_NAMES.values()):
        return None
    return Archived(rows.where((F.col(COMMIT_VERSION) > range_.after) & (F.col(COMMIT_VERSION) <= upto)), upto)


def archived_after(archive: TableRef, source: TableVersion) -> int | None:
    """The version of its source after which an archive holds every change; None if its commits do not say."""
    log = archive.log(lambda: source.spark)
    cursor = find_cursor(log, log.head(), archive.name)
    return cursor.mark.log_after if isinstance(cursor, Known) else None


def archive_begins(changes: Changes, cursor: Cursor, log: Log, head: Head | None) -> int:
    """The version of the source after which a table holds every change, once the log of these changes is appended.

    Args:
        changes: What is appended: their whole log.
        cursor: Where the table stood when the run began.
        log: The table's log.
        head: The table as the append finds it.
    """
    match cursor, head:
        case Known(mark=Mark(log_after=int(begins))), Head() if is_untouched(cursor, log, head):
            return begins
        case _:
            return changes.range.upto if changes.is_initial else changes.range.after


def is_untouched(cursor: Known, log: Log, head: Head) -> bool:
    """Whether no commit but the last own one has changed a row since that one was planned."""
    since = commits_between(log, cursor.mark.asset, cursor.mark.base, head.version)
    return since is not None and all(commit.is_quiet or commit.version == cursor.version for commit in since)
