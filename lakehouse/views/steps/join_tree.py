"""The ways through a join: which conditions link its items, and the tree along which keys go to the wanted columns."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import Join, Side, column, columns, columns_in
from lakehouse.views.equalities import Classes
from lakehouse.views.steps.planning import QueryFacts


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """A conjunct of a join.

    Args:
        expression: The conjunct.
        items: The items whose columns it names, and the LEFT item whose ON contains it.
        on: The LEFT item whose ON contains it; None for a conjunct of WHERE.
    """

    expression: Expression
    items: frozenset[int]
    on: int | None


class JoinGraph:
    """The items of a join and what links them. Conditions that no step can compute are left out.

    Args:
        join: The join.
        facts: What is known of the query.
    """

    def __init__(self, join: Join, facts: QueryFacts) -> None:
        self.join, self._types = join, facts.query.types
        self.columns = [columns(item.node) for item in join.items]
        self._owner = {name: k for k, names in enumerate(self.columns) for name in names}
        self.classes = Classes(filter(facts.can_say, join.where), self._types)
        conjuncts = [
            *((each, None) for each in join.where),
            *((each, k) for k, item in enumerate(join.items) for each in item.on),
        ]
        self._conditions = [
            Condition(each, self._items(each).union(() if on is None else (on,)), on)
            for each, on in conjuncts
            if facts.can_say(each)
        ]

    def is_left(self, item: int) -> bool:
        """Whether an item may be missing."""
        return self.join.items[item].side is Side.LEFT

    def local(self, item: int) -> list[Condition]:
        """The conditions on one item alone, from WHERE and from its own ON."""
        return [each for each in self._conditions if each.items == frozenset((item,)) and columns_in(each.expression)]

    def between(self, one: int, other: int) -> list[Condition]:
        """The conditions on two items; if none of them is an equality, also one that several conditions imply."""
        direct = [each for each in self._conditions if each.items == frozenset((one, other))]
        if any(self._is_equality(each) for each in direct):
            return direct
        for name in sorted(self.columns[one]):
            if (equal := self.classes.among(name, self.columns[other])) is not None:
                implied = exp.EQ(this=column(name), expression=column(equal))
                return [*direct, Condition(implied, frozenset({one, other}), None)]
        return direct

    def neighbours(self, item: int) -> list[int]:
        """The items that an equality links to an item."""
        others = (k for k in range(len(self.join.items)) if k != item)
        return [k for k in others if any(map(self._is_equality, self.between(item, k)))]

    def providers(self, name: str) -> dict[int, str]:
        """The items that have a column, or a column that is equal to it in every row; each with its column."""
        equal = {k: self.classes.among(name, names) for k, names in enumerate(self.columns)}
        return {k: one for k, one in equal.items() if one is not None}

    def mentions(self, item: int, want: Collection[str]) -> bool:
        """Whether it matters that an item is missing: one of its columns is wanted, in WHERE, or in another ON."""
        own = self.columns[item]
        others = (each for k, one in enumerate(self.join.items) if k != item for each in one.on)
        return bool(own & set(want)) or any(columns_in(each) & own for each in (*self.join.where, *others))

    def _items(self, *of: Expression) -> frozenset[int]:
        return frozenset(self._owner[name] for name in columns_in(*of) if name in self._owner)

    def _is_equality(self, condition: Condition) -> bool:
        """Whether a condition links two items by values that they share."""
        expression = condition.expression
        if not isinstance(expression, exp.EQ | exp.NullSafeEQ) or len(condition.items) != 2:
            return False
        one, other = self._items(expression.this), self._items(expression.expression)
        return bool(one and other and not one & other)


@dataclass(eq=False, slots=True)
class Tree:
    """The way from each item to the wanted columns.

    Args:
        parent: The next item on the way; None at a root, where the way ends.
        provides: The wanted columns that are taken from each item, each with the item's own column for it.
    """

    parent: dict[int, int | None]
    provides: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])

    @property
    def roots(self) -> list[int]:
        """The items where ways end."""
        return [item for item, parent in self.parent.items() if parent is None]

    def children(self, item: int) -> list[int]:
        """The items whose next item on the way this is."""
        return [child for child, parent in self.parent.items() if parent == item]

    def wanted_columns(self, item: int) -> frozenset[str]:
        """The wanted columns that an item and the items behind it provide."""
        below = (self.wanted_columns(child) for child in self.children(item))
        return frozenset(self.provides.get(item, {})).union(*below)

    def neighbours(self, item: int) -> list[int]:
        """The items to which the rows of an item may have to go: its parent, and its children with wanted columns."""
        parent = self.parent[item]
        return [
            *([] if parent is None else [parent]),
            *(child for child in self.children(item) if self.wanted_columns(child)),
        ]


def grow(graph: JoinGraph, want: Iterable[str], starts: Collection[int]) -> Tree:
    """The tree along which the rows of some items go to the wanted columns, by the fewest hops."""
    providers = {name: graph.providers(name) for name in want}
    items = range(len(graph.join.items))
    roots = [k for k in items if all(k in of_name for of_name in providers.values())]
    if not roots:
        roots = [max(items, key=lambda k: (sum(k in one for one in providers.values()), not graph.is_left(k), -k))]
    tree = Tree(dict.fromkeys(roots))
    _spread(graph, tree, roots)
    while missing := [k for k in starts if k not in tree.parent] + [
        min(of_name) for of_name in providers.values() if not tree.parent.keys() & of_name.keys()
    ]:
        nearest = next((k for k in tree.parent if graph.between(k, missing[0])), roots[0])
        tree.parent[missing[0]] = nearest
        _spread(graph, tree, [missing[0]])
    for name, of_name in providers.items():
        for k in roots if roots[0] in of_name else [next(k for k in tree.parent if k in of_name)]:
            tree.provides.setdefault(k, {})[name] = of_name[k]
    ways = {one for k in (*starts, *tree.provides) for one in _way(tree, k)}
    tree.parent = {k: parent for k, parent in tree.parent.items() if k in ways}
    return tree


def _spread(graph: JoinGraph, tree: Tree, start: list[int]) -> None:
    """Adds to the tree the items that equalities link to some of its items, the nearest first."""
    queue = list(start)
    while queue:
        item = queue.pop(0)
        for other in graph.neighbours(item):
            if other not in tree.parent:
                tree.parent[other] = item
                queue.append(other)


def _way(tree: Tree, item: int) -> list[int]:
    """An item and the items on its way to the root."""
    parent = tree.parent[item]
    return [item, *([] if parent is None else _way(tree, parent))]
