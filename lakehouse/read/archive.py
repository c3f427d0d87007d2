"""An archive of a source's feed as the rung below the feed itself."""

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.cursor.find import Known, find_cursor
from lakehouse.log.versions import VersionRange
from lakehouse.read.changes import LOG_NAMES, VERSION
from lakehouse.spark.snapshot import TableRef, TableVersion
from lakehouse.sql.text import folded

_VERSION = LOG_NAMES[VERSION]


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
    """What an archive holds of a range of its source; None where it does not answer.

    It answers for a range only if it was kept by an asset of this lakehouse from the same source and no other, of no
    fewer partitions, was already there at the range's start, has read past it, and has the source's columns: anything
    less would skip changes.
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
    rows = TableVersion.of(source.spark, archive, head).rows()
    first = rows.agg(F.min(_VERSION)).collect()[0][0]
    if first is None or first > range_.after:
        return None
    upto = min(range_.upto, position.version)
    columns = folded(replace(source, version=upto).rows().columns)
    if folded(rows.columns) != columns.union(LOG_NAMES.values()):
        return None
    return Archived(rows.where((F.col(_VERSION) > range_.after) & (F.col(_VERSION) <= upto)), upto)
