"""Results that follow from their table and the rows of touched keys: the first of some rows, or one row of all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.delta.commit_info import count_of
from lakehouse.delta.limits import limits
from lakehouse.delta.policy import Refresh
from lakehouse.delta.text import fold, quote
from lakehouse.read.decide import NeedOfAllRows, PolicyAnswer, answer_by_policy
from lakehouse.read.touched_keys import SomeKeys
from lakehouse.spark.driver_rows import Local, matching, small
from lakehouse.views.algebra import FirstRows, substitute
from lakehouse.views.analysis import Analysis, ByKeys, Whole
from lakehouse.views.on_spark.bound_text import BoundText
from lakehouse.views.on_spark.computing import OfKeys, Unmoved, compute, rows_of_other_keys
from lakehouse.views.on_spark.row_after import row_after
from lakehouse.views.steps.one_row import OneRow
from lakehouse.views.steps.relations import print_sql

_IS_LAST, _NUMBER = "__is_last", "__number"


@dataclass(frozen=True, eq=False, slots=True)
class OfTable:
    """A result that follows from the rows of its table and those of touched keys.

    Args:
        rows: All rows of the result.
        of_keys: The rows of touched keys.
        how: What the rows are, in words.
    """

    rows: DataFrame
    of_keys: OfKeys
    how: str


def compute_above(bound: BoundText, refresh: Refresh, table: Callable[[], DataFrame]) -> Whole | OfTable | Unmoved:
    """The rows that a table is to hold, if its text takes the first of some rows, or makes one row of them.

    Args:
        bound: The text over its pinned tables.
        refresh: The policy of the table.
        table: Gives the rows of the table, which are those of the result before the changes.

    Raises:
        ViewError: Changes cannot be followed.
    """
    analysis, verdict = bound.analysis.below, bound.analysis.verdict
    assert analysis is not None, "the verdict says that the rows below are followed"
    assert isinstance(verdict, ByKeys), "the verdict says that the rows below are followed"
    below = BoundText(analysis, bound.execution)
    match compute(below, refresh, lambda: _number_of_values(verdict.above, table)):
        case OfKeys() as of_keys if (why := _too_many(of_keys, refresh)) is not None:
            return Whole(NeedOfAllRows.COST, why)
        case OfKeys() as of_keys:
            rows, how = _result(bound, below, verdict.above, of_keys, table())
            return Whole(NeedOfAllRows.SOME_KEYS, rows) if isinstance(rows, str) else OfTable(rows, of_keys, how)
        case Whole() | Unmoved() as computed:
            return computed


def _result(
    bound: BoundText, below: BoundText, above: FirstRows | OneRow | None, of_keys: OfKeys, table: DataFrame
) -> tuple[DataFrame | str, str]:
    """The rows of the result, or why they do not follow, as a clause; and what they are, in words."""
    columns = ", ".join(of_keys.touched.columns)
    match above:
        case OneRow() as one:
            rows = row_after(table, bound.rows.schema, below, of_keys, one)
            return rows, f"its one row, from what it was and the rows of touched keys ({columns}), before and after"
        case _:
            rows = first_rows(table, of_keys, bound.analysis, below)
            why = "too many of its first rows leave"
            return (why if rows is None else bound.as_declared(rows)), (
                f"its first rows, from those of the table and of touched keys ({columns})"
            )


def _number_of_values(above: FirstRows | OneRow | None, table: Callable[[], DataFrame]) -> int | None:
    """How many values, each of them a key, the one row counts; None if it counts no keys."""
    if not isinstance(above, OneRow) or above.number is None:
        return None
    rows = small(table().select(F.col(quote(above.number)).cast("bigint").alias(_NUMBER)))
    return rows.column(_NUMBER).to_pylist()[0] if rows is not None and rows.rows == 1 else None


def _too_many(of_keys: OfKeys, refresh: Refresh) -> str | None:
    """Why all rows take less work than the rows of this many keys, as a clause; None if they do not."""
    match of_keys.touched.touched:
        case SomeKeys(most=int() as number) if number > limits().driver_rows:
            is_chosen = answer_by_policy(NeedOfAllRows.COST, refresh) is not PolicyAnswer.BY_KEYS
            return f"{count_of(number, 'key')} are touched" if is_chosen else None
        case _:
            return None


def first_rows(table: DataFrame, of_keys: OfKeys, analysis: Analysis, below: BoundText) -> DataFrame | None:
    """The first rows of a result after changes; None if they do not follow from the table and the rows of touched keys.

    The rows of untouched keys that are not in the table come after its last row. So the first rows are known if as many
    rows as the LIMIT takes do not come after it, or if the table has fewer rows than that: then it held all rows.

    Yi, Yu, Yang, Xia and Chen, "Efficient maintenance of materialized top-k views" (2003).
    """
    top = analysis.query.top
    assert top is not None, "the verdict says that the result has some rows"
    assert top.first is not None, "the verdict says how many rows the result has"
    rows, number = of_keys.rows, top.first.rows
    columns = rows.columns[: len(analysis.query.outputs)]
    stored = small(table.select(*map(quote, columns))) if fold(columns) <= fold(table.columns) else None
    if stored is None:
        return None
    rest = matching(stored.frame, of_keys.touched.keys, of_keys.touched.columns, "left_anti")
    own = stored
    if top.first.left_out:
        own = _with_order(rest, of_keys, analysis, below)
        if own is None or (own.rows == 0 and stored.rows >= number):
            return None
        rest = own.frame
    candidates = rest.union(rows).withColumn(_IS_LAST, F.lit(False))
    if stored.rows >= number:
        last = own.frame.orderBy(*_order(analysis, backwards=True)).limit(1)
        candidates = candidates.union(last.withColumn(_IS_LAST, F.lit(True)))
    foremost = small(candidates.orderBy(*_order(analysis), _IS_LAST).limit(number + 1))
    if foremost is None:
        return None
    ends = foremost.column(_IS_LAST).to_pylist()
    if True in ends[:number]:
        return None
    places = [place for place, is_end in enumerate(ends) if not is_end]
    return foremost.take(places[:number]).select(columns).frame


def _with_order(rest: DataFrame, of_keys: OfKeys, analysis: Analysis, below: BoundText) -> Local | None:
    """The rows of the table whose keys are untouched, with the values that order them; None if these are not found.

    A key may have more rows than those in the table. These come after them, because the table holds the first rows.
    """
    remainder = small(rest)
    if remainder is None:
        return None
    if remainder.rows == 0:
        return Local.empty(of_keys.rows)
    keys = small(remainder.frame.select(*map(quote, of_keys.touched.columns)).distinct())
    rows = None if keys is None else rows_of_other_keys(below, keys)
    valued = None if rows is None else small(rows.orderBy(*_order(analysis)).limit(remainder.rows))
    return valued if valued is not None and valued.rows == remainder.rows else None


_DIRECTIONS: Mapping[tuple[bool, bool], Callable[[Column], Column]] = {
    (False, False): Column.asc_nulls_last,
    (False, True): Column.asc_nulls_first,
    (True, False): Column.desc_nulls_last,
    (True, True): Column.desc_nulls_first,
}
"""An order, by whether it is descending and whether NULLs come first."""


def _order(analysis: Analysis, *, backwards: bool = False) -> list[Column]:
    """The order of a LIMIT over the columns of the result, or the opposite order."""
    outputs = analysis.query.outputs
    names: dict[str, Expression] = {output.column: exp.column(output.name, quoted=True) for output in outputs}
    return [
        _DIRECTIONS[each.descending ^ backwards, each.nulls_first ^ backwards](
            F.expr(print_sql(substitute(each.value, names)))
        )
        for each in analysis.order
    ]
