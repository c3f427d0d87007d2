"""What the text of a view says: its tables by the text alone, its algebra by the columns of these tables."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp
from sqlglot.expressions.core import Expr

from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import (
    Aggregation,
    MarkJoin,
    Node,
    Output,
    Query,
    Scan,
    SetKind,
    SetOperation,
    Top,
    children,
    columns,
    columns_in,
    expressions,
    nodes_of,
)
from lakehouse.views.sql.blocks import read_select
from lakehouse.views.sql.look import Look, look_through, refuse_user
from lakehouse.views.sql.scopes import Ctes, ReadQuery, Scope, TextReading
from lakehouse.views.sql.simplify import simplify
from lakehouse.views.sql.sources import read_values, with_ctes
from lakehouse.views.sql.subqueries import correlation
from lakehouse.views.sql.words import RUN_TEXT_REMEDY, why_of_the_run
from lakehouse.views.view_text import NotFollowedError


def names_in(text: str) -> tuple[str, ...]:
    """The tables that a text names, in lower case and with dots, in the order in which it names them first.

    Raises:
        ViewError: The text alone shows that a view cannot be kept of it.
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
        is_named: Whether a head names the columns of the result, so that two of the text may have one name.

    Raises:
        ViewError: A view cannot be kept of the text.
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
    return _with_top(reading, tree, reading.query(root, query.outputs))


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
    """A query with what its outermost part says of the order of its rows, and of how many there are."""
    if isinstance(tree, exp.Subquery):
        query = _with_top(reading, tree.this, query)
    cut = next((each for name in _CUTS if (each := tree.args.get(name)) is not None), None)
    if cut is None:
        orders = (words for name, words in _ORDERS.items() if tree.args.get(name))
        return replace(query, notes=(*query.notes, *(f"{each} is dropped: a table has no order." for each in orders)))
    why = reading.not_followed(f"{cut.key.upper()} takes its rows from all rows", cut, cut.key.upper()).reason
    return replace(query, top=Top(why, tuple(_columns_of_order(tree, query))))


def _columns_of_order(tree: Expr, query: Query) -> Iterator[str]:
    """The columns of the result in the ORDER BY of a query."""
    names = {output.name.lower(): output.name for output in query.outputs}
    items: list[Expr] = tree.args.get("expressions") or []
    aliases = {each.alias.lower() for each in items if isinstance(each, exp.Alias)}
    selected = [] if any(each.is_star for each in items) else items
    made = {each.unalias().sql(): output.name for each, output in zip(selected, query.outputs, strict=False)}
    order = tree.args.get("order") or tree.args.get("sort")
    for each in order.expressions if order is not None else ():
        column = each.this if isinstance(each, exp.Ordered) else each
        if isinstance(column, exp.Literal) and column.is_int and 0 < int(column.name) <= len(query.outputs):
            yield query.outputs[int(column.name) - 1].name
        elif (name := made.get(column.sql())) is not None:
            yield name
        elif not isinstance(column, exp.Column):
            continue
        elif (name := column.name.lower()) == "all" and "all" not in names:
            yield from names.values()
        elif name in names and not (column.table and name in aliases):  # behind a table's name stands none of SELECT
            yield names[name]


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
    """Raise if two columns of the result have one name."""
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
    """Raise if the algebra does not say all that the text does: a table is left out, or a column is out of reach."""
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
