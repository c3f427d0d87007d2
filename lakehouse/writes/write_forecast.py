"""What would become of a run, and how its result would be written."""

from collections.abc import Sequence
from typing import assert_never

from lakehouse.cursor.cursor import Known
from lakehouse.delta.commit_info import count_of
from lakehouse.read.forecast import InputForecast, Reading, RunEffect
from lakehouse.read.run import Run
from lakehouse.writes.writes import Kind

_ALL = (Reading.FIRST, Reading.EVERYTHING)
_NO_DIFFERENCE = "Rows that turn out not to differ are not written."


def verdict(run: Run, kind: Kind, inputs: Sequence[InputForecast]) -> tuple[RunEffect, str]:
    """What would become of a run, and why, as a sentence.

    Args:
        run: What the run has pinned before its inputs are read.
        kind: The write that the asset returns.
        inputs: How each input would be read.
    """
    changed = [each for each in inputs if each.reading in (Reading.CHANGES, Reading.ARCHIVE, *_ALL)]
    moved = [each.source for each in inputs if each.reading is Reading.SNAPSHOT_INPUT and each.why is not None]
    refused = [each for each in inputs if each.reading is Reading.REFUSED]
    if refused:
        return RunEffect.REFUSED, f"'{refused[0].source}' cannot be read on, and nothing would be written."
    if run.head is None:
        return RunEffect.WRITES, "Its first commit creates the table."
    if not run.asset.incremental:
        return RunEffect.WRITES, f"It reads no changes, so each run computes its whole result. {_NO_DIFFERENCE}"
    if changed:
        return RunEffect.WRITES, f"{count_of(len(changed), 'source')} of {len(inputs)} changed. {_NO_DIFFERENCE}"
    if not isinstance(run.cursor, Known):
        return RunEffect.RECORDS, "The table has no position yet."
    if run.new_code is not None:
        return RunEffect.RECORDS, run.new_code
    if run.is_redefined:
        return RunEffect.RECORDS, "The definition changed in a part that decides no row."
    passed = next((each for each in inputs if each.reading is Reading.NOTHING and each.why is not None), None)
    if passed is not None:
        return RunEffect.RECORDS, f"Of '{passed.source}' {passed.why}."
    if run.must_record:
        return RunEffect.RECORDS, "Log cleanup could reach its last position, so the position is put down again."
    if moved and kind is Kind.OVERWRITE:
        return RunEffect.WRITES, f"{' and '.join(moved)} moved. {_NO_DIFFERENCE}"
    if moved:
        return (
            RunEffect.NOTHING,
            f"No source that it follows changed ({' and '.join(moved)} did, and is read as a snapshot).",
        )
    return RunEffect.NOTHING, "It has read every change of its sources."


def strategy(run: Run, kind: Kind, inputs: Sequence[InputForecast]) -> str:
    """What a write would do to the table, by its kind and by how its inputs would be read."""
    incremental, keyed = run.asset.incremental, bool(run.table.key_columns)
    whole = not incremental or any(each.reading in _ALL for each in inputs)
    archived = any(each.reading is Reading.ARCHIVE for each in inputs)
    where = "the partition" if run.slice is not None else "the table"
    if run.head is None:
        return "the table is created with the rows in one commit"
    match kind:
        case Kind.APPEND:
            return "rows are added" if incremental else f"rows that {where} lacks are added"
        case Kind.OVERWRITE if keyed:
            return f"every row of {where} is compared with the result, and those that differ are written"
        case Kind.OVERWRITE:
            return f"{where} is replaced if its content differs"
        case Kind.MERGE:
            compared = f"every row of {where} is" if whole else f"the rows of {where} with the touched keys are"
            return f"{compared} compared with the result, and those that differ are written"
        case Kind.AGGREGATE if whole or archived:
            return "all sums are computed, and those that differ are written"
        case Kind.AGGREGATE:
            return "what changed is added to the sums of its groups"
        case Kind.HISTORY if whole:
            rows = "all rows of the source" if incremental else "the extract"
            return f"the current rows are compared with {rows}; those that differ end, and others begin"
        case Kind.HISTORY:
            return "the current rows of the changed keys end, and others begin"
        case Kind.SNAPSHOT:
            return "the rows in the scope of the extract are compared with it, and those that differ are written"
        case _:
            assert_never(kind)
