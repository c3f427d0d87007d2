"""Which rows of each occurrence of a table are needed to compute the rows of limited keys: magic sets.

The equalities that hold in a row of the result carry the limits that it matches over to the rows from which it is made;
and of every table, all rows that match its limits are read. So the joins, groups and missing partners of such a row are
complete, and any other row that comes out does not match the limits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

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
    Side,
    Windows,
    column,
    columns,
    columns_in,
    nulls_of,
    without_item,
)
from lakehouse.views.equalities import KeyPair, equal_columns, key_pairs, rejects_null, without_coalesce
from lakehouse.views.plan import Image, KeyFacts
from lakehouse.views.steps.planning import Planning, is_one_row, label, scans_of
from lakehouse.views.steps.relations import (
    KeyLimit,
    as_compared,
    guard,
    limits_over,
    of_branch,
    of_join_item,
    print_sql,
    select,
    through,
)
from lakehouse.views.steps.simplify import harden
from lakehouse.views.steps.supersets import superset


@dataclass(frozen=True, eq=False, slots=True)
class Restrictions:
    """The limits of each occurrence of a table, while they are looked for.

    Args:
        planning: The plan in the making; the values by which one item limits another become steps.
        images: The images from which these values are taken.
        keys: What is known of the touched keys.
        any_of: The alternatives that limit each occurrence, by its identity.
        why_whole: Why no key limits an occurrence, by its identity, where one limits the rows around it.
    """

    planning: Planning
    images: tuple[Image, ...]
    keys: KeyFacts | None = None
    any_of: dict[int, tuple[tuple[KeyLimit, ...], ...]] = field(
        default_factory=dict[int, tuple[tuple[KeyLimit, ...], ...]]
    )
    why_whole: dict[int, str] = field(default_factory=dict[int, str])

    def say_read_whole(self, node: Node) -> None:
        """Records the tables below a node that are read whole."""
        otherwise = "one value is computed from it" if is_one_row(node) else "no key limits it"
        for scan in scans_of(node):
            if () in self.any_of.get(id(scan), ()):
                self.planning.say_read_whole(scan, self.why_whole.get(id(scan), otherwise))

    def limit(self, node: Node, limits: tuple[KeyLimit, ...]) -> None:
        """Records which rows of each table below a node are needed for the node's rows that match limits."""
        facts = self.planning.facts
        limits = facts.sayable(limits)
        match node:
            case Scan():
                self.any_of[id(node)] = (*self.any_of.get(id(node), ()), limits)
            case Extend(node=below, new=new):
                of_new = through(limits, new)
                is_constant = not any(limit.columns for limit in of_new)
                why = "its rows together make one" if is_constant else f"{self._words(limits)} is computed"
                self._pass(below, limits, limits_over(of_new, columns(below)), why)
            case Generate(node=below):
                down = limits_over(limits, columns(below))
                self._pass(below, limits, down, f"a list gives {self._words(limits)}")
            case Filter(node=below, where=where):
                self.limit(below, guard(limits, below, filter(facts.can_say, where), facts.query.types))
            case Aggregation(node=below, groups=groups):
                down = limits_over(limits, groups)
                self._pass(below, limits, down, f"{self._words(limits)} is computed from many rows")
            case Windows():
                self._limit_partitions(node, limits)
            case MarkJoin():
                self._limit_mark(node, limits)
            case SetOperation(nodes=nodes):
                why = f"{self._words(limits)} may be of another type in each branch"
                for place, branch in enumerate(nodes):
                    self._pass(branch, limits, of_branch(node, place, limits, self.planning.facts.query.types), why)
            case FullJoin():
                self._limit_full_join(node, limits)
            case Join():
                self._limit_join(node, limits)

    def _pass(self, below: Node, limits: tuple[KeyLimit, ...], down: tuple[KeyLimit, ...], why: str) -> None:
        """Limits a node by what limits on the rows around it imply; if they imply nothing, records why."""
        if limits and not down:
            for scan in scans_of(below):
                self.why_whole.setdefault(id(scan), why)
        self.limit(below, down)

    def _words(self, limits: tuple[KeyLimit, ...]) -> str:
        """The words for the columns that are limited."""
        return self.planning.facts.wording.of_columns(frozenset[str]().union(*(limit.columns for limit in limits)))

    def _limit_partitions(self, node: Windows, limits: tuple[KeyLimit, ...]) -> None:
        """Limits the rows to whole partitions: those that have a row within the limits."""
        direct = limits_over(limits, node.partition)
        of_rows = limits_over(limits, columns(node.node))
        if not direct and node.partition and of_rows and not self.planning.facts.unsaid.keys() & set(node.partition):
            rows = superset(self.planning, node.node, frozenset(node.partition), of_rows, self.images)
            _, step = self.planning.step(rows, f"partitions of {label(node)} that have a touched row")
            direct = (KeyLimit(step, tuple((column(name), name) for name in node.partition)),)
        self._pass(node.node, limits, direct, f"{self._words(limits)} is computed from many rows")

    def _limit_mark(self, node: MarkJoin, limits: tuple[KeyLimit, ...]) -> None:
        """Limits the rows, and limits the subquery to what these rows need."""
        of_rows = limits_over(limits, columns(node.node))
        self.limit(node.node, of_rows)
        pairs = list(key_pairs(node.on, columns(node.sub), columns(node.node)))
        if node.use is MarkUse.POSITIVE:
            pairs += [KeyPair(column(one), sought) for one, sought in zip(node.among, node.sought, strict=True)]
        of_sub = self._asked_by(node.node, of_rows, pairs, (), node.sub)
        word = "NOT IN" if node.use is MarkUse.NEGATIVE else "IN"
        why = f"{word} looks at all of it" if node.sought else "no equality links it to the rows around it"
        self._pass(node.sub, limits, of_sub, why)

    def _asked_by(
        self,
        node: Node,
        limits: tuple[KeyLimit, ...],
        pairs: Iterable[KeyPair],
        conditions: tuple[Expression, ...],
        other: Node,
    ) -> tuple[KeyLimit, ...]:
        """The limits that a node's limited rows put on another node: a step with the values that may match there."""
        facts = self.planning.facts
        spoken = [one for one in pairs if one.has_columns and facts.can_say(one.sought) and facts.can_say(one.given)]
        if not limits or not spoken or facts.is_small(other):
            return ()
        keys = {f"key__{k}": print_sql(one.given) for k, one in enumerate(spoken)}
        local = [each for each in conditions if facts.can_say(each)]
        need = columns_in(*local, *(one.given for one in spoken))
        rows = superset(self.planning, node, need, limits, self.images)
        rows = select(rows, keys, [print_sql(each) for each in local], keys)
        _, step = self.planning.step(rows, f"which rows of {label(other)} the rows of {label(node)} need")
        of_step = tuple((as_compared(one, facts.query.types), key) for one, key in zip(spoken, keys, strict=True))
        return (KeyLimit(step, of_step, null_safe=any(one.null_safe for one in spoken)),)

    # joins

    def _limit_join(self, join: Join, limits: tuple[KeyLimit, ...]) -> None:
        """Limits the items. If columns of a LEFT item are limited, rows with and without it are limited separately."""
        types = self.planning.facts.query.types
        for k, item in enumerate(join.items):
            own = columns(item.node)
            if item.side is Side.LEFT and any(
                columns_in(without_coalesce(join, e, types)) & own for limit in limits for e, _ in limit.pairs
            ):
                inner = replace(item, side=Side.INNER, on=())
                items = tuple(inner if one is item else one for one in join.items)
                parts: list[tuple[Node, frozenset[str]]] = [
                    (harden(Join(items, (*join.where, *item.on))), frozenset[str]())
                ]
                if not self._has_null_free_key(limits, own):
                    parts.append((_rows_without_partner(without_item(join, k), item.node, item.on), own))
                self._limit_parts(parts, limits)
                return
        for item, of_item in zip(join.items, self._of_items(join, limits), strict=True):
            used = filter(self.planning.facts.can_say, item.on if item.side is Side.LEFT else join.where)
            why = "one value is computed from it" if is_one_row(item.node) else "no equality links it"
            self._pass(item.node, limits, guard(of_item, item.node, used, types), why)

    def _of_items(self, join: Join, limits: tuple[KeyLimit, ...]) -> list[tuple[KeyLimit, ...]]:
        """The limits of each item: from those of the join, and then from item to item along its equalities.

        A value of an item that may be missing limits another item only if the equality rejects NULL: otherwise the rows
        without the missing item need other rows.
        """
        facts, nodes = self.planning.facts, [item.node for item in join.items]
        of_items = [
            tuple(
                part
                for limit in limits
                if (part := of_join_item(join, k, limit, facts.query.types, self._null_free(limit)))
            )
            for k in range(len(nodes))
        ]
        while True:
            todo = [k for k, of_item in enumerate(of_items) if not of_item and not facts.is_small(nodes[k])]
            best = next((pairs for k in todo if (pairs := self._best_pairs(join, k, of_items)) is not None), None)
            if best is None:
                return of_items
            k, other, pairs = best
            local = tuple(each for each in join.where if columns_in(each) and columns_in(each) <= columns(nodes[other]))
            of_items[k] = self._asked_by(nodes[other], of_items[other], pairs, local, nodes[k])

    def _best_pairs(
        self, join: Join, index: int, of_items: list[tuple[KeyLimit, ...]]
    ) -> tuple[int, int, list[KeyPair]] | None:
        """The limited item with most equalities to an item without limits, with these; None if there is none."""
        item, facts = join.items[index], self.planning.facts
        conditions = [each for each in (item.on if item.side is Side.LEFT else join.where) if facts.can_say(each)]
        best: tuple[int, int, list[KeyPair]] | None = None
        for k, other in enumerate(join.items):
            of_other = columns(other.node)
            pairs = [
                pair
                for pair in key_pairs(conditions, columns(item.node), of_other)
                if other.side is Side.INNER or (not pair.null_safe and rejects_null(pair.equality, of_other))
            ]
            if k != index and of_items[k] and pairs and (best is None or len(pairs) > len(best[2])):
                best = index, k, pairs
        return best

    def _limit_full_join(self, node: FullJoin, limits: tuple[KeyLimit, ...]) -> None:
        """Limits both sides by what is equal in each pair; else limits pairs and rows without a partner separately."""
        left, right = self._of_full_join(node, limits)
        if limits and not (left and right):
            pairs = Join((Item(node.left), Item(node.right)), node.on)
            parts: list[tuple[Node, frozenset[str]]] = [(pairs, frozenset())]
            for one, other in ((node.left, node.right), (node.right, node.left)):
                parts.append((_rows_without_partner(one, other, node.on), columns(other)))
            self._limit_parts(parts, limits)
            return
        for side, of_side in ((node.left, left), (node.right, right)):
            self._pass(side, limits, of_side, "no equality links it")

    def _of_full_join(
        self, node: FullJoin, limits: tuple[KeyLimit, ...]
    ) -> tuple[tuple[KeyLimit, ...], tuple[KeyLimit, ...]]:
        """What limits imply for both sides: by coalesce(l.k, r.k) where l.k = r.k, and by columns if no key is NULL."""
        types, of_left, of_right = self.planning.facts.query.types, columns(node.left), columns(node.right)
        equal: dict[str, str] = {}
        for each in node.on:
            if (pair := equal_columns(each, types)) is not None:
                one, other = pair if pair[0] in of_left else pair[::-1]
                if one in of_left and other in of_right:
                    equal[one] = other
        sides: tuple[list[KeyLimit], list[KeyLimit]] = ([], [])
        for limit in limits:
            of_pairs = [_of_sides(e, equal, of_left, is_free=key in self._null_free(limit)) for e, key in limit.pairs]
            for k, side in enumerate(sides):
                of_side = [(of[k], key) for of, (_, key) in zip(of_pairs, limit.pairs, strict=True)]
                pairs = tuple((column(name), key) for name, key in of_side if name is not None)
                if pairs:
                    side.append(KeyLimit(limit.step, pairs, limit.null_safe))
        return tuple(sides[0]), tuple(sides[1])

    # parts of a node

    def _limit_parts(self, parts: Iterable[tuple[Node, frozenset[str]]], limits: tuple[KeyLimit, ...]) -> None:
        """Limits parts of a node's rows, given with the columns that are NULL in each; skips parts without a key."""
        for node, missing in parts:
            nulls = nulls_of(missing)
            of_part = through(limits, nulls)
            if all(self._may_hold(limit) for limit in of_part):
                down = limits_over(of_part, columns(node))
                self._pass(node, of_part, down, "rows without a match have such a key")

    def _may_hold(self, limit: KeyLimit) -> bool:
        """Whether the keys may contain the constants in a limit."""
        constants = [(_without_null(e), key) for e, key in limit.pairs if not columns_in(e)]
        if any(isinstance(e, exp.Null) and key in self._null_free(limit) for e, key in constants):
            return False
        if self.keys is None or limit.step != self.keys.step:
            return True
        return all(self.keys.holds(key, print_sql(e)) for e, key in constants)

    def _has_null_free_key(self, limits: tuple[KeyLimit, ...], own: frozenset[str]) -> bool:
        """Whether a column of an item is limited by keys that are never NULL: then the item is there."""
        return any(
            isinstance(e, exp.Column) and e.name in own and key in self._null_free(limit)
            for limit in limits
            for e, key in limit.pairs
        )

    def _null_free(self, limit: KeyLimit) -> frozenset[str]:
        """The columns of a limit's step that have no NULL, as far as is known."""
        return self.keys.null_free if self.keys is not None and limit.step == self.keys.step else frozenset()


def _rows_without_partner(node: Node, other: Node, on: tuple[Expression, ...]) -> Node:
    """The rows of a node that no row of another one matches."""
    return MarkJoin(node, other, on, "unmatched__", use=MarkUse.NEGATIVE)


def _without_null(constant: Expression) -> Expression:
    """A constant; for `coalesce(NULL, x)`, `x`."""
    if isinstance(constant, exp.Coalesce) and isinstance(constant.this, exp.Null) and len(constant.expressions) == 1:
        return constant.expressions[0]
    return constant


def _of_sides(
    expression: Expression, equal: Mapping[str, str], left: frozenset[str], *, is_free: bool
) -> tuple[str | None, str | None]:
    """For each side of a full join, the column that has an expression's value in every row with that side; or None."""
    if isinstance(expression, exp.Coalesce):
        names = {one.name for one in (expression.this, *expression.expressions) if isinstance(one, exp.Column)}
        pair = next(((a, b) for a, b in equal.items() if {a, b} == names), None)
        return pair if pair is not None and len(expression.expressions) == 1 else (None, None)
    if not isinstance(expression, exp.Column) or not is_free:
        return None, None
    name, back = expression.name, {b: a for a, b in equal.items()}
    if name in equal or name in left:
        return name, equal.get(name)
    return back.get(name), name
