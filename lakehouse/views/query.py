"""What the text of a view says: its tables by the text alone, its algebra by the columns of these tables."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Self

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import (
    Aggregation,
    FirstRows,
    MarkJoin,
    Node,
    OrderBy,
    Output,
    Query,
    Scan,
    SetKind,
    SetOperation,
    Top,
    children,
    column,
    columns,
    columns_in,
    expressions,
    nodes_of,
)
from lakehouse.views.printing import is_printable
from lakehouse.views.sql.blocks import read_select
from lakehouse.views.sql.look import Look, look_through, refuse_user
from lakehouse.views.sql.scopes import Ctes, ReadQuery, Scope, TextReading
from lakehouse.views.sql.sources import read_values, with_ctes
from lakehouse.views.sql.subqueries import correlation
from lakehouse.views.sql.words import RUN_TEXT_REMEDY, Text, why_of_the_run
from lakehouse.views.steps.simplify import simplify
from lakehouse.views.view_text import NotFollowedError


def names_in(text: str) -> tuple[str, ...]:
    """The tables that a text names, in lower case and with dots, in the order in which it names them first.

    Raises:
        ViewError: The text alone shows that it cannot be kept as a view.
    """
    return tuple(dict.fromkeys(look_through(text).tables.values()))


def read(
    text: str, schemas: Mapping[str, Mapping[str, str]], args: Collection[str] = (), *, is_named: bool = False
) -> Query:
    """What a text says, as algebra.

    Args:
        text: One query of Spark SQL.
        schemas: For each table, its columns, and their types as Spark's `simpleString()` has them.
        args: The names of the parameters that have values.
        is_named: Whether a head names the columns of the result, so that two columns of the text may have one name.

    Raises:
        ViewError: The text cannot be kept as a view.
        NotFollowedError: No keys follow the text.
    """
    look = look_through(text)
    refuse_parameters(look, args)
    if look.parsed is None or look.why is not None:
        assert look.why is not None, "what is not parsed has a reason"
        refuse_user(look, schemas)
        raise NotFollowedError(look.why.clause, look.why.place)
    reading = TextReading(look.parsed, {table.lower(): columns for table, columns in schemas.items()}, _read_query)
    tree = look.parsed.tree
    query = _read_query(reading, tree, {}, ())
    if query.correlated:
        raise correlation(reading, tree)
    if not is_named:
        _refuse_names(reading, query.outputs)
    root = simplify(query.node)
    _require_whole(reading, root)
    return _with_top(reading, tree, replace(reading.query(root, query.outputs), offer=query.offer))


def refuse_parameters(look: Look, args: Collection[str]) -> None:
    """Refuses named parameters without a value, and values without a parameter.

    Raises:
        ViewError: A parameter has no value, or a value has no parameter.
    """
    named = look.words.parameters
    for name, place in named.items():
        if name not in args:
            remedy = (
                f"Give its value: View(..., args={{'{name}': ...}}). A file of views_from has no arguments: write the "
                f"value there."
            )
            raise ViewError("VIEW_PARAMETER", f"The parameter :{name} has no value", place, remedy)
    for name in args:
        if name not in named:
            remedy = f"Write :{name} where its value belongs, or remove the argument."
            raise ViewError("VIEW_PARAMETER", f"The text has no parameter :{name}", None, remedy)


def refuse_values_of_the_run(args: Mapping[str, object]) -> None:
    """Refuses values of parameters that Spark may take for the day of the run.

    Raises:
        ViewError: A value is such a text.
    """
    for name, value in args.items():
        of_run = why_of_the_run(value) if isinstance(value, str) else None
        if of_run is not None:
            raise ViewError("VIEW_NOT_DETERMINISTIC", f"{of_run}: the parameter :{name}", None, RUN_TEXT_REMEDY)


_ORDERS = {"order": "ORDER BY", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY"}
_CUTS = ("limit", "offset", "fetch")


def _with_top(reading: TextReading, tree: Expr, query: Query) -> Query:
    """A query with the order and the limit of its rows that its outermost part asks for."""
    if isinstance(tree, exp.Subquery):
        query = _with_top(reading, tree.this, query)
    is_within = query.top is not None
    cut = next((each for name in _CUTS if (each := tree.args.get(name)) is not None), None)
    if cut is None:
        orders = (words for name, words in _ORDERS.items() if tree.args.get(name))
        return replace(query, notes=(*query.notes, *(f"{each} is dropped: a table has no order." for each in orders)))
    order: list[exp.Ordered] = tree.args["order"].expressions
    by = [tuple(_values_of_order(tree, query, each)) for each in order]
    outside = next((each for each, values in zip(order, by, strict=True) if not values), None)
    first = _first_rows(reading.parsed, tree) if outside is None and not is_within else None
    why, place = f"{cut.key.upper()} takes its rows from all rows", cut
    if outside is not None:
        why, place = "a value in the ORDER BY of its LIMIT is no column of the result", outside
    reason = reading.not_followed(why, place, cut.key.upper()).reason
    return replace(query, top=Top(reason, tuple(chain.from_iterable(by)), first, _end_of_order(reading.parsed)))


def _end_of_order(words: Text) -> int:
    """Where the ORDER BY before the last LIMIT of a text ends: a WINDOW may stand between the two."""
    depth, at, end, after = 0, 0, len(words.text), ("", "")
    for token in reversed(words.tokens):
        depth += token.is_symbol(")") - token.is_symbol("(")
        is_number = after[0][:1].isdigit() or after[0].upper() in ("(", ":", "ALL")  # otherwise a column is called so
        is_cut = token.is_word("LIMIT", "OFFSET") and is_number
        is_cut |= token.is_word("WINDOW") and after[1].upper() == "AS"
        if is_cut and (end == len(words.text) or depth == at):
            at, end = depth, token.start
        if token.is_word("ORDER") and depth == at and end < len(words.text):
            break
        after = (token.text, after[0])
    return end


def _first_rows(words: Text, tree: Expr) -> FirstRows | None:
    """The LIMIT at the end of a text; None if it is not a number, or if the text ends with an OFFSET."""
    tokens = list(words.tokens)
    while tokens[-1].is_symbol(")") or tokens[-1].is_symbol(";"):
        tokens.pop()
    match tree.args.get("limit"), tokens:
        case exp.Limit(expression=exp.Literal()), [*_, limit, number] if limit.is_word("LIMIT"):
            return FirstRows(int(number.text), f"{words.text[: limit.start]}{words.text[number.end :]}")
        case _:
            return None


def _values_of_order(tree: Expr, query: Query, order: exp.Ordered) -> Iterator[OrderBy]:
    """A part of ORDER BY as values over columns of the result; nothing if it depends on something else."""
    names = {output.name.lower(): output.column for output in query.outputs}
    match order.this:
        case exp.Literal(is_int=True) as place if 0 < int(place.name) <= len(names):
            values = [column(query.outputs[int(place.name) - 1].column)]
        case exp.Var(name="ALL" | "all") if "all" not in names:
            values = [column(name) for name in names.values()]
        case value:
            values = [each] if (each := _over_the_result(value, _Selected.of(tree, query))) is not None else []
    for each in values:
        yield OrderBy(each, bool(order.args.get("desc")), bool(order.args.get("nulls_first")))


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


def _tables_of(tree: Expr) -> frozenset[str]:
    """The names of the tables in FROM, in lower case; none if a join merges their columns: `b.id` may then be NULL."""
    joins: list[exp.Join] = tree.args.get("joins") or []
    if any(join.args.get("using") or join.args.get("method") for join in joins):
        return frozenset()
    first = tree.args.get("from_")
    sources: list[Expr] = [join.this for join in joins] + ([] if first is None else [first.this])
    return frozenset(source.alias_or_name.lower() for source in sources)


def _read_query(reading: TextReading, tree: Expr, ctes: Ctes, outer: tuple[Scope, ...]) -> ReadQuery:
    """A query within the text."""
    within = with_ctes(tree, ctes)
    match tree:
        case exp.Subquery():
            return _read_query(reading, tree.this, within, outer)
        case exp.Select():
            return read_select(reading, tree, within, outer)
        case exp.SetOperation():
            return _read_sets(reading, tree, within, outer)
        case exp.Values():
            return ReadQuery(*read_values(reading, tree))
        case _:
            raise reading.not_followed("This is not read as a query", tree)


_KINDS: Mapping[tuple[type[Expr], bool], SetKind] = {
    (exp.Union, False): SetKind.UNION_ALL,
    (exp.Union, True): SetKind.UNION_ALL,
    (exp.Except, True): SetKind.EXCEPT,
    (exp.Except, False): SetKind.EXCEPT_ALL,
    (exp.Intersect, True): SetKind.INTERSECT,
    (exp.Intersect, False): SetKind.INTERSECT_ALL,
}


def _read_sets(reading: TextReading, tree: exp.SetOperation, ctes: Ctes, outer: tuple[Scope, ...]) -> ReadQuery:
    """A set operation."""
    branches = [_read_query(reading, each, ctes, outer) for each in (tree.this, tree.expression)]
    if any(branch.correlated for branch in branches):
        raise correlation(reading, tree)
    first, second = branches
    if len(first.outputs) != len(second.outputs):
        what = f"One branch has {len(first.outputs)} columns, the other {len(second.outputs)}"
        raise reading.refuse("VIEW_UNKNOWN_COLUMN", what, tree.expression, "Select as many in both.")
    outputs: list[Output] = []
    names: tuple[dict[str, str], dict[str, str]] = {}, {}
    for left, right in zip(first.outputs, second.outputs, strict=True):
        type_ = reading.types.get(left.column)
        unique = reading.unique(left.name, type_ if type_ == reading.types.get(right.column) else None)
        outputs.append(Output(left.name, unique))
        names[0][unique], names[1][unique] = left.column, right.column
    is_distinct = bool(tree.args.get("distinct"))
    node: Node = SetOperation(_KINDS[type(tree), is_distinct], (first.node, second.node), names)
    if is_distinct and isinstance(tree, exp.Union):
        node = Aggregation(node, tuple(output.column for output in outputs), {})
    return ReadQuery(node, tuple(outputs))


def _refuse_names(reading: TextReading, outputs: tuple[Output, ...]) -> None:
    """Refuses a result in which two columns have the same name."""
    names = [output.name.lower() for output in outputs]
    twice = next((output.name for output in outputs if names.count(output.name.lower()) > 1), None)
    if twice is not None:
        raise reading.refuse(
            "VIEW_UNKNOWN_COLUMN",
            f"Two columns of the result are called {twice}",
            reading.parsed.tree,
            "Name one of them with AS.",
            "SELECT",
        )


def _require_whole(reading: TextReading, root: Node) -> None:
    """Refuses algebra that does not cover the whole text: a table is left out, or a column is out of reach."""
    scans = {node.place for node in nodes_of(root) if isinstance(node, Scan)}
    for place, table in reading.parsed.tables.items():
        if place not in scans:
            what = f"the result does not depend on the table {table}, which the text names"
            raise NotFollowedError(what, reading.parsed.of_place(place))
    for node in nodes_of(root):
        within = frozenset[str]().union(*map(columns, children(node)))
        if isinstance(node, MarkJoin | Scan):
            within |= columns(node)
        if columns_in(*expressions(node)) - within:
            raise correlation(reading, reading.parsed.tree)
