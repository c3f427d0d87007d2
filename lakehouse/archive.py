"""An archive of a source's feed as the rung below the feed itself."""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.changes import LOG_NAMES, VERSION
from lakehouse.cursor import Known, find_cursor
from lakehouse.ladder import Archived, Source
from lakehouse.read import Read
from lakehouse.sql import folded
from lakehouse.tables import Pinned, TableRef
from lakehouse.versions import VersionRange

_VERSION = LOG_NAMES[VERSION]


def archive_of(
    read: Read, source: Source, ref: Callable[[str], TableRef], spark: Callable[[], SparkSession]
) -> Callable[[VersionRange], Archived | None] | None:
    """How to read the archive that an input names; None where it names none.

    The archive answers for a range only if it was kept by an asset of this lakehouse from the same source, was
    already there at the range's start, has read past it, and has the source's columns: anything less would skip
    changes.
    """
    if read.archive is None:
        return None
    name, source_name = read.archive, source.at.ref.name

    def archived(range_: VersionRange) -> Archived | None:
        archive = ref(name)
        log = archive.log(spark)
        head = log.head()
        cursor = find_cursor(log, head, name)
        if head is None or not isinstance(cursor, Known):
            return None
        position = cursor.reads.get(source_name)
        if position is None or position.table != source.head.table_id or position.version <= range_.after:
            return None
        rows = Pinned(spark(), archive, head.table_id, head.version).rows()
        first = rows.agg(F.min(_VERSION)).collect()[0][0]
        if first is None or first > range_.after:
            return None
        upto = min(range_.upto, position.version)
        columns = folded(replace(source.at, version=upto).rows().columns)
        if folded(rows.columns) != columns.union(LOG_NAMES.values()):
            return None
        return Archived(rows.where((F.col(_VERSION) > range_.after) & (F.col(_VERSION) <= upto)), upto)

    return archived
