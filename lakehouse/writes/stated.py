"""The plan of writes that state rows for the table to hold: they are checked, fitted to the table, then compared."""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.since_base import why_names_taken
from lakehouse.delta.limits import limits
from lakehouse.delta.log import Head
from lakehouse.delta.text import fold, quote
from lakehouse.difference.expectations import Judged, judge_rows, with_quarantine
from lakehouse.difference.frozen_rows import refuse_changed_sides
from lakehouse.difference.row_comparison import OPERATION, difference, with_promises
from lakehouse.difference.statements import Create, MarkOnly, Planned, Skip, Statement
from lakehouse.difference.withheld import judge_outside
from lakehouse.errors import UncomparedError, WriteError
from lakehouse.read.content import SourceRead
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import EveryKey, SomeKeys, UnreadRows
from lakehouse.spark.broken_promises import Breach, breach_text, broken
from lakehouse.spark.fitting import check_new, check_padding, check_zone, fit
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import paths, sql_type
from lakehouse.writes.write import Write, rest_of


class Stated(Write, Protocol):
    """A write that states rows for the table to hold."""

    rows: DataFrame
    """The rows as the asset gave them."""

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Planned:
        return plan_rows(spark, run, self, head)

    def count_outside(self, run: Run) -> int | None:
        if run.slice is None or run.inputs is None or run.inputs.rows > limits().outside_rows:
            return None  # they may be many
        if not fold(run.slice.columns) <= fold(self.rows.columns):
            return None
        try:
            return self.rows.where(f"NOT coalesce({run.within(self.rows.schema)}, FALSE)").count()
        except Exception:  # the result is in the table, whatever becomes of the count
            return None

    def rows_to_compare(self, table: DataFrame, inputs: Mapping[str, SourceRead]) -> tuple[DataFrame, DataFrame]:
        return self.rows, table

    def without_empty_texts(self, run: Run, columns: Collection[str]) -> Self:
        """The write with a plan that fails at a text in a partition column that Delta would keep as NULL."""
        return self.with_rows(refuse_empty_texts(self.rows, columns))

    def align(self, spark: SparkSession, run: Run, stored: DataFrame) -> DataFrame:
        """The rows that are then fitted to the columns of the table; `stored` are the rows that it holds."""
        check_padding(run.name, self.rows, stored.schema, run.table.key_columns)
        return self.rows

    @property
    def about(self) -> Touched | None:
        """The keys that the rows are about; None if they are all that the run's partitions are to hold."""
        return None

    @property
    def few(self) -> bool:
        """Whether the rows are so few that they may be brought to the driver."""
        return False

    def speaks_of_all(self, run: Run) -> bool:
        """Whether the rows are all that the run's partitions are to hold, and not those of some keys or rows to add."""
        return True

    def may_add_columns(self, run: Run) -> bool:
        """Whether the result may add columns to the table. A result about only some of the table's rows may not."""
        return run.asset.policy.new_columns == "add"

    @abstractmethod
    def with_rows(self, rows: DataFrame) -> Self:
        """The same write with other rows."""

    @abstractmethod
    def new_rows(self, run: Run) -> DataFrame:
        """The rows of a table that does not exist yet; they too keep the promises of the write."""

    @abstractmethod
    def compare(
        self, spark: SparkSession, run: Run, rows: DataFrame, stored: DataFrame, head: Head, rest: MarkOnly | Skip
    ) -> Statement | Skip:
        """The statement that makes the table hold the fitted rows; `rest` if no row differs."""


def plan_rows(spark: SparkSession, run: Run, write: Stated, head: Head | None, *, recompute: bool = False) -> Planned:
    """The statement that makes the table hold the stated rows, and the statement of its quarantine.

    With `recompute` the rows are compared and a mark is written, even if no source has changes.

    Raises:
        WriteError (SCHEMA): The rows do not fit the table.
        WriteError (BROKEN_PROMISE): None of them lies in the run's partitions, and the policy refuses that.
        ExpectationError: Rows break an expectation that fails the run.
    """
    check_new(run.name, write.rows, run.table, head)
    _refuse_unknown_columns(run, write.rows.schema)
    partition_columns = run.table.partitioned_by(head)
    check_zone(run.name, write.rows, partition_columns)
    write = write.without_empty_texts(run, partition_columns)
    if head is None:
        run, result = replace(run, owned=None), write.rows
        write, judged = _new(run, write)
        whole = write.new_rows(run)
        within = run.within(whole.schema)
        create = Create(whole if within is None else whole.where(within))
        judge_outside(run, result, None, create, whole=True)
        return with_quarantine(spark, run, create, judged, None, head, one_each=_is_split(run, write))
    if not recompute and run.has_nothing_to_do():
        return Skip()
    stored = TableVersion.of(spark, run.ref, head).rows()
    if run.owned is not None:
        _refuse_unknown_columns(run, stored.schema)
    rows = fit(
        run.ref,
        write.align(spark, run, stored),
        stored.schema,
        may_add=write.may_add_columns(run),
        filled=lambda: _fillings(spark, run, head),
    )
    _refuse_new_keys(run, rows, stored.schema)
    within, result = run.within(stored.schema), rows
    if run.may_change_sides:
        about = None if _is_split(run, write) else write.about  # a frozen row may have values that are not touched now
        refuse_changed_sides(run, rows, stored if about is None else about.restrict(stored))
    if within is not None:
        rows, stored = rows.where(within), stored.where(within)
    judged = judge_rows(run, rows, few=write.few)
    statement = write.compare(spark, run, judged.taken, stored, head, rest_of(run, recompute=recompute))
    judge_outside(run, result, stored, statement, whole=write.speaks_of_all(run))
    return with_quarantine(spark, run, statement, judged, write.about, head, one_each=_is_split(run, write))


def _refuse_new_keys(run: Run, rows: DataFrame, have: StructType) -> None:
    """Refuses a key with a column that the table lacks: no row of the table can be found by it.

    Raises:
        WriteError (SCHEMA): The table lacks a column of the key.
    """
    lacking = fold(run.table.key_columns) - fold(have.names)
    new = [field for field in rows.schema.fields if field.name.lower() in lacking]
    if new:
        columns = ", ".join(f"{quote(field.name)} {sql_type(field.dataType)}" for field in new)
        remedy = (
            f"Add it: ALTER TABLE {run.ref.identifier} ADD COLUMNS ({columns}). The next run then compares everything. "
            f"In development, make the table again: lakehouse run {run.name} --rebuild."
        )
        raise WriteError.schema(run.name, {each.name: "is of the key, and the table lacks it" for each in new}, remedy)


def _refuse_unknown_columns(run: Run, schema: StructType) -> None:
    """Refuses owned rows by a condition on a column that the result lacks, or the table that its rows are to be in."""
    if run.table.owns is not None:
        from lakehouse.views.on_spark.owned_rows import refuse_unknown_columns  # it imports sqlglot

        refuse_unknown_columns(run, schema)


def _is_split(run: Run, write: Stated) -> bool:
    """Whether a run may see only some rows of a key, because it is touched by columns that are not of the key."""
    return write.about is not None and not fold(write.about.columns) <= fold(run.table.key_columns)


def _new(run: Run, write: Stated) -> tuple[Stated, Judged]:
    """The write of a table that does not exist yet, with the rows that the table takes; and all of its rows, judged."""
    within = run.within(write.rows.schema) if run.table.expectations else None
    judged = judge_rows(run, write.rows if within is None else write.rows.where(within), few=write.few)
    return (write.with_rows(judged.taken) if run.table.expectations else write), judged


def _fillings(spark: SparkSession, run: Run, head: Head) -> Mapping[str, str]:
    """How Delta itself fills columns of the table, as far as its log can be read here."""
    declared = run.ref.log(lambda: spark).file_schema(head.version)
    return {} if declared is None else declared.fillings


def one_row_a_key(run: Run, rows: DataFrame, touched: Touched | None) -> DataFrame:
    """The rows of a new table, with a plan that fails if a key has two rows, or a row is of an untouched key."""
    return difference(with_promises(run.name, rows, touched), None, run.table.key_columns).drop(OPERATION)


def refuse_names_taken(spark: SparkSession, run: Run, stored: StructType | None) -> None:
    """Refuses to leave rows as they are if a column of the table has lost its name since the last own commit.

    `stored` are the columns that the result has, if it is known to have them; None if it may have any.

    Raises:
        UncomparedError: Another column may have the name, and other values, or none has it.
    """
    if run.head is None or not isinstance(run.cursor, Known):
        return
    why = why_names_taken(run.ref.log(lambda: spark), run.head, run.cursor, None if stored is None else paths(stored))
    if why is not None:
        raise UncomparedError(run.name, f"{why}, and rows that no change touched may have another value there")


KEPT_AS_NULL = ("", "__HIVE_DEFAULT_PARTITION__")
"""The texts that Delta reads back as NULL: it takes partition values out of the names of directories, as Hive does.

Rows and touched keys with such a text are refused. Writing NULL and touching both values would also be correct, but
eight modules would have to know of it. A touched key is refused even if the asset itself replaces the text by NULL:
the rows under NULL would remain when the source's row with the empty text is deleted.
"""


def refuse_empty_texts(frame: DataFrame, partition_columns: Collection[str]) -> DataFrame:
    """The frame with a plan that fails at an empty text in a column by which the table is partitioned."""
    if not partition_columns:
        return frame
    partitions = fold(partition_columns)
    refused = {
        field.name: F.when(F.col(quote(field.name)).isin(*KEPT_AS_NULL), _raise_for_empty_text(field.name))
        .otherwise(F.col(quote(field.name)))
        .alias(field.name, metadata=field.metadata)  # which says that a text is a CHAR
        for field in frame.schema.fields
        if field.name.lower() in partitions and isinstance(field.dataType, StringType)
    }
    if not refused:
        return frame
    return frame.select(*(refused.get(column, F.col(quote(column))) for column in frame.columns))


def refuse_empty_keys(asset: str, touched: Touched, partition_columns: Collection[str]) -> Touched:
    """The touched keys, checked likewise: rows under NULL would stay in the table when the empty text is deleted.

    Raises:
        WriteError (BROKEN_PROMISE): A key that the write is about has an empty text in such a column.
    """
    keys = touched.touched
    if isinstance(keys, EveryKey) or not fold(touched.columns) & fold(partition_columns):
        return touched
    if touched.values is None:
        checked = refuse_empty_texts(keys.distinct, partition_columns)
        rows = checked if touched.few else UnreadRows(checked)
        return replace(touched, touched=SomeKeys(keys.columns, rows, keys.most))
    partitions = fold(partition_columns)
    for index, column in enumerate(touched.columns):
        if column.lower() in partitions and any(key[index] in KEPT_AS_NULL for key in touched.values):
            raise broken(asset, Breach.EMPTY, {"column": column})
    return touched


def _raise_for_empty_text(column: str) -> Column:
    return F.raise_error(F.lit(breach_text(Breach.EMPTY, column=column)))
