"""The algebra of a query as lines, for expectations: one node a line, its inputs indented by two characters."""

from collections.abc import Iterable, Iterator, Mapping

from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Filter,
    FullJoin,
    Generate,
    Join,
    MarkJoin,
    Node,
    Query,
    Scan,
    SetOperation,
    Windows,
)


def shown(query: Query) -> str:
    """The algebra, and below it the columns of the result."""
    outputs = ", ".join(f"{output.name}={output.column}" for output in query.outputs)
    return "\n".join((*_lines(query.root), f"-> {outputs}"))


def _sql(expressions: Iterable[Expression]) -> str:
    return ", ".join(expression.sql(dialect="spark") for expression in expressions)


def _named(expressions: Mapping[str, Expression]) -> str:
    return ", ".join(f"{name}={expression.sql(dialect='spark')}" for name, expression in expressions.items())


def _lines(node: Node) -> Iterator[str]:
    match node:
        case Scan(table=table, alias=alias):
            yield f"{table} {alias}"
        case Join(items=items, where=where):
            yield f"join where {_sql(where)}".removesuffix(" where ")
            for item in items:
                lines = _lines(item.node)
                yield f"  {item.side.value} {next(lines)} on {_sql(item.on)}".removesuffix(" on ")
                yield from (f"  {line}" for line in lines)
            return
        case FullJoin(on=on):
            yield f"full join on {_sql(on)}"
        case MarkJoin(on=on, value=value, sought=sought, among=among, use=use):
            condition = f"({_sql(sought)}) in ({', '.join(among)}) " if sought else ""
            yield f"mark {value} {use.value} {condition}on {_sql(on)}".removesuffix(" on ")
        case Filter(where=where):
            yield f"filter {_sql(where)}"
        case Extend(new=new):
            yield f"extend {_named(new)}"
        case Generate(generator=generator, new=new, outer=outer):
            yield f"generate{' outer' if outer else ''} {', '.join(new)} of {_sql([generator])}"
        case Aggregation(groups=groups, aggregates=aggregates):
            yield f"group by {', '.join(groups)}: {_named(aggregates)}".removesuffix(": ")
        case Windows(partition=partition, windows=windows):
            yield f"windows by {', '.join(partition)}: {_named(windows)}"
        case SetOperation(kind=kind):
            yield kind.value
    for child in _children(node):
        yield from (f"  {line}" for line in _lines(child))


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Scan() | Join():
            return ()
        case FullJoin(left=left, right=right):
            return left, right
        case MarkJoin(node=below, sub=sub):
            return below, sub
        case Filter() | Extend() | Generate() | Aggregation() | Windows():
            return (node.node,)
        case SetOperation(nodes=nodes):
            return nodes
