"""Keys that an extract took over from another scope, and that its correction, under the same version, gives back.

Law: after a correction the table is what it would be if the corrected extract alone had been delivered. A key that the
correction lacks is gone if the key was in the scope before this version. If the extract to be corrected brought the key
in, the table's own past says what the key had before.
"""

from collections.abc import Callable, Iterator
from functools import reduce

from pyspark.sql import DataFrame

from lakehouse.cursor.mark import Mark
from lakehouse.cursor.walk import Past, readable_mark, standing
from lakehouse.errors import WriteError
from lakehouse.frames.driver_rows import is_empty
from lakehouse.history.extract import few_rows, has_scope, is_again, matching
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head
from lakehouse.read.run import Run
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.snapshot import TableVersion
from lakehouse.sql.text import quote


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
            raise _refused(run, "the log of the table was cleaned up to that extract")
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
            raise _refused(run, reason) from error
        if not is_empty(taken):
            if is_other:
                raise _refused(run, "an extract of another scope was delivered as well", commit.version - 1)
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


def _refused(run: Run, reason: str, before: int | None = None) -> WriteError:
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
