"""`Overwrite` and `Replacement`: the table, or the run's partitions of it, holds exactly the rows, compared or not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from lakehouse.conflicts.operations import Operation
from lakehouse.delta.log import Head
from lakehouse.delta.text import quote
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.statements import MarkOnly, Replace, Skip, Statement
from lakehouse.errors import WriteError
from lakehouse.read.asset import PastRows
from lakehouse.read.content import SourceRead
from lakehouse.read.run import Run
from lakehouse.spark.broken_promises import Breach, breach_sql
from lakehouse.spark.driver_rows import bag_difference, is_empty
from lakehouse.writes.stated import Stated, one_row_a_key
from lakehouse.writes.write import Basis, Declaration, refuse_other, without_new_columns


@final
@dataclass(frozen=True, slots=True)
class Overwrite(Stated):
    """The table, or this run's partitions of it, holds exactly these rows.

    With a key, only rows that differ are written. Without a key, nothing is written if the content is the same. Rows
    outside of the run's partitions are left out.

    Args:
        rows: What the table holds afterwards.

    Raises:
        TypeError: `rows` is not a Spark DataFrame.
    """

    rows: DataFrame

    needs_key = False
    past = PastRows.COMPUTED
    ends_early = True
    follows_snapshot_inputs = True
    why_all_rows = None

    def __post_init__(self) -> None:
        refuse_other(self, "rows", DataFrame, "a DataFrame of Spark")

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.CHANGE if asset.table.key_columns else Operation.OVERWRITE

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        where = "the table" if run.slice is None else "the partition"
        if run.table.key_columns:
            return f"every row of {where} is compared with the result, and those that differ are written"
        return f"{where} is replaced if its content differs"

    def answers_for(self, changes: SourceRead) -> bool:
        return True

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Self]:
        for changes in run.changes:
            if changes.gave_a_part:
                raise WriteError(
                    f"'{run.name}' overwrites its table and takes rows of the changes of '{changes.name}' "
                    f"{changes.range}. Built of them, the table would lose the rows of all earlier changes.",
                    "Nothing was written. Build the rows from the whole input, `source`; what has changed is said by "
                    "the `keys` of touched(...). Or return a write about the changes: an Append of new rows, or a "
                    "Merge about touched keys.",
                )
        return run, replace(self, rows=without_new_columns(spark, run, self.rows))

    def with_rows(self, rows: DataFrame) -> Self:
        return replace(self, rows=rows)

    def new_rows(self, run: Run) -> DataFrame:
        return one_row_a_key(run, self.rows, None) if run.table.key_columns else self.rows

    def compare(
        self, spark: SparkSession, run: Run, rows: DataFrame, stored: DataFrame, head: Head, rest: MarkOnly | Skip
    ) -> Statement | Skip:
        if run.table.key_columns:
            return statement_by_key(run, rows, None, stored, head, rest)
        same = len(rows.columns) == len(stored.columns) and is_empty(bag_difference(rows, stored))
        return rest if same else Replace(rows, run.within(stored.schema))


@final
@dataclass(frozen=True, slots=True)
class Replacement(Stated):
    """The table, or this run's partitions of it, is written anew, which is cheaper than finding each of many changes.

    A run completes another write into this one; no asset returns it. The table's feed then gives every row as deleted
    and inserted, even if both are equal.

    Args:
        rows: What the table holds afterwards.
        may_split_keys: Whether a key may have two rows, so that the keys are checked first.
    """

    rows: DataFrame
    may_split_keys: bool

    needs_key = False
    past = PastRows.COMPUTED
    why_all_rows = None

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.OVERWRITE

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        return f"{'the table' if run.slice is None else 'the partition'} is replaced"

    def answers_for(self, changes: SourceRead) -> bool:
        return True

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Self]:
        return run, replace(self, rows=without_new_columns(spark, run, self.rows))

    def with_rows(self, rows: DataFrame) -> Self:
        return replace(self, rows=rows)

    def new_rows(self, run: Run) -> DataFrame:
        return one_row_a_key(run, self.rows, None)

    def compare(
        self, spark: SparkSession, run: Run, rows: DataFrame, stored: DataFrame, head: Head, rest: MarkOnly | Skip
    ) -> Statement | Skip:
        if self.may_split_keys:
            refuse_split_keys(rows, run.table.key_columns)
        return Replace(rows, run.within(stored.schema))


def refuse_split_keys(rows: DataFrame, key: tuple[str, ...]) -> None:
    """Refuses two rows of one key. Whole numbers that lie close together are counted as bits of a word.

    Raises:
        WriteError (BROKEN_PROMISE): A key has two rows.
    """
    if _are_told_apart(rows, key):
        return
    twice = F.raise_error(F.expr(breach_sql(Breach.TWICE, {column: quote(column) for column in key})))
    copies = rows.groupBy(*map(quote, key)).agg(F.count("*").alias("__copies"))
    copies.where(F.when(F.col("__copies") > 1, twice.cast("boolean")).otherwise(F.lit(False))).count()


def _are_told_apart(rows: DataFrame, key: tuple[str, ...]) -> bool:
    """Whether no key has two rows, by sets of 64 whole numbers, as bits; False if the key has no whole number."""
    kinds = [field.dataType for field in rows.select(*map(quote, key)).schema.fields]
    number = next((quote(c) for c, kind in zip(key, kinds, strict=True) if isinstance(kind, IntegralType)), None)
    if number is None:
        return False
    others = [quote(column) for column in key if quote(column) != number]
    keys = f"bit_count(bit_or(shiftleft(1L, CAST({number} & 63 AS INT))))"
    words = rows.groupBy(*others, F.expr(f"shiftright({number}, 6)")).agg(
        F.expr(f"coalesce({keys}, 1)").alias("__keys"), F.count("*").alias("__rows")
    )
    return is_empty(words.where("__keys < __rows"))
