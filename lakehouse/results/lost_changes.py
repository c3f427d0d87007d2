"""Whether a result answers for every change of its run's inputs: an answer that leaves one out would lose it."""

from typing import assert_never

from lakehouse.changes.changes import Changes
from lakehouse.errors import LostChangesError, TruncatesMissingError, WriteError
from lakehouse.read.run import Run
from lakehouse.results.aggregate import Aggregate
from lakehouse.results.writes import Append, History, Merge, Overwrite, Snapshot, Write
from lakehouse.scd.truncates import truncates_of


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
                run.name, changes.name, str(changes.range), type(write).__name__, _answered(run, write)
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


def _answered(run: Run, write: Write) -> tuple[str, ...]:
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
