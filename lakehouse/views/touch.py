"""By which columns of the result changes are followed, and which columns are its key."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.delta.text import fold
from lakehouse.views.algebra import (
    CONSTANT,
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
    SetKind,
    SetOperation,
    Side,
    Windows,
    columns,
    nodes_of,
)
from lakehouse.views.equalities import Classes, equal_columns
from lakehouse.views.plan import Image, SourceRows
from lakehouse.views.planner import rows_of_any_keys, touched_plan
from lakehouse.views.steps.planning import is_one_row
from lakehouse.views.view_text import NotFollowedError

READ_WHOLE, WITHOUT_KEY, BY_EXPRESSION, PART_OF_KEY = 10, 8, 3, 2
"""What a plan costs in addition to 1 for each step. READ_WHOLE: for each table that is read whole, or whose changes no
keys follow. WITHOUT_KEY: if no touch column is in the key, because many rows may have each value. BY_EXPRESSION: for
each filter by computed values alone, which leaves out no file. PART_OF_KEY: for a part of the key that does not
determine the rest, because several rows may have each value."""
MOST_CANDIDATES = 40
"""At most this many candidates are planned, because each takes some milliseconds."""


def choose_touch(
    query: Query,
    key: tuple[str, ...],
    small: Collection[str] = (),
    keys: Mapping[str, tuple[str, ...]] | None = None,
    *,
    within_key: bool = False,
) -> tuple[str, ...]:
    """The columns of the result by which changes are followed most cheaply; among equal costs the key, then the first.

    There are none if the result is one row.

    Raises:
        NotFollowedError: Changes cannot be followed by any columns.
    """
    if query.why_whole is not None:
        return ()
    names: dict[str, str] = {}
    for output in query.outputs:
        names.setdefault(output.column, output.name)
    candidates = [tuple(names[one] for one in each) for each in _candidates(query)]
    if () in candidates:
        return ()
    of_result = {output.name.lower(): output.name for output in query.outputs}
    if key and all(name.lower() in of_result for name in key):
        candidates.insert(0, tuple(of_result[name.lower()] for name in key))
    if within_key:
        candidates = [each for each in candidates if fold(each) <= fold(key)] or [key]
    costs: dict[tuple[str, ...], int] = {}
    refusal: NotFollowedError | None = None
    for each in tuple(dict.fromkeys(candidates))[:MOST_CANDIDATES]:
        try:
            costs[each] = _cost_of(query, each, small) + _cost_of_coarseness(query, each, key, keys or {})
        except NotFollowedError as error:
            refusal = refusal or error
    if not costs:
        assert refusal is not None
        raise refusal
    return min(costs, key=lambda touch: costs[touch])


def _cost_of(query: Query, touch: tuple[str, ...], small: Collection[str]) -> int:
    """What the plans for touch columns cost if every source changes and no key is NULL."""
    tables = {node.table for node in nodes_of(query.root) if isinstance(node, Scan)}
    plan = touched_plan(query, touch, tables, small)
    rows = rows_of_any_keys(query, plan, small)
    parts = [*chain.from_iterable(step.sql for step in (*plan.steps, *rows.steps)), *rows.text]
    places = [part for part in parts if isinstance(part, SourceRows) and part.image is Image.NOW]
    whole = sum(not part.any_of and part.table not in small for part in places)
    by_expression = sum(
        any(all(column is None for limit in limits for column in limit.columns) for limits in part.any_of)
        for part in places
    )
    cost = READ_WHOLE * (whole + len(plan.whole)) + BY_EXPRESSION * by_expression
    return cost + len(plan.steps) + len(rows.steps)


def _cost_of_coarseness(
    query: Query, touch: tuple[str, ...], key: tuple[str, ...], keys: Mapping[str, tuple[str, ...]]
) -> int:
    """What it costs that several rows of the table may share one value of the touch columns."""
    if not key or fold(key) <= fold(touch):
        return 0
    if not fold(key) & fold(touch):
        return WITHOUT_KEY
    unique = {output.name.lower(): output.column for output in query.outputs}
    rest = {unique[name] for name in fold(key) - fold(touch) if name in unique}
    return 0 if rest <= determined_by(query, {unique[name] for name in fold(touch)}, keys) else PART_OF_KEY


def determined_by(query: Query, columns: set[str], keys: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The unique names of the columns whose values follow from some columns' values, in all rows of the result."""
    scans, equal = list[Scan](), list[tuple[str, str]]()
    for node in _rows_of(query.root):
        match node:
            case Scan():
                scans.append(node)
            case Join(where=where) | Filter(where=where):
                equal += [pair for each in where if (pair := equal_columns(each, query.types)) is not None]
            case _:
                pass
    determined = set(columns)
    while True:
        more = {b for pair in equal for a, b in (pair, pair[::-1]) if a in determined}
        for scan in scans:
            own = {column.lower(): name for name, column in scan.names.items()}
            key = [own.get(column.lower()) for column in keys.get(scan.table, ())]
            if key and determined.issuperset(key):
                more |= scan.names.keys()
        if more <= determined:
            return determined
        determined |= more


def _candidates(query: Query) -> Iterator[tuple[str, ...]]:
    """Columns by which changes may be followed: groups, partitions and columns of tables; all outputs; each output."""
    outputs = tuple(dict.fromkeys(output.column for output in query.outputs))
    for each in (*_lines(query.root, outputs), outputs, *((name,) for name in outputs)):
        if each is None:
            yield ()
        elif among := tuple(name for name in each if name in outputs):
            yield among


def _lines(node: Node, outputs: tuple[str, ...]) -> Iterator[tuple[str, ...] | None]:
    """The candidates of a node; None stands for no columns, where the node is one row."""
    match node:
        case Scan(names=names):
            yield from ((name,) for name in outputs if name in names)
        case Extend(node=below) | Filter(node=below) | MarkJoin(node=below) | Generate(node=below):
            yield from _lines(below, outputs)
        case Aggregation(groups=groups):
            yield groups or None
            yield from ((name,) for name in groups)
        case Windows(node=below, partition=partition):
            yield partition
            yield from _lines(below, outputs)
        case Join(items=items):
            for item in items:
                if len(items) == 1 or not is_one_row(item.node):
                    yield from _lines(item.node, outputs)
        case FullJoin(left=left, right=right):
            yield from _lines(left, outputs)
            yield from _lines(right, outputs)
        case SetOperation(nodes=nodes, names=names):
            for branch, own in zip(nodes, names, strict=True) if node.has_same_types else ():
                back = {column: name for name, column in own.items()}
                yield from (tuple(back[name] for name in each) for each in _lines(branch, tuple(back)) if each)
            yield tuple(name for name in outputs if name in names[0])
            yield from ((name,) for name in outputs if name in names[0])


def table_key(query: Query, keys: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """The columns of the result that tell its rows apart, if that follows from the text and the sources' keys."""
    key = key_of(query.root, keys, query.types)
    if key is None:
        return None
    conditions = [each for node in _kept_of(query.root) if isinstance(node, Join) for each in node.where]
    classes = Classes(conditions, query.types)
    outputs = {output.column: output.name for output in reversed(query.outputs)}
    names = [classes.among(name, outputs) for name in key]
    return tuple(dict.fromkeys(outputs[one] for one in names if one is not None)) if None not in names else None


def _kept_of(node: Node) -> Iterator[Node]:
    """A node and the nodes below it whose rows and columns it keeps."""
    yield node
    if isinstance(node, Extend | Filter | MarkJoin | Windows):
        yield from _kept_of(node.node)


def _rows_of(node: Node) -> Iterator[Node]:
    """A node and the nodes below that have a row in every row of the node, never NULLs of an outer join."""
    yield node
    match node:
        case Extend(node=below) | Filter(node=below) | MarkJoin(node=below) | Windows(node=below):
            yield from _rows_of(below)
        case Aggregation(node=below) | Generate(node=below):
            yield from _rows_of(below)
        case Join(items=items):
            for item in items:
                if item.side is Side.INNER:
                    yield from _rows_of(item.node)
        case Scan() | FullJoin() | SetOperation():
            pass


def key_of(node: Node, keys: Mapping[str, tuple[str, ...]], types: Mapping[str, str]) -> tuple[str, ...] | None:
    """The unique names of columns that tell the rows of a node apart; None if no such columns are known."""
    match node:
        case Scan() if node is CONSTANT:
            return ()
        case Scan(table=table, names=names):
            own = {column.lower(): name for name, column in names.items()}
            key = [own.get(column.lower()) for column in keys.get(table, ())]
            return tuple(name for name in key if name is not None) if key and None not in key else None
        case Aggregation(groups=groups):
            return groups
        case Filter(node=Windows() as windows, where=where) if (first := _first_of(windows, where)) is not None:
            return first
        case Filter(node=below) | Extend(node=below) | MarkJoin(node=below) | Windows(node=below):
            return key_of(below, keys, types)
        case Join():
            return _key_of_join(node, keys, types)
        case SetOperation(kind=kind, nodes=nodes, names=names):
            if kind in {SetKind.EXCEPT, SetKind.INTERSECT}:
                return tuple(names[0])
            own = {column: name for name, column in names[0].items()}
            key = None if kind is SetKind.UNION_ALL else key_of(nodes[0], keys, types)
            return tuple(own[name] for name in key) if key is not None and own.keys() >= set(key) else None
        case FullJoin() | Generate():
            return None


def _first_of(node: Windows, where: Iterable[Expression]) -> tuple[str, ...] | None:
    """The partition columns, if conditions leave one row of each partition: `row_number() = 1`."""
    numbers = {
        name for name, e in node.windows.items() if isinstance(e, exp.Window) and isinstance(e.this, exp.RowNumber)
    }
    one = exp.Literal.number(1)
    is_first = any(
        isinstance(each, exp.EQ)
        and {each.this.name, each.expression.name} & numbers
        and one in {each.this, each.expression}
        for each in where
    )
    return node.partition if is_first else None


def _key_of_join(join: Join, keys: Mapping[str, tuple[str, ...]], types: Mapping[str, str]) -> tuple[str, ...] | None:
    """The keys of all items, except items whose row the others determine by equalities on its whole key."""
    of_items = [key_of(item.node, keys, types) for item in join.items]
    if any(key is None for key in of_items):
        return None
    others = set(range(len(join.items)))
    for k, item in reversed(list(enumerate(join.items))):
        conditions = item.on if item.side is Side.LEFT else join.where
        around = frozenset[str]().union(*(columns(join.items[i].node) for i in others - {k}))
        pairs = [pair for each in conditions if (pair := equal_columns(each, types)) is not None]
        fixed = {one for a, b in pairs for one, other in ((a, b), (b, a)) if other in around}
        if set(of_items[k] or ()) <= fixed:
            others.discard(k)
    return tuple(name for k in sorted(others) for name in of_items[k] or ())
