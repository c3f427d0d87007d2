"""From a query to the steps that find the keys whose rows may differ."""

from collections.abc import Collection
from dataclasses import replace

from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import Query
from lakehouse.views.plan import TouchedPlan
from lakehouse.views.steps.deltas import delta
from lakehouse.views.steps.planning import Planning, QueryFacts
from lakehouse.views.steps.relations import Relation, select
from lakehouse.views.steps.supersets import superset
from lakehouse.views.view_text import NotFollowedError, Reason


def touched_plan(
    query: Query, touch: tuple[str, ...], changed: Collection[str], small: Collection[str] = ()
) -> TouchedPlan:
    """How the values of the touch columns are found in whose rows the result may differ.

    Args:
        query: The query.
        touch: Columns of its result, by their names there.
        changed: The tables that may have changed.
        small: The tables that are read whole instead of by keys.

    Raises:
        ViewError: The query has no such column.
        NotFollowedError: No keys follow the changes of any of the tables.
    """
    keys = touch_columns(query, touch)
    try:
        return _plan(query, touch, keys, changed, small)
    except NotFollowedError:
        whole = dict[str, Reason]()
        for table in sorted(changed) if len(changed) > 1 else ():
            try:
                _plan(query, touch, keys, (table,), small)
            except NotFollowedError as of_table:
                whole[table] = of_table.reason
        if not 0 < len(whole) < len(changed):
            raise
        return replace(_plan(query, touch, keys, set(changed) - whole.keys(), small), whole=whole)


def _plan(
    query: Query, touch: tuple[str, ...], keys: tuple[str, ...], changed: Collection[str], small: Collection[str]
) -> TouchedPlan:
    """The plan, if keys follow the changes of all tables that may have changed."""
    planning = Planning(QueryFacts.of(query, changed, small), "touched_", superset)
    planning.require_said(keys)
    rows, touched = delta(planning, query.root, frozenset(keys)), None
    if rows is not None:
        distinct = tuple(dict.fromkeys(keys))
        _, touched = planning.step(Relation(select(rows, distinct).sql, distinct), "the touched keys")
    return TouchedPlan(tuple(planning.steps), touched, touch, planning.whole_reads())


def touch_columns(query: Query, touch: tuple[str, ...]) -> tuple[str, ...]:
    """The unique names of columns of the result."""
    columns = {output.name.lower(): output.column for output in query.outputs}
    for name in touch:
        if name.lower() not in columns:
            raise ViewError(
                "VIEW_UNKNOWN_COLUMN",
                f"the query gives no column {name}, only {', '.join(output.name for output in query.outputs)}",
                None,
                "Name a column of the result.",
            )
    return tuple(columns[name.lower()] for name in touch)
