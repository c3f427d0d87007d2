"""`Snapshot` of type 1: the table holds the extract, and outside its scope what it held, also after a correction."""

from collections.abc import Callable, Iterator
from functools import reduce

from pyspark.sql import DataFrame

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.definition import TRACK
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.walk import Past, readable_mark, standing
from lakehouse.delta.commit_info import Commit, Rows
from lakehouse.delta.log import Head
from lakehouse.delta.text import quote
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.statements import MarkOnly, Skip, Statement
from lakehouse.errors import WriteError
from lakehouse.read.run import Run
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.driver_rows import is_empty
from lakehouse.spark.fitting import conform
from lakehouse.spark.table_version import TableVersion
from lakehouse.writes import extract
from lakehouse.writes.extract import few_rows, has_scope, is_again, matching, refuse_deletions, scope_of
from lakehouse.writes.writes import Snapshot


def former_rows(
    run: Run,
    missing: DataFrame,
    key: tuple[str, ...],
    within: Callable[[DataFrame], DataFrame],
    current: str,
    head: Head,
) -> DataFrame | None:
    """What the table held of keys before the extract that is corrected took them over; None if it took none.

    Args:
        run: The run of the correction, or of any extract.
        missing: The current rows in its scope with keys that it lacks.
        key: The columns of the key.
        within: Gives of stored rows those in the scope of the correction.
        current: The condition that a row of the table is current.
        head: The table.

    Raises:
        WriteError: An extract of another scope came after the one that took a key over, or was it, or the past is gone.
    """
    if not is_again(run) or is_empty(missing):
        return None
    spark = missing.sparkSession
    pending, back, is_other = few_rows(missing.select(*map(quote, key))), list[DataFrame](), False
    for commit, mark in _deliveries(run, Past.of(run.ref.log(lambda: spark), head)):
        if mark is None:
            raise _correction_error(run, "the log of the table was cleaned up to that extract")
        is_other = is_other or not has_scope(mark, run)
        before = TableVersion(lambda: spark, run.ref, head.table_id, commit.version - 1).rows()
        try:
            current_rows = few_rows(matching(before.where(current), pending, key))
            in_scope = few_rows(within(current_rows))
            taken = few_rows(matching(before, matching(current_rows, in_scope, key, "left_anti"), key))
        except Exception as error:
            reason = why_unreadable(error)
            if reason is None:
                raise
            raise _correction_error(run, reason) from error
        if not is_empty(taken):
            if is_other:
                raise _correction_error(run, "an extract of another scope was delivered as well", commit.version - 1)
            back.append(taken)
        if is_empty(in_scope):
            break
        pending = in_scope.select(*map(quote, key))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), back) if back else None


def _deliveries(run: Run, past: Past) -> Iterator[tuple[Commit, Mark | None]]:
    """The commits of the table that took an extract of the run's version, newest first; at last None if some are gone.

    The first commit of the table took no key over.
    """
    commit = None
    for commit in standing(past.back()):
        mark = readable_mark(commit, run.name)
        if commit.is_first or (mark is not None and mark.extract != run.extract):
            return
        if mark is not None:
            yield commit, mark
    assert commit is not None, "a table has a commit"
    yield commit, None


def _correction_error(run: Run, reason: str, before: int | None = None) -> WriteError:
    """The error of a correction.

    Args:
        run: The run.
        reason: Why the rows are not known, as the second half of a sentence.
        before: The version of the table before the extract that took them over; None if it cannot be restored.
    """
    restore = "" if before is None else f"RESTORE the table to version {before} and deliver its extracts again. Or d"
    return WriteError(
        f"Extract {run.extract} of '{run.name}' lacks keys that an earlier extract {run.extract} had brought into its "
        f"scope, and nobody can tell which rows these keys had before: {reason}.",
        f"Nothing was written. {restore or 'D'}eliver the rows of all the scopes that these keys were in as one "
        f"extract {run.extract}, which names them: Snapshot(..., scope={{column: [values]}}).",
    )


def open_run(run: Run, write: Snapshot) -> Run:
    """The run with the version of the extract; see `lakehouse.writes.extract.open_run`.

    Raises:
        WriteError: The table keeps a history, of which the extract would leave the current rows.
    """
    mark = run.cursor.mark if isinstance(run.cursor, Known) else None
    if mark is not None and TRACK in (mark.definition or {}):
        raise WriteError(
            f"The table of '{run.name}' was kept by a History, and a Snapshot would leave its current rows alone.",
            "Nothing was written. Return History(Snapshot(...)), or write the Snapshot to another asset.",
        )
    return extract.open_run(run, write)


def plan_snapshot(
    run: Run, write: Snapshot, rows: DataFrame, stored: DataFrame, head: Head, rest: MarkOnly | Skip
) -> Statement | Skip:
    """The statement after which the table holds the extract.

    Args:
        run: The run, from `open_run`.
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
        rows = rows if back is None else rows.unionByName(conform(back, rows.schema))
    concerned = within if not write.scope_columns else within.unionByName(_moved_rows(run, rows, stored, within))
    return statement_by_key(run, rows, None, concerned, head, rest, judge)


def _moved_rows(run: Run, rows: DataFrame, stored: DataFrame, within: DataFrame) -> DataFrame:
    """The stored rows with keys of the extract that have come into its scope from outside."""
    key = run.table.key_columns
    return matching(matching(stored, rows, key), within, key, "left_anti")
