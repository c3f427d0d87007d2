"""Whether an archive holds the changes that the feed of its source no longer tells, by the archive's log alone.

A run asks the same log (`lakehouse.feed.archive.held_upto`), and compares the columns of both tables through Spark.
"""

from dataclasses import dataclass
from typing import TypeAlias

from lakehouse.changes.changes import LOG_NAMES
from lakehouse.cursor.mark import Position
from lakehouse.feed.archive import held_upto
from lakehouse.feed.source import SourceState
from lakehouse.log.file_log import FileLog
from lakehouse.log.log import Head, Log
from lakehouse.log.versions import VersionRange
from lakehouse.spark.snapshot import TableRef


@dataclass(frozen=True, slots=True)
class Holds:
    """The archive holds every change after the position, up to a version of the source."""

    upto: int


@dataclass(frozen=True, slots=True)
class Lacks:
    """The archive cannot answer for the changes after the position."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Only Spark can tell."""


Answer: TypeAlias = Holds | Lacks | Unknown


def answer(archive: TableRef, source: str, log: Log, head: Head, position: Position, mapped: str | None) -> Answer:
    """What an archive answers for the changes of a source after a position.

    Args:
        archive: The table of the archive.
        source: The source's name.
        log: Its log.
        head: Where it stands.
        position: How far the table has read it.
        mapped: Which of its partitions a run reads, as a digest; None if it reads all.

    Raises:
        UnreadableLogError: The log of the archive cannot be read.
    """
    if archive.files is None or archive.why_only_spark() is not None:
        return Unknown()
    own = FileLog(archive.files, archive.name)
    own_head = own.head()
    range_ = VersionRange(position.version, head.version)
    upto = held_upto(archive.name, own, own_head, SourceState(source, head.table_id, head.version, mapped), range_)
    if own_head is None or upto is None:
        return Lacks()
    columns, source_columns = own.file_schema(own_head.version), log.file_schema(upto)
    if columns is None or source_columns is None:
        return Unknown()
    return Holds(upto) if columns.types.keys() == source_columns.types.keys() | set(LOG_NAMES.values()) else Lacks()
