"""`Snapshot`: the table holds exactly a full extract of its source, within the scope of the extract."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Self, final

from pyspark.sql import DataFrame, SparkSession

from lakehouse.conflicts.operations import Operation
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.definition import TRACK, digest
from lakehouse.cursor.extract_version import ExtractVersion, SnapshotVersion
from lakehouse.delta.commit_info import Rows
from lakehouse.delta.log import Head
from lakehouse.delta.text import Literal as Value
from lakehouse.delta.text import fold, literal, quote, same
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.statements import MarkOnly, Planned, Skip, Statement
from lakehouse.errors import DefinitionError, ExtractError, WriteError
from lakehouse.read.asset import PastRows
from lakehouse.read.content import SourceRead
from lakehouse.read.run import Run
from lakehouse.read.touched import require
from lakehouse.spark.driver_rows import is_empty, matching, small
from lakehouse.spark.fitting import check_padding, conform
from lakehouse.spark.progress import Message, tell
from lakehouse.spark.types import column_types
from lakehouse.writes.extract import (
    corrected_mark,
    few_rows,
    fill,
    former_rows,
    has_scope,
    refuse_null_keys,
    version_after,
)
from lakehouse.writes.stated import Stated, one_row_a_key, plan_rows
from lakehouse.writes.write import Basis, Declaration, refuse_other, rest_of, without_new_columns


@final
@dataclass(frozen=True, slots=True)
class Snapshot(Stated):
    """The table holds exactly this extract, the whole of a source at one version; within the scope, if there is one.

    An extract that is older than the table's is refused. The same version again replaces what it wrote, and the same
    rows again write nothing. A column that the extract lacks keeps its stored values, and is NULL for new keys.

    Args:
        rows: The extract: one row for each key of the table.
        version: The version of the extract: an int, a date or a datetime (UTC if it has no zone), always of one type.
        scope: The columns that say for which part of the table the extract is complete. That part is every stored row
            whose values in these columns occur in the extract. A mapping lists the delivered values of each column, so
            a value without rows deletes its rows. Empty: the extract is complete for the whole table.
        max_deleted: The largest share of the stored rows in scope that one extract may delete, from 0 to 1; None for
            any. An extract without rows is held back unless the share is 1.
        on_older: What to do with an extract that is older than the table's.

    Raises:
        TypeError: `rows` is not a Spark DataFrame, or the version has another type.
        ValueError: A share outside 0 to 1, another word for `on_older`, a scope without values or with a column twice.

    AUTO CDC from snapshots: R28 to R30 (docs/reference/scd.md).
    """

    rows: DataFrame
    version: SnapshotVersion
    scope: str | Sequence[str] | Mapping[str, Sequence[Value]] = ()
    max_deleted: float | None = None
    on_older: Literal["fail", "ignore"] = "fail"

    needs_key = True
    past = PastRows.DELIVERED
    why_all_rows = "a row that is left out of an extract would be deleted, as if it were gone at the source"

    def __post_init__(self) -> None:
        refuse_other(self, "rows", DataFrame, "a DataFrame of Spark")
        ExtractVersion.of(self.version)
        if self.max_deleted is not None and not 0 <= self.max_deleted <= 1:
            raise ValueError(f"max_deleted is a share of rows from 0 to 1, not {self.max_deleted}.")
        if self.on_older not in ("fail", "ignore"):
            raise ValueError(f"on_older is 'fail' or 'ignore', not {self.on_older!r}.")
        if len(fold(self.scope_columns)) < len(self.scope_columns):
            raise ValueError(f"scope names a column once, not {', '.join(self.scope_columns)}.")
        if isinstance(self.scope, Mapping):
            for name, values in self.scope.items():
                if isinstance(values, str | bytes) or not values:
                    raise ValueError(f"scope lists the delivered values of {name}, not {values!r}.")

    @property
    def scope_columns(self) -> tuple[str, ...]:
        return (self.scope,) if isinstance(self.scope, str) else tuple(self.scope)

    @classmethod
    def refuse(cls, asset: Declaration) -> None:
        """Refuses partitions and changes, because an extract is delivered whole.

        Raises:
            DefinitionError: The asset has partitions, or reads changes.
        """
        if asset.is_partitioned or asset.changes:
            raise DefinitionError(
                f"Asset '{asset.name}' returns a Snapshot, an extract of all that there is, but has partitions or "
                f"reads Changes. Leave partitions_def out, give Snapshot(scope=...), and annotate its inputs with "
                f"DataFrame."
            )

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.CHANGE

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        return "the rows in the scope of the extract are compared with it, and those that differ are written"

    def answers_for(self, changes: SourceRead) -> bool:
        return False

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Self]:
        write = self.restrict(spark, run)
        mark = run.cursor.mark if isinstance(run.cursor, Known) else None
        if mark is not None and TRACK in (mark.definition or {}):
            raise WriteError(
                f"The table of '{run.name}' was kept by a History, and a Snapshot would leave its current rows alone.",
                "Nothing was written. Return History(Snapshot(...)), or write the Snapshot to another asset.",
            )
        return take_extract(run, write), replace(write, rows=refuse_null_keys(write.rows, run.table.key_columns))

    def restrict(self, spark: Callable[[], SparkSession], run: Run) -> Self:
        """The extract without columns that the table lacks, if the policy ignores them."""
        return replace(self, rows=without_new_columns(spark, run, self.rows, self.scope_columns))

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Planned:
        if is_ignored(run, self):
            return rest_of(run)
        return plan_rows(spark, run, self, head)

    def align(self, spark: SparkSession, run: Run, stored: DataFrame) -> DataFrame:
        key = run.table.key_columns
        check_padding(run.name, self.rows, stored.schema, (*key, *self.scope_columns))
        return fill(run, self.rows, stored, key)

    def with_rows(self, rows: DataFrame) -> Self:
        return replace(self, rows=rows)

    def new_rows(self, run: Run) -> DataFrame:
        return one_row_a_key(run, self.rows, None)

    def compare(
        self, spark: SparkSession, run: Run, rows: DataFrame, stored: DataFrame, head: Head, rest: MarkOnly | Skip
    ) -> Statement | Skip:
        of_scope = scope_of(self, rows)
        within = of_scope(stored)

        def judge(differing: Rows) -> None:
            refuse_deletions(run, self, lambda: differing.deleted or 0, within)

        concerned = within
        if self.scope_columns:
            key = run.table.key_columns
            back = former_rows(run, matching(within, rows, key, "left_anti"), key, of_scope, "TRUE", head)
            rows = rows if back is None else rows.unionByName(conform(back, rows.schema))
            # also the stored rows outside of the scope whose keys the extract brings into it
            concerned = within.unionByName(matching(matching(stored, rows, key), within, key, "left_anti"))
        return statement_by_key(run, rows, None, concerned, head, rest, judge)


def take_extract(run: Run, write: Snapshot) -> Run:
    """The run with the version of the extract that the table holds once the run has committed.

    Raises:
        ExtractError (UNKNOWN_EXTRACT): The order of the extract and the table's is not known.
        ExtractError (OLDER_EXTRACT): The extract is older than the table's, and `on_older="fail"`.
        ExtractError (DELETIONS_HELD_BACK): The extract has no row.
        ReadError (COLUMN_MISSING): The extract lacks a column of the key or of the scope.
        WriteError (BROKEN_PROMISE): The extract has a row outside of the scope that it names.
    """
    version = ExtractVersion.of(write.version)
    run = run.with_facts(extract=version_after(run, version, refuses_older=write.on_older == "fail"))
    again = corrected_mark(run)
    if run.facts.extract != version:
        return run.with_facts(scope=None if again is None else again.scope)
    _refuse_misfit(run, write)
    run = run.with_facts(scope=_scope_digest(write))
    # A later correction must find in the log that this scope was delivered, too.
    return replace(run, must_record=run.must_record or (again is not None and not has_scope(again, run)))


def is_ignored(run: Run, write: Snapshot) -> bool:
    """Whether the extract is ignored, because it is older than the table's; the run's log then says so."""
    if run.facts.extract == ExtractVersion.of(write.version):
        return False
    tell(Message(f"{run.name} holds extract {run.facts.extract} and ignores the older extract {write.version}."))
    return True


def _refuse_misfit(run: Run, write: Snapshot) -> None:
    """Refuses an extract without rows, or with missing columns or rows outside of its scope, before it is compared."""
    require(write.rows.columns, (*run.table.key_columns, *write.scope_columns), f"The extract of '{run.name}'")
    if write.max_deleted != 1 and "max_deleted" not in run.request.allowed and is_empty(write.rows):
        raise ExtractError.deletions_held_back(run.name, str(run.facts.extract), "has no row")
    if isinstance(write.scope, Mapping):
        beyond = write.rows.where(f"NOT ({_scope_condition(write, write.rows)})")
        for row in beyond.select(*map(quote, write.scope_columns)).take(1):
            values = ", ".join(f"{name}={row[name]}" for name in write.scope_columns)
            raise WriteError.broken_promise(
                run.name,
                f"(extract {run.facts.extract}) has a row with {values}, which its scope does not name",
                "Name every value that was delivered in Snapshot(scope=...), or leave such rows out.",
            )


def _scope_digest(write: Snapshot) -> str | None:
    """A digest of the scope; None if its values are too many, or cannot be written as literals."""
    if isinstance(write.scope, Mapping):
        return digest({name.lower(): _distinct_values(values) for name, values in write.scope.items()})
    columns = sorted(write.scope_columns, key=str.lower)
    if not columns:
        return digest({})
    rows = small(write.rows.select(*map(quote, columns)).distinct())
    values = None if rows is None else rows.values(columns)
    if values is None:
        return None
    return digest(
        {", ".join(columns).lower(): _distinct_values(value[0] if len(value) == 1 else value for value in values)}
    )


def _distinct_values(values: Iterable[object]) -> list[str | list[str]]:
    """Each value once, in an order that does not depend on the extract: a text as it is, any other with its type."""
    each = (value if isinstance(value, str) else [type(value).__name__, str(value)] for value in values)
    return [json.loads(text) for text in sorted({json.dumps(value) for value in each})]


def scope_of(write: Snapshot, rows: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """A function from stored rows to those within the scope of the extract.

    Raises:
        ReadError (COLUMN_MISSING): The stored rows lack a column of the scope.
    """
    columns = write.scope_columns
    if isinstance(write.scope, Mapping) or not columns:
        values = None
    else:
        values = few_rows(rows.select(*map(quote, columns)).distinct())

    def within(stored: DataFrame) -> DataFrame:
        require(stored.columns, columns, "The table")
        if values is not None:
            return matching(stored, values, columns)
        return stored.where(_scope_condition(write, stored)) if columns else stored

    return within


def _scope_condition(write: Snapshot, rows: DataFrame) -> str:
    """The condition that a row has one of the named values in each column of the scope."""
    assert isinstance(write.scope, Mapping)
    kinds = column_types(rows.schema)
    columns = (
        " OR ".join(
            same(quote(name), f"CAST({literal(value, kind)} AS {kind})", nulls=True)  # else Spark casts the column
            for value in values
            for kind in [kinds[name.lower()]]
        )
        for name, values in write.scope.items()
    )
    return " AND ".join(f"({column})" for column in columns)


def refuse_deletions(run: Run, write: Snapshot, deleted: Callable[[], int], stored: DataFrame) -> None:
    """Holds back an extract that would delete more than it may; counts the deletions only if there is a limit.

    Raises:
        ExtractError (DELETIONS_HELD_BACK): The deletions are more than the share `max_deleted` of `stored`.
    """
    if write.max_deleted is None or "max_deleted" in run.request.allowed:
        return
    count = deleted()
    rows = stored.count() if count else 0
    if count > Fraction(str(write.max_deleted)) * rows:
        share = f"more than max_deleted={write.max_deleted} lets it delete"
        lacks = f"lacks {count:,} of the {rows:,} rows in its scope, {share}"
        raise ExtractError.deletions_held_back(run.name, str(run.facts.extract), lacks)
