"""What the text of a view says: its tables by the text alone, its algebra by the columns of these tables."""

from collections.abc import Collection, Mapping
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
    children,
    columns,
    columns_in,
    expressions,
    nodes_of,
)
from lakehouse.views.sql.blocks import read_select
from lakehouse.views.sql.look import Look, look_through, refuse_user
from lakehouse.views.sql.scopes import Ctes, ReadQuery, Scope, TextReading
from lakehouse.views.sql.sources import read_values, with_ctes
from lakehouse.views.sql.subqueries import correlation
from lakehouse.views.sql.words import RUN_TEXT_REMEDY, why_of_the_run
from lakehouse.views.steps.first_rows import with_top
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
    return with_top(reading, tree, replace(reading.query(root, query.outputs), offer=query.offer))


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
