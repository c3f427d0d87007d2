"""How a view follows its tables, in words: how changes reach the touch columns, and what is read for the rows."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from re import compile as pattern

from lakehouse.views.algebra import FirstRows, Query
from lakehouse.views.analysis import Analysis, ByKeys, Whole
from lakehouse.views.plan import Image, KeyFacts, RowsPlan, SourceRows, Step, TouchedPlan
from lakehouse.views.planner import rows_of_any_keys, rows_plan, touched_plan
from lakehouse.views.steps.one_row import OneRow

_PLAIN = pattern(r"`([A-Za-z_]\w*)`")


@dataclass(frozen=True, slots=True)
class TableRead:
    """What is read of a table.

    Args:
        table: The table.
        by: The columns or expressions by which rows are sought; None if all rows are read.
        why_whole: Why all rows are read; None if rows are sought by keys.
    """

    table: str
    by: str | None
    why_whole: str | None = None

    def __str__(self) -> str:
        if self.by is None:
            return f"all of {self.table} ({self.why_whole})"
        return f"{self.table} by {self.by}"


@dataclass(frozen=True, slots=True)
class ChangePath:
    """How the changes of a table reach the touch columns.

    Args:
        table: The table.
        reads: What is read on the way; empty if the changes contain the keys themselves.
        reaches: Whether a change can reach the result.
        why_all_rows: Why a change needs all rows, as a clause; None if keys follow it.
    """

    table: str
    reads: tuple[TableRead, ...]
    reaches: bool = True
    why_all_rows: str | None = None

    def __str__(self) -> str:
        if self.why_all_rows is not None:
            return f"A change of {self.table} needs all rows, because {self.why_all_rows}."
        if not self.reaches:
            return f"Changes of {self.table} reach no row."
        if not self.reads:
            return f"Changes of {self.table} have the keys."
        return f"Changes of {self.table} reach the keys over {', then '.join(map(str, self.reads))}."


@dataclass(frozen=True, slots=True)
class Following:
    """How a view follows its tables.

    Args:
        touch: The columns by which changes are followed; empty if the result is one row.
        paths: How the changes of each table reach these columns.
        rows: What is read for the rows of touched keys.
        for_some_keys: What is read in addition if NULL or a constant is among the keys.
        notes: What in the text has no meaning, or no certain one, for a table, as sentences.
    """

    touch: tuple[str, ...]
    paths: tuple[ChangePath, ...]
    rows: tuple[TableRead, ...] = ()
    for_some_keys: tuple[TableRead, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of this in words, as sentences."""
        lines = [f"Changes are followed by the keys ({', '.join(self.touch)}).", *map(str, self.paths)]
        if self.rows:
            lines.append(f"The rows of the keys are computed from {', '.join(map(str, self.rows))}.")
        if self.for_some_keys:
            needed = ", ".join(map(str, self.for_some_keys))
            lines.append(f"If NULL or a constant of the query is among the keys, they also need {needed}.")
        return (*lines, *self.notes)


def how_followed(analysis: Analysis, why_no_sums: str | None, rows: RowsPlan | None = None) -> tuple[str, ...]:
    """How a text follows its tables, as sentences: by its sums, or by keys, and then why not by sums."""
    facts = analysis.facts
    if not facts.followed:
        return ()
    if why_no_sums is None:
        source = ", ".join(facts.followed)
        return (f"The table is kept by sums: what changes of {source} bring and take away is added to them.",)
    verdict = analysis.verdict
    if verdict.touch is None:
        return (f"All rows are computed if one of its tables moved, because {verdict}.",)
    above = verdict.above if isinstance(verdict, ByKeys) else None
    query = analysis.query if above is None or analysis.below is None else analysis.below.query
    following = follow(query, verdict.touch, facts.followed, facts.small, rows)
    if isinstance(verdict, Whole):
        tables = " or ".join(path.table for path in following.paths if path.reaches)
        return (f"All rows are computed if a row of {tables} moved, because {verdict}.", *following.notes)
    match above:
        case FirstRows(rows=number, left_out=left_out):
            of_table = "of the keys in the table, whose order it does not hold," if left_out else "of the table"
            last = (
                f"The first {number} rows are taken from those {of_table} and of the keys; all are computed if too "
                "many of them leave."
            )
        case OneRow():
            last = "Its one row follows from what it was, and from the rows of the keys before and after the changes."
        case None:
            last = f"The table is not kept by sums, because {why_no_sums}."
    return (*following.sentences, last)


def follow(
    query: Query,
    touch: tuple[str, ...],
    followed: Collection[str],
    small: Collection[str] = (),
    rows: RowsPlan | None = None,
) -> Following:
    """How a query follows its tables.

    Raises:
        NotFollowedError: Changes cannot be followed.
    """
    every = touched_plan(query, touch, followed, small)
    paths = tuple(
        ChangePath(table, (), why_all_rows=every.whole[table].clause)
        if table in every.whole
        else _path(table, touched_plan(query, touch, (table,), small), small)
        for table in followed
    )
    if every.touched is None or not touch:
        return Following(touch, paths, notes=query.notes)
    rows = rows or rows_of_any_keys(query, every, small)
    return Following(
        touch,
        paths,
        _reads(_places((), rows), rows.read_whole, small),
        _for_some_keys(query, every, rows, small),
        query.notes,
    )


def _path(table: str, plan: TouchedPlan, small: Collection[str]) -> ChangePath:
    return ChangePath(table, _reads(_places(plan.steps), plan.read_whole, small), plan.touched is not None)


def _for_some_keys(query: Query, plan: TouchedPlan, rows: RowsPlan, small: Collection[str]) -> tuple[TableRead, ...]:
    """The tables that are read whole only if NULL or a constant is among the keys."""
    facts = KeyFacts(plan.touched or "", frozenset(), lambda _column, _constant: True)
    whole = rows_plan(query, plan, facts, small).read_whole
    in_any_case = dict(rows.read_whole)
    return tuple(TableRead(table, None, why) for table, why in whole if table not in in_any_case)


def _places(steps: Iterable[Step], rows: RowsPlan | None = None) -> list[SourceRows]:
    """The places where tables are read as they are now (`Image.NOW`), in the order of reading."""
    parts = [part for step in steps for part in step.sql] + ([] if rows is None else [*rows.text])
    return [part for part in parts if isinstance(part, SourceRows) and part.image is Image.NOW]


def _reads(
    places: Iterable[SourceRows], read_whole: Iterable[tuple[str, str]], small: Collection[str]
) -> tuple[TableRead, ...]:
    """What is read at some places: each table once for each way in which its rows are sought."""
    why_whole = dict(read_whole)
    reads = dict[TableRead, None]()
    for place in places:
        if place.any_of:
            reads[TableRead(place.table, _sought_by(place))] = None
        else:
            why = "it is small" if place.table in small else why_whole.get(place.table, "no key limits it")
            reads[TableRead(place.table, None, why)] = None
    return tuple(reads)


def _sought_by(place: SourceRows) -> str:
    """The expressions by which rows are sought; alternatives are separated by "or"."""
    alternatives = dict.fromkeys(
        " and ".join(dict.fromkeys(_plain(text) for each in alternative for text, _ in each.pairs))
        for alternative in place.any_of
    )
    return " or ".join(alternatives)


def _plain(text: str) -> str:
    """An expression without the backticks around plain names."""
    return _PLAIN.sub(r"\1", text)
