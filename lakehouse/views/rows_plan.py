"""From touched keys to the rows of these keys: the view's own text, over those rows of its tables that they need."""

from collections.abc import Callable, Collection, Mapping

from lakehouse.delta.text import quote
from lakehouse.views.algebra import Place, Query, Scan, column
from lakehouse.views.plan import Image, KeyFacts, RowsPlan, SourceRows, Sql, TouchedPlan
from lakehouse.views.sql.look import look_through, own_alias
from lakehouse.views.steps.key_limits import KeyLimit, rows_of
from lakehouse.views.steps.planning import Planning, QueryFacts, scans_of
from lakehouse.views.steps.relations import text
from lakehouse.views.steps.restrictions import Restrictions
from lakehouse.views.steps.supersets import superset
from lakehouse.views.touched_plan import touch_columns


def rows_plan(query: Query, plan: TouchedPlan, keys: KeyFacts, small: Collection[str] = ()) -> RowsPlan:
    """How the rows of touched keys are computed.

    Args:
        query: The query.
        plan: The plan that gave the keys.
        keys: What is known of them.
        small: The tables that are read whole instead of by keys.
    """
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
    """How the rows of keys are computed if none of these is NULL or a constant of the text: with the fewest reads."""
    null_free = frozenset(touch_columns(query, plan.touch))
    facts = KeyFacts(plan.touched or "", null_free, lambda _column, _constant: False)
    return rows_plan(query, plan, facts, small)


def text_over(
    text_of_view: str, tables: Mapping[Place, str], rows_at: Callable[[Place], SourceRows | None] = lambda _: None
) -> Sql:
    """The text with a place for each table: one for all occurrences of which the text has the name once.

    Args:
        text_of_view: The text.
        tables: The tables that it names, in its order.
        rows_at: The rows that a place needs; None if it needs all.
    """
    parts: list[str | SourceRows] = []
    end = 0
    for place, table in tables.items():
        parts += [text_of_view[end : place.start], rows_at(place) or SourceRows(table, Image.NOW, ())]
        parts += [] if place.has_alias else [f" AS {quote(own_alias(text_of_view, place))}"]
        end = place.end
    return text(*(part if isinstance(part, str) else (part,) for part in (*parts, text_of_view[end:])))


def _rows_of_place(scans: list[Scan], any_of: Mapping[int, tuple[tuple[KeyLimit, ...], ...]]) -> SourceRows:
    """The rows that any occurrence needs; all rows if one needs all."""
    of_scans = [rows_of(scan, scan.names, Image.NOW, any_of.get(id(scan), ((),))) for scan in scans]
    alternatives = tuple(dict.fromkeys(limits for rows in of_scans for limits in rows.any_of))
    is_whole = any(not rows.any_of for rows in of_scans)
    return SourceRows(of_scans[0].table, Image.NOW, of_scans[0].columns, () if is_whole else alternatives)
