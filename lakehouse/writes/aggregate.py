"""`Aggregate`: counts and sums that a run adds to, instead of recomputing the groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from logging import INFO, WARNING
from typing import Any, Self, cast, final

from pyspark.sql import DataFrame, SparkSession

from lakehouse.conflicts.operations import Operation
from lakehouse.delta.log import Head
from lakehouse.delta.text import fold, quote
from lakehouse.difference.expectations import judge_statement
from lakehouse.difference.statements import Planned
from lakehouse.errors import WriteError
from lakehouse.read.asset import PastRows
from lakehouse.read.changes import Changes, read_of
from lakehouse.read.content import SourceRead
from lakehouse.read.decide import STRICT_REMEDY, NeedOfAllRows, PolicyAnswer, answer_by_policy
from lakehouse.read.run import Run
from lakehouse.spark.progress import Message, tell
from lakehouse.writes.overwrite import Overwrite
from lakehouse.writes.stated import plan_rows
from lakehouse.writes.sums import Sums, add
from lakehouse.writes.write import Basis, Declaration, Write, stored_columns


@final
@dataclass(frozen=True)
class Aggregate(Write):
    """The table holds one row for every group of the source's rows: how many rows there are, and sums over them.

    A run adds what the changes bring and subtracts what they take away, so it does not read the whole source. If the
    table may not hold the sums at its position, because another program wrote to it, it was restored or the sums were
    redefined, all sums are recomputed and compared.

    Args:
        changes: The source's changes, read without `start`, `exclude_operations` and `exclude_metadata`.
        by: The columns by which rows are grouped: the table's key. As a mapping, these columns, each with its SQL
            expression.
        count: The column that counts the rows of a group. A group without rows leaves the table.
        sums: Columns, each with the SQL expression over a row whose values are summed: whole numbers or decimals. NULL
            adds nothing, and the sum of nothing is 0.
        where: A SQL condition on the rows that count; None for all of them.

    Raises:
        ValueError: No column to group by, two columns with one name, or SQL that depends on more than a row's columns.
        TypeError: An expression is not SQL text, or `sums` is not a mapping.

    Sums of changes: Gupta and Mumick, "Maintenance of Materialized Views" (1995), the counting algorithm.
    """

    changes: Changes
    by: str | Sequence[str] | Mapping[str, str]
    count: str
    sums: Mapping[str, str] = field(default_factory=dict[str, str])
    where: str | None = None

    needs_key = True
    past = PastRows.COMPUTED
    why_all_rows = "the sums of a group that is left out could not be added to later"
    all_changes = ("sums all rows of", "Say by Aggregate(where=...) which rows count, or return a Merge.")

    def __post_init__(self) -> None:
        if not isinstance(cast("Any", self.sums), Mapping):
            raise TypeError(f"An Aggregate's sums are a mapping from columns to SQL texts, not {self.sums!r}.")
        names = [name.lower() for name in (*self.groups, self.count, *self.sums)]
        if not self.groups or len(set(names)) < len(names):
            raise ValueError(f"An Aggregate has columns to group by, and each name once, not {', '.join(names)}.")
        from lakehouse.views.sql.conditions import why_not_of_the_row  # it imports sqlglot

        for sql in cast("tuple[Any, ...]", self.computation.expressions):
            if not isinstance(sql, str):
                raise TypeError(f"An Aggregate's groups, sums and condition are SQL texts, not {sql!r}.")
            if (why := why_not_of_the_row(sql)) is not None:
                raise ValueError(f"An Aggregate goes by the columns of one row, and {sql!r} may not: {why}.")

    @property
    def groups(self) -> dict[str, str]:
        """The columns of the groups, each with its SQL expression."""
        if isinstance(self.by, Mapping):
            return {name: _close_comment(sql) for name, sql in self.by.items()}
        return {name: quote(name) for name in ((self.by,) if isinstance(self.by, str) else self.by)}

    @cached_property
    def computation(self) -> Sums:
        """The counts and sums, as SQL."""
        sums = {name: _close_comment(sql) for name, sql in self.sums.items()}
        return Sums(read_of(self.changes), self.groups, self.count, sums, self.where and _close_comment(self.where))

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.CHANGE

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        if basis is not Basis.CHANGES:
            return "all sums are computed, and those that differ are written"
        return "what changed is added to the sums of its groups"

    def answers_for(self, changes: SourceRead) -> bool:
        return changes.name == self.changes.name

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Self]:
        stored = stored_columns(spark, run)
        sums = {name: sql for name, sql in self.sums.items() if stored is None or name.lower() in stored}
        write = replace(self, sums=sums)
        return run.with_facts(sums=write.computation.digest), write

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Planned:
        """Adds to the sums if the table is known to hold them, and otherwise recomputes and compares them."""
        self._refuse_other_groups(run, head)
        sums = self.computation
        sums.check(run.name)
        if head is None or self.changes.is_initial:
            return plan_rows(spark, run, Overwrite(sums.rows), head)
        return add_or_recompute(spark, run, sums, head, Overwrite(sums.rows))

    def _refuse_other_groups(self, run: Run, head: Head | None) -> None:
        """Refuses groups that are not the table's key, and partition columns that are not groups."""
        groups, key = fold(self.groups), run.table.key_columns
        if groups != fold(key):
            raise WriteError(
                f"'{run.name}' groups by {', '.join(self.groups)}, and the key of its table is {', '.join(key)}.",
                "Nothing was written. Make them the same.",
            )
        partitions = run.table.partitioned_by(head)
        if not groups >= fold(partitions):
            raise WriteError(
                f"The table of '{run.name}' is partitioned by {', '.join(partitions)}, and its groups are by "
                f"{', '.join(self.groups)}.",
                "Nothing was written. Partition it by columns of the groups.",
            )

    def rows_to_compare(self, table: DataFrame, inputs: Mapping[str, SourceRead]) -> tuple[DataFrame, DataFrame]:
        return self.computation.rows, table


def add_or_recompute(spark: SparkSession, run: Run, sums: Sums, head: Head, whole: Overwrite) -> Planned:
    """The statement that adds the changes to the table's sums, or that compares all of them with the whole result.

    Raises:
        WriteError: All sums would be recomputed, and the policy forbids that.
    """
    match add(spark, run, sums, head):
        case str() as reason:
            pass
        case statement:
            return judge_statement(run, statement)
    answer = answer_by_policy(NeedOfAllRows.READ, run.asset.policy.chosen_refresh)
    if answer is PolicyAnswer.REFUSED:
        raise WriteError(
            f"All sums of '{run.name}' would have to be recomputed: {reason}.", f"Nothing was written. {STRICT_REMEDY}"
        )
    level = WARNING if answer is PolicyAnswer.WARNED else INFO
    tell(Message(f"{run.name} recomputes all its sums: {reason}.", level))
    return plan_rows(spark, run, whole, head, recompute=True)


def _close_comment(sql: str) -> str:
    """SQL that can be put into other SQL, because a comment in its last line ends with that line."""
    return f"{sql}\n" if isinstance(cast("Any", sql), str) and "--" in sql else sql
