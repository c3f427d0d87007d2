"""The second reading of a node: a superset of the values in the rows that it has or had and that match limits."""

from collections.abc import Mapping
from itertools import chain

from sqlglot import exp

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
    SetKind,
    SetOperation,
    Side,
    Windows,
    children,
    columns,
    columns_in,
    computed_columns,
    nulls_of,
    without_item,
)
from lakehouse.views.plan import Image
from lakehouse.views.steps.hops import Entry, reach
from lakehouse.views.steps.planning import Planning, QueryFacts
from lakehouse.views.steps.relations import (
    NOTHING,
    KeyLimit,
    Relation,
    combine,
    guard,
    holds,
    limits_over,
    of_branch,
    of_join_item,
    print_sql,
    select,
    text,
    through,
    unite,
)


def superset(
    planning: Planning, node: Node, want: frozenset[str], limits: tuple[KeyLimit, ...], images: tuple[Image, ...]
) -> Relation:
    """A superset of the values of columns in the rows of a node, in the images, that match limits."""
    planning.require_said(want)
    limits = planning.facts.sayable(limits)
    match node:
        case Scan():
            return _of_scan(planning, node, want, limits, images)
        case Extend() | Generate():
            of_new = through(limits, node.new) if isinstance(node, Extend) else limits
            down = limits_over(of_new, columns(node.node))
            return compute_columns(node, want, superset(planning, node.node, inputs(node, want), down, images))
        case Filter(node=below, where=where):
            used = guard(limits, below, filter(planning.facts.can_say, where), planning.facts.query.types)
            rows = superset(planning, below, want, used, images)
            return filter_rows(planning.facts, node, rows)
        case Aggregation() | Windows() | MarkJoin():
            return superset(planning, node.node, want, limits_over(limits, columns(node.node)), images)
        case SetOperation():
            return _of_branches(planning, node, want, limits, images)
        case FullJoin():
            return _of_full_join(planning, node, want, limits, images)
        case Join():
            return _of_join(planning, node, want, limits, images)


def _of_scan(
    planning: Planning, scan: Scan, want: frozenset[str], limits: tuple[KeyLimit, ...], images: tuple[Image, ...]
) -> Relation:
    """The rows of a table in the images; only a table that may have changed has rows in other images than `NOW`."""
    of_table = [image for image in images if image is Image.NOW or scan.table in planning.facts.changed]
    if not limits:
        planning.say_read_whole(scan, "no key limits it")
    rows = unite([planning.scan(scan, want, image, (limits,)) for image in of_table])
    assert rows is not None
    return rows


def _of_branches(
    planning: Planning,
    node: SetOperation,
    want: frozenset[str],
    limits: tuple[KeyLimit, ...],
    images: tuple[Image, ...],
) -> Relation:
    """The rows of the branches; every row of EXCEPT and INTERSECT is a row of the first branch."""
    count = len(node.nodes) if node.kind is SetKind.UNION_ALL else 1
    of_branches = {
        place: superset(
            planning,
            node.nodes[place],
            frozenset(node.names[place][name] for name in want),
            of_branch(node, place, limits, planning.facts.query.types),
            images,
        )
        for place in range(count)
    }
    united = unite_branches(planning, node, want, of_branches)
    assert united is not None
    return united


def _of_full_join(
    planning: Planning, node: FullJoin, want: frozenset[str], limits: tuple[KeyLimit, ...], images: tuple[Image, ...]
) -> Relation:
    """The pairs, and the rows of each side padded with NULL, with or without a match."""
    left, right = columns(node.left), columns(node.right)
    pairs = Join((Item(node.left), Item(node.right)), node.on)
    rows = [superset(planning, pairs, want, limits, images)]
    for side, own, others in ((node.left, left, right), (node.right, right, left)):
        beside = through(limits, nulls_of(others))
        needed = frozenset[str]().union(*(limit.columns for limit in beside))
        of_side = superset(planning, side, (want & own) | needed, limits_over(beside, own), images)
        rows.append(pad(planning.facts, of_side, want, beside))
    united = unite(rows)
    assert united is not None
    return united


def _of_join(
    planning: Planning, join: Join, want: frozenset[str], limits: tuple[KeyLimit, ...], images: tuple[Image, ...]
) -> Relation:
    """The rows of a join, reached from the item that the limits restrict most."""
    types = planning.facts.query.types
    of_items = [
        tuple(part for limit in limits if (part := of_join_item(join, k, limit, types)) is not None)
        for k in range(len(join.items))
    ]

    def score(k: int) -> tuple[int, int, bool, int]:
        """How much the limits restrict an item, and how many wanted columns it has."""
        item, count = join.items[k], sum(len(limit.pairs) for limit in of_items[k])
        return count, 0 if count else len(want & columns(item.node)), item.side is Side.INNER, -k

    start = max(range(len(join.items)), key=score)
    of_start = of_items[start]
    if not of_start:
        planning.say_read_whole(join.items[start].node, "nothing limits it")
    item = join.items[start]
    conditions = filter(planning.facts.can_say, item.on if item.side is Side.LEFT else join.where)
    used = guard(of_start, item.node, conditions, types)
    entry = Entry(lambda need: superset(planning, item.node, need, used, images))
    rows = reach(planning, join, {start: entry}, want, images)
    if join.items[start].side is Side.LEFT:
        rows += _without_item(planning, join, start, want, limits, images)
    united = unite(rows)
    return united if united is not None else none_of(planning.facts, want)


def _without_item(
    planning: Planning,
    join: Join,
    start: int,
    want: frozenset[str],
    limits: tuple[KeyLimit, ...],
    images: tuple[Image, ...],
) -> list[Relation]:
    """The rows of a join in which a LEFT item is missing."""
    beside = through(limits, nulls_of(columns(join.items[start].node)))
    if any(not limit.null_safe and any(isinstance(e, exp.Null) for e, _ in limit.pairs) for limit in beside):
        return []
    others = without_item(join, start)
    needed = frozenset[str]().union(*(limit.columns for limit in beside))
    rows = superset(planning, others, (want & columns(others)) | needed, limits_over(beside, columns(others)), images)
    return [pad(planning.facts, rows, want, beside)]


def unite_branches(
    planning: Planning, node: SetOperation, want: frozenset[str], of_branches: Mapping[int, Relation]
) -> Relation | None:
    """The values of a set operation in rows of some of its branches, given by position; None if there are none.

    Spark converts the values of all branches to one type, which may make two values equal. So each branch takes part,
    if necessary without a row.
    """
    is_converted = not want <= node.of_one_type(planning.facts.query.types)
    rows = list[Relation]()
    for place, (branch, names) in enumerate(zip(node.nodes, node.names, strict=True)):
        if place in of_branches or (of_branches and is_converted):
            own = of_branches.get(place) or _no_rows(planning, branch, frozenset(names[name] for name in want))
            rows.append(select(own, want, computed={name: names[name] for name in want}))
    return unite(rows)


def _no_rows(planning: Planning, node: Node, want: frozenset[str]) -> Relation:
    """A relation without rows that has the columns of a node, in their types."""
    match node:
        case Scan():
            return planning.scan(node, want, Image.NONE, ())
        case Extend() | Generate():
            return compute_columns(node, want, _no_rows(planning, node.node, inputs(node, want)))
        case SetOperation():
            of_first = _no_rows(planning, node.nodes[0], frozenset(node.names[0][name] for name in want))
            united = unite_branches(planning, node, want, {0: of_first})
            assert united is not None
            return united
        case _:
            below = [each for each in children(node) if want & columns(each)] or children(node)[:1]
            first, *others = (_no_rows(planning, each, want & columns(each)) for each in below)
            for each in others:
                first = combine(first, each, ())
            return first


# rows with other columns


def inputs(node: Extend | Generate, want: frozenset[str]) -> frozenset[str]:
    """The columns below that wanted columns are computed from."""
    new = computed_columns(node)
    return want.difference(new) | columns_in(*chain.from_iterable(new[name] for name in want & new.keys()))


def compute_columns(node: Extend | Generate, want: frozenset[str], rows: Relation) -> Relation:
    """Rows with the wanted columns that a node computes; if none of a generator's is wanted, each row once."""
    if isinstance(node, Extend):
        return select(rows, want, computed={name: print_sql(node.new[name]) for name in want & node.new.keys()})
    if not want & set(node.new):
        return rows
    outer = "OUTER " if node.outer else ""
    view = f" LATERAL VIEW {outer}{print_sql(node.generator)} generated AS {', '.join(node.new)}"
    names = tuple(sorted(want))
    return Relation(text(f"SELECT {', '.join(names)} FROM ", rows, view), names)


def filter_rows(facts: QueryFacts, node: Filter, rows: Relation) -> Relation:
    """Rows under those conditions of a filter whose columns the rows have."""
    conditions = [
        print_sql(each)
        for each in node.where
        if facts.can_say(each) and columns_in(each) and columns_in(each) <= set(rows.columns)
    ]
    return select(rows, rows.columns, conditions) if conditions else rows


def pad(facts: QueryFacts, rows: Relation, want: frozenset[str], limits: tuple[KeyLimit, ...] = ()) -> Relation:
    """Rows with NULL in the wanted columns that they lack, under limits."""
    nulls = {name: facts.null(name) for name in want if name not in rows.columns}
    return select(rows, want, [holds(limit) for limit in limits], nulls)


def none_of(facts: QueryFacts, want: frozenset[str]) -> Relation:
    """A relation with these columns and no row."""
    names = tuple(sorted(want))
    listed = ", ".join(f"{facts.null(name)} AS {name}" for name in names)
    return Relation((f"SELECT {listed or NOTHING} WHERE FALSE",), names)
