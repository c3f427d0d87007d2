"""The algebra of a query as SQL for DuckDB, so that its rows can be held against those of the text."""

import itertools

import sqlglot
from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Filter,
    FullJoin,
    Generate,
    Item,
    Join,
    MarkJoin,
    Node,
    Query,
    Scan,
    SetOperation,
    Side,
    Windows,
    columns,
)

_ALIASES = (f"q{number}" for number in itertools.count())


def text_in_duckdb(text: str) -> str:
    """A text of Spark in DuckDB's dialect."""
    return sqlglot.transpile(text, read="spark", write="duckdb")[0]


def query_in_duckdb(query: Query) -> str:
    """The result of a query, by its algebra."""
    outputs = ", ".join(f'{output.column} AS "{output.name}"' for output in query.outputs)
    return f"SELECT {outputs} FROM ({_sql(query.root)}) AS {next(_ALIASES)}"


def _of(expression: Expression) -> str:
    return f"({expression.sql(dialect='duckdb')})"


def _all(conditions: tuple[Expression, ...]) -> str:
    return " AND ".join(map(_of, conditions)) or "TRUE"


def _below(node: Node) -> str:
    return f"({_sql(node)}) AS {next(_ALIASES)}"


def _item(item: Item, *, first: bool) -> str:
    if first:
        return _below(item.node)
    join = "LEFT JOIN" if item.side is Side.LEFT else "JOIN"
    return f"{join} {_below(item.node)} ON {_all(item.on)}"


def _with(node: Node, new: dict[str, str]) -> str:
    names = [*sorted(columns(node)), *(f"{sql} AS {name}" for name, sql in new.items())]
    return f"SELECT {', '.join(names) or '1 AS nothing'} FROM {_below(node)}"


def _sql(node: Node) -> str:
    match node:
        case Scan(table=table, names=names):
            return f"SELECT {', '.join(f'{column} AS {name}' for name, column in names.items())} FROM {table}"
        case Join(items=items, where=where):
            joined = " ".join(_item(item, first=number == 0) for number, item in enumerate(items))
            return f"SELECT {', '.join(sorted(columns(node)))} FROM {joined} WHERE {_all(where)}"
        case FullJoin(left=left, right=right, on=on):
            return (
                f"SELECT {', '.join(sorted(columns(node)))} FROM {_below(left)} FULL JOIN {_below(right)} ON {_all(on)}"
            )
        case MarkJoin(node=below, sub=sub, on=on, value=value, sought=sought, among=among):
            inside = f"FROM {_below(sub)} WHERE {_all(on)}"
            left = exp.Tuple(expressions=[each.copy() for each in sought]).sql(dialect="duckdb")
            matches = f"{left} IN (SELECT {', '.join(among)} {inside})" if sought else f"(SELECT count(*) {inside}) > 0"
            return _with(below, {value: matches})  # DuckDB's EXISTS beside columns is true of `x <> NULL`
        case Filter(node=below, where=where):
            return f"SELECT * FROM {_below(below)} WHERE {_all(where)}"
        case Extend(node=below, new=new):
            return _with(below, {name: _of(each) for name, each in new.items()})
        case Generate():
            raise NotImplementedError
        case Aggregation(node=below, groups=groups, aggregates=aggregates):
            names = [*groups, *(f"{_of(each)} AS {name}" for name, each in aggregates.items())]
            by = f" GROUP BY {', '.join(groups)}" if groups else ""
            return f"SELECT {', '.join(names) or '1 AS nothing'} FROM {_below(below)}{by}"
        case Windows(node=below, windows=windows):
            return _with(below, {name: _of(each) for name, each in windows.items()})
        case SetOperation(kind=kind, nodes=nodes, names=names):
            branches = (
                f"(SELECT {', '.join(f'{column} AS {name}' for name, column in of_branch.items())} FROM {_below(each)})"
                for each, of_branch in zip(nodes, names, strict=True)
            )
            return f" {kind.value} ".join(branches)
