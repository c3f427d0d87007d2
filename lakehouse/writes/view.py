"""`View`: the table is the result of a query over the inputs; a run computes only keys whose rows may differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import currentframe
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

from pyspark.sql import DataFrame, SparkSession

from lakehouse.conflicts.operations import Operation
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.digests import QueryDigest
from lakehouse.cursor.since_base import why_other_rows
from lakehouse.delta.log import Head
from lakehouse.delta.policy import Policy
from lakehouse.difference.statements import Planned, Skip
from lakehouse.errors.views import ViewError
from lakehouse.read.asset import PastRows
from lakehouse.read.content import SourceRead
from lakehouse.read.decide import why_other_query
from lakehouse.read.run import Run
from lakehouse.spark.session import interpreting
from lakehouse.views.view_text import Origin, ViewText, with_place
from lakehouse.writes.stated import refuse_names_taken
from lakehouse.writes.sums import as_marked_before
from lakehouse.writes.write import Basis, Declaration, Write, rest_of

if TYPE_CHECKING:
    from lakehouse.views.analysis import Analysis, CheckedView


@final
@dataclass(frozen=True)
class View(Write):
    """The table is the result of this query, whose tables are the asset's inputs, by their names.

    Inputs read as `Changes` are followed. A `DataFrame` input is a snapshot: rows that were already written do not
    follow its changes. A run computes the rows of the keys that the changes may have touched, with the query itself,
    and writes those that differ. Everything is computed and compared if the keys cannot be known.

    Args:
        query: One query of Spark SQL.
        args: The values of Spark's named parameters in it.
        touch: The column or columns of the result by which changes are followed; None for those that cost least.

    Raises:
        TypeError: `query` is not text.

    Recomputing affected keys: Gupta and Mumick, "Maintenance of Materialized Views" (1995).
    """

    query: str | ViewText
    args: Mapping[str, Any] | None = None
    touch: str | Sequence[str] | None = None

    needs_key = False
    past = PastRows.COMPUTED
    has_query = True
    why_all_rows = None

    def __post_init__(self) -> None:
        if not isinstance(cast("Any", self.query), str | ViewText):
            raise TypeError(f"The argument `query` of View is SQL text, and not: {type(self.query).__name__}.")

    @classmethod
    def of(
        cls, path: str | Path, args: Mapping[str, Any] | None = None, touch: str | Sequence[str] | None = None
    ) -> "View":
        """A view whose query is in a file that holds the query alone, without a head.

        Args:
            path: The file; a relative path begins at the folder of the calling file.
            args: The values of Spark's named parameters in the query.
            touch: As in `View`.

        Raises:
            ViewError: There is no such file, or it holds a statement with a head.
        """
        from lakehouse.views.files.query_file import calling_file, read_query

        return cls(read_query(path, calling_file(currentframe())), args, touch)

    @cached_property
    def text(self) -> ViewText:
        """The query with its arguments, and with what its file declares of it."""
        text = self.query if isinstance(self.query, ViewText) else ViewText(self.query)
        touch = (self.touch,) if isinstance(self.touch, str) else tuple(self.touch or text.touch)
        return replace(text, args={**text.args, **(self.args or {})}, touch=touch)

    def check(
        self,
        schemas: Mapping[str, Mapping[str, str]],
        keys: Mapping[str, tuple[str, ...]] | None = None,
        policy: Policy = Policy(),
    ) -> "CheckedView":
        """How the view would follow tables with these columns, if no table is small: for a test, without Spark.

        Args:
            schemas: For each table of the text, its columns, and their types as Spark's `simpleString()` has them.
            keys: The key of each table that has one.
            policy: The policy of the view's table, if the test is to fail where a run would be refused.

        Raises:
            ViewError: A view cannot be kept of the text, or the policy forbids what its changes need.
        """
        from lakehouse.writes.view_run import check_view

        return check_view(self.text, schemas, keys or {}, policy)

    @classmethod
    def refuse(cls, asset: Declaration) -> None:
        """Refuses what no query could make up for: an input that leaves changes out, or a strict policy and no changes.

        Raises:
            ViewError: An input leaves changes out; or the table declares `refresh="strict"` and reads no changes.
        """
        partial = next((name for name, read in asset.changes.items() if not read.is_whole), None)
        if partial is not None:
            options = "Read(start=..., exclude_operations=...)"
            what = f"The query is over all rows of '{partial}', and {options} leaves some out"
            remedy = "Say in its WHERE which rows count, and take these options out."
            raise with_place(ViewError("VIEW_PARTIAL_INPUT", what, None, remedy), Origin(), asset.name)
        if asset.table.policy.refresh == "strict" and not asset.changes:
            what = "Its policy is refresh='strict', and no input is read as Changes, so every run computes all rows"
            error = ViewError("VIEW_NOT_INCREMENTAL", what, None, "Read an input as Changes, or leave the word out.")
            raise with_place(error, Origin(), asset.name)

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.CHANGE if asset.table.key_columns else Operation.OVERWRITE

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        where = "the table" if run.slice is None else "the partition"
        if basis is Basis.EVERYTHING:
            return f"the query is computed for all rows, which are compared with {where}, or replace it if many changed"
        return f"the query is computed for the keys that the changes touch, and rows of {where} that differ are written"

    def answers_for(self, changes: SourceRead) -> bool:
        """Always true: `complete` refuses an input that the text does not name."""
        return True

    def complete_without_rows(self, run: Run) -> Run | None:
        return as_marked_before(run) if self._is_held(run, None) else None

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Write]:
        if self._is_held(run, spark):
            return as_marked_before(run), self
        from lakehouse.writes.view_run import complete_view

        with interpreting(spark(), run.inputs):
            run, write = complete_view(spark, run, self.text)
            return run, write or self

    @staticmethod
    def explain(run: Run, analysis: "Analysis") -> tuple[str, ...]:
        """What a run does with changes of each table, and how its policy answers to that, as sentences."""
        from lakehouse.writes.view_run import explain_view

        return explain_view(run, analysis)

    def _is_held(self, run: Run, spark: Callable[[], SparkSession] | None) -> bool:
        """Whether the table holds the result: no source has changes or other columns, and the query is the same.

        A run that records its position hides what another program has done to the table since the one before.
        """
        if not _has_no_changes(run) or run.columns_changed or run.source_columns is None:
            return False
        if run.must_record and run.head is not None and isinstance(run.cursor, Known):
            if spark is None and run.ref.why_only_spark() is not None:
                return False
            log = run.ref.log(spark or _no_session)
            if why_other_rows(log, run.head, run.cursor, run.partitions) is not None:
                return False
        from lakehouse.views.sql.tokens import digest_of_view

        return why_other_query(run.asset, run.cursor, QueryDigest(digest_of_view(self.text))) is None

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Planned:
        """Adds to the sums if the table is kept by sums; else writes at most a mark: rows are left to another write."""
        if run.has_nothing_to_do():
            return Skip()
        if head is None or not _adds(run):
            refuse_names_taken(spark, run, None)
            return rest_of(run)
        from lakehouse.writes.view_run import plan_sums

        return plan_sums(spark, run, self.text, head)

    def restrict_feed(self, run: Run, feed: DataFrame) -> DataFrame:
        """All rows of the feed if sums are added to; else none, because no row was computed."""
        return feed if _adds(run) else feed.limit(0)

    def rows_to_compare(self, table: DataFrame, inputs: Mapping[str, SourceRead]) -> tuple[DataFrame, DataFrame]:
        """The result of the query over all rows of its tables."""
        from lakehouse.writes.view_run import rows_of_view

        return rows_of_view(table, self.text, inputs), table


def _no_session() -> SparkSession:
    raise AssertionError("a log that only Spark can read is not read without it")


def _has_no_changes(run: Run) -> bool:
    """Whether no source that is followed has changes, so that the table holds the result."""
    if not isinstance(run.cursor, Known) or run.compares_everything or not run.changes:
        return False
    return all(read.is_empty for read in run.changes)


def _adds(run: Run) -> bool:
    """Whether a completed run adds what its changes bring and take away to the sums that its table holds."""
    return run.facts.sums is not None and not _has_no_changes(run)
