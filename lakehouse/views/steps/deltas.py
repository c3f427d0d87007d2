"""The first reading of a node: a superset of the values in the rows that it has more or fewer of than before."""

from collections.abc import Iterable
from typing import cast

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
    MarkUse,
    Node,
    Scan,
    SetOperation,
    Windows,
    column,
    columns,
    columns_in,
)
from lakehouse.views.steps.hops import Entry, reach
from lakehouse.views.steps.planning import EVER, Planning, is_one_row, label
from lakehouse.views.steps.relations import KeyLimit, Relation, holds, select, unite
from lakehouse.views.steps.supersets import (
    compute_columns,
    filter_rows,
    inputs,
    pad,
    superset,
    unite_branches,
)


def delta(planning: Planning, node: Node, want: frozenset[str]) -> Relation | None:
    """A superset of the wanted values in rows that a node has more or fewer of than before; None if there are none."""
    if not planning.facts.changes(node):
        return None
    planning.require_said(want)
    match node:
        case Scan():
            return select(planning.moved_rows(node, planning.facts.used & set(node.names)), want)
        case Extend() | Generate():
            rows = delta(planning, node.node, inputs(node, want))
            return rows and compute_columns(node, want, rows)
        case Filter():
            rows = delta(planning, node.node, want)
            return rows and filter_rows(planning.facts, node, rows)
        case Aggregation():
            return delta(planning, node.node, want)
        case Windows():
            if want <= set(node.partition):
                return delta(planning, node.node, want)
            return _rows_of_partitions(planning, node, want)
        case MarkJoin():
            return unite(_of_mark(planning, node, want))
        case SetOperation():
            return _of_branches(planning, node, want)
        case FullJoin():
            return unite(_of_full_join(planning, node, want))
        case Join():
            entries = {k: _entry(planning, item.node) for k, item in enumerate(node.items)}
            return unite(reach(planning, node, _that_change(planning, node, entries), want, EVER))


def _entry(planning: Planning, node: Node) -> Entry:
    return Entry(lambda need: delta(planning, node, need), lambda need: _came_or_went(planning, node, need))


def _came_or_went(planning: Planning, node: Node, want: frozenset[str]) -> Relation | None:
    """Values that come or go if the node is reduced to the wanted columns.

    A change of another column does not count, so a row that is there before and after does not count as missing.
    Columns that no step can compute are left out, but what they are computed from counts.
    """
    sayable = want - planning.facts.unsaid.keys()
    if not planning.facts.changes(node):
        return None
    match node:
        case Scan():
            return planning.moved_rows(node, want)
        case Extend():
            rows = _came_or_went(planning, node.node, inputs(node, want))
            return rows and compute_columns(node, sayable, rows)
        case Filter(node=below, where=where) | Join(items=(Item(node=below),), where=where):
            rows = _came_or_went(planning, below, want | columns_in(*where))
            return rows and select(filter_rows(planning.facts, Filter(below, where), rows), sayable)
        case _:
            return delta(planning, node, sayable)


def _that_change(planning: Planning, join: Join, entries: dict[int, Entry]) -> dict[int, Entry]:
    """The entries of the items that may have changed. A changed value of all rows, which no keys follow, is refused."""
    changed = {k: entry for k, entry in entries.items() if planning.facts.changes(join.items[k].node)}
    for k in changed if len(join.items) > 1 else ():
        if is_one_row(join.items[k].node):
            planning.require_said(columns(join.items[k].node))
    return changed


def _rows_of_partitions(planning: Planning, node: Windows, want: frozenset[str]) -> Relation | None:
    """All rows of the partitions with a changed row."""
    moved = delta(planning, node.node, frozenset(node.partition))
    if moved is None:
        return None
    _, step = planning.step(moved, f"partitions of {label(node)} with a changed row")
    limit = KeyLimit(step, tuple((column(name), name) for name in node.partition))
    rows = superset(planning, node.node, want | set(node.partition), (limit,), EVER)
    return select(rows, want, [holds(limit)])


def _of_mark(planning: Planning, node: MarkJoin, want: frozenset[str]) -> list[Relation]:
    """The changed rows, and the rows for which a change of the subquery may change the boolean.

    IN is NULL, not false, if what is sought or one of the values is NULL.
    """
    rows = [each for each in (delta(planning, node.node, want),) if each is not None]
    if not planning.facts.changes(node.sub):
        return rows
    among: list[Expression] = [column(name) for name in node.among]
    equal = tuple(exp.EQ(this=sought.copy(), expression=one) for sought, one in zip(node.sought, among, strict=True))
    conditions: list[tuple[Expression, ...]] = [equal]
    if node.sought and node.use is not MarkUse.POSITIVE:
        conditions += [(_is_any_null(node.sought),), (_is_any_null(among),)]
    for each in conditions:
        both = Join((Item(node.node), Item(node.sub)), (*node.on, *each))
        entries = _that_change(planning, both, {1: _entry(planning, node.sub)})
        rows += reach(planning, both, entries, want, EVER)
    return rows


def _is_any_null(of: Iterable[Expression]) -> Expression:
    """The condition that one of several expressions is NULL."""
    return cast("Expression", exp.or_(*(exp.Is(this=each.copy(), expression=exp.null()) for each in of)))


def _of_branches(planning: Planning, node: SetOperation, want: frozenset[str]) -> Relation | None:
    """The changes of the branches, by position: how often a row is in the result depends on equal rows alone."""
    moved = {
        place: rows
        for place, (branch, names) in enumerate(zip(node.nodes, node.names, strict=True))
        if (rows := delta(planning, branch, frozenset(names[name] for name in want))) is not None
    }
    return unite_branches(planning, node, want, moved)


def _of_full_join(planning: Planning, node: FullJoin, want: frozenset[str]) -> list[Relation]:
    """Changed pairs; changed rows of each side, padded with NULL; rows of the other side that they match, padded."""
    rows: list[Relation] = []
    pairs = Join((Item(node.left), Item(node.right)), node.on)
    entries = _that_change(planning, pairs, {0: _entry(planning, node.left), 1: _entry(planning, node.right)})
    rows += reach(planning, pairs, entries, want, EVER)
    for k, (side, other) in enumerate(((node.left, node.right), (node.right, node.left))):
        moved = delta(planning, side, want & columns(side))
        if moved is not None:
            rows.append(pad(planning.facts, moved, want))
            beside = reach(planning, pairs, {k: entries[k]}, want & columns(other), EVER)
            rows += [pad(planning.facts, each, want) for each in beside]
    return rows
