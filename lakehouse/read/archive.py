"""An archive of a source's feed, the fallback if the feed itself cannot answer."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.cursor.again import is_untouched
from lakehouse.cursor.cursor import Cursor, Fresh, Known, Lost
from lakehouse.cursor.find import find_cursor
from lakehouse.delta.log import Head, Log, VersionRange
from lakehouse.delta.text import fold
from lakehouse.read.content import LOG_NAMES, VERSION, SourceRead
from lakehouse.read.feed_reader import fit
from lakehouse.read.feed_trust import Source
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.table_version import TableRef, TableVersion

COMMIT_VERSION = LOG_NAMES[VERSION]


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive holds of a source's feed.

    Args:
        at: The archive, pinned.
        range: The versions of the source whose every change it holds.
    """

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
        version = F.col(COMMIT_VERSION)
        return self.at.rows().where((version > self.range.after) & (version <= self.range.upto))

    def feed(self, source: TableVersion) -> DataFrame:
        """The changes as the feed of the source would give them.

        Args:
            source: The source, pinned at the end of the range.

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
    """What an archive holds of a range of its source.

    It answers for what its log says that it holds (`held_upto`), if it has the columns of the source.
    """
    log = archive.log(lambda: source.at.spark)
    head = log.head()
    upto = held_upto(archive.name, log, head, source.at, range_)
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
    """As `ask_archive`, and Spark is not started for a log that nothing else can read."""
    return Unanswered.ONLY_SPARK if archive.why_only_spark() is not None else ask_archive(archive, source, range_)


def _columns(log: Log, at: TableVersion) -> frozenset[str]:
    schema = log.file_schema(at.version)
    return fold(at.rows().columns) if schema is None else frozenset(schema.types)


def held_upto(archive: str, log: Log, head: Head | None, source: TableVersion, range_: VersionRange) -> int | None:
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
    position = cursor.reads.get(source.ref.name)
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
