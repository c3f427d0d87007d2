"""A table's snapshot before it is needed: Delta replays its log while Spark still reads the changes.

Whoever asks first for a new version of a table waits until Delta has replayed the log and added it up. A small feed
leaves a core idle meanwhile, for most of its time is planning, on one thread.
"""

from contextlib import suppress
from threading import Thread

from pyspark.sql import SparkSession

from lakehouse.spark.snapshot import TableRef


def prefetch(spark: SparkSession, ref: TableRef) -> Thread:
    """Has Delta replay the table's log in a thread of its own; whoever needs the snapshot meanwhile waits for that one.

    Nobody has to wait for the thread. What goes wrong in it is met again, and told, by whoever needs the table.

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
