"""`Append`: rows are added, and no existing row is touched."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.conflicts.operations import Operation
from lakehouse.delta.log import Head
from lakehouse.delta.text import quote
from lakehouse.difference.statements import Insert, MarkOnly, Skip, Statement
from lakehouse.read.asset import PastRows
from lakehouse.read.content import SourceRead
from lakehouse.read.run import Run
from lakehouse.spark.broken_promises import Breach, breach_text
from lakehouse.spark.driver_rows import MORE, bag_difference, is_empty
from lakehouse.spark.fitting import conform
from lakehouse.writes.stated import Stated
from lakehouse.writes.write import Basis, Declaration, refuse_other, without_new_columns


@final
@dataclass(frozen=True, slots=True)
class Append(Stated):
    """Adds rows and never touches an existing row.

    An asset with `Changes` adds each change once. A partitioned asset without `Changes` adds what the partition lacks,
    and fails if the result lacks rows that were added before. An asset with neither adds its rows at every
    materialization.

    Args:
        rows: The rows to add.

    Raises:
        TypeError: `rows` is not a Spark DataFrame.
    """

    rows: DataFrame

    needs_key = False
    past = PastRows.APPENDED
    ends_early = True
    why_all_rows = None

    def __post_init__(self) -> None:
        refuse_other(self, "rows", DataFrame, "a DataFrame of Spark")

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.READING_APPEND if asset.is_partitioned and not asset.changes else Operation.BLIND_APPEND

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        if run.asset.incremental:
            return "rows are added"
        return f"rows that {'the table' if run.slice is None else 'the partition'} lacks are added"

    def answers_for(self, changes: SourceRead) -> bool:
        return changes.gave_changes

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Self]:
        rows = without_new_columns(spark, run, self.rows)
        leaves_out = any(each.leaves_out for each in run.table.expectations)
        is_whole_log = run.slice is None and not leaves_out and len(run.changes) == 1 and run.changes[0].is_log(rows)
        return run.with_facts(archives_source=is_whole_log), replace(self, rows=rows)

    def speaks_of_all(self, run: Run) -> bool:
        return not run.changes

    def with_rows(self, rows: DataFrame) -> Self:
        return replace(self, rows=rows)

    def new_rows(self, run: Run) -> DataFrame:
        return self.rows

    def compare(
        self, spark: SparkSession, run: Run, rows: DataFrame, stored: DataFrame, head: Head, rest: MarkOnly | Skip
    ) -> Statement | Skip:
        within = run.within(stored.schema)
        if within is None or run.changes:
            return Insert(rows, "append")
        # Read inside the transaction, not pinned: a rival in the same partition then conflicts with this run.
        now = spark.read.table(run.ref.identifier).where(within)
        missing = _missing_from(rows, conform(now, rows.schema))
        return rest if is_empty(missing) else Insert(missing, "append of what the partition lacked")


def _missing_from(rows: DataFrame, existing: DataFrame) -> DataFrame:
    """The rows that `existing` lacks. If `existing` holds rows that the result lacks, the plan raises an error."""
    difference_ = bag_difference(rows, existing)
    lacking = F.raise_error(F.lit(breach_text(Breach.GONE))).cast("boolean")
    more = difference_.where(F.when(F.col(MORE) > 0, F.lit(True)).otherwise(lacking))
    each = F.explode(F.sequence(F.lit(1), F.col(MORE))).alias("__n")
    return more.select(*map(quote, existing.columns), each).drop("__n")
