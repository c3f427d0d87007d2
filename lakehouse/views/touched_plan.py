"""From a query to the steps that find the keys whose rows may differ."""

from collections.abc import Collection

from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import Node, Query
from lakehouse.views.plan import Image, TouchedPlan
from lakehouse.views.steps.deltas import delta
from lakehouse.views.steps.exact_rows import ExactRows
from lakehouse.views.steps.key_limits import KeyLimit
from lakehouse.views.steps.planning import EVER, Planning, QueryFacts, State
from lakehouse.views.steps.relations import Relation, select
from lakehouse.views.steps.restrictions import Restrictions
from lakehouse.views.steps.supersets import superset


class Readings(Planning):
    """The three readings, each by its file."""

    def delta(self, node: Node, want: frozenset[str]) -> Relation | None:
        return delta(self, node, want)

    def superset(
        self, node: Node, want: frozenset[str], limits: tuple[KeyLimit, ...], images: tuple[Image, ...]
    ) -> Relation:
        return superset(self, node, want, limits, images)

    def rows(self, node: Node, limits: tuple[KeyLimit, ...], state: State) -> Relation:
        if state is State.NONE:
            return ExactRows(self, {}, state).of(node)
        restrictions = Restrictions(self, EVER)
        restrictions.limit(node, limits)
        restrictions.say_read_whole(node)
        return ExactRows(self, restrictions.any_of, state).of(node)


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
        ViewError: The query has no such column, or no step can compute it.
    """
    planning = Readings(QueryFacts.of(query, changed, small), "touched_")
    keys = touch_columns(query, touch)
    planning.refuse_values(keys)
    rows = planning.delta(query.root, frozenset(keys))
    touched = None
    if rows is not None:
        distinct = tuple(dict.fromkeys(keys))
        _, touched = planning.step(Relation(select(rows, distinct).sql, distinct), "the touched keys")
    return TouchedPlan(tuple(planning.steps), touched, touch, tuple(planning.values_before), planning.whole_reads())


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
