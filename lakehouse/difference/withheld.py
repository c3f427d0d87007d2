"""A plan that its table's policy refuses: it changes too much, or its result lies outside the run's partitions."""

from fractions import Fraction

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta.commit_info import NO_ROWS, Rows
from lakehouse.delta.log import Head
from lakehouse.difference.statements import (
    Create,
    DeleteMatched,
    Insert,
    MarkOnly,
    MergeRows,
    Replace,
    ReplaceMatched,
    ReplaceRows,
    Skip,
    Statement,
)
from lakehouse.errors import DefinitionError, WriteError
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import is_empty
from lakehouse.spark.progress import AllOutside, tell
from lakehouse.spark.table_version import TableVersion


def refuse_many_changes(spark: SparkSession, run: Run, statement: Statement | Skip, head: Head | None) -> None:
    """Refuses a statement that changes a larger share of the table, or of the run's partitions, than its policy allows.

    Raises:
        WriteError (TOO_MANY_CHANGES): The share is larger, and no run tag lets the run pass.
        DefinitionError: The table has no key, so it is not known which of its rows differ.
    """
    share = run.asset.policy.max_changed
    if share is None or head is None or "max_changed" in run.request.allowed:
        return
    changed = _count_changes(run, statement)
    if not changed.total:
        return
    rows = _rows_of(spark, run, head)
    if rows and changed.total > Fraction(str(share)) * rows:
        raise WriteError.too_many_changes(run.name, str(changed), rows, share, head.version, run.partitions)


def _count_changes(run: Run, statement: Statement | Skip) -> Rows:
    """How many rows a statement inserts, updates and deletes."""
    match statement:
        case MergeRows() | ReplaceRows() | ReplaceMatched() | DeleteMatched():
            return statement.counts
        case Insert(rows=rows):
            return Rows(rows.count(), 0, 0)
        case Create() | MarkOnly() | Skip():
            return NO_ROWS
        case Replace():
            raise DefinitionError(
                f"The policy of '{run.name}' has max_changed, and its table has no key, so that nobody knows which of "
                f"its rows differ.",
                "Nothing was written. Declare Table(key=...), or leave max_changed out.",
            )


def _rows_of(spark: SparkSession, run: Run, head: Head) -> int:
    """How many rows the table holds, or the run's partitions of it."""
    stored = TableVersion.of(spark, run.ref, head).rows()
    within = run.within(stored.schema)
    if within is not None:
        return stored.where(within).count()
    rows = run.ref.log(lambda: spark).live_rows(head.version)
    return stored.count() if rows is None else rows


def judge_outside(
    run: Run, result: DataFrame, stored: DataFrame | None, statement: Statement | Skip, *, whole: bool
) -> None:
    """Reports, or refuses by policy, that all rows of a result lie outside the run's partitions.

    A result that is about some keys alone may well have only rows of other partitions, such as those of a late day. It
    is reported or refused only if the table holds no row of the run's partitions either.

    A `whole` result is about all rows of the run's partitions.

    Raises:
        WriteError (BROKEN_PROMISE): All rows lie outside, and the policy refuses that.
    """
    if run.slice is None:
        return
    policy, within = run.asset.policy.all_outside, run.within(result.schema)
    if within is None or policy == "ignore" or _writes_rows(statement):
        return
    if not is_empty(result.where(within)) or is_empty(result):
        return
    if not whole and stored is not None and not is_empty(stored):
        return
    if policy == "fail":
        listed = f"{', '.join(run.partitions[:3])}{' and others' if len(run.partitions) > 3 else ''}"
        remedy = "Compare the values in the partition column with the partition keys, for example the format of a day."
        raise WriteError.broken_promise(run.name, f"has no row in the partitions of the run ({listed})", remedy)
    tell(AllOutside())


def _writes_rows(statement: Statement | Skip) -> bool:
    """Whether a statement is known to insert or update a row."""
    if isinstance(statement, Skip) or statement.counts is None:
        return False
    return bool(statement.counts.inserted or statement.counts.updated)
