"""A run and its write with all that both need before they are planned; refused, if that cannot be."""

from collections.abc import Callable, Collection
from dataclasses import replace

from pyspark.sql import SparkSession

from lakehouse.changes.changes import Changes
from lakehouse.errors import WriteError
from lakehouse.history import extracted_history, history, snapshot
from lakehouse.history.extract import refusing_null_keys
from lakehouse.read.run import Run
from lakehouse.results.aggregate import Aggregate, unsummed
from lakehouse.results.lost_changes import refuse_lost_changes
from lakehouse.results.writes import History, Merge, Snapshot, Write
from lakehouse.write.new_columns import columns_of, without_new_columns


def completed(spark: Callable[[], SparkSession], run: Run, write: Write, partial: Collection[str]) -> tuple[Run, Write]:
    """The run under the key and with the extract that its write brings, and the write with the times of its changes.

    Args:
        spark: Returns the session; called only if the write needs rows or columns.
        run: What has been pinned.
        write: What the asset returned.
        partial: The sources of which the run does not read every change.

    Raises:
        LakehouseError: The write cannot be made of what was read.
    """
    refuse_lost_changes(run, write)
    given, write = write, without_new_columns(spark, run, write)
    match write:
        case Merge():
            assert isinstance(given, Merge)
            return replace(run, columns=columns_of(given, write)), write
        case Aggregate(changes=changes) if changes.name in partial:
            raise WriteError(unsummed(run.name, changes.name), "Nothing was written.")
        case History(changes=Changes() as changes) if changes.name in partial:
            raise WriteError(history.why_incomplete(run.name, changes.name), "Nothing was written.")
        case History(changes=Changes()):
            return history.opened(spark(), run, write)
        case History(changes=Snapshot() as extract):
            completed_run = extracted_history.opened(spark(), run, write, extract)
            return completed_run, replace(write, changes=refusing_null_keys(run, extract))
        case Snapshot():
            return snapshot.opened(run, write), refusing_null_keys(run, write)
        case _:
            return run, write
