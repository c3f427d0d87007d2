"""What a view does with changes, in words: how they reach the touch columns, and what is read for the rows."""

from collections.abc import Collection

from lakehouse.views.algebra import Query
from lakehouse.views.plan import KeyFacts, RowsPlan, SourceRows, TouchedPlan
from lakehouse.views.rows_plan import rows_plan
from lakehouse.views.touched_plan import touched_plan


def explain_query(
    query: Query, touch: tuple[str, ...], followed: Collection[str], small: Collection[str] = ()
) -> tuple[str, ...]:
    """What a run would do with changes of each table, as sentences.

    Args:
        query: The query.
        touch: The columns of its result by which changes are followed.
        followed: The tables whose changes are followed.
        small: The tables that are read whole instead of by keys.

    Raises:
        ViewError: Changes cannot be followed.
    """
    by = f"keys ({', '.join(touch)})" if touch else "one row, which is computed of all rows if a row moved"
    plans = {table: touched_plan(query, touch, (table,), small) for table in followed}
    lines = [f"The table is kept by {by}."]
    lines += [_reach(table, plan) for table, plan in plans.items()]
    every = touched_plan(query, touch, followed, small)
    if every.touched is not None and touch:
        facts = KeyFacts(every.touched, frozenset(), lambda _column, _constant: True)
        lines += _reads(rows_plan(query, every, facts, small), small)
    lines += [
        f"A change of {table} needs all of {whole}: {reason}."
        for table, plan in plans.items()
        for whole, reason in plan.read_whole
    ]
    lines += [f"Old values are computed too: {sentence}." for sentence in every.values_before]
    return (*lines, *query.notes)


def _reach(table: str, plan: TouchedPlan) -> str:
    """How the changes of a table reach the touch columns."""
    if plan.touched is None:
        return f"A change of {table} reaches no row."
    steps = [f"{step.why}{_read_by(step.sql)}" for step in plan.steps]
    return f"A change of {table}: {'; then '.join(steps)}."


def _read_by(sql: tuple[object, ...]) -> str:
    """Which tables a step reads by which columns, in parentheses; nothing if it reads changes and keys alone."""
    places = [place for place in sql if isinstance(place, SourceRows) and place.any_of]
    read = dict.fromkeys(f"{place.table} by {_columns(place)}" for place in places)
    return f" ({', '.join(read)})" if read else ""


def _reads(plan: RowsPlan, small: Collection[str]) -> list[str]:
    """What is read for the rows of touched keys."""
    steps = [f"For that, {step.why}{_read_by(step.sql)}." for step in plan.steps]
    places = [place for place in plan.text if isinstance(place, SourceRows)]
    by_keys = dict.fromkeys(f"{place.table} by {_columns(place)}" for place in places if place.any_of)
    whole = dict.fromkeys(
        f"{place.table} whole{', because it is small' if place.table in small else ''}"
        for place in places
        if not place.any_of
    )
    return [f"Rows of touched keys read {', '.join([*by_keys, *whole])}.", *steps]


def _columns(place: SourceRows) -> str:
    """The expressions by which rows are restricted; alternatives are parted by "or"."""
    alternatives = dict.fromkeys(
        " and ".join(dict.fromkeys(_plain(text) for each in alternative for text, _ in each.pairs))
        for alternative in place.any_of
    )
    return " or ".join(alternatives)


def _plain(text: str) -> str:
    """A column without the quotes of SQL."""
    return text[1:-1] if text.startswith("`") and text.endswith("`") and "`" not in text[1:-1] else text
