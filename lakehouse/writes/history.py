"""`History`: every row that the source has had, with the interval in which it was there (SCD type 2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, assert_never, final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.conflicts.operations import Operation
from lakehouse.delta.log import Head
from lakehouse.delta.text import fold, quote
from lakehouse.difference.statements import Skip, Statement
from lakehouse.errors import DefinitionError, WriteError
from lakehouse.read.asset import PastRows
from lakehouse.read.changes import Changes, read_of
from lakehouse.read.content import SourceRead
from lakehouse.read.run import Run
from lakehouse.writes.extract import refuse_null_keys
from lakehouse.writes.extracted_history import open_extracted, plan_extracted_history
from lakehouse.writes.followed_history import describe, open_run, plan_followed_history
from lakehouse.writes.history_rows import Shape
from lakehouse.writes.snapshot import Snapshot, is_ignored
from lakehouse.writes.write import Declaration, Write, refuse_other, rest_of


@final
@dataclass(frozen=True, slots=True)
class History(Write):
    """The table holds every row that the source has had, each with the interval in which it was there (SCD type 2).

    `Table(key=...)` names the entity: the columns that identify a row of the source. A row of the history is identified
    by them and its start. Of one commit of the source only its net effect on an entity counts. A change of a tracked
    column ends the current row and begins another; a change of other columns alone updates it in place; a delete ends
    it, and an insert of the same key begins another. What the table says of the past stays, even if the source forgets.

    Args:
        changes: The changes of the source, read without `start`, `exclude_operations` and `exclude_metadata`; or an
            extract of the source, whose version is the moment from which its rows hold.
        track: The columns a change of which begins a new row; None for all but the entity's.
        start_at: The column with the moment from which a row holds: the time of the commit, or the extract's version.
        end_at: The column with the moment at which it ceased to; NULL while it holds.

    Raises:
        TypeError: Something else than changes or an extract.
        ValueError: One name for two things.

    The rules of SCD type 2 in AUTO CDC: R19 to R21 (docs/how-to/slowly-changing-dimensions.md).
    """

    changes: Changes | Snapshot
    track: str | Sequence[str] | None = None
    start_at: str = "__START_AT"
    end_at: str = "__END_AT"

    needs_key = True
    past = PastRows.KEPT
    ends_early = False
    follows_snapshot_inputs = False

    def __post_init__(self) -> None:
        refuse_other(self, "changes", Changes | Snapshot, "the Changes of an input, or a Snapshot")
        tracked = self.tracked_columns or ()
        if len(fold(tracked)) < len(tracked):
            raise ValueError(f"A History tracks a column once, not {', '.join(tracked)}.")
        if self.start_at.lower() == self.end_at.lower() or not self.start_at or not self.end_at:
            raise ValueError(f"A History names its start and its end differently, not {self.start_at!r} both times.")

    @property
    def tracked_columns(self) -> tuple[str, ...] | None:
        """The columns that were named; None for all but the entity's."""
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
    def strategy(cls, run: Run, *, whole: bool, archived: bool) -> str:
        if not whole:
            return "the current rows of the changed keys end, and others begin"
        rows = "all rows of the source" if run.asset.incremental else "the extract"
        return f"the current rows are compared with {rows}; those that differ end, and others begin"

    def answers_for(self, changes: SourceRead) -> bool:
        match self.changes:
            case Changes(name=followed):
                return changes.name == followed
            case Snapshot():
                return False
            case _:
                assert_never(self.changes)

    def describe(self, run: Run) -> Run | None:
        match self.changes:
            case Changes() as changes if changes.is_empty and not run.leaves_out(changes.name):
                return describe(run, self._shape(run.table.key_columns), read_of(changes))
            case Changes() | Snapshot():
                return None
            case _:
                assert_never(self.changes)

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Self]:
        shape = self._shape(run.table.key_columns)
        match self.changes:
            case Changes() as changes:
                if run.leaves_out(changes.name):
                    raise WriteError(_why_incomplete(run.name, changes.name), "Nothing was written.")
                run, timed = open_run(spark(), run, shape, read_of(changes))
                return run, replace(self, changes=Changes(timed))
            case Snapshot() as extract:
                extract = extract.restrict(spark, run)
                opened_run = open_extracted(spark(), run, shape, extract)
                rows = refuse_null_keys(extract.rows, shape.entity)
                return opened_run, replace(self, changes=replace(extract, rows=rows))
            case _:
                assert_never(self.changes)

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Statement | Skip:
        shape, rest = self._laid_out_shape(run), rest_of(run)
        match self.changes:
            case Changes() as changes:
                return plan_followed_history(spark, run, shape, read_of(changes), head, rest)
            case Snapshot() as extract:
                if is_ignored(run, extract):
                    return rest
                return plan_extracted_history(spark, run, shape, extract, head, rest)
            case _:
                assert_never(self.changes)

    def restrict_feed(self, run: Run, feed: DataFrame) -> DataFrame:
        match self.changes:
            case Changes() as changes:
                return changes.touched(*self._laid_out_shape(run).entity).restrict(feed)
            case Snapshot():
                return feed
            case _:
                assert_never(self.changes)

    def count_outside(self, run: Run) -> None:
        """Nothing: a history has no partitions."""

    def rows_to_compare(self, table: DataFrame, inputs: Mapping[str, SourceRead]) -> tuple[DataFrame, DataFrame]:
        """The rows of the source, and the current rows: a history keeps what its source no longer tells."""
        own = self._shape(()).own
        current = table.where(F.col(quote(self.end_at)).isNull())
        source = self.changes.source if isinstance(self.changes, Changes) else self.changes.rows
        past = [name for name in table.columns if name.lower() in own or name.lower() not in fold(source.columns)]
        return source, current.drop(*past)

    def _shape(self, entity: tuple[str, ...]) -> Shape:
        return Shape(entity, self.start_at, self.end_at, self.tracked_columns)

    def _laid_out_shape(self, run: Run) -> Shape:
        """The columns of the history, of a completed run, whose table has the key of the history's rows."""
        return self._shape(Shape.entity_of(run.table.key_columns))


def _why_incomplete(asset: str, source: str) -> str:
    """What is wrong with the history of a source of which not every change is read."""
    return (
        f"'{asset}' keeps the history of '{source}', of which Read(start=..., exclude_operations=...) would leave "
        f"changes out, so that rows would end or begin that nobody has seen. Leave the options out."
    )
