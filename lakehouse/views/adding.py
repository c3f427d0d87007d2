"""Whether a view consists of counts and sums over the rows of one table, to which changes can be added."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Filter,
    Item,
    Join,
    Node,
    Query,
    Scan,
    in_parentheses,
    is_captured,
    nodes_of,
    substitute,
)
from lakehouse.views.printing import is_printable
from lakehouse.views.steps.planning import Wording
from lakehouse.views.steps.relations import print_sql


@dataclass(frozen=True, slots=True)
class Added:
    """Counts and sums over the rows of a table, as SQL over its columns.

    Args:
        source: The table.
        by: The grouping columns of the result, each with its SQL.
        count: The column of the result that counts the rows of a group.
        sums: The other columns, each with the SQL whose values are summed.
        where: The condition on the rows that are counted and summed; None if all rows are.
    """

    source: str
    by: Mapping[str, str]
    count: str
    sums: Mapping[str, str]
    where: str | None


class _NotAddedError(Exception):
    """Why a query does not consist of counts and sums to which changes can be added, as a clause."""


def as_sums(query: Query) -> Added | str:
    """The counts and sums that a query consists of; else why it does not consist of any, as a clause."""
    try:
        return _sums_of(query)
    except _NotAddedError as why:
        return str(why)


def _sums_of(query: Query) -> Added:
    """The counts and sums of a query; raises `_NotAddedError` if it does not consist of any."""
    node, top = query.root, dict[str, Expression]()
    if isinstance(node, Extend):
        node, top = node.node, dict(node.new)
    if not isinstance(node, Aggregation):
        raise _NotAddedError(_why_no_groups(node))
    if not node.groups:
        raise _NotAddedError("its result is one row of all rows")
    source, computed, where = _rows_of(node.node)
    own: dict[str, Expression] = {name: exp.column(column, quoted=True) for name, column in source.names.items()}
    if not set(node.groups) <= {output.column for output in query.outputs}:
        raise _NotAddedError("the result lacks a column of GROUP BY")
    by: dict[str, str] = {}
    sums: dict[str, str] = {}
    count: str | None = None
    for output in query.outputs:
        if output.column in node.groups:
            group = computed.get(output.column, exp.column(output.column))
            by[output.name] = _sql(_of_table(group, own), output.name)
            continue
        computation = top.get(output.column, exp.column(output.column))
        value = _value(query, output.name, computation, node.aggregates, computed)
        if value is None and count is None:
            count = output.name
        else:
            sums[output.name] = "1" if value is None else _sql(_of_table(value, own), output.name)
    if count is None:
        raise _NotAddedError("no column is count(*), which tells when a group has no row left")
    conditions = [_sql(_of_table(each, own), "WHERE") for each in where]
    return Added(source.table, by, count, sums, " AND ".join(conditions) or None)


def _of_table(expression: Expression, own: Mapping[str, Expression]) -> Expression:
    """An expression, rewritten over the table's own column names."""
    if is_captured(expression, own):
        raise _NotAddedError("a parameter of a lambda has the name of a column")
    return substitute(expression, own)


def _why_no_groups(node: Node) -> str:
    """Why the outermost part of a query is not a GROUP BY, as a clause."""
    if not any(isinstance(each, Aggregation) for each in nodes_of(node)):
        return "the query has no GROUP BY"
    match node:
        case Filter(node=Aggregation()) | Join(items=(Item(node=Aggregation()),)):
            return "a condition, such as HAVING, leaves groups out"
        case _:
            return "its outermost part is not a GROUP BY"


def _rows_of(node: Node) -> tuple[Scan, dict[str, Expression], tuple[Expression, ...]]:
    """The table whose rows are grouped, the columns that are computed from it, and the conditions on its rows."""
    match node:
        case Scan():
            return node, {}, ()
        case Extend(node=below, new=new):
            source, computed, where = _rows_of(below)
            return source, computed | {name: substitute(e, computed) for name, e in new.items()}, where
        case Filter(node=below, where=more):
            source, computed, where = _rows_of(below)
            return source, computed, (*where, *(substitute(each, computed) for each in more))
        case Join(items=(item,), where=more):
            source, computed, where = _rows_of(item.node)
            return source, computed, (*where, *(substitute(each, computed) for each in more))
        case _:
            raise _NotAddedError("the rows that are grouped are not those of one table")


def _value(
    query: Query,
    name: str,
    computation: Expression,
    aggregates: Mapping[str, Expression],
    computed: Mapping[str, Expression],
) -> Expression | None:
    """What is summed for a column of the result, over the columns of the table; None for count(*).

    The sum of no values is 0 where changes are added, and NULL in SQL.
    """
    is_zero_of_none = isinstance(computation, exp.Coalesce) and computation.expressions == [exp.Literal.number(0)]
    column = computation.this if is_zero_of_none else computation
    aggregate = aggregates.get(column.name) if isinstance(column, exp.Column) else None
    if aggregate is None:
        raise _NotAddedError(f"the column {name} is computed from aggregates")
    if aggregate.find(exp.Distinct, exp.Filter) or not isinstance(aggregate, exp.Count | exp.Sum):
        words = Wording.of(query).of_expression(aggregate)
        raise _NotAddedError(f"{words} is neither a plain count nor a plain sum")
    argument = aggregate.this
    if isinstance(aggregate, exp.Count):
        if aggregate.expressions:
            raise _NotAddedError(f"the column {name} counts several values")
        if isinstance(argument, exp.Star | exp.Literal):
            return None
        is_null = exp.Is(this=in_parentheses(substitute(argument, computed)), expression=exp.null())
        return exp.Case().when(is_null, exp.Literal.number(0)).else_(exp.Literal.number(1))
    value = substitute(argument, computed)
    if not is_exact(query, value):
        raise _NotAddedError(f"the values of the sum {name} are not known to be whole numbers or decimals")
    if not is_zero_of_none and not _is_never_null(value):
        raise _NotAddedError(f"the sum {name} may be NULL, and coalesce(sum(...), 0) is not")
    return value


def is_exact(query: Query, expression: Expression) -> bool:
    """Whether an expression is always a whole number or a decimal, by a list of what gives these."""
    match expression:
        case exp.Column(name=name):
            kind = query.types.get(name, "")
            return kind in {"tinyint", "smallint", "int", "integer", "bigint"} or kind.startswith("decimal")
        case exp.Literal():
            return not expression.is_string and "e" not in expression.name.lower()
        case exp.Paren() | exp.Neg():
            return is_exact(query, expression.this)
        case exp.Add() | exp.Sub() | exp.Mul():
            return is_exact(query, expression.this) and is_exact(query, expression.expression)
        case exp.Coalesce():
            return all(is_exact(query, each) for each in (expression.this, *expression.expressions))
        case exp.Case():
            values = [each.args["true"] for each in expression.args["ifs"]]
            last = expression.args.get("default")
            return all(is_exact(query, each) for each in (*values, *([] if last is None else [last])))
        case _:
            return False


def _is_never_null(expression: Expression) -> bool:
    """Whether an expression is never NULL, by a list of the expressions that never are."""
    match expression:
        case exp.Literal():
            return True
        case exp.Paren() | exp.Neg():
            return _is_never_null(expression.this)
        case exp.Coalesce():
            return any(map(_is_never_null, (expression.this, *expression.expressions)))
        case exp.Case():
            values = [each.args["true"] for each in expression.args["ifs"]]
            last = expression.args.get("default")
            return last is not None and all(map(_is_never_null, (*values, last)))
        case _:
            return False


def _sql(expression: Expression, name: str) -> str:
    """The SQL of an expression over the table's own columns."""
    if not is_printable(expression):
        raise _NotAddedError(f"{name} has an expression that may mean something else in another form")
    return print_sql(expression)
