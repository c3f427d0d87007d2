"""How a change of some items of a join reaches wanted columns: hop by hop, one step for each edge of the join tree.

A hop carries the columns that link two items, and the wanted columns found so far. So the rows of all changed items
that arrive at an item go on together. A row of a LEFT item is there, or it is missing and NULL: both cases go on.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import Join, column, columns_in, nulls_of, substitute
from lakehouse.views.equalities import key_pairs, on_equalities, rejects_null
from lakehouse.views.plan import Image
from lakehouse.views.steps.join_tree import Condition, JoinGraph, Tree, grow
from lakehouse.views.steps.planning import EVER, Planning, label
from lakehouse.views.steps.relations import KeyLimit, Relation, as_compared, combine, guard, print_sql, select, unite


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """Rows of an item from which the way starts.

    Args:
        rows: Gives the rows, for the columns that are needed.
        presence: For changed rows: gives those that came or went if the item had only these columns. There, a LEFT item
            may be missing now, or was missing before. None for rows that did not change.
    """

    rows: Callable[[frozenset[str]], Relation | None]
    presence: Callable[[frozenset[str]], Relation | None] | None = None


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Rows that have come to an item: whether it is missing, and so NULL; and the children whose columns they have."""

    relation: Relation
    is_missing: bool = False
    has: frozenset[int] = frozenset()


def reach(
    planning: Planning,
    join: Join,
    entries: Mapping[int, Entry],
    want: frozenset[str],
    images: tuple[Image, ...],
) -> list[Relation]:
    """The values of wanted columns in the rows of a join that contain, or contained, a row of an entry."""
    direct, others = list[Relation](), dict(entries)
    graph = JoinGraph(join, planning.facts)
    for item, entry in entries.items():
        if (values := _of_left_item(planning, graph, item, entry, want)) is not None:
            direct += values
            del others[item]
    if not others:
        return direct
    tree = grow(graph, want, others)
    return direct + _Walk(planning, graph, tree, others, want, images).arrive_at_roots()


def _of_left_item(
    planning: Planning, graph: JoinGraph, item: int, entry: Entry, want: frozenset[str]
) -> list[Relation] | None:
    """Wanted values that a change of a LEFT item decides alone: its own, NULL, what its ON makes equal; else None."""
    if not graph.is_left(item) or entry.presence is None:
        return None
    of_item, classes, on = graph.columns[item], graph.classes, graph.join.items[item].on
    equal = on_equalities(filter(planning.facts.can_say, on), of_item, planning.facts.query.types)
    values: dict[str, str] = {}
    for name in want:
        others = [own for other, own in sorted(equal.items()) if classes.of(other) == classes.of(name)]
        value = classes.among(name, of_item) or next(iter(others), None)
        if value is None:
            return None
        values[name] = value
    local = [each.expression for each in graph.local(item) if each.on == item]
    conditions = [print_sql(each) for each in local]
    results: list[Relation] = []
    if (rows := entry.rows(columns_in(*local).union(values.values()))) is not None:
        results.append(select(select(rows, rows.columns, conditions), want, computed=values))
    nulls = {name: planning.facts.null(name) for name in values if name in of_item}
    if nulls and (rows := entry.presence(columns_in(*on) & of_item)) is not None:
        partners = _with_partner(planning, graph, item, select(rows, rows.columns, conditions))
        results.append(select(partners, want, computed=values | nulls))
    return results


def _with_partner(planning: Planning, graph: JoinGraph, item: int, rows: Relation) -> Relation:
    """The rows of a LEFT item that match a row of another item by its ON; all rows if no equality links one."""
    for other in graph.neighbours(item):
        conditions = [each.expression for each in graph.between(item, other) if each.on == item]
        if list(key_pairs(conditions, graph.columns[other], rows.columns)):
            given, limits = _limit_by(planning, graph, rows, conditions, item, other)
            need = columns_in(*conditions) & graph.columns[other]
            partners = planning.superset(planning, graph.join.items[other].node, need, limits, EVER)
            return combine(given, partners, [print_sql(each) for each in conditions])
    return rows


class _Walk:
    """One tree, and the rows that go along it."""

    def __init__(
        self,
        planning: Planning,
        graph: JoinGraph,
        tree: Tree,
        entries: Mapping[int, Entry],
        want: frozenset[str],
        images: tuple[Image, ...],
    ) -> None:
        self._planning, self._graph, self._tree = planning, graph, tree
        self._entries, self._want, self._images = entries, want, images

    def arrive_at_roots(self) -> list[Relation]:
        """The wanted values of all rows that come to a root."""
        computed = {name: _at(name) for name in self._want}
        arrivals = [each for root in self._tree.roots for each in self._complete(root)]
        return [select(each.relation, self._want, computed=computed) for each in arrivals]

    # what an item's rows must have

    def _conditions(self, item: int) -> list[Condition]:
        """The conditions between an item and the items to which its rows may have to go."""
        return [each for other in self._tree.neighbours(item) for each in self._graph.between(item, other)]

    def _linking(self, item: int, *, on: bool) -> frozenset[str]:
        """The item's columns in its `_conditions`: in those of its own ON, or in all others."""
        conditions = (each.expression for each in self._conditions(item) if (each.on == item) == on)
        return columns_in(*conditions) & self._graph.columns[item]

    def _needed_columns(self, item: int) -> frozenset[str]:
        """The columns of an item that its rows must have."""
        provided = self._tree.provides.get(item, {}).values()
        return self._linking(item, on=True) | self._linking(item, on=False) | set(provided)

    def _said_at(self, item: int, relation: Relation, carried: Iterable[str], *, is_null: bool = False) -> Relation:
        """Rows of an item as they go on: with linking columns, those of its own ON renamed, and wanted columns.

        A change of a LEFT item also affects rows that lack it now, or lacked it before: its columns are NULL there, but
        the columns of its own ON show which rows these are.
        """
        nulls = {name: self._planning.facts.null(name) for name in self._graph.columns[item]}
        values = {_of_on(name): name for name in self._linking(item, on=True)}
        for name, own in self._tree.provides.get(item, {}).items():
            values[_at(name)] = nulls[own] if is_null else own
        if is_null:
            values |= {name: nulls[name] for name in self._linking(item, on=False)}
        return select(relation, {*values, *self._linking(item, on=False), *carried}, computed=values)

    # rows that come to an item

    def _complete(self, item: int) -> list[_Arrival]:
        """The changed rows of an item and of the items behind it, with all wanted columns that these items provide."""
        arrivals = self._own(item)
        for child in self._tree.children(item):
            has = frozenset({child} if self._tree.wanted_columns(child) else ())
            for message in self._messages(child, item):
                arrivals += [replace(each, has=has) for each in self._hop(message, child, item, goes_on=False)]
        for child in self._tree.children(item):
            if self._tree.wanted_columns(child):
                lacking = _unite_arrivals([each for each in arrivals if child not in each.has])
                arrivals = [each for each in arrivals if child in each.has]
                for each in lacking:
                    has = each.has | {child}
                    arrivals += [replace(each, relation=rows, has=has) for rows in self._fetch(each, item, child)]
        return _unite_arrivals([_Arrival(each.relation, each.is_missing) for each in arrivals])

    def _own(self, item: int) -> list[_Arrival]:
        """The rows from which the way starts, if it starts here."""
        if (entry := self._entries.get(item)) is None:
            return []
        graph = self._graph
        local = graph.local(item)
        need = self._needed_columns(item) | columns_in(*(each.expression for each in local))
        rows = entry.rows(need)
        if rows is None:
            return []
        matched = select(rows, rows.columns, _print_all(local))
        arrivals = [_Arrival(self._said_at(item, matched, ()))]
        refuses = any(rejects_null(each.expression, graph.columns[item]) for each in local if each.on is None)
        if entry.presence is None or not graph.is_left(item) or refuses or not graph.mentions(item, self._want):
            return arrivals
        of_on = columns_in(*graph.join.items[item].on) & graph.columns[item]
        if (present := entry.presence(of_on)) is not None:
            present = select(present, present.columns, _print_all(each for each in local if each.on is not None))
            arrivals.append(_Arrival(self._said_at(item, present, (), is_null=True)))
        return arrivals

    def _messages(self, child: int, item: int) -> list[_Arrival]:
        """The rows of a child as they come to the next item: with linking columns, and wanted columns."""
        between = self._graph.between(child, item)
        of_on = columns_in(*(each.expression for each in between if each.on == child)) & self._graph.columns[child]
        others = columns_in(*(each.expression for each in between if each.on != child)) & self._graph.columns[child]
        carried = {*map(_at, self._tree.wanted_columns(child)), *others}
        messages: list[_Arrival] = []
        for each in self._complete(child):
            if each.is_missing and of_on:
                messages.append(_Arrival(select(each.relation, carried), is_missing=True))
            else:
                messages.append(_Arrival(select(each.relation, {*carried, *map(_of_on, of_on)})))
        return _unite_arrivals(messages)

    def _fetch(self, arrival: _Arrival, item: int, child: int) -> list[Relation]:
        """Rows with the wanted columns of a child and of the items behind it."""
        arrivals = self._hop(arrival, item, child, goes_on=True)
        for further in self._tree.children(child):
            if self._tree.wanted_columns(further):
                arrivals = [
                    _Arrival(relation, each.is_missing)
                    for each in _unite_arrivals(arrivals)
                    for relation in self._fetch(each, child, further)
                ]
        carried = {*arrival.relation.columns, *map(_at, self._tree.wanted_columns(child))}
        return [select(each.relation, carried) for each in arrivals]

    def _hop(self, arrival: _Arrival, source: int, item: int, *, goes_on: bool) -> list[_Arrival]:
        """Rows of one item joined to another item: where the other is found, and where it is missing."""
        graph, planning, node = self._graph, self._planning, self._graph.join.items[item].node
        primes = {name: column(_of_on(name)) for name in graph.columns[source]}
        conditions = [
            (substitute(each.expression, primes) if each.on == source else each.expression, each.on)
            for each in graph.between(source, item)
            if not (each.on == source and arrival.is_missing)
        ]
        given = arrival.relation
        carried = given.columns if goes_on else tuple(c for c in given.columns if c in {*map(_at, self._want)})
        given, limits = _limit_by(planning, graph, given, [each for each, _ in conditions], source, item)
        local = graph.local(item)
        need = self._needed_columns(item) | columns_in(
            *(each.expression for each in local), *(each for each, _ in conditions)
        )
        used = (each.expression for each in local if each.on == (item if graph.is_left(item) else None))
        limits = guard(limits, node, used, planning.facts.query.types)
        rows = planning.superset(planning, node, need & graph.columns[item], limits, self._images)
        rows = select(rows, rows.columns, _print_all(local))
        joined = combine(given, rows, [print_sql(each) for each, _ in conditions])
        arrivals = [_Arrival(self._said_at(item, joined, carried))]
        if graph.is_left(item):
            of_where = [
                *(each for each, on in conditions if on != item),
                *(c.expression for c in local if c.on is None),
            ]
            if not any(rejects_null(each, graph.columns[item]) for each in of_where):
                nulls = nulls_of(graph.columns[item])
                lacking = select(given, carried, [print_sql(substitute(each, nulls)) for each in of_where])
                computed = {name: planning.facts.null(name) for name in self._linking(item, on=False)}
                for name, own in self._tree.provides.get(item, {}).items():
                    computed[_at(name)] = planning.facts.null(own)
                missing = select(lacking, {*carried, *computed}, computed=computed)
                arrivals.append(_Arrival(missing, is_missing=True))
        return arrivals


def _limit_by(
    planning: Planning, graph: JoinGraph, given: Relation, conditions: list[Expression], source: int, item: int
) -> tuple[Relation, tuple[KeyLimit, ...]]:
    """Turns rows into a step whose keys limit the next item, unless that item is small or no equality links the two."""
    node, before = graph.join.items[item].node, graph.join.items[source].node
    pairs = list(key_pairs(conditions, graph.columns[item], given.columns))
    if planning.facts.is_small(node):
        return given, ()
    if not pairs:
        planning.say_read_whole(node, f"no equality links it to {label(before)}")
        return given, ()
    given_keys = {k: one.given for k, one in enumerate(pairs) if not isinstance(one.given, exp.Column)}
    computed = {f"key__{k}": print_sql(expression) for k, expression in given_keys.items()}
    why = f"on the way from {label(before)} to {label(node)}"
    step, name = planning.step(select(given, {*given.columns, *computed}, computed=computed), why)
    types = planning.facts.query.types
    types = {**types} | {_of_on(name): kind for name, kind in types.items()}
    sought = ((k, as_compared(one, types), one.given.name) for k, one in enumerate(pairs))
    keys = tuple((one, f"key__{k}" if k in given_keys else name) for k, one, name in sought)
    return select(step, given.columns), (KeyLimit(name, keys, any(one.null_safe for one in pairs)),)


def _unite_arrivals(arrivals: list[_Arrival]) -> list[_Arrival]:
    """The arrivals, with those united that have the same columns and children, both missing or both not."""
    same: dict[tuple[tuple[str, ...], bool, frozenset[int]], list[Relation]] = {}
    for each in arrivals:
        same.setdefault((each.relation.columns, each.is_missing, each.has), []).append(each.relation)
    return [
        _Arrival(relation, is_missing, has)
        for (_, is_missing, has), relations in same.items()
        if (relation := unite(relations)) is not None
    ]


def _print_all(conditions: Iterable[Condition]) -> list[str]:
    return [print_sql(each.expression) for each in conditions]


def _at(name: str) -> str:
    """The name under which the value of a wanted column goes on."""
    return f"{name}__at"


def _of_on(name: str) -> str:
    """The name under which a column of a LEFT item's own ON goes on."""
    return f"{name}__on"
