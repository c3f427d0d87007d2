"""Whether a text makes one row of all rows, which follows from its old value and from the rows that went and came."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    """A column of a row that is made of all rows.

    Args:
        name: Its name.
        function: What it makes of the values.
        value: The column of the rows that holds the values; None for count(*).
        is_null: Whether it is NULL if there are no values.
    """

    name: str
    function: AggregateFunction
    value: str | None
    is_null: bool


@dataclass(frozen=True, slots=True)
class OneRow:
    """One row that is made of all rows.

    Args:
        rows: The text of all rows; if distinct values are counted, grouped to one row for each value.
        names: The names of the columns of these rows, in order.
        totals: The columns of the one row, in order.
        number: The column of the one row that counts the distinct values; None if the rows are not grouped.
    """

    rows: str
    names: tuple[str, ...]
    totals: tuple[Total, ...]
    number: str | None = None


class _NotOneRowError(Exception):
    """Why a query does not make such a row, as a clause."""


def one_row(query: Query, keys: Mapping[str, tuple[str, ...]]) -> OneRow | str:
    """The one row that a query makes of all rows; else why it does not follow from its old value, as a clause.

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
    calls = [
        _Call.of(query, parsed, item, output.name, _aggregate(new, output.column, aggregation.aggregates))
        for item, output in zip(tree.expressions, query.outputs, strict=True)
    ]
    groups = {call.words: call.name for call in calls if call.is_distinct}
    if len(groups) > 1:
        raise _NotOneRowError("it counts the values of two columns once each")
    totals, values = list[Total](), dict[str, str]()
    for call in calls:
        value = call.value_of_group if groups else call.value
        name = None if value is None else f"value_{len(values) + 1}"
        if name is not None and value is not None:
            values[name] = value
        is_sum = bool(groups) and call.function is AggregateFunction.COUNT and not call.is_distinct
        function = AggregateFunction.SUM if is_sum else call.function
        totals.append(Total(call.name, function, name, call.is_null))
    columns = () if groups else _by_which_followed(query, aggregation.node, keys)
    named = values | _names([query.offer[unique] for unique in columns], values)
    selected = ", ".join(f"{sql} AS {quote(name)}" for name, sql in named.items())
    rows = _rows_of(parsed, tree, selected) + "".join(f" GROUP BY {words}" for words in groups)
    return OneRow(rows, tuple(named), tuple(totals), next(iter(groups.values()), None))


@dataclass(frozen=True, slots=True)
class _Call:
    """The call of an aggregate in a column of SELECT.

    Args:
        name: The name of the column.
        function: The aggregate.
        words: The text between the brackets, without DISTINCT.
        condition: The condition of FILTER on the rows; None if there is none.
        is_distinct: Whether each value counts once.
        is_of_rows: Whether rows are counted, and not values.
        is_null: Whether the column is NULL if there are no values.
    """

    name: str
    function: AggregateFunction
    words: str
    condition: str | None
    is_distinct: bool
    is_of_rows: bool
    is_null: bool

    @classmethod
    def of(cls, query: Query, parsed: Parsed, item: Expr, name: str, aggregate: Expression | None) -> "_Call":
        """The call in a column, which the algebra reads as an aggregate."""
        made = item.unalias()
        is_zero_of_none = isinstance(made, exp.Coalesce) and made.expressions == [exp.Literal.number(0)]
        made = made.this if is_zero_of_none else made
        call = made.this if isinstance(made, exp.Filter) else made
        of_all = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
        is_plain = call.meta.get(CALLED) in {each.value for each in AggregateFunction}
        is_distinct = of_all is not None and isinstance(of_all.this, exp.Distinct)
        has_values = not is_distinct or (made is call and call.find(exp.Column) is not None)
        function = _function_of(query, of_all) if of_all is not None and is_plain and has_values else None
        if of_all is None or function is None:
            raise _NotOneRowError(f"{name} is not a plain count, sum of exact numbers, minimum or maximum")
        behind = [token for token in parsed.tokens if token.start > call.meta["end"]]
        words, rest = _within_brackets(parsed, behind)
        condition = None if made is call else _within_brackets(parsed, rest[1:])[0]
        is_of_rows = isinstance(of_all.this, exp.Star | exp.Literal)
        is_null = not is_zero_of_none and function is not AggregateFunction.COUNT
        return cls(name, function, words, condition, is_distinct, is_of_rows, is_null)

    @property
    def value(self) -> str | None:
        """The value of a row, in SQL; None if every row counts, without a value."""
        words = "1" if self.is_of_rows and self.function is AggregateFunction.COUNT else self.words
        if self.condition is not None:
            return f"CASE WHEN {self.condition} THEN {words} END"
        return None if words == "1" else words

    @property
    def value_of_group(self) -> str:
        """The value of a group of rows, in SQL."""
        part = "" if self.condition is None else f" FILTER (WHERE {self.condition})"
        return self.words if self.is_distinct else f"{self.function.value}({self.words}){part}"


def _aggregate(new: Mapping[str, Expression], unique: str, aggregates: Mapping[str, Expression]) -> Expression | None:
    """The aggregate that a column of the result is, alone or in coalesce(); None if it is something else."""
    computation = new.get(unique, column(unique))
    made: Expression = computation.this if isinstance(computation, exp.Coalesce) else computation
    return aggregates.get(made.name) if isinstance(made, exp.Column) else None


_EXACT_BELOW = (exp.Count, exp.Min, exp.Max)


def _require_repeatable(query: Query, rows: Node) -> None:
    """Refuses rows that may differ if Spark computes them again, because of ties or of sums of inexact numbers."""
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


_ORDERED = {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "string", "boolean"}
"""Types whose equal values are the same value."""


def _function_of(query: Query, aggregate: Expression) -> AggregateFunction | None:
    """What an aggregate makes of all rows; None if changes do not show its new value."""
    argument = aggregate.this
    if aggregate.expressions or aggregate.find(exp.Select) is not None:
        return None
    if isinstance(argument, exp.Distinct):
        is_count = isinstance(aggregate, exp.Count) and len(argument.expressions) == 1
        return AggregateFunction.COUNT if is_count else None
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


def _within_brackets(parsed: Parsed, tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    """The words between the first brackets, without DISTINCT or WHERE, and the tokens behind them."""
    begin, depth = tokens[1] if tokens[1].is_word("DISTINCT", "WHERE") else tokens[0], 0
    for place, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return f"{parsed.text[begin.end : token.start]}\n", tokens[place + 1 :]
    raise _NotOneRowError("a call has no brackets")


def _by_which_followed(query: Query, rows: Node, keys: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The columns of FROM by which changes may be followed: keys of tables, what expressions use, computed columns.

    If there are none of these, all columns of FROM.
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
    """The text, changed to select something else from the same rows."""
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
    """The tokens of a text, each with the number of brackets around it; a bracket is not around itself."""
    depth = 0
    for token in parsed.tokens:
        depth -= token.is_symbol(")")
        yield token, depth
        depth += token.is_symbol("(")


def have_same_rows(one: OneRow, rows: Query, query: Query) -> bool:
    """Whether the text of the rows is read as the same rows as the part of the query from which it was cut."""
    part, below = rows.root if one.number is None else _aggregated_rows(rows.root), _aggregated_rows(query.root)
    return rows.top is None and part is not None and below is not None and _shape(part) == _shape(below)


def _aggregated_rows(root: Node) -> Node | None:
    """The rows that a result aggregates; None if it is not an aggregate."""
    aggregation = root.node if isinstance(root, Extend) else root
    return aggregation.node if isinstance(aggregation, Aggregation) else None


def _shape(node: Node) -> Counter[tuple[str, str, int]]:
    """How many nodes there are of each kind, table and number of expressions; `Extend` nodes do not count."""
    return Counter(
        (type(each).__name__, each.table if isinstance(each, Scan) else "", len(expressions(each)))
        for each in nodes_of(node)
        if not isinstance(each, Extend)
    )
