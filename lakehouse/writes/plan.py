"""From a write to the statement that makes it true of the table.

A plan is made for every attempt, against the table as that attempt finds it. The inputs stay pinned.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta.log import Head
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.difference import OPERATION, difference, missing_from, with_promises
from lakehouse.difference.statements import Create, Insert, MarkOnly, Replace, Skip, Statement
from lakehouse.errors import MissingKeyError
from lakehouse.read.run import Run
from lakehouse.scd.dimensions import without_mark
from lakehouse.spark.driver_rows import bag_difference, is_empty
from lakehouse.spark.fitting import check_new, check_padding, check_zone, conform, fit
from lakehouse.spark.progress import phase
from lakehouse.spark.table_version import TableVersion
from lakehouse.writes import extract, extracted_history, history
from lakehouse.writes.aggregate import Aggregate
from lakehouse.writes.column_changes import refuse_uncompared
from lakehouse.writes.empty_text import refusing_empty_texts
from lakehouse.writes.incremental_sums import Recompute, add, check
from lakehouse.writes.snapshot import plan_snapshot
from lakehouse.writes.writes import Append, History, Merge, Overwrite, Snapshot, Stated, Write


@phase("plan")
def plan(
    spark: SparkSession, run: Run, write: Write, head: Head | None, tell: Callable[[str], None] = lambda _: None
) -> Statement | Skip:
    """The statement that makes a write true of the table at `head`.

    Args:
        spark: The session.
        run: The run.
        write: What the asset returned.
        head: The table; None if there is none.
        tell: Receives a line about unexpected work.

    Raises:
        SchemaError: The result does not fit the table.
        MissingKeyError: A write by key to a table without a key.
    """
    rest = _rest(run, recompute=False)
    older = extract.ignored_extract(run, write)
    if older is not None:
        tell(f"{run.name} holds extract {run.extract} and ignores the older extract {older.version}.")
        return rest
    match write:
        case Append() | Overwrite() | Merge() | Snapshot():
            return _plan_stated(spark, run, write, head)
        case Aggregate():
            return _plan_aggregate(spark, run, write, head, tell)
        case History(changes=Snapshot() as snapshot):
            return extracted_history.plan_extracted_history(spark, run, write, snapshot, head, rest)
        case History():
            return history.plan_history(spark, run, write, head, rest)
        case _:
            assert_never(write)


def _plan_aggregate(
    spark: SparkSession, run: Run, write: Aggregate, head: Head | None, tell: Callable[[str], None]
) -> Statement | Skip:
    """Adds to the sums if the table is known to hold them, and otherwise recomputes and compares them."""
    check(run, write, head)
    if head is None or write.changes.is_initial:
        return _plan_stated(spark, run, Overwrite(write.rows), head)
    match add(spark, run, write, head):
        case Recompute(reason=reason):
            tell(f"{run.name} recomputes all its sums: {reason}.")
            return _plan_stated(spark, run, Overwrite(write.rows), head, recompute=True)
        case statement:
            return statement


def _plan_stated(
    spark: SparkSession, run: Run, write: Stated, head: Head | None, *, recompute: bool = False
) -> Statement | Skip:
    write = _check(run, write, head)
    if head is None:
        return Create(_whole(run, write))
    if not recompute and run.has_nothing_to_do(overwrites=isinstance(write, Overwrite)):
        return Skip()
    rows, target = _fit(spark, run, write, head)
    return _compare(spark, run, write, rows, target, head, _rest(run, recompute=recompute))


def _check(run: Run, write: Stated, head: Head | None) -> Stated:
    """The write, refused if no table of this declaration can hold its rows; its plan fails at an empty partition."""
    check_new(run.name, write.rows, run.table, head)
    partition_columns = run.table.partitioned_by(head)
    check_zone(run.name, write.rows, partition_columns)
    if isinstance(write, Merge) and not run.table.key_columns:
        raise MissingKeyError(run.name, "Merge")
    return refusing_empty_texts(run.name, replace(write, rows=without_mark(write.rows)), partition_columns)


def _fit(spark: SparkSession, run: Run, write: Stated, head: Head) -> tuple[DataFrame, DataFrame]:
    """The result in the table's columns and types, and the table's rows; both of the run's partitions."""
    target = TableVersion.of(spark, run.ref, head).rows()
    scope = write.scope_columns if isinstance(write, Snapshot) else ()
    check_padding(run.name, write.rows, target.schema, (*run.table.key_columns, *scope))
    if isinstance(write, Merge):
        refuse_uncompared(spark, run, write, target.schema)
    result = extract.fill(write.rows, target, run.table.key_columns) if isinstance(write, Snapshot) else write.rows
    rows = fit(run.ref, result, target.schema, may_add=_may_add(run, write), filled=lambda: _fillings(spark, run, head))
    within = run.within(target.schema)
    return (rows, target) if within is None else (rows.where(within), target.where(within))


def _compare(
    spark: SparkSession,
    run: Run,
    write: Stated,
    rows: DataFrame,
    target: DataFrame,
    head: Head,
    rest: MarkOnly | Skip,
) -> Statement | Skip:
    """The statement that makes the table hold the fitted rows, by the kind of the write."""
    match write:
        case Append():
            return _plan_append(spark, run, rows, run.within(target.schema), rest)
        case Overwrite() if not run.table.key_columns:
            same = len(rows.columns) == len(target.columns) and is_empty(bag_difference(rows, target))
            return rest if same else Replace(rows, run.within(target.schema))
        case Overwrite():
            return statement_by_key(run, rows, None, target, head, rest)
        case Merge(touched=touched):
            return statement_by_key(run, rows, touched, target, head, rest)
        case Snapshot():
            return plan_snapshot(run, write, rows, target, head, rest)
        case _:
            assert_never(write)


def _fillings(spark: SparkSession, run: Run, head: Head) -> Mapping[str, str]:
    """How Delta itself fills columns of the table, as far as its log can be read here."""
    declared = run.ref.log(lambda: spark).file_schema(head.version)
    return {} if declared is None else declared.fillings


def _rest(run: Run, *, recompute: bool) -> MarkOnly | Skip:
    """What remains to be done if no row differs: a mark, if a commit is due or says that the sums are these."""
    return MarkOnly() if recompute or run.is_due(by_snapshot_inputs=True) else Skip()


def _plan_append(
    spark: SparkSession, run: Run, rows: DataFrame, within: str | None, rest: MarkOnly | Skip
) -> Statement | Skip:
    if within is None or run.changes:
        return Insert(rows, "append")
    # Read inside the transaction, not pinned: a rival in the same partition then conflicts with us.
    now = spark.read.table(run.ref.identifier).where(within)
    missing = missing_from(rows, conform(now, rows.schema))
    return rest if is_empty(missing) else Insert(missing, "append of what the partition lacked")


def _whole(run: Run, write: Stated) -> DataFrame:
    """The rows of a new table; the promises hold for them too."""
    within, key = run.within(write.rows.schema), run.table.key_columns
    match write:
        case Merge(rows=rows, touched=touched):
            whole = difference(with_promises(run.name, rows, touched), None, key).drop(OPERATION)
        case Overwrite(rows=rows) | Snapshot(rows=rows) if key:
            whole = difference(with_promises(run.name, rows, None), None, key).drop(OPERATION)
        case Overwrite(rows=rows) | Append(rows=rows) | Snapshot(rows=rows):
            whole = rows
        case _:
            assert_never(write)
    return whole if within is None else whole.where(within)


def _may_add(run: Run, write: Stated) -> bool:
    """Whether the result may add columns to the table. A result that is about some of its rows may not."""
    return run.asset.policy.new_columns == "add" and (not isinstance(write, Merge) or write.touched.is_everything)
