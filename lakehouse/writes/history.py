"""`History`: every row that the source has had, with the interval in which it was there (SCD type 2).

For full extracts, `History(Snapshot(...))`, one law holds for a newer extract, for the same version again and for one
that is restated: *the history before the version stays; from the version on, every entity of the extract, and every
current entity in its scope, has the state that the extract gives.* So, before the extract is applied, rows that began
at the version or later are dropped, and rows that ended then are current again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.conflicts.operations import Operation
from lakehouse.delta.log import Head
from lakehouse.delta.text import fold, literal, quote
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.expectations import judge_statement
from lakehouse.difference.statements import Create, MarkOnly, Skip, Statement
from lakehouse.errors import RESTATE_FROM, DefinitionError, WriteError
from lakehouse.read.asset import PastRows
from lakehouse.read.changes import Changes, read_of
from lakehouse.read.content import SourceRead, as_inserted
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import is_empty, matching
from lakehouse.spark.fitting import check_new, check_padding, conform, fit
from lakehouse.spark.table_version import TableVersion
from lakehouse.writes.extract import fill, former_rows, refuse_null_keys
from lakehouse.writes.followed_history import lay_out_run, open_run, plan_followed_history
from lakehouse.writes.history_rows import Shape, check_columns, lay_out, refuse_other_shape
from lakehouse.writes.snapshot import Snapshot, is_ignored, refuse_deletions, scope_of, take_extract
from lakehouse.writes.write import Basis, Declaration, Write, refuse_other, rest_of


@final
@dataclass(frozen=True, slots=True)
class History(Write):
    """The table holds every row that the source has had, each with the interval in which it was there (SCD type 2).

    `Table(key=...)` names the entity: the columns that identify a row of the source. A row of the history is identified
    by these columns and its start. Only the net effect of a source's commit on an entity counts. A change of a tracked
    column ends the current row and begins another; a change of other columns alone updates it in place; a delete ends
    it, and an insert of the same key begins another. Rows of the past stay, even if the source no longer has them.

    Args:
        changes: The changes of the source, read without `start`, `exclude_operations` and `exclude_metadata`; or an
            extract of the source, whose version is the moment from which its rows hold.
        track: The columns whose change begins a new row; None for all except the entity's.
        start_at: The column with the moment from which a row holds: the time of the commit, or the extract's version.
        end_at: The column with the moment at which a row ceased to hold; NULL while it holds.

    Raises:
        TypeError: `changes` is neither `Changes` nor a `Snapshot`.
        ValueError: A column is tracked twice, or the start and the end have one name or none.

    The rules of SCD type 2 in AUTO CDC: R19 to R21 (docs/reference/scd.md).
    """

    changes: Changes | Snapshot
    track: str | Sequence[str] | None = None
    start_at: str = "__START_AT"
    end_at: str = "__END_AT"

    needs_key = True
    past = PastRows.KEPT
    why_all_rows = "the history would say that a row which is left out was not there"
    all_changes = ("keeps the history of", "Leave the options out.")

    def __post_init__(self) -> None:
        refuse_other(self, "changes", Changes | Snapshot, "the Changes of an input, or a Snapshot")
        tracked = self.tracked_columns or ()
        if len(fold(tracked)) < len(tracked):
            raise ValueError(f"A History tracks a column once, not {', '.join(tracked)}.")
        if self.start_at.lower() == self.end_at.lower() or not self.start_at or not self.end_at:
            raise ValueError(f"A History names its start and its end differently, not {self.start_at!r} both times.")

    @property
    def tracked_columns(self) -> tuple[str, ...] | None:
        """The columns that `track` names; None for all except the entity's."""
        if self.track is None:
            return None
        return (self.track,) if isinstance(self.track, str) else tuple(self.track)

    @classmethod
    def refuse(cls, asset: Declaration) -> None:
        """Refuses partitions.

        Raises:
            DefinitionError: The asset, or its table, has partitions.
        """
        if asset.is_partitioned or asset.table.partition_columns:
            raise DefinitionError(
                f"Asset '{asset.name}' keeps a history, which cannot be partitioned: its rows are clustered by their "
                f"end, so that current rows are found without reading the past. Leave partitions_def and partition_by "
                f"out."
            )

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.CHANGE

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        if basis is not Basis.EVERYTHING:
            return "the current rows of the changed keys end, and others begin"
        rows = "all rows of the source" if run.asset.incremental else "the extract"
        return f"the current rows are compared with {rows}; those that differ end, and others begin"

    def answers_for(self, changes: SourceRead) -> bool:
        return isinstance(self.changes, Changes) and changes.name == self.changes.name

    def complete_without_rows(self, run: Run) -> Run | None:
        changes = self.changes
        if isinstance(changes, Snapshot) or not changes.is_empty or run.leaves_out(changes.name):
            return None
        return lay_out_run(run, self._shape(run.table.key_columns), read_of(changes))

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Self]:
        shape = self._shape(run.table.key_columns)
        if isinstance(self.changes, Snapshot):
            extract = self.changes.restrict(spark, run)
            run = open_extracted(spark(), run, shape, extract)
            return run, replace(self, changes=replace(extract, rows=refuse_null_keys(extract.rows, shape.entity)))
        run, timed = open_run(spark(), run, shape, read_of(self.changes))
        return run, replace(self, changes=Changes(timed))

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Statement | Skip:
        shape, rest = self._laid_out_shape(run), rest_of(run)
        # Only current rows are judged. One that has ended cannot be corrected: the source's feed would give it again.
        current = F.col(quote(self.end_at)).isNull()
        if isinstance(self.changes, Changes):
            statement = plan_followed_history(spark, run, shape, read_of(self.changes), head, rest)
        elif is_ignored(run, self.changes):
            return rest
        else:
            statement = plan_extracted_history(spark, run, shape, self.changes, head, rest)
        return judge_statement(run, statement, current)

    def restrict_feed(self, run: Run, feed: DataFrame) -> DataFrame:
        if isinstance(self.changes, Snapshot):
            return feed
        return self.changes.touched(*self._laid_out_shape(run).entity).restrict(feed)

    def rows_to_compare(self, table: DataFrame, inputs: Mapping[str, SourceRead]) -> tuple[DataFrame, DataFrame]:
        """The rows of the source, and the current rows: a history keeps rows that its source no longer has."""
        own = self._shape(()).own
        current = table.where(F.col(quote(self.end_at)).isNull())
        source = self.changes.source if isinstance(self.changes, Changes) else self.changes.rows
        past = [name for name in table.columns if name.lower() in own or name.lower() not in fold(source.columns)]
        return source, current.drop(*past)

    def _shape(self, entity: tuple[str, ...]) -> Shape:
        return Shape(entity, self.start_at, self.end_at, self.tracked_columns)

    def _laid_out_shape(self, run: Run) -> Shape:
        """The columns of the history in a completed run, whose table has the key of the history's rows."""
        return self._shape(run.table.key_columns[:-1])  # all but the start


def open_extracted(spark: SparkSession, run: Run, shape: Shape, snapshot: Snapshot) -> Run:
    """The run with the version of the extract, and with a table that has the key of the history's rows.

    Raises:
        LakehouseError: A history cannot be kept of the extract, or the table cannot take it.
    """
    refuse_other_shape(run, shape)
    run = take_extract(run, snapshot)
    stored = None if run.head is None else TableVersion.of(spark, run.ref, run.head).rows()
    columns = () if stored is None else stored.columns
    check_columns(run.name, shape, f"The extract of '{run.name}'", snapshot.rows.columns, columns)
    if stored is not None and "version" in run.request.allowed and run.request.restate_from is None:
        _refuse_later(run, shape, stored)
    if snapshot.scope_columns and run.request.restate_from is not None:
        raise WriteError(
            f"'{run.name}' is to be restated from extract {run.facts.extract}, but the extract has a scope, and "
            f"the rows of other scopes would lose what came later.",
            "Nothing was written. Restate it from an extract without a scope.",
        )
    return lay_out(run, shape)


def _refuse_later(run: Run, shape: Shape, stored: DataFrame) -> None:
    """Refuses an extract of any version, as a run tag allows, if taking it would drop later rows."""
    assert run.facts.extract is not None, "take_extract has given the version"
    version = literal(run.facts.extract.value, "bigint")
    if not is_empty(stored.where(f"{quote(shape.start)} > {version} OR {quote(shape.end)} > {version}")):
        raise WriteError(
            f"The history '{run.name}' holds rows that begin or end after {run.facts.extract}.",
            f"Nothing was written. To drop what came after extract {run.facts.extract}, add the run tag "
            f"{RESTATE_FROM}{run.name}={run.facts.extract}.",
        )


def plan_extracted_history(
    spark: SparkSession, run: Run, shape: Shape, snapshot: Snapshot, head: Head | None, rest: MarkOnly | Skip
) -> Statement | Skip:
    """The statement after which the history matches the extract from the extract's version on.

    Raises:
        ExtractError (DELETIONS_HELD_BACK): More entities would end than the extract may end.
        WriteError: A correction lacks entities whose former rows are not known.
    """
    assert run.facts.extract is not None, "take_extract has given the version"
    version = literal(run.facts.extract.value, "bigint")
    at = spark.range(1).selectExpr("0L AS __version", f"{version} AS __at")
    if head is None:
        rows = shape.rows(as_inserted(snapshot.rows, 0, 0), at).drop(*shape.earliest)
        check_new(run.name, rows, run.table, None)
        return Create(rows)
    stored = TableVersion.of(spark, run.ref, head).rows()
    check_padding(run.name, snapshot.rows, stored.schema, (*shape.entity, *snapshot.scope_columns))
    end, start = quote(shape.end), quote(shape.start)
    reaches = f"{end} IS NULL OR {end} >= {version}"
    reaching = stored.where(reaches)
    values = StructType([field for field in stored.schema.fields if field.name.lower() not in shape.own])
    before = reaching.where(f"{start} < {version}")
    delivered = fill(run, snapshot.rows, before.select(*map(quote, values.names)), shape.entity)
    delivered = fit(run.ref, delivered, values, may_add=run.asset.policy.new_columns == "add")
    of_scope = scope_of(snapshot, delivered)
    within = of_scope(reaching.where(f"{end} IS NULL"))
    missing, back = matching(within, delivered, shape.entity, "left_anti"), None
    if snapshot.scope_columns:
        entity = [*map(quote, shape.entity)]
        concerned = delivered.select(*entity).unionByName(within.select(*entity))
        reaching, before = (matching(rows, concerned, shape.entity) for rows in (reaching, before))
        back = former_rows(run, missing, shape.entity, of_scope, f"{end} IS NULL", head)
    if back is not None:
        missing, before = (matching(rows, back, shape.entity, "left_anti") for rows in (missing, before))
    refuse_deletions(run, snapshot, missing.count, within)
    rows = shape.rows(as_inserted(delivered, 0, 0), at, before, ends=0).drop(*shape.earliest)
    if back is not None:
        rows = rows.unionByName(conform(back.where(reaches), rows.schema))
    return statement_by_key(run, fit(run.ref, rows, stored.schema, may_add=True), None, reaching, head, rest)
