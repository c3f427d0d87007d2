"""From the text of a view to the rows that its table is to hold: those of touched keys, or all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame

from lakehouse.delta.commit_info import count_of
from lakehouse.delta.limits import limits
from lakehouse.delta.policy import Refresh
from lakehouse.delta.text import quote, same
from lakehouse.read.decide import NeedOfAllRows, PolicyAnswer, answer_by_policy
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import SomeKeys
from lakehouse.spark.driver_rows import Local, is_empty
from lakehouse.views.analysis import Whole
from lakehouse.views.on_spark.bound_text import BoundText
from lakehouse.views.on_spark.inexact import why_every_key
from lakehouse.views.on_spark.output_columns import are_as_read, convert_keys, keeps_keys_apart
from lakehouse.views.on_spark.parameters import with_values
from lakehouse.views.plan import KeyFacts, RowsPlan, TouchedPlan
from lakehouse.views.rows_plan import rows_of_any_keys, rows_plan
from lakehouse.views.touched_plan import touch_columns
from lakehouse.views.view_text import NotFollowedError


@dataclass(frozen=True, eq=False, slots=True)
class OfKeys:
    """The rows of touched keys.

    Args:
        rows: The rows.
        touched: The keys.
        plan: How they were computed.
        need: Why all of a followed table is read; None if none is.
        read_whole: Which tables are read whole, and why, as a clause; None if none is.
    """

    rows: DataFrame
    touched: Touched
    plan: RowsPlan
    need: NeedOfAllRows | None = None
    read_whole: str | None = None


@dataclass(frozen=True, slots=True)
class Unmoved:
    """No row of the result can differ."""


Computed: TypeAlias = Whole | OfKeys | Unmoved


def compute(bound: BoundText, key: tuple[str, ...], refresh: Refresh, table_rows: Callable[[], int | None]) -> Computed:
    """The rows that a table is to hold.

    Args:
        bound: The text over its pinned tables.
        key: The key of the table; empty if it has none, and then all rows are computed if one may differ.
        refresh: The policy of the table.
        table_rows: Says how many rows the table holds; None if nobody knows.

    Raises:
        ViewError: Changes cannot be followed.
    """
    if bound.whole is not None:
        return bound.whole
    verdict = bound.analysis.verdict(key, has_key=bool(key))
    if verdict.touch is None:
        return Unmoved() if all(read.is_empty for read in bound.reads.values()) else verdict
    try:
        plan = bound.plan(verdict.touch.columns)
        if plan.whole:
            return Whole(NeedOfAllRows.PLAN, str(plan.why_read_whole(bound.reads)))
        is_strict = answer_by_policy(NeedOfAllRows.PLAN, refresh) is PolicyAnswer.REFUSED
        if is_strict and (why := plan.why_read_whole(bound.reads)) is not None:
            return Whole(NeedOfAllRows.PLAN, why)
        match find_keys(bound, plan):
            case None:
                return Unmoved()
            case str() as why:
                return Whole(NeedOfAllRows.PLAN, why)
            case keys if (number := number_of(keys)) == 0:
                return Unmoved()
            case keys if isinstance(verdict, Whole):
                return verdict
            case keys:
                whole = _too_many(number, refresh, table_rows)
                if whole is None and is_strict:
                    why = rows_of_any_keys(bound.query, plan, bound.facts.small).why_read_whole(bound.reads)
                    whole = None if why is None else Whole(NeedOfAllRows.PLAN, why)
                return whole or _of_keys(bound, plan, keys, number)
    except NotFollowedError as error:
        return Whole(NeedOfAllRows.PLAN, error.reason.clause)


def _too_many(number: int, refresh: Refresh, table_rows: Callable[[], int | None]) -> Whole | None:
    """Why all rows take less work than those of so many keys; None if they do not."""
    of, limit = table_rows(), limits()
    share = limit.touched_share if number <= limit.driver_rows else limit.many_touched_share
    if of is None or number <= of * share:
        return None
    if answer_by_policy(NeedOfAllRows.COST, refresh) is PolicyAnswer.BY_KEYS:
        return None
    return Whole(NeedOfAllRows.COST, f"{count_of(number, 'key')} of {count_of(of, 'row')} are touched")


def find_keys(bound: BoundText, plan: TouchedPlan) -> Local | DataFrame | str | None:
    """The touched keys as the last step gives them; None if there are none; a clause that says why every key counts."""
    if plan.touched is None:
        return None
    why = why_every_key(bound.query, plan, bound.execution.tables)
    if why is not None:
        return why
    bound.execution.run(plan.steps)
    return bound.execution.keys(plan.touched)


def _of_keys(bound: BoundText, plan: TouchedPlan, keys: Local | DataFrame, number: int) -> Whole | OfKeys:
    """The rows of the keys, of which there are so many."""
    needed = rows_plan(bound.query, plan, _facts(bound, plan, keys), bound.facts.small)
    bound.execution.run(needed.steps)
    result = bound.execution.frame(needed.text)
    if not are_as_read(result.columns, bound.analysis.given):
        return Whole(NeedOfAllRows.PLAN, "Spark gives its columns in another order than its text was read in")
    rows = bound.as_declared(result)
    touched = touched_keys(bound, plan, rows, keys, number)
    if touched is None:
        return Whole(NeedOfAllRows.PLAN, "two keys may be one in the declared type of their column")
    return OfKeys(touched.restrict(rows), touched, needed, *_read_whole(bound, plan, needed))


def _read_whole(bound: BoundText, plan: TouchedPlan, needed: RowsPlan) -> tuple[NeedOfAllRows | None, str | None]:
    """Which followed tables are read whole: in each run, or because NULL or a constant is among these keys."""
    clauses = [why for each in (plan, needed) if (why := each.why_read_whole(bound.reads)) is not None]
    if not clauses:
        return None, None
    needed_by_all = rows_of_any_keys(bound.query, plan, bound.facts.small)
    in_each_run = any(each.why_read_whole(bound.reads) is not None for each in (plan, needed_by_all))
    return NeedOfAllRows.PLAN if in_each_run else NeedOfAllRows.SOME_KEYS, " and ".join(clauses)


def number_of(keys: Local | DataFrame) -> int:
    """How many keys there are."""
    return keys.rows if isinstance(keys, Local) else keys.count()


def _facts(bound: BoundText, plan: TouchedPlan, keys: Local | DataFrame) -> KeyFacts:
    """What is known of the keys. Of keys that are not at the driver nothing is known."""
    assert plan.touched is not None, "these keys are of a step"
    if not isinstance(keys, Local):
        return KeyFacts(plan.touched, frozenset(), lambda _column, _constant: True)
    columns = touch_columns(bound.query, plan.touch)
    null_free = frozenset(column for column in columns if not keys.has_nulls([column]))

    def holds(column: str, constant: str) -> bool:
        given = with_values(constant, bound.text.args)
        return not is_empty(keys.frame.where(same(quote(column), f"({given})")))

    return KeyFacts(plan.touched, null_free, holds)


def touched_keys(
    bound: BoundText, plan: TouchedPlan, rows: DataFrame, keys: Local | DataFrame, number: int
) -> Touched | None:
    """The keys under the names and types of the result; None if two of them may be one there."""
    places = {output.name.lower(): place for place, output in enumerate(bound.query.outputs)}
    fields = [rows.schema.fields[places[name.lower()]] for name in plan.touch]
    columns = touch_columns(bound.query, plan.touch)
    kinds = {field.name.lower(): field.dataType for field in keys.schema.fields}
    if not all(
        keeps_keys_apart(kinds[column.lower()], field.dataType) for column, field in zip(columns, fields, strict=True)
    ):
        return None
    names = tuple(field.name for field in fields)
    some = SomeKeys(names, convert_keys(keys, columns, fields), number)
    return Touched(names, some, None, tuple(bound.reads.values()))
