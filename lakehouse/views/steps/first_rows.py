"""What a last LIMIT takes: its order over the columns of the result, or over values that the result leaves out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Self

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.views.algebra import FirstRows, OrderBy, Query, Top, column
from lakehouse.views.printing import is_printable
from lakehouse.views.sql.scopes import TextReading
from lakehouse.views.sql.tokens import Token
from lakehouse.views.sql.words import Text

_ADDED = "__order_"
"""The beginning of the names of values that a LIMIT orders by, and that the result leaves out."""
_ORDERS = {"order": "ORDER BY", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY"}
_CUTS = ("limit", "offset", "fetch")


def with_top(reading: TextReading, tree: Expr, query: Query) -> Query:
    """A query with the order and the limit of its rows that its outermost part asks for."""
    if isinstance(tree, exp.Subquery):
        query = with_top(reading, tree.this, query)
    is_within = query.top is not None
    cut = next((each for name in _CUTS if (each := tree.args.get(name)) is not None), None)
    if cut is None:
        orders = (words for name, words in _ORDERS.items() if tree.args.get(name))
        return replace(query, notes=(*query.notes, *(f"{each} is dropped: a table has no order." for each in orders)))
    order: list[exp.Ordered] = tree.args["order"].expressions
    selected, words = _Selected.of(tree, query), reading.parsed
    terms, end = _terms_of_order(words)
    added = dict[str, str]()
    by = list[tuple[OrderBy, ...]]()
    for place, each in enumerate(order):
        values = tuple(_values_of_order(query, each, selected))
        if not values and len(terms) == len(order) and _may_be_selected(tree, each.this, selected):
            name = f"{_ADDED}{place + 1}"
            added[name] = words.text[terms[place][0].start : terms[place][-1].end]
            values = (_order_by(column(name), each),)
        by.append(values)
    outside = next((each for each, values in zip(order, by, strict=True) if not values), None)
    first = _first_rows(words, tree, added) if outside is None and not is_within else None
    why, place = f"{cut.key.upper()} takes its rows from all rows", cut
    if outside is not None:
        why, place = "a value in the ORDER BY of its LIMIT is no column of the result", outside
    reason = reading.not_followed(why, place, cut.key.upper()).reason
    return replace(query, top=Top(reason, tuple(chain.from_iterable(by)), first, end))


def _terms_of_order(words: Text) -> tuple[list[Sequence[Token]], int]:
    """The terms of the ORDER BY before the last LIMIT of a text, without their directions, and where it ends.

    A WINDOW may stand between the two.
    """
    depth, at, end, after, begin, last = 0, 0, len(words.text), ("", ""), 0, len(words.tokens)
    for place in reversed(range(last)):
        token = words.tokens[place]
        depth += token.is_symbol(")") - token.is_symbol("(")
        is_number = after[0][:1].isdigit() or after[0].upper() in ("(", ":", "ALL")  # otherwise a column is called so
        is_cut = token.is_word("LIMIT", "OFFSET") and is_number
        is_cut |= token.is_word("WINDOW") and after[1].upper() == "AS"
        if is_cut and (end == len(words.text) or depth == at):
            at, end, last = depth, token.start, place
        if token.is_word("ORDER") and depth == at and end < len(words.text):
            begin = place + len(("ORDER", "BY"))
            break
        after = (token.text, after[0])
    terms, depth = [list[Token]()], 0
    for token in words.tokens[begin:last]:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_symbol(","):
            terms.append([])
        else:
            terms[-1].append(token)
    return [_without_direction(term) for term in terms], end


def _without_direction(term: Sequence[Token]) -> Sequence[Token]:
    if len(term) > 2 and term[-2].is_word("NULLS"):
        term = term[:-2]
    return term[:-1] if len(term) > 1 and term[-1].is_word("ASC", "DESC") else term


def _may_be_selected(tree: Expr, value: Expr, selected: "_Selected") -> bool:
    """Whether a value in ORDER BY means the same as a last column of SELECT, and leaves the rows as they are."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or isinstance(value.unnest(), exp.Literal):
        return False
    group = tree.args.get("group")
    groups_by_all = group is not None and bool(group.args.get("all"))
    names = value.find_all(exp.Column)
    return not groups_by_all and all(map(selected.is_of_table, names))


def _first_rows(words: Text, tree: Expr, added: Mapping[str, str]) -> FirstRows | None:
    """The LIMIT at the end of a text, whose rows are selected with some values more.

    None if it is not a number, if the text ends with an OFFSET, or if no place for the values is found.
    """
    tokens = list(words.tokens)
    while tokens[-1].is_symbol(")") or tokens[-1].is_symbol(";"):
        tokens.pop()
    match tree.args.get("limit"), tokens:
        case exp.Limit(expression=exp.Literal()), [*_, limit, number] if limit.is_word("LIMIT"):
            text = f"{words.text[: limit.start]}{words.text[number.end :]}"
            at = _end_of_select(words) if added else 0
            values = "".join(f", {sql} AS {name} " for name, sql in added.items())
            return None if at is None else FirstRows(int(number.text), f"{text[:at]}{values}{text[at:]}", (*added,))
        case _:
            return None


def _end_of_select(words: Text) -> int | None:
    """Where the FROM of a text begins, behind all that it selects; None if a bracket is around its last SELECT."""
    depth, begin, before = 0, None, None
    for token in words.tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_word("SELECT"):
            begin = None
        is_operator = before is not None and before.is_word("DISTINCT")  # IS DISTINCT FROM
        if depth == 0 and token.is_word("FROM") and begin is None and not is_operator:
            begin = token.start
        before = token
    return begin


def _values_of_order(query: Query, order: exp.Ordered, selected: "_Selected") -> Iterator[OrderBy]:
    """A part of ORDER BY as values over columns of the result; nothing if it depends on something else."""
    names = {output.name.lower(): output.column for output in query.outputs}
    match order.this.unnest():
        case exp.Literal(is_int=True) as place if 0 < int(place.name) <= len(names):
            values = [column(query.outputs[int(place.name) - 1].column)]
        case exp.Var(name="ALL" | "all") if "all" not in names:
            values = [column(name) for name in names.values()]
        case value:
            values = [each] if (each := _over_the_result(value, selected)) is not None else []
    yield from (_order_by(each, order) for each in values)


def _order_by(value: Expression, order: exp.Ordered) -> OrderBy:
    return OrderBy(value, bool(order.args.get("desc")), bool(order.args.get("nulls_first")))


def _over_the_result(value: Expr, selected: "_Selected") -> Expression | None:
    """A value in ORDER BY over the unique names of the result's columns; None if it depends on something else."""
    means = [(each, selected.column_of(each)) for each in value.find_all(exp.Column)]
    is_of_row = is_printable(value) and value.find(exp.AggFunc, exp.Window, exp.Lambda, exp.Placeholder) is None
    if is_of_row and all(unique is not None for _, unique in means):
        return value.copy().transform(partial(_as_result, selected=selected))
    of_alias = [each for each, unique in means if unique is not None and each.sql() not in selected.made]
    made = None if of_alias else selected.made.get(value.sql())
    return None if made is None else column(made)


def _as_result(node: Expression, selected: "_Selected") -> Expression:
    """A part of a value; for a name that means a column of the result, that column."""
    unique = selected.column_of(node) if isinstance(node, exp.Column) else None
    return node if unique is None else column(unique)


@dataclass(frozen=True, slots=True)
class _Selected:
    """The columns of a SELECT, under the names that its ORDER BY may use.

    Args:
        names: The unique name of each column of the result, by its own name in lower case.
        made: The same, by the words that are selected, without an alias; empty for a star.
        tables: The names of the tables in FROM, in lower case; empty if a join merges columns of one name.
        is_all: Whether all columns of these tables are selected, under their own names.
    """

    names: Mapping[str, str]
    made: Mapping[str, str]
    tables: frozenset[str]
    is_all: bool

    @classmethod
    def of(cls, tree: Expr, query: Query) -> Self:
        items: list[Expr] = tree.args.get("expressions") or []
        has_star = any(each.is_star for each in items)
        pairs = [] if has_star else [*zip(items, query.outputs, strict=False)]
        names = {output.name.lower(): output.column for output in query.outputs}
        made = {item.unalias().sql(): output.column for item, output in pairs}
        is_all = len(names) == len(query.outputs) and any(
            isinstance(each, exp.Star) and not any(each.args.values()) for each in items
        )
        return cls(names, made, _tables_of(tree), is_all)

    def column_of(self, name: exp.Column) -> str | None:
        """The column of the result that a name means: an alias wins, except after the name of a table."""
        own = self.names.get(name.name.lower())
        if not name.table:
            return own
        if name.table.lower() in self.tables and not name.db:
            made = self.made.get(name.name)
            if self.is_all or (made is not None and made == own):
                return own
        return self.made.get(name.sql())

    def is_of_table(self, name: exp.Column) -> bool:
        """Whether a name means a column of FROM, in ORDER BY as in SELECT, and no column of the result."""
        words = name.parts[0].name.lower()
        return words not in self.names or self.made.get(name.sql()) == self.names[words]


def _tables_of(tree: Expr) -> frozenset[str]:
    """The names of the tables in FROM, in lower case; none if a join merges their columns: `b.id` may then be NULL."""
    joins: list[exp.Join] = tree.args.get("joins") or []
    if any(join.args.get("using") or join.args.get("method") for join in joins):
        return frozenset()
    first = tree.args.get("from_")
    sources: list[Expr] = [join.this for join in joins] + ([] if first is None else [first.this])
    return frozenset(source.alias_or_name.lower() for source in sources)
