"""A table's snapshot, ahead of its use: Delta replays the log while Spark still reads the changes.

The first query of a new version of a table waits until Delta has replayed the log. A small feed leaves a core idle
meanwhile, because most of its time is planning on one thread.
"""

from contextlib import suppress
from threading import Thread

from pyspark.sql import SparkSession

from lakehouse.spark.snapshot import TableRef


def prefetch(spark: SparkSession, ref: TableRef) -> Thread:
    """Makes Delta replay the table's log in a thread of its own. A query that needs the snapshot waits for it.

    Nobody has to wait for the thread. An error in it appears again in the query that needs the table.

    Args:
        spark: The session that will need the table.
        ref: The table.
    """
    # As a daemon, so that a server which never answers does not keep a process whose step has failed.
    thread = Thread(target=_replay, args=(spark, ref), name=f"lakehouse-prefetch {ref.name}", daemon=True)
    thread.start()
    return thread


def _replay(spark: SparkSession, ref: TableRef) -> None:
    with suppress(Exception):
        # Its answer has the number of files, which Delta counts over the whole state; a plan without rows would not.
        spark.sql(f"DESCRIBE DETAIL {ref.identifier}").collect()
