"""`Snapshot` of type 1: the table holds the extract, and outside its scope what it held."""

from pyspark.sql import DataFrame

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.definition import TRACK
from lakehouse.difference.by_key import keyed
from lakehouse.difference.statements import MarkOnly, Skip, Statement
from lakehouse.errors import WriteError
from lakehouse.frames.fitting import conformed
from lakehouse.history import extract
from lakehouse.history.corrected import former_rows
from lakehouse.history.extract import matching, refuse_deletions, scope_of
from lakehouse.log.log import Head
from lakehouse.log.rows import Rows
from lakehouse.read.run import Run
from lakehouse.results.writes import Snapshot


def opened(run: Run, write: Snapshot) -> Run:
    """The run with the version of the extract; see `lakehouse.history.extract.opened`.

    Raises:
        WriteError: The table keeps a history, of which the extract would leave the current rows.
    """
    mark = run.cursor.mark if isinstance(run.cursor, Known) else None
    if mark is not None and TRACK in (mark.definition or {}):
        raise WriteError(
            f"The table of '{run.name}' was kept by a History, and a Snapshot would leave its current rows alone.",
            "Nothing was written. Return History(Snapshot(...)), or write the Snapshot to another asset.",
        )
    return extract.opened(run, write)


def extracted(
    run: Run, write: Snapshot, rows: DataFrame, stored: DataFrame, head: Head, rest: MarkOnly | Skip
) -> Statement | Skip:
    """The statement after which the table holds the extract.

    Args:
        run: The run, from `opened`.
        write: What the asset returned.
        rows: The extract, in the table's columns and types.
        stored: The table's rows at `head`.
        head: The table.
        rest: What remains to be done if no row differs.

    Raises:
        DeletionsHeldBackError: The statement would delete too many rows.
        WriteError: A correction lacks keys whose rows of before are not known.
    """
    of_scope = scope_of(write, rows)
    within = of_scope(stored)

    def judge(differing: Rows) -> None:
        refuse_deletions(run, write, differing.deleted or 0, within)

    if write.scope_columns:
        key = run.table.key_columns
        back = former_rows(run, matching(within, rows, key, "left_anti"), key, of_scope, "TRUE", head)
        rows = rows if back is None else rows.unionByName(conformed(back, rows.schema))
    concerned = within if not write.scope_columns else within.unionByName(_moved(run, rows, stored, within))
    return keyed(run, rows, None, concerned, head, rest, judge)


def _moved(run: Run, rows: DataFrame, stored: DataFrame, within: DataFrame) -> DataFrame:
    """The stored rows with keys of the extract that have come into its scope from outside."""
    key = run.table.key_columns
    return matching(matching(stored, rows, key), within, key, "left_anti")
