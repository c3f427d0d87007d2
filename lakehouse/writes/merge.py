"""`Merge`: for every touched key the table holds exactly the given rows; all other keys keep theirs."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Self, final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.conflicts.operations import Operation
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.definition import digest
from lakehouse.delta.log import Head
from lakehouse.delta.text import fold
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.frozen_rows import without_frozen
from lakehouse.difference.statements import MarkOnly, Planned, Skip, Statement
from lakehouse.errors import UncomparedError, WriteError
from lakehouse.read.asset import PastRows
from lakehouse.read.content import SourceRead
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.scd.events import Events
from lakehouse.spark.fitting import check_padding
from lakehouse.spark.types import paths
from lakehouse.views.on_spark.plan_lint import doubts
from lakehouse.writes.stated import (
    Stated,
    one_row_a_key,
    plan_rows,
    refuse_empty_keys,
    refuse_empty_texts,
    refuse_names_taken,
)
from lakehouse.writes.write import Basis, Declaration, Write, refuse_other, without_new_columns


@final
@dataclass(frozen=True, slots=True, init=False)
class Merge(Stated):
    """For every touched key the table holds exactly these rows; all other keys keep theirs.

    A filter, a delete, a key change or a re-insert upstream therefore needs no special case. NULL is a key like any
    other. Rows that did not change are not written.

    Args:
        rows: The rows of the touched keys, and of no other; or the `Events` of `scd.type1` or `scd.type2`.
        touched: The keys that this write is about. Their columns are columns of the table.
        truncates: The condition by which events were applied as truncates; `Events` carry it themselves.

    Raises:
        TypeError: `rows` is neither a Spark DataFrame nor `Events`, or `touched` is not touched keys.
    """

    rows: DataFrame
    touched: Touched
    truncates: str | None

    needs_key = True
    past = PastRows.COMPUTED
    ends_early = True
    why_all_rows = None

    def __init__(self, rows: DataFrame | Events, touched: Touched, *, truncates: str | None = None) -> None:
        events = rows if isinstance(rows, Events) else Events(rows, truncates)
        for name, value in (("rows", events.rows), ("touched", touched), ("truncates", events.truncates)):
            object.__setattr__(self, name, value)
        refuse_other(self, "rows", DataFrame, "a DataFrame of Spark, or the Events of scd.type1 and scd.type2")
        refuse_other(self, "touched", Touched, "touched keys, as changes.touched(...) gives them")

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.CHANGE

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        where = "the table" if run.slice is None else "the partition"
        compared = (
            f"every row of {where} is"
            if basis is Basis.EVERYTHING
            else f"the rows of {where} with the touched keys are"
        )
        return f"{compared} compared with the result, and those that differ are written"

    def answers_for(self, changes: SourceRead) -> bool:
        return changes.name in self.touched.inputs

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Self]:
        if self.truncates is not None and self.truncates not in self.touched.also:
            keys = ", ".join(map(repr, self.touched.columns))
            raise WriteError.event_option(
                f"'{run.name}'",
                "TRUNCATES_MISSING",
                f"applies truncates by {self.truncates}, but its touched rows hold only the truncates of touched keys",
                f"Ask for all of them by the same text: touched({keys}, also={self.truncates!r}).",
            )
        rows = without_new_columns(spark, run, self.rows, self.touched.columns)
        # A column that is ignored counts as well, because other columns may be computed from whatever a source has.
        columns = digest([sorted(paths(each.schema)) for each in (self.rows, rows)])
        return run.with_facts(columns=columns), replace(self, rows=rows, touched=without_frozen(run, self.touched))

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Planned:
        if run.table.asks_for_unique_keys and not fold(self.touched.columns) <= fold(run.table.key_columns):
            touched, key = self.touched.columns, run.table.key_columns
            raise WriteError(
                f"The result of '{run.name}' is about touched ({', '.join(touched)}), so a run may see only "
                f"some rows of a key ({', '.join(key)}), and Expect.unique_key() asks how many there are.",
                f"Nothing was written. Touch columns of the key: touched({', '.join(map(repr, key))}).",
            )
        return plan_rows(spark, run, self, head)

    def without_empty_texts(self, run: Run, columns: Collection[str]) -> Self:
        rows = refuse_empty_texts(self.rows, columns)
        return replace(self, rows=rows, touched=refuse_empty_keys(run.name, self.touched, columns))

    def align(self, spark: SparkSession, run: Run, stored: DataFrame) -> DataFrame:
        check_padding(run.name, self.rows, stored.schema, run.table.key_columns)
        if not self.touched.is_everything and not run.compares_everything:
            refuse_uncompared(spark, run, self.rows.columns, stored.schema)
        return self.rows

    @property
    def about(self) -> Touched:
        return self.touched

    @property
    def few(self) -> bool:
        return self.touched.few

    def speaks_of_all(self, run: Run) -> bool:
        return self.touched.is_everything

    def may_add_columns(self, run: Run) -> bool:
        return run.asset.policy.new_columns == "add" and self.touched.is_everything

    def with_rows(self, rows: DataFrame) -> Self:
        return replace(self, rows=rows)

    def new_rows(self, run: Run) -> DataFrame:
        return one_row_a_key(run, self.rows, self.touched)

    def compare(
        self, spark: SparkSession, run: Run, rows: DataFrame, stored: DataFrame, head: Head, rest: MarkOnly | Skip
    ) -> Statement | Skip:
        return statement_by_key(run, rows, self.touched, stored, head, rest)

    def restrict_feed(self, run: Run, feed: DataFrame) -> DataFrame:
        return feed if self.touched.is_everything else self.touched.restrict(feed)


def doubts_of(asset: str, write: Write) -> tuple[str, ...]:
    """Why the rows that an asset returned may differ from those of a recompute, as sentences; only for a `Merge`."""
    sentences = doubts(write.rows) if isinstance(write, Merge) else ()
    return tuple(f"The table of {asset} may come to differ from a recompute: {sentence}" for sentence in sentences)


def refuse_uncompared(spark: SparkSession, run: Run, columns: Collection[str], stored: StructType) -> None:
    """Refuses rows of touched keys alone where other rows of the table may lack values of a column.

    To know what the table lacks is not enough: a run of another partition, or a user, may have added the column since.
    So the mark records the columns of the last result.

    Raises:
        UncomparedError: A column is new, or the last result had other columns.
    """
    lacking = [column for column in columns if column.lower() not in fold(stored.names)]
    if lacking and run.asset.policy.new_columns != "add":
        return  # the column is refused by `fit`
    new = lacking or _since_last_commit(spark, run, columns)
    if new:
        raise UncomparedError(
            run.name,
            f"its result has {_listing(new)}, which the table lacked, and rows that no change touched may have a value "
            f"there",
        )
    refuse_names_taken(spark, run, stored)
    mark = run.cursor.mark if isinstance(run.cursor, Known) else None
    if mark is not None and mark.columns not in (None, run.facts.columns):
        raise UncomparedError(run.name, "the last result had other columns, and rows that no change touched may differ")


def _since_last_commit(spark: SparkSession, run: Run, columns: Collection[str]) -> list[str]:
    """The columns of the result that the table lacked at its last mark, by the log; empty if the mark has columns."""
    if not isinstance(run.cursor, Known) or run.cursor.mark.columns is not None:
        return []
    then = run.ref.log(lambda: spark).file_schema(run.cursor.version)
    return [] if then is None else [column for column in columns if column.lower() not in then.types]


def _listing(columns: list[str]) -> str:
    more = f" and {len(columns) - 3} more" if len(columns) > 3 else ""
    return f"the column{'s' if len(columns) > 1 else ''} {', '.join(columns[:3])}{more}"
