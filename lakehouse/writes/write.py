"""What every kind of write declares of itself, and the steps that are the same for all kinds."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import UnionType
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame, SparkSession

from lakehouse.conflicts.operations import Operation
from lakehouse.delta.log import Head
from lakehouse.delta.table import Read, Table
from lakehouse.delta.text import fold
from lakehouse.difference.statements import MarkOnly, Planned, Skip, of_table
from lakehouse.difference.withheld import refuse_many_changes
from lakehouse.errors import DefinitionError, WriteError
from lakehouse.read.asset import PastRows
from lakehouse.read.content import SourceRead
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.scd.events import Events
from lakehouse.spark.progress import phase
from lakehouse.spark.table_version import TableVersion


@dataclass(frozen=True, slots=True)
class Declaration:
    """The parts of an asset's definition for which a kind of write may refuse it.

    Args:
        name: The asset key, its parts joined by "/".
        table: What the asset declares of its table.
        is_partitioned: Whether the asset has Dagster partitions.
        changes: How each input that is read as changes is read, by the name of the input.
    """

    name: str
    table: Table
    is_partitioned: bool
    changes: Mapping[str, Read]


class Basis(Enum):
    """What a run reads of its sources: their changes, changes that are partly from an archive, or all of a source."""

    CHANGES = auto()
    ARCHIVE = auto()
    EVERYTHING = auto()


class Write(Protocol):
    """What an asset returns: which rows of the table it is about, and what these are to be.

    Each kind of write is one class, which answers every question about the kind, and has its name in `KINDS`
    (lakehouse/dagster/code_location.py). A kind that leaves out an answer without a default does not pass the type
    checker.
    Users import it from `lakehouse` (three lists in lakehouse/__init__.py; website/api.py gives its page).

    A write of rows extends `Stated`, as `Merge` does. A new kind of write needs a new statement, next to those of
    lakehouse/difference/statements.py, only if none of them fits.
    """

    needs_key: ClassVar[bool]
    """Whether the table must declare a key, because rows are found by the key."""
    past: ClassVar[PastRows]
    """What becomes of the rows of earlier runs."""
    why_all_rows: ClassVar[str | None]
    """Why no row of its result may be left out of the table, as a clause; None if a row may."""
    all_changes: ClassVar[tuple[str, str] | None] = None
    """What it does that needs every change of a source, and what to do instead; None if changes may be left out."""
    ends_early: ClassVar[bool] = False
    """Whether a run whose sources have no changes may end before the asset's function is called."""
    follows_snapshot_inputs: ClassVar[bool] = False
    """Whether a snapshot input that moved is a reason to compute the result again."""
    has_query: ClassVar[bool] = False
    """Whether a query gives the rows. Then the touched keys are counted before a row is computed, and a change of a
    source's columns is a reason to compute the result again."""

    @classmethod
    def refuse(cls, asset: Declaration) -> None:
        """Refuses a definition under which no run could write, when it is loaded and in each run; none by default.

        Raises:
            DefinitionError: The definition could never work.
        """

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        """The operation of a run that has the most conflicts. If all rows are new, the run appends blindly instead."""
        ...

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        """What the write would do to a table that exists, as a clause."""
        ...

    def answers_for(self, changes: SourceRead) -> bool:
        """Whether the result covers what the changes of an input touched."""
        ...

    def complete_without_rows(self, run: Run) -> Run | None:
        """The run with what the write adds to its mark, if no row is needed to know that the write changes nothing."""
        return None

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> "tuple[Run, Write]":
        """The run with what the write adds to its mark, and the write that is planned, with what its plan needs.

        The session is asked for only if rows or columns are needed.

        Raises:
            LakehouseError: The write cannot be made from what was read.
        """
        ...

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Planned:
        """The statement that makes the write true of the table at `head`; see the function `plan`."""
        ...

    def restrict_feed(self, run: Run, feed: DataFrame) -> DataFrame:
        """The rows of the table's own feed that the write is about; the run's partitions restrict them separately."""
        return feed

    def count_outside(self, run: Run) -> int | None:
        """How many rows of the result the run's partitions leave out; None if they are not counted."""
        return None

    def rows_to_compare(self, table: DataFrame, inputs: Mapping[str, SourceRead]) -> tuple[DataFrame, DataFrame]:
        """The rows that the result must have, and the rows of the table that must equal them, if all is recomputed.

        The inputs are all rows of each source, by the name of the input.
        """
        ...


@phase("plan")
def plan(spark: SparkSession, run: Run, write: Write, head: Head | None) -> Planned:
    """The statement that makes a write true of the table at `head`. Every attempt plans anew; the inputs stay pinned.

    Raises:
        WriteError (SCHEMA): The result does not fit the table.
        WriteError (TOO_MANY_CHANGES): It changes a larger share of the table than its policy allows.
        DefinitionError (MISSING_KEY): A write by key to a table without a key.
    """
    planned = write.plan(spark, run, head)
    refuse_many_changes(spark, run, of_table(planned), head)
    return planned


def complete(spark: Callable[[], SparkSession], run: Run, write: Write) -> tuple[Run, Write]:
    """The run and the write with all that both need before they are planned.

    The session is asked for only if rows or columns are needed.

    Raises:
        WriteError (LOST_CHANGES): Changes of an input would count as read without being in the table.
        WriteError: An input leaves changes out that the write needs.
        LakehouseError: The write cannot be made from what was read.
        DefinitionError (CONDITION): The text of an expectation is not a condition on one row.
        DefinitionError: An expectation leaves rows out that the write needs.
    """
    refuse_definition(type(write), Declaration(run.name, run.table, run.slice is not None, run.asset.read_options))
    if run.table.expectations:
        from lakehouse.views.sql.conditions import refuse_conditions  # it imports sqlglot

        refuse_conditions(run.name, run.table.expectations)
        refuse_left_out_rows(run.name, run.table, type(write))
    refuse_lost_changes(run, write)
    for changes in run.changes:
        if write.all_changes is not None and run.leaves_out(changes.name) and write.answers_for(changes):
            raise WriteError(_partial(run.name, changes.name, *write.all_changes), "Nothing was written.")
    return write.complete(spark, run)


def refuse_definition(kind: type[Write], asset: Declaration) -> None:
    """Refuses a definition under which no run of a kind could write.

    Raises:
        DefinitionError: The definition could never work.
        DefinitionError (MISSING_KEY): The table has no key, and the write is by key.
    """
    if asset.table.owns is not None:
        from lakehouse.views.on_spark.owned_rows import refuse_owned  # it imports sqlglot

        refuse_owned(asset.name, asset.table, kind.past, kind.why_all_rows, is_partitioned=asset.is_partitioned)
    kind.refuse(asset)
    if kind.needs_key and not asset.table.key_columns:
        raise DefinitionError.missing_key(asset.name, kind.__name__)


def refuse_partial_reads(kind: type[Write], asset: Declaration) -> None:
    """Refuses inputs that all leave changes out, if the write needs every change of its source.

    Raises:
        DefinitionError: Every input leaves changes out.
    """
    partial = [name for name, read in asset.changes.items() if not read.is_whole]
    if kind.all_changes is not None and partial and len(partial) == len(asset.changes):
        raise DefinitionError(_partial(asset.name, partial[0], *kind.all_changes))


def _partial(asset: str, source: str, does: str, remedy: str) -> str:
    left_out = f"'{source}', of which Read(start=..., exclude_operations=...) would leave changes out"
    return f"'{asset}' {does} {left_out}. {remedy}"


def without_new_columns(
    spark: Callable[[], SparkSession], run: Run, rows: DataFrame, more: Collection[str] = ()
) -> DataFrame:
    """The rows without columns that the table lacks, if the policy ignores such columns."""
    stored = stored_columns(spark, run)
    if stored is None:
        return rows
    columns = stored | fold(more)
    new = [column for column in rows.columns if column.lower() not in columns]
    return rows.drop(*new) if new else rows


def stored_columns(spark: Callable[[], SparkSession], run: Run) -> frozenset[str] | None:
    """The columns that a result may have if the policy ignores new ones, in lower case; None if any may be new."""
    if run.asset.policy.new_columns != "ignore" or run.head is None:
        return None
    stored = TableVersion.of(spark(), run.ref, run.head).rows().columns
    return frozenset(fold((*stored, *run.table.key_columns, *run.table.partition_columns)))


def refuse_left_out_rows(asset: str, table: Table, kind: type[Write]) -> None:
    """Refuses expectations that leave rows out where the write needs all rows, or where rows could not come back.

    Raises:
        DefinitionError: The write needs the rows that are left out, or they could not come back from a quarantine.
    """
    for each in table.expectations:
        by_key = each.quarantines or each.is_of_key
        if (each.leaves_out or each.is_of_key) and kind.why_all_rows is not None:
            why, remedy = kind.why_all_rows, "Leave the rows out in an asset upstream of this one"
        elif by_key and kind.past is PastRows.APPENDED:
            why, remedy = "an Append keeps each row as it was added", "Return a Merge"
        elif by_key and not table.key_columns:
            why, remedy = "its table declares no key, by which rows are found", "Declare Table(key=...)"
        else:
            continue
        raise DefinitionError(
            f"The expectation {each.check_name} of asset '{asset}' has on_failure='{each.on_failure}', but {why}. "
            f"{remedy}, or write on_failure='warn' or 'fail'."
        )


def refuse_lost_changes(run: Run, write: Write) -> None:
    """Refuses a result with which changes of an input would count as read without being in the table.

    Raises:
        WriteError (LOST_CHANGES): An input has changes, and the result is not about what they touched.
    """
    for changes in run.changes:
        if not changes.is_empty and not write.answers_for(changes):
            answered = tuple(each.name for each in run.changes if write.answers_for(each))
            raise WriteError.lost_changes(run.name, changes.name, str(changes.range), type(write).__name__, answered)


def rest_of(run: Run, *, recompute: bool = False) -> MarkOnly | Skip:
    """What remains to be done if no row differs: a mark, if one is due or has to record that sums were recomputed."""
    return MarkOnly() if recompute or run.is_due() else Skip()


def refuse_other(write: object, name: str, kind: type | UnionType, words: str) -> None:
    """Refuses an argument of another type when it is passed, rather than when its table is written.

    Raises:
        TypeError: The argument has another type.
    """
    value = getattr(write, name)
    if not isinstance(value, kind):
        package = type(value).__module__.partition(".")[0]
        given = type(value).__name__ if package in ("builtins", "lakehouse") else f"{type(value).__name__} of {package}"
        instead = " Give its `rows`." if isinstance(value, Events | Touched) and kind is DataFrame else ""
        raise TypeError(f"The argument `{name}` of {type(write).__name__} is {words}, and not: {given}.{instead}")
