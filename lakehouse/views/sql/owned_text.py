"""Reads the condition of `Table(owns=...)` for one moment: its columns, and its edges, which move with the days.

An edge is computed here, in UTC, and written as a literal: no setting of a session moves it, Delta can skip files by
it, and a later moment never gives an earlier edge.
"""

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import cast

from sqlglot import exp
from sqlglot.expressions.core import Expr

from lakehouse.delta.owned import Owned, RowCondition, moment_of
from lakehouse.delta.text import fold, literal
from lakehouse.errors import DefinitionError
from lakehouse.views.sql.conditions import parse_condition
from lakehouse.views.sql.parsing import Parsed
from lakehouse.views.sql.tokens import Token

_MOMENTS = frozenset({"today", "now"})
_EDGE = "an edge is :today or :now in date_sub, add_months, trunc or year, less a constant"
_MOVES = (
    ":today and :now stand to the right of >= or >, beside AND and OR alone, so that the days that pass take rows out "
    "of the condition and bring none in"
)
_BETWEEN = "Delta fails at BETWEEN on a partition column, and leaves out no file by it: write >= and <="
"""Delta casts a partition column in `replaceWhere`, and Spark then finds a column without a type inside BETWEEN."""


def read_owned(asset: str, text: str, moment: datetime = moment_of(0)) -> RowCondition:
    """The condition of the rows that a table owns, or that a run thaws.

    Raises:
        DefinitionError (CONDITION): It is not a condition on one row, or rows could come back into it as time passes.
    """
    parsed = parse_condition(text, _MOMENTS)
    why = parsed if isinstance(parsed, str) else _why_not_owned(parsed)
    if isinstance(parsed, str) or why is not None:
        raise DefinitionError.condition(asset, text, str(why))
    columns = [*parsed.tree.find_all(exp.Column)]
    try:
        pieces = _pieces(parsed, {column.this.meta["start"] for column in columns}, moment)
        return RowCondition(text, tuple(pieces), fold(column.name for column in columns), frozenset(_moving(parsed)))
    except (ValueError, OverflowError) as error:
        raise DefinitionError.condition(asset, text, _EDGE) from error


def owned_at(asset: str, owns: str, moment: datetime, thaw: str | None) -> Owned:
    """The rows that a run which began at `moment` may rewrite.

    Raises:
        DefinitionError (CONDITION): As in `read_owned`.
    """
    return Owned(read_owned(asset, owns, moment), moment, None if thaw is None else read_owned(asset, thaw, moment))


def _why_not_owned(parsed: Parsed) -> str | None:
    """Why a condition on one row cannot decide which rows are owned, as a clause; None if it can."""
    columns = [*parsed.tree.find_all(exp.Column)]
    if any(column.table for column in columns) or parsed.tree.find(exp.Lambda, exp.Dot) is not None:
        return "it goes by whole columns: it has a field of one, or a function within a function"
    if not all(map(_only_leaves, parsed.tree.find_all(exp.Placeholder))):
        return _MOVES
    if parsed.tree.find(exp.Between) is not None:
        return _BETWEEN
    return None if columns else "it names no column"


def _only_leaves(parameter: Expr) -> bool:
    """Whether a later moment can only make the condition true of fewer rows."""
    at, comparison = parameter, parameter.parent
    while comparison is not None and not isinstance(comparison, exp.GTE | exp.GT):
        at, comparison = comparison, comparison.parent
    if comparison is None or at is not comparison.expression:
        return False
    around = comparison.parent
    while isinstance(around, exp.And | exp.Or | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Select)


def _moving(parsed: Parsed) -> Iterator[tuple[str, str]]:
    """The columns that are compared with an edge that moves, each with the parameter that moves the edge."""
    for comparison in parsed.tree.find_all(exp.GTE, exp.GT):
        for edge in comparison.expression.find_all(exp.Placeholder):
            yield from ((column.name.lower(), str(edge.this)) for column in comparison.this.find_all(exp.Column))


def _pieces(parsed: Parsed, starts: set[int], moment: datetime) -> Iterator[str]:
    """The text with the values of its edges, cut before each column, without what `parse_condition` puts around it."""
    own, piece, place = parsed.tokens[2:-3], "", 0
    at = own[0].start
    while place < len(own):
        token, place = own[place], place + 1
        if token.is_symbol(">"):
            first = place + own[place].is_symbol("=")
            end = _end_of_edge(own, first)
            if any(colon.is_symbol(":") and name.text in _MOMENTS for colon, name in pairwise(own[first:end])):
                edge = parse_condition(parsed.text[own[first].start : own[end - 1].end], _MOMENTS)
                if isinstance(edge, str):
                    raise ValueError(edge)
                piece += parsed.text[at : own[first].start] + literal(_value(edge.tree.expressions[0], moment))
                at, place = own[end - 1].end, end
        elif token.start in starts:
            yield piece + parsed.text[at : token.start]
            piece, at = "", token.start
    yield piece + parsed.text[at : own[-1].end]


def _end_of_edge(own: tuple[Token, ...], place: int) -> int:
    """The place of the token after the right side of a comparison."""
    depth = 0
    while place < len(own) and not (depth == 0 and own[place].is_word("AND", "OR")):
        depth += {"(": 1, ")": -1}.get(own[place].text, 0)
        if depth < 0:
            break
        place += 1
    return place


def _value(node: Expr, moment: datetime) -> date | int:
    """The value of an edge. No function that an edge may have falls as its argument rises.

    Raises:
        ValueError, OverflowError: It is not an edge, or there is no such day.
    """
    match node:
        case exp.Placeholder():
            return moment if node.this == "now" else moment.date()
        case exp.Paren():
            return _value(cast("Expr", node.this), moment)
        case exp.Add() | exp.Sub():
            sign, name = -1 if isinstance(node, exp.Sub) else 1, "add"
            point, by = _value(cast("Expr", node.this), moment), [cast("Expr", node.expression)]
        case exp.Anonymous(expressions=[of, *by]):
            sign, name = 1, str(node.this).lower()
            point = _value(cast("Expr", of), moment)
        case _:
            raise ValueError(_EDGE)
    match name, point, by:
        case "add", datetime(), [exp.Interval() as span]:
            return point + sign * _span(span)
        case "add", int(), [number]:
            return point + sign * _whole(number)
        case "year", date(), []:
            return point.year
        case _, datetime() | int(), _:
            raise ValueError(_EDGE)
        case "add", day, [days]:
            return day + sign * timedelta(_whole(days))
        case "date_sub", day, [days]:
            return day - timedelta(_whole(days))
        case "add_months", day, [months]:
            years, month = divmod(day.month - 1 + _whole(months), 12)
            return date(day.year + years, month + 1, min(day.day, monthrange(day.year + years, month + 1)[1]))
        case "trunc", day, [unit] if unit.name.upper() in ("MONTH", "YEAR"):
            return day.replace(day=1) if unit.name.upper() == "MONTH" else day.replace(month=1, day=1)
        case _:
            raise ValueError(_EDGE)


def _span(interval: exp.Interval) -> timedelta:
    """The length of an interval of days, hours, minutes or seconds; other units are refused."""
    unit = str(interval.args["unit"].name).lower().removesuffix("s") + "s"
    if unit not in ("days", "hours", "minutes", "seconds"):
        raise ValueError(_EDGE)
    return timedelta(**{unit: _whole(cast("Expr", interval.this))})


def _whole(node: Expr) -> int:
    """The value of a whole number, or of a text that is one."""
    if isinstance(node, exp.Neg):
        return -_whole(cast("Expr", node.this))
    return int(node.name if isinstance(node, exp.Literal) else "")
