"""From a query to its plans: the steps that find the keys whose rows may differ, and the text over the keys' rows."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from lakehouse.delta.text import quote
from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import Place, Query, Scan, column
from lakehouse.views.plan import Image, KeyFacts, RowsPlan, SourceRows, Sql, TouchedPlan
from lakehouse.views.sql.look import look_through, own_alias
from lakehouse.views.steps.deltas import delta
from lakehouse.views.steps.planning import Planning, QueryFacts, scans_of
from lakehouse.views.steps.relations import KeyLimit, Relation, rows_of, select, text
from lakehouse.views.steps.restrictions import Restrictions
from lakehouse.views.steps.supersets import superset
from lakehouse.views.view_text import NotFollowedError, Reason


def touched_plan(
    query: Query, touch: tuple[str, ...], changed: Collection[str], small: Collection[str] = ()
) -> TouchedPlan:
    """How to find the values of touch columns in the rows where the result may differ, if some tables have changed.

    Raises:
        ViewError: The query has no such column.
        NotFollowedError: No keys follow the changes of any of the tables.
    """
    keys = touch_columns(query, touch)
    changed = {scan.table for scan in scans_of(query.root)} & set(changed)
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
        return replace(_plan(query, touch, keys, changed - whole.keys(), small), whole=whole)


def _plan(
    query: Query, touch: tuple[str, ...], keys: tuple[str, ...], changed: Collection[str], small: Collection[str]
) -> TouchedPlan:
    """The plan, if keys follow the changes of all tables that may have changed."""
    planning = Planning(QueryFacts.of(query, changed, small), "touched_", superset)
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


def rows_plan(query: Query, plan: TouchedPlan, keys: KeyFacts, small: Collection[str] = ()) -> RowsPlan:
    """How the rows of touched keys are computed."""
    names = touch_columns(query, plan.touch)
    planning = Planning(QueryFacts.of(query, (), small), "needed_", superset)
    restrictions = Restrictions(planning, (Image.NOW,), keys)
    limit = KeyLimit(keys.step, tuple((column(name), name) for name in dict.fromkeys(names)))
    restrictions.limit(query.root, (limit,) if names else ())
    restrictions.say_read_whole(query.root)
    places: dict[Place, list[Scan]] = {}
    for scan in scans_of(query.root):
        places.setdefault(scan.place, []).append(scan)
    sql = text_over(
        query.text,
        look_through(query.text).tables,
        lambda place: _rows_of_place(places[place], restrictions.any_of),
    )
    return RowsPlan(tuple(planning.steps), sql, planning.whole_reads(sql))


def rows_of_any_keys(query: Query, plan: TouchedPlan, small: Collection[str] = ()) -> RowsPlan:
    """How the rows of keys are computed if no key is NULL or a constant of the text: with the fewest reads."""
    null_free = frozenset(touch_columns(query, plan.touch))
    facts = KeyFacts(plan.touched or "", null_free, lambda _column, _constant: False)
    return rows_plan(query, plan, facts, small)


def text_over(
    text_of_view: str, tables: Mapping[Place, str], rows_at: Callable[[Place], SourceRows | None] = lambda _: None
) -> Sql:
    """The text with a place for each name of a table: occurrences that come from one name in the text share a place."""
    parts: list[str | SourceRows] = []
    end = 0
    for place, table in tables.items():
        parts += [text_of_view[end : place.start], rows_at(place) or SourceRows(table, Image.NOW, ())]
        parts += [] if place.has_alias else [f" AS {quote(own_alias(text_of_view, place))}"]
        end = place.end
    return text(*(part if isinstance(part, str) else (part,) for part in (*parts, text_of_view[end:])))


def _rows_of_place(scans: list[Scan], any_of: Mapping[int, tuple[tuple[KeyLimit, ...], ...]]) -> SourceRows:
    """The rows that any of the occurrences at a place needs; all rows if one occurrence needs all."""
    of_scans = [rows_of(scan, scan.names, Image.NOW, any_of.get(id(scan), ((),))) for scan in scans]
    alternatives = tuple(dict.fromkeys(limits for rows in of_scans for limits in rows.any_of))
    is_whole = any(not rows.any_of for rows in of_scans)
    return SourceRows(of_scans[0].table, Image.NOW, of_scans[0].columns, () if is_whole else alternatives)
