"""When a text is one row of all rows that follows from what it was, and from the rows that went and came."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.delta.text import quote
from lakehouse.views.adding import is_exact
from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Node,
    Query,
    Scan,
    Windows,
    column,
    columns_in,
    expressions,
    nodes_of,
)
from lakehouse.views.sql.look import look_through
from lakehouse.views.sql.parsing import CALLED, Parsed
from lakehouse.views.sql.scopes import type_of
from lakehouse.views.sql.tokens import Token


class AggregateFunction(Enum):
    """What a column makes of the values of all rows."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Total:
    """A column of one row of all rows.

    Args:
        name: Its name.
        function: What it makes of the values.
        value: The column of the rows that holds the values; None of count(*).
        is_null: Whether it is NULL of no value.
    """

    name: str
    function: AggregateFunction
    value: str | None
    is_null: bool


@dataclass(frozen=True, slots=True)
class OneRow:
    """One row of all rows.

    Args:
        rows: The text of these rows.
        names: The names of their columns, in order.
        totals: The columns of the one row, in order.
    """

    rows: str
    names: tuple[str, ...]
    totals: tuple[Total, ...]


class _NotOneRowError(Exception):
    """Why a query is no such row, as a clause."""


def one_row(query: Query, keys: Mapping[str, tuple[str, ...]]) -> OneRow | str:
    """The row that a query is; else why it does not follow from what it was, as a clause.

    Args:
        query: The query.
        keys: The keys of tables, where they have one.
    """
    try:
        return _one_row(query, keys)
    except _NotOneRowError as why:
        return str(why)


def _one_row(query: Query, keys: Mapping[str, tuple[str, ...]]) -> OneRow:
    parsed, root = look_through(query.text).parsed, query.root
    assert parsed is not None, "the text has been read"
    new: Mapping[str, Expression] = root.new if isinstance(root, Extend) else dict[str, Expression]()
    aggregation = root.node if isinstance(root, Extend) else root
    tree = parsed.tree
    if not isinstance(tree, exp.Select) or not query.offer or not isinstance(aggregation, Aggregation):
        raise _NotOneRowError("its outermost part is more than an aggregate of all rows")
    _require_repeatable(query, aggregation.node)
    totals, values = list[Total](), dict[str, str]()
    for item, output in zip(tree.expressions, query.outputs, strict=True):
        call, is_null = _call_of(item.unalias())
        aggregate = _aggregate(new.get(output.column, column(output.column)), aggregation.aggregates)
        kind = None if aggregate is None else _kind_of(query, aggregate)
        if call is None or aggregate is None or kind is None:
            raise _NotOneRowError(f"{output.name} is no plain count, sum of exact numbers, minimum or maximum")
        value = None
        if kind is not AggregateFunction.COUNT or not isinstance(aggregate.this, exp.Star | exp.Literal):
            value = f"value_{len(values) + 1}"
            values[value] = _within(parsed, call)
        totals.append(Total(output.name, kind, value, is_null and kind is not AggregateFunction.COUNT))
    columns = {unique: query.offer[unique] for unique in _by_which_followed(query, aggregation.node, keys)}
    named = values | _names(columns.values(), values)
    selected = ", ".join(f"{sql} AS {quote(name)}" for name, sql in named.items())
    return OneRow(_rows_of(parsed, tree, selected), tuple(named), tuple(totals))


def _aggregate(computation: Expression, aggregates: Mapping[str, Expression]) -> Expression | None:
    """The aggregate that a column of the result is, or of which it takes a value for NULL."""
    made: Expression = computation.this if isinstance(computation, exp.Coalesce) else computation
    return aggregates.get(made.name) if isinstance(made, exp.Column) else None


_EXACT_BELOW = (exp.Count, exp.Min, exp.Max)


def _require_repeatable(query: Query, rows: Node) -> None:
    """Refuses rows that may be others if Spark computes them again: of ties, or of sums of inexact numbers."""
    for node in nodes_of(rows):
        if isinstance(node, Windows):
            raise _NotOneRowError("a window decides which rows there are, and may do so anew")
        for each in node.aggregates.values() if isinstance(node, Aggregation) else ():
            bare = each.this if isinstance(each, exp.Filter) else each
            argument = bare.this.expressions[0] if isinstance(bare.this, exp.Distinct) else bare.this
            is_sum = isinstance(bare, exp.Sum) and is_exact(query, argument)
            is_decimal = isinstance(bare, exp.Avg) and (type_of(argument, query.types) or "").startswith("decimal")
            if not isinstance(bare, _EXACT_BELOW) and not is_sum and not is_decimal:
                raise _NotOneRowError(f"{bare.key}() below it may give another value when it is computed again")


def _call_of(item: Expr) -> tuple[Expr | None, bool]:
    """The call of an aggregate in a column of SELECT, if the column is one, and whether it may be NULL."""
    is_zero_of_none = isinstance(item, exp.Coalesce) and item.expressions == [exp.Literal.number(0)]
    call = item.this if is_zero_of_none else item
    return (call if call.meta.get(CALLED) in {each.value for each in AggregateFunction} else None), not is_zero_of_none


_ORDERED = {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "string", "boolean"}
"""Types whose equal values are the same value."""


def _kind_of(query: Query, aggregate: Expression) -> AggregateFunction | None:
    """What an aggregate makes of all rows; None if it follows from no change."""
    argument = aggregate.this
    if isinstance(argument, exp.Distinct) or aggregate.expressions or aggregate.find(exp.Select) is not None:
        return None
    kind = type_of(argument, query.types) or ""
    match aggregate:
        case exp.Count():
            return AggregateFunction.COUNT
        case exp.Sum() if is_exact(query, argument):
            return AggregateFunction.SUM
        case exp.Min() if kind in _ORDERED or kind.startswith("decimal"):
            return AggregateFunction.MIN
        case exp.Max() if kind in _ORDERED or kind.startswith("decimal"):
            return AggregateFunction.MAX
        case _:
            return None


def _within(parsed: Parsed, call: Expr) -> str:
    """The words between the brackets of a call."""
    behind = [token for token in parsed.tokens if token.start > call.meta["end"]]
    depth = 0
    for token in behind:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return f"{parsed.text[behind[0].end : token.start]}\n"
    raise _NotOneRowError("a call has no brackets")


def _by_which_followed(query: Query, rows: Node, keys: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The columns that FROM offers by which changes may be followed: of tables their keys, and what is compared.

    Without any of these all columns are.
    """
    scans = [node for node in nodes_of(rows) if isinstance(node, Scan)]
    of_tables = frozenset[str]().union(*(scan.names for scan in scans))
    compared = columns_in(*(each for node in nodes_of(rows) for each in expressions(node)))
    of_keys = {
        unique
        for scan in scans
        for unique, name in scan.names.items()
        if name.lower() in {each.lower() for each in keys.get(scan.table, ())}
    }
    chosen = tuple(each for each in query.offer if each not in of_tables or each in compared | of_keys)
    return chosen or tuple(query.offer)


def _names(columns: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Columns as SQL names them, each under a name of its own."""
    named = dict[str, str]()
    for sql in columns:
        stem = name = sql.rpartition("`.`")[2].strip("`").lower()
        while name in named or name in taken:
            name = f"{stem}_{len(named)}"
        named[name] = sql
    return named


def _rows_of(parsed: Parsed, tree: exp.Select, selected: str) -> str:
    """The text that selects something else of the same rows."""
    if tree.args.get("hint") or any(tree.args.get(name) for name in ("sort", "cluster", "distribute", "windows")):
        raise _NotOneRowError("a hint, or another order than ORDER BY, stands in its outermost part")
    words = [token for token, depth in _with_depth(parsed) if depth == 0]
    first = next(place for place, token in enumerate(words) if token.is_word("SELECT"))
    begin = next((place for place, token in enumerate(words) if place > first and token.is_word("FROM")), None)
    if begin is None:
        raise _NotOneRowError("it has no FROM")
    rest = words[begin:]
    while rest[-1].is_symbol(";"):
        rest.pop()
    if len(rest) > 2 and rest[-2].is_word("LIMIT"):
        rest = rest[:-2]
    if tree.args.get("order"):
        rest = rest[: max(place for place, token in enumerate(rest) if token.is_word("ORDER"))]
    text = parsed.text
    return f"{text[: words[first].end]} {selected} {text[words[begin].start : rest[-1].end]}"


def _with_depth(parsed: Parsed) -> Iterator[tuple[Token, int]]:
    """The tokens of a text, each with the number of brackets around it; a bracket stands outside of itself."""
    depth = 0
    for token in parsed.tokens:
        depth -= token.is_symbol(")")
        yield token, depth
        depth += token.is_symbol("(")


def have_same_rows(rows: Query, query: Query) -> bool:
    """Whether the text of the rows is read as the part of a query that it was cut from."""
    below = query.root.node if isinstance(query.root, Extend) else query.root
    assert isinstance(below, Aggregation), "the query is one row of all rows"
    return rows.top is None and _shape(rows.root) == _shape(below.node)


def _shape(node: Node) -> Counter[tuple[str, str, int]]:
    """How many nodes of each kind and table there are, with so many expressions; none of computed columns."""
    return Counter(
        (type(each).__name__, each.table if isinstance(each, Scan) else "", len(expressions(each)))
        for each in nodes_of(node)
        if not isinstance(each, Extend)
    )
