"""Commits whose deleted rows Delta's feed cannot return, because their deletion vectors are too large.

The feed puts what a commit added to a file's vector into a text of at most 64 KB. That is enough for 26,000 scattered
rows, or for one bit for each of 420,000 rows. Beyond that the feed fails, see delta-io/delta#5662.
"""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.changes.latest_images import CHANGE, DELETE, INSERT, TIMESTAMP, VERSION
from lakehouse.frames.compare import MORE, bag_difference
from lakehouse.frames.driver_rows import is_empty
from lakehouse.frames.fitting import conformed
from lakehouse.log.commit_info import Commit
from lakehouse.spark.diagnosis import Meaning, diagnose
from lakehouse.spark.snapshot import TableVersion
from lakehouse.sql.text import quote


def feed_by_commit(at: TableVersion, commits: tuple[Commit, ...], first: int, last: int) -> DataFrame:
    """The feed of a range of versions, each read by itself. A version whose feed fails is compared with the one before.

    Args:
        at: The table, pinned at the end of the range.
        commits: The range.
        first: The oldest version to read.
        last: The newest, under the same schema.
    """
    with_rows = (commit for commit in commits if first <= commit.version <= last and not commit.is_quiet)
    return at.united([_feed_of(at, commit) for commit in with_rows])


def _feed_of(at: TableVersion, commit: Commit) -> DataFrame:
    feed = at.feed(commit.version, commit.version)
    try:
        is_empty(feed)
    except Exception as error:
        if Meaning.VECTORS_TOO_LARGE not in diagnose(error):
            raise
        return _compared(at, commit)
    return feed


def _compared(at: TableVersion, commit: Commit) -> DataFrame:
    """The rows by which a version differs from the version before; an update shows as a delete and an insert."""
    after, before = (
        replace(at, version=version, where=None).rows() for version in (commit.version, commit.version - 1)
    )
    differing = bag_difference(after, conformed(before, after.schema))
    change = f"IF({MORE} > 0, '{INSERT}', '{DELETE}') AS {CHANGE}"
    columns = [quote(name) for name in after.columns]
    each = differing.selectExpr(*columns, change, f"explode(sequence(1L, abs({MORE}))) AS __n")
    return each.drop("__n").withColumns(
        {VERSION: F.lit(commit.version).cast("bigint"), TIMESTAMP: F.timestamp_millis(F.lit(commit.timestamp))}
    )
