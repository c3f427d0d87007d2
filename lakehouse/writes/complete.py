"""A run and its write with all that both need before they are planned; refused, if changes would be lost."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import assert_never

from pyspark.sql import SparkSession

from lakehouse.delta.limits import limits
from lakehouse.delta.text import fold
from lakehouse.errors import LostChangesError, TruncatesMissingError, WriteError
from lakehouse.read.changes import Changes
from lakehouse.read.run import Run
from lakehouse.scd.dimensions import truncates_of
from lakehouse.writes import extracted_history, history, snapshot
from lakehouse.writes.aggregate import Aggregate, why_not_summed
from lakehouse.writes.column_changes import columns_of, without_new_columns
from lakehouse.writes.extract import refusing_null_keys
from lakehouse.writes.writes import Append, History, Merge, Overwrite, Snapshot, Write


def refuse_lost_changes(run: Run, write: Write) -> None:
    """Refuses a result under which changes of an input would count as read and be in no table.

    Raises:
        LostChangesError: An input has changes, and the result is not about what they touched.
        WriteError: An `Overwrite` of changed rows alone, under which all other rows would go.
        TruncatesMissingError: `scd.type1` applies truncates to rows that need not hold them.
    """
    for changes in run.changes:
        if not changes.is_empty and not _answers_for(write, changes):
            raise LostChangesError(
                run.name, changes.name, str(changes.range), type(write).__name__, _sources_answered_for(run, write)
            )
        if isinstance(write, Overwrite) and changes.is_used_alone and run.name not in run.snapshot_inputs:
            raise WriteError(
                f"'{run.name}' overwrites its table with the changes of '{changes.name}' {changes.range} alone, so the "
                f"rows of all earlier changes would go.",
                "Nothing was written. Build the rows from the whole input, `source`. Or return a write about the "
                "changes alone: an Append of new rows, or a Merge about touched keys.",
            )
    if isinstance(write, Merge):
        condition = truncates_of(write.rows.schema)
        if condition is not None and condition not in write.touched.also:
            raise TruncatesMissingError(run.name, write.touched.columns, condition)


def _sources_answered_for(run: Run, write: Write) -> tuple[str, ...]:
    return tuple(changes.name for changes in run.changes if _answers_for(write, changes))


def _answers_for(write: Write, changes: Changes) -> bool:
    match write:
        case Merge(touched=touched):
            return changes.name in touched.inputs
        case Aggregate(changes=aggregated) | History(changes=Changes() as aggregated):
            return changes.name == aggregated.name
        case Append():
            return changes.is_used
        case Overwrite():
            return True
        case Snapshot() | History():
            return False
        case _:
            assert_never(write)


def complete(spark: Callable[[], SparkSession], run: Run, write: Write, partial: Collection[str]) -> tuple[Run, Write]:
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
            raise WriteError(why_not_summed(run.name, changes.name), "Nothing was written.")
        case History(changes=Changes() as changes) if changes.name in partial:
            raise WriteError(history.why_incomplete(run.name, changes.name), "Nothing was written.")
        case History(changes=Changes()):
            return history.open_run(spark(), run, write)
        case History(changes=Snapshot() as extract):
            completed_run = extracted_history.open_run(spark(), run, write, extract)
            return completed_run, replace(write, changes=refusing_null_keys(run, extract))
        case Snapshot():
            return snapshot.open_run(run, write), refusing_null_keys(run, write)
        case _:
            return run, write


def rows_outside(run: Run, write: Write) -> int | None:
    """How many rows of a result the run's partitions leave out; None if nobody counts them.

    Args:
        run: The run.
        write: What its asset returned.
    """
    if run.slice is None or run.inputs is None or run.inputs.rows > limits().outside_rows:
        return None
    match write:
        case Append(rows=rows) | Overwrite(rows=rows) | Merge(rows=rows) if fold(run.slice.columns) <= fold(
            rows.columns
        ):
            try:
                return rows.where(f"NOT coalesce({run.within(rows.schema)}, FALSE)").count()
            except Exception:  # the result is in the table, whatever becomes of the count
                return None
        case _:
            return None
