"""From the text of a view to the rows that its table is to hold: those of touched keys, or all of them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField

from lakehouse.delta.commit_info import count_of
from lakehouse.delta.limits import limits
from lakehouse.delta.policy import Refresh
from lakehouse.delta.text import fold, quote, same
from lakehouse.read.content import Feed, SourceRead, tells_otherwise
from lakehouse.read.decide import NeedOfAllRows, PolicyAnswer, answer_by_policy
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import SomeKeys
from lakehouse.spark.driver_rows import Local, is_empty
from lakehouse.spark.exactness import are_exact, may_be_exact
from lakehouse.views.algebra import Query, Scan, nodes_of
from lakehouse.views.analysis import Whole
from lakehouse.views.on_spark.bound_text import BoundText, are_as_read, convert_keys, keeps_keys_apart
from lakehouse.views.on_spark.key_conditions import with_values
from lakehouse.views.on_spark.running import PinnedTable
from lakehouse.views.plan import CHANGES, Image, KeyFacts, RowsPlan, SourceRows, TouchedPlan, fuse
from lakehouse.views.planner import rows_of_any_keys, rows_plan, touch_columns
from lakehouse.views.view_text import NotFollowedError


@dataclass(frozen=True, eq=False, slots=True)
class OfKeys:
    """The rows of touched keys.

    Args:
        rows: The rows.
        touched: The keys.
        plan: How the rows were computed.
        need: Why followed tables are read whole; None if none is.
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
OwnedKeys: TypeAlias = Callable[[DataFrame, Sequence[str]], DataFrame]


def compute(
    bound: BoundText,
    refresh: Refresh,
    table_rows: Callable[[], int | None],
    *,
    is_replaceable: bool = False,
    owned: OwnedKeys = lambda keys, _: keys,
) -> Computed:
    """The rows that a table is to hold.

    Args:
        bound: The text over its pinned tables.
        refresh: The policy of the table.
        table_rows: Gives the number of rows in the table; None if it is not known.
        is_replaceable: Whether all rows may replace the table, which costs less than a comparison.
        owned: Leaves out keys whose rows are frozen, given the names of the keys' columns in the table.

    Raises:
        ViewError: Changes cannot be followed.
    """
    verdict = bound.analysis.verdict
    if verdict.touch is None:
        return Unmoved() if all(read.is_empty for read in bound.reads.values()) else verdict
    try:
        plan = bound.plan(verdict.touch)
        if plan.whole:
            return Whole(NeedOfAllRows.PLAN, str(plan.why_read_whole(bound.reads)))
        is_strict = answer_by_policy(NeedOfAllRows.PLAN, refresh) is PolicyAnswer.REFUSED
        if is_strict and (why := plan.why_read_whole(bound.reads)) is not None:
            return Whole(NeedOfAllRows.PLAN, why)
        match find_keys(bound, plan, owned):
            case None:
                return Unmoved()
            case str() as why:
                return Whole(NeedOfAllRows.PLAN, why)
            case keys if (number := number_of(keys)) == 0:
                return Unmoved()
            case keys if isinstance(verdict, Whole):
                return verdict
            case keys:
                whole = _too_many(number, refresh, table_rows(), is_replaceable=is_replaceable)
                if whole is None and is_strict:
                    why = rows_of_any_keys(bound.query, plan, bound.facts.small).why_read_whole(bound.reads)
                    whole = None if why is None else Whole(NeedOfAllRows.PLAN, why)
                return whole or _of_keys(bound, plan, keys, number)
    except NotFollowedError as error:
        return Whole(NeedOfAllRows.PLAN, error.reason.clause)


def _too_many(number: int, refresh: Refresh, of: int | None, *, is_replaceable: bool) -> Whole | None:
    """Why all rows take less work than the rows of this many keys; None if they do not."""
    limit = limits()
    share = limit.touched_share if number <= limit.driver_rows else limit.many_touched_share
    if is_replaceable and of is not None and of > limit.compared_rows:
        share = min(share, limit.replaced_share)
    if of is None or number <= of * share:
        return None
    if answer_by_policy(NeedOfAllRows.COST, refresh) is PolicyAnswer.BY_KEYS:
        return None
    return Whole(NeedOfAllRows.COST, f"{count_of(number, 'key')} of {count_of(of, 'row')} are touched")


def find_keys(
    bound: BoundText, plan: TouchedPlan, owned: OwnedKeys = lambda keys, _: keys
) -> Local | DataFrame | str | None:
    """The touched keys as the last step gives them; None if there are none; or why every key counts, as a clause."""
    if plan.touched is None:
        return None
    why = why_every_key(bound.query, plan, bound.execution.tables)
    if why is not None:
        return why
    bound.execution.run(fuse(plan.steps), lambda keys: owned(keys, plan.touch))
    return bound.execution.keys(plan.touched)


def rows_of_other_keys(bound: BoundText, keys: Local) -> DataFrame | None:
    """The rows of other keys than the touched ones, which have been found; None if they do not follow from the keys.

    Args:
        bound: The text over its pinned tables.
        keys: The other keys, under their names and types in the result.
    """
    touch = bound.analysis.verdict.touch
    assert touch, "touched keys have been found"
    plan = bound.plan(touch)
    assert plan.touched is not None, "touched keys have been found"
    kinds = {field.name.lower(): field for field in bound.execution.keys(plan.touched).schema.fields}
    fields = [kinds[column.lower()] for column in touch_columns(bound.query, touch)]
    if not all(
        keeps_keys_apart(key.dataType, field.dataType) for key, field in zip(keys.schema.fields, fields, strict=True)
    ):
        return None
    other = convert_keys(keys, touch, fields)
    assert isinstance(other, Local), "these keys are at the driver"
    execution = bound.execution.with_keys(plan.touched, other)
    computed = _of_keys(replace(bound, execution=execution), plan, other, other.rows)
    return computed.rows if isinstance(computed, OfKeys) else None


def _of_keys(bound: BoundText, plan: TouchedPlan, keys: Local | DataFrame, number: int) -> Whole | OfKeys:
    """The rows of the keys; `number` is how many keys there are."""
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
    """Why followed tables are read whole (in each run, or for NULL or a constant among these keys), and which."""
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
    """What is known of the keys: nothing, if they are not at the driver."""
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
    """The keys under the names and types of the result; None if two keys may become one there."""
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


_LIST = re.compile(r"SELECT (?:DISTINCT )?\w+(?:, \w+)* FROM")
"""A SELECT that only hands columns on from one relation to the next."""


def why_every_key(query: Query, plan: TouchedPlan, tables: Mapping[str, PinnedTable]) -> str | None:
    """Why keys that are found by the feeds may differ from those in the tables, as a clause; None if they do not."""
    for name, table in tables.items():
        if not isinstance(table, SourceRead) or not isinstance(table.content, Feed):
            continue
        used = _columns_of_changes(plan, name)
        fields = [field for field in table.content.frame.schema.fields if field.name.lower() in used]
        exact = [field for field in fields if may_be_exact(field)]
        if _may_differ(table.content, exact):
            return f"the change feed of '{table.name}' may tell other values than the table holds"
        for field in fields:
            if not may_be_exact(field) and _decides(query, plan, name, field.name):
                kind = field.dataType.simpleString()
                return f"keys are computed from the column {field.name} of '{table.name}', and no feed tells a {kind}"
    return None


def _columns_of_changes(plan: TouchedPlan, table: str) -> frozenset[str]:
    """The columns of a table's changes that the steps use, in lower case."""
    places = (place for step in plan.steps for place in step.sql if isinstance(place, SourceRows))
    of_changes = (place for place in places if place.table == table and place.image in CHANGES)
    return fold(column for place in of_changes for column in place.columns)


def _may_differ(feed: Feed, columns: Collection[StructField]) -> bool:
    """Whether the table may hold other values than the feed. Asks Spark only if rows at the driver leave it open."""
    images = feed.rows
    if isinstance(images, Local) and all(are_exact(images.column(one.name), one.dataType) for one in columns):
        return False
    return tells_otherwise(feed, columns)


def _decides(query: Query, plan: TouchedPlan, table: str, column: str) -> bool:
    """Whether a step computes with a column, and does not only list which rows moved. In doubt, a step does."""
    scans = (node for node in nodes_of(query.root) if isinstance(node, Scan) and node.table == table)
    uniques = {unique for scan in scans for unique, own in scan.names.items() if own.lower() == column.lower()}
    own_name = re.compile(rf"\b{re.escape(column)}\b", re.IGNORECASE)
    for step in plan.steps:
        places = [place for place in step.sql if isinstance(place, SourceRows) and place.table == table]
        pairs = (pair for place in places for each in place.any_of for one in each for pair in one.pairs)
        if any(own_name.search(expression) for expression, _ in pairs):
            return True
        if any(place.image is Image.MOVED for place in places):
            continue
        texts = " ".join(_LIST.sub("", part) for part in step.sql if isinstance(part, str))
        if uniques & {*step.columns, *re.findall(r"\w+", texts)}:
            return True
        if any(column.lower() in fold(place.columns) for place in places):
            return True
    return False
