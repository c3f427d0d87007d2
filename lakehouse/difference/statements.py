"""The statements that a write can become, and what each does; lakehouse/commit/execute.py executes them."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from pyspark.sql import DataFrame

from lakehouse.delta.commit_info import Rows, count_of
from lakehouse.read.run import Run


@dataclass(frozen=True, slots=True)
class Create:
    """The table does not exist: it is created with its rows in one commit; with column mapping, empty first."""

    rows: DataFrame
    compared: ClassVar[bool] = False
    counts: ClassVar[None] = None

    def describe(self) -> str:
        return "create"


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows are added; no row is read or changed."""

    rows: DataFrame
    why: str
    compared: bool = False
    counts: ClassVar[None] = None

    def describe(self) -> str:
        return self.why


@dataclass(frozen=True, slots=True)
class MergeRows:
    """Rows are inserted, updated and deleted by key, as a difference requires.

    Args:
        difference: The rows, each with its operation.
        counts: How many rows it inserts, updates and deletes.
        within: A condition that each differing row of the table fulfils; None if no such condition is known.
        few: Whether the rows are at the driver.
        nulls: Whether a key may be NULL.
    """

    difference: DataFrame
    counts: Rows
    within: str | None
    few: bool
    nulls: bool
    compared: ClassVar[bool] = True

    def describe(self) -> str:
        return f"merge of {_differing(self.counts)}"


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """The rows of the few keys that differ are replaced by `replaceWhere`: the effect of `MergeRows` in fewer jobs.

    `differing` are the rows that are new or changed, where a session allows no `MERGE` and writes other rows along with
    them; None if all rows are new or changed.
    """

    rows: DataFrame
    where: str
    counts: Rows
    differing: DataFrame | None = None
    compared: ClassVar[bool] = True

    def describe(self) -> str:
        return f"replace of {_differing(self.counts)}"


@dataclass(frozen=True, slots=True)
class ReplaceMatched:
    """Rows replace the rows that they match, by `replaceOn`: one join with the table, where a `MERGE` takes three."""

    rows: DataFrame
    on: str
    counts: Rows
    compared: ClassVar[bool] = True

    def describe(self) -> str:
        return f"replace of {_differing(self.counts)} in one pass"


@dataclass(frozen=True, slots=True)
class DeleteMatched:
    """Rows that have one of the keys are deleted, and nothing else is done."""

    keys: DataFrame
    counts: Rows
    within: str | None
    nulls: bool
    compared: ClassVar[bool] = True

    def describe(self) -> str:
        return f"delete of {_differing(self.counts)}"


@dataclass(frozen=True, slots=True)
class Replace:
    """All rows of the run's partitions are replaced by `replaceWhere`, or all rows of the table by an overwrite."""

    rows: DataFrame
    where: str | None
    compared: ClassVar[bool] = False
    counts: ClassVar[None] = None

    def describe(self) -> str:
        return f"replace where {self.where}" if self.where else "replace"


@dataclass(frozen=True, slots=True)
class MarkOnly:
    """No row differs: the commit only records its mark."""

    compared: ClassVar[bool] = True
    counts: ClassVar[None] = None

    def describe(self) -> str:
        return "position only: no row differs"


@dataclass(frozen=True, slots=True)
class Skip:
    """No row differs and no position moves: there is nothing to commit."""


Statement: TypeAlias = Create | Insert | MergeRows | ReplaceRows | ReplaceMatched | DeleteMatched | Replace | MarkOnly
"""Each has `compared` (the statement follows from a comparison with the table, so it holds only for what was compared),
`counts` (the rows that differ, where a comparison has counted them) and `describe()`."""


@dataclass(frozen=True, slots=True)
class WithQuarantine:
    """Two statements: one for the quarantine of a table, which is executed first, and one for the table."""

    run: Run
    first: Statement | Skip
    then: Statement | Skip


Planned: TypeAlias = Statement | Skip | WithQuarantine
"""What the plan of a write results in."""


def of_table(planned: Planned) -> Statement | Skip:
    """The statement of the table itself."""
    return planned.then if isinstance(planned, WithQuarantine) else planned


DELETE_WHERE_EXISTS = "spark.databricks.delta.delete.allowExistsSubquery"
"""Allows a `DELETE` with an `EXISTS` subquery, which Delta's own `replaceOn` uses too.

Off by default, because Delta evaluates the source twice, and a source with other rows the second time would delete
wrong rows. The source here is deterministic: a local relation, or a checkpoint.
"""
HELD_BY, TAKEN_BY = "__lakehouse_table", "__lakehouse_rows"
"""The aliases of the table and of the written rows in the condition of a `ReplaceMatched`."""


def replaced_rows(statement: Statement) -> Rows | None:
    """How many rows a replacement inserts, updates and deletes; None for others, which Delta counts correctly."""
    match statement:
        case ReplaceRows(counts=counts) | ReplaceMatched(counts=counts):
            return counts
        case _:
            return None


def _differing(rows: Rows) -> str:
    return f"the {count_of(rows.total, 'row')} that differ{'s' if rows.total == 1 else ''}"
