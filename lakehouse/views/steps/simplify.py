"""Algebra in fewer nodes: nested joins and filters become one join; left joins become inner if NULLs are rejected."""

from dataclasses import replace

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
    Scan,
    SetOperation,
    Side,
    Windows,
    columns,
)
from lakehouse.views.equalities import rejects_null


def simplify(node: Node) -> Node:
    """The same rows from fewer nodes."""
    match node:
        case Scan():
            return node
        case Join():
            items = tuple(replace(item, node=simplify(item.node)) for item in node.items)
            return _flat(harden(Join(items, node.where)))
        case FullJoin(left=left, right=right):
            return replace(node, left=simplify(left), right=simplify(right))
        case MarkJoin(node=below, sub=sub):
            return replace(node, node=simplify(below), sub=simplify(sub))
        case Filter(node=below, where=where):
            return _filter(simplify(below), where)
        case Extend(node=below) | Generate(node=below) | Aggregation(node=below) | Windows(node=below):
            return replace(node, node=simplify(below))
        case SetOperation(nodes=nodes):
            return replace(node, nodes=tuple(map(simplify, nodes)))


def harden(join: Join) -> Join:
    """A join whose left items are inner where a condition on the rows rejects their NULLs."""
    items, where = list(join.items), join.where
    for _ in items:  # an item that has become inner brings conditions that may harden another one
        for index, item in enumerate(items):
            if item.side is Side.LEFT and any(rejects_null(each, columns(item.node)) for each in where):
                items[index], where = Item(item.node), (*where, *item.on)
    return Join(tuple(items), where)


def _filter(node: Node, where: tuple[Expression, ...]) -> Node:
    """The rows for which conditions hold."""
    match node:
        case Join():
            return _flat(harden(Join(node.items, (*node.where, *where))))
        case Filter(node=below):
            return Filter(below, (*node.where, *where))
        case Scan() | FullJoin() | MarkJoin() | Extend() | Generate() | Aggregation() | Windows() | SetOperation():
            return Filter(node, where)


def _flat(join: Join) -> Join:
    """A join without joins among its inner items, whose conditions come first: later ones may fail for other rows."""
    items: list[Item] = []
    where: list[Expression] = []
    for item in join.items:
        if item.side is Side.INNER and isinstance(item.node, Join):
            items.extend(item.node.items)
            where.extend(item.node.where)
        else:
            items.append(item)
    return harden(Join(tuple(items), (*where, *join.where)))
