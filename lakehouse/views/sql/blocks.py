"""A block of SELECT as algebra: its rows, its groups, its windows, its columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Filter,
    Generate,
    Item,
    Join,
    Node,
    Output,
    column,
    columns,
    substitute,
)
from lakehouse.views.functions import GENERATORS
from lakehouse.views.sql.grouping import Grouping, Projection, has_aggregate, over_windows
from lakehouse.views.sql.parsing import CALLED
from lakehouse.views.sql.scopes import Ctes, ReadQuery, Scope, TextReading, parts_of, type_of
from lakehouse.views.sql.sources import is_outer_generator, read_from, read_generator
from lakehouse.views.sql.subqueries import Block, conjuncts, correlation, own_column, rewrite
from lakehouse.views.sql.time_windows import call_of, in_windows, is_call


def read_select(reading: TextReading, select: exp.Select, ctes: Ctes, outer: tuple[Scope, ...]) -> ReadQuery:
    """A block of SELECT.

    Raises:
        ViewError: The block names a table or column that is unknown, ambiguous or not grouped.
        NotFollowedError: The block has a part through which keys cannot follow changes.
    """
    block = Block(reading, ctes, outer)
    node, correlated = read_from(block, select)
    node, projections = _project(block, select, _with_time_windows(block, select, node))
    if not projections:
        raise reading.not_followed("A SELECT names no column", select, "SELECT")
    expressions = [each.expression for each in projections]
    group: exp.Group | None = select.args.get("group")
    is_grouped = group is not None or select.args.get("having") is not None or any(map(has_aggregate, expressions))
    state = _State(block, select, node, projections, correlated)
    if any(map(_is_generator, select.expressions)) and (is_grouped or _has_windows(state) or correlated):
        what = "A generator stands next to an aggregate or a window, or in a subquery for each row"
        raise reading.not_followed(what, select, "SELECT")
    state = _group(state, group) if is_grouped else _without_groups(state)
    _refuse_correlation(state)
    state = _window(state)
    node, outputs, new = _outputs(state)
    of_none = {output.column: _of_none(state, new, output.column) for output in outputs if state.of_none is not None}
    is_one_row = state.of_none is not None and not select.args.get("having") and not select.args.get("qualify")
    if select.args.get("distinct"):
        inner = [own_column(block.reading, each, node, select) for each in state.correlated]
        groups = dict.fromkeys([*(output.column for output in outputs), *inner])
        node = Aggregation(node, tuple(groups), {})
    return ReadQuery(node, outputs, state.correlated, is_one_row, of_none, block.scope.offer if is_one_row else {})


@dataclass(frozen=True, eq=False, slots=True)
class _State:
    """A block whose rows are read, and what remains to be done with them.

    Args:
        block: The block.
        select: Its text.
        node: Its rows so far.
        projections: The columns of its SELECT, over the columns of the node.
        correlated: Its conditions over columns of the surrounding query.
        qualify: The conditions of QUALIFY, over the columns of the node.
        of_none: For an aggregate over all rows, the value of each aggregate if there are no rows; else None.
    """

    block: Block
    select: exp.Select
    node: Node
    projections: tuple[Projection, ...]
    correlated: tuple[Expression, ...]
    qualify: tuple[Expression, ...] = ()
    of_none: Mapping[str, Expression] | None = None


def _with_time_windows(block: Block, select: exp.Select, node: Node) -> Node:
    """The rows of a block with a time, each repeated for every interval of `window(...)` that contains the time."""
    call = call_of(select)
    if call is None:
        return node
    time = rewrite(block, call.expressions[0])
    name = call.meta[CALLED]
    block.refuse_subqueries(call, f"{name}()")
    is_time = type_of(time, block.reading.types) == "timestamp" and not block.scope.find((name,))[0]
    rows = in_windows(node, call, time, block.reading.unique("start", "timestamp")) if is_time else None
    if rows is None:
        what = f"{name}() is of another time than a TIMESTAMP, of no written durations, or next to a column of its name"
        raise block.reading.not_followed(what, call)
    node, block.window = rows
    return node


def _project(block: Block, select: exp.Select, node: Node) -> tuple[Node, tuple[Projection, ...]]:
    """The rows after the generators in SELECT, and the columns of SELECT."""
    projections: list[Projection] = []
    for item in select.expressions:
        if (star := _star(item)) is not None:
            projections.extend(_of_star(block, item, star))
        elif _is_generator(item):
            node, made = _generate(block, item, node)
            projections.extend(made)
        else:
            expression = rewrite(block, item.unalias())
            projections.append(Projection(_name(block.reading, item), expression))
            if isinstance(item, exp.Alias):
                block.aliases.setdefault(item.alias.lower(), expression)
    return node, tuple(projections)


def _is_generator(item: Expression) -> bool:
    """Whether a column of SELECT is a generator, which makes several rows from one."""
    return isinstance(item, exp.Aliases) or item.unalias().meta.get(CALLED) in GENERATORS


def _name(reading: TextReading, item: Expression) -> str:
    """The name of a column of SELECT: the one in the text, or words of its expression that are not an identifier."""
    match item:
        case exp.Alias():
            return item.alias
        case exp.Column():
            return item.name
        case exp.Dot():
            return item.expression.name
        case exp.Anonymous() if is_call(item):
            return str(item.meta[CALLED])
        case exp.Paren(this=inner) | exp.Cast(this=exp.Column() | exp.Dot() as inner):
            return _name(reading, inner)
        case _:
            words = reading.parsed.words(item)
            return f"{item.key}({words})" if words.isidentifier() else words


def _star(item: Expression) -> exp.Star | None:
    """The star, if a column of SELECT is one; else None."""
    return item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) and item.is_star else None


def _of_star(block: Block, item: Expression, star: exp.Star) -> list[Projection]:
    """The columns that a star stands for."""
    outputs = block.scope.visible
    if isinstance(item, exp.Column):
        relations = [each for each in block.scope.relations if each.alias == item.table.lower()]
        if len(relations) != 1 or item.args.get("db"):
            named = [part.name for part in item.parts[:-1]]
            if any(each.alias == item.table.lower() for scope in block.outer for each in scope.relations):
                raise correlation(block.reading, item)
            if not relations and block.scope.find(tuple(name.lower() for name in named))[0]:
                raise block.reading.not_followed(f"{'.'.join(named)}.* is the star of a struct", item)
            what = f"{item.table}.* is not one table of this FROM"
            raise block.reading.refuse("VIEW_UNKNOWN_COLUMN", what, item, "Correct the name before the star.")
        own = {output.column for output in relations[0].columns}  # in Spark's order: the hidden ones first
        outputs = tuple(output for output in (*block.scope.hidden, *outputs) if output.column in own)
    without = {output.column for each in star.args.get("except_") or () for output in _exclusions(block, each, outputs)}
    return [Projection(output.name, column(output.column)) for output in outputs if output.column not in without]


def _exclusions(block: Block, name: Expression, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """The columns of a star that a name after EXCEPT refers to."""
    parts = tuple(part.lower() for part in parts_of(name)) if isinstance(name, exp.Column | exp.Dot) else (name.name,)
    meant, fields = block.scope.find(tuple(part.lower() for part in parts))
    columns = {output.column for output in meant}
    excluded = tuple(output for output in outputs if output.column in columns)
    if not excluded or fields:
        what = f"EXCEPT names {'.'.join(parts)}, which is not a column of the star"
        raise block.reading.refuse("VIEW_UNKNOWN_COLUMN", what, name, "Name columns of the star after EXCEPT.")
    return excluded


def _generate(block: Block, item: Expression, node: Node) -> tuple[Node, list[Projection]]:
    """The rows that a generator in SELECT makes, and the columns that it adds to SELECT."""
    call = item.this if isinstance(item, exp.Aliases) else item.unalias()
    match item:
        case exp.Aliases():
            names = tuple(alias.name for alias in item.expressions)
        case exp.Alias():
            names = (item.alias,)
        case _:
            names = ()
    generator, new = read_generator(block, call, names)
    for name, unique in zip(names, new, strict=True):
        block.aliases.setdefault(name.lower(), column(unique))
    made = [Projection(name, column(unique)) for name, unique in zip(names, new, strict=True)]
    return Generate(node, generator, new, is_outer_generator(call)), made


def _without_groups(state: _State) -> _State:
    """A block without groups, joined with its scalar subqueries and extended by its marks."""
    block, node = state.block, state.node
    if block.window is not None and block.window.session is not None:
        raise block.reading.not_followed("session_window() stands in a SELECT without GROUP BY", block.window.call)
    items, marks = block.take()
    if items:
        node = Join((Item(node), *items))
    for mark in marks:
        node = mark.over(node)
    qualify = _qualify(state)
    block.refuse_subqueries(state.select, "QUALIFY")
    return replace(state, node=node, qualify=qualify)


def _qualify(state: _State) -> tuple[Expression, ...]:
    """The conditions of QUALIFY over the columns of the rows."""
    qualify: exp.Qualify | None = state.select.args.get("qualify")
    return tuple(rewrite(state.block, each) for each in conjuncts(qualify.this if qualify else None))


def _group(state: _State, group: exp.Group | None) -> _State:
    """A block with its groups computed, and only those that HAVING keeps."""
    block, select = state.block, state.select
    items, marks = block.take()
    if marks:
        raise block.reading.not_followed("EXISTS or IN stands next to an aggregate", select, "SELECT")
    grouping = Grouping(block.reading)
    of_all = _all_keys(state, items) if group is not None and group.args.get("all") else ()
    for key in of_all:
        grouping.add(key)
    grouping.sets = _sets(state, grouping, group.expressions if group else [])
    is_all_rows = not grouping.keys
    correlated = grouping.correlate(state.correlated, state.node)
    projections = tuple(replace(each, expression=grouping.over_groups(each.expression)) for each in state.projections)
    given = {each.name.lower(): each.expression for each in projections}
    having: exp.Having | None = select.args.get("having")
    conditions = tuple(rewrite(block, each) for each in conjuncts(having.this if having else None))
    qualify = _qualify(state)
    more, marks = block.take()
    if marks:
        raise block.reading.not_followed("EXISTS or IN stands in HAVING", having or select)
    where = tuple(grouping.over_groups(each, given) for each in conditions)
    qualify = tuple(grouping.over_groups(each, given) for each in qualify)
    node: Node = grouping.node(state.node, block.window, is_all=bool(of_all))
    of_none = _empty(grouping, correlated) if is_all_rows else None
    if where or items or more:
        node = Join((Item(node), *items, *more), where)
    _refuse_ungrouped(block, node, (*where, *qualify, *(each.expression for each in projections)))
    return replace(state, node=node, projections=projections, correlated=correlated, qualify=qualify, of_none=of_none)


_MOST_SETS = 16
"""At most this many groupings are followed, because each becomes a branch of the steps."""


def _sets(state: _State, grouping: Grouping, elements: list[Expression]) -> tuple[tuple[str, ...], ...]:
    """The columns of each grouping if GROUP BY has ROLLUP, CUBE or GROUPING SETS, else empty; groups by each column."""
    sets: list[tuple[str, ...]] = [()]
    for element in elements:
        more = _sets_of(state, grouping, element)
        sets = [tuple(dict.fromkeys((*one, *other))) for one in sets for other in more]
    if not any(isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets) for each in elements):
        return ()
    if len(sets) > _MOST_SETS:
        raise state.block.reading.not_followed(f"GROUP BY has {len(sets)} groupings", state.select, "GROUP")
    return tuple(sets)


def _sets_of(state: _State, grouping: Grouping, element: Expression) -> list[tuple[str, ...]]:
    """The groupings of a part of GROUP BY."""
    if isinstance(element, exp.GroupingSets):
        return [each for part in element.expressions for each in _sets_of(state, grouping, part)]
    if not isinstance(element, exp.Rollup | exp.Cube):
        parts = element.expressions if isinstance(element, exp.Tuple) else [element]
        return [tuple(grouping.add(_key(state, each)) for each in parts)]
    parts = [names for part in element.expressions for names in _sets_of(state, grouping, part)]
    counts = range(len(parts), -1, -1)
    if isinstance(element, exp.Rollup):
        of_parts = [parts[:count] for count in counts]
    else:
        of_parts = [list(some) for count in counts for some in combinations(parts, count)]
    return [tuple(name for names in some for name in names) for some in of_parts]


def _key(state: _State, key: Expression) -> Expression:
    """What GROUP BY names: a column of SELECT by its number, or an expression."""
    block, bare = state.block, key.unnest()
    if isinstance(bare, exp.Literal) and bare.is_int:
        number = int(bare.name)
        if not 1 <= number <= len(state.projections):
            what = f"GROUP BY {number} is not a column of this SELECT"
            raise block.reading.refuse("VIEW_UNKNOWN_COLUMN", what, key, "Name the column.")
        return _group_of(block, state.projections[number - 1].expression)
    expression = rewrite(block, key)
    block.refuse_subqueries(key, "GROUP BY")
    return _group_of(block, expression)


def _group_of(block: Block, key: Expression) -> Expression:
    """What a key is grouped by: itself, but an interval of `window(...)` by its start, which determines it."""
    return column(block.window.start) if block.window is not None and key == block.window.part(()) else key


def _all_keys(state: _State, items: tuple[Item, ...]) -> tuple[Expression, ...]:
    """What GROUP BY ALL groups by: the columns of SELECT that have no aggregate."""
    keys = tuple(each.expression for each in state.projections if not has_aggregate(each.expression))
    if items or state.block.scope.find(("all",))[0] or _has_windows(state):
        what = "GROUP BY ALL stands next to a subquery, a window, or a column of that name"
        raise state.block.reading.not_followed(what, state.select.args["group"], "GROUP")
    return keys


_ZERO_OF_NONE = (exp.Count, exp.CountIf, exp.ApproxDistinct)
_NULL_OF_NONE = (
    *(exp.Sum, exp.Avg, exp.Min, exp.Max, exp.AnyValue, exp.First, exp.Last, exp.ArgMax, exp.ArgMin, exp.Median),
    *(exp.LogicalAnd, exp.LogicalOr, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop),
)


def _empty(grouping: Grouping, correlated: tuple[Expression, ...]) -> dict[str, Expression]:
    """The value of each aggregate over no rows, which a correlated subquery needs for a row without a match."""
    of_none: dict[str, Expression] = {}
    for name, aggregate in grouping.aggregates.items():
        bare = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
        if isinstance(bare, _ZERO_OF_NONE):
            of_none[name] = exp.Literal.number(0)
        elif isinstance(bare, _NULL_OF_NONE) or not correlated:
            of_none[name] = exp.Null()
        else:
            what = "It is not known what this aggregate is of no rows"
            raise grouping.reading.not_followed(what, aggregate)
    return of_none


def _refuse_ungrouped(block: Block, node: Node, expressions: tuple[Expression, ...]) -> None:
    """Raise if an expression names a column that is neither grouped nor aggregated."""
    names = columns(node)
    around = {output.column for scope in block.outer for output in (*scope.visible, *scope.hidden)}
    for expression in expressions:
        for each in expression.find_all(exp.Column):
            if each.name in around:
                raise correlation(block.reading, each)
            if each.name not in names:
                remedy = "Add it to GROUP BY, or put it into an aggregate: any_value(...)."
                what = f"The column {block.reading.parsed.words(each)} is neither grouped nor aggregated"
                raise block.reading.refuse("VIEW_UNKNOWN_COLUMN", what, each, remedy)


def _refuse_correlation(state: _State) -> None:
    """Raise if the surrounding row decides more than which rows of the block match it."""
    select = state.select
    if not state.correlated:
        return
    over_all = select.args.get("qualify") or _has_windows(state)
    if over_all or (state.of_none is not None and select.args.get("having")):
        raise correlation(state.block.reading, select)


def _has_windows(state: _State) -> bool:
    """Whether a column of SELECT has a window."""
    return any(each.expression.find(exp.Window) is not None for each in state.projections)


def _window(state: _State) -> _State:
    """A block with its windows computed, and only the rows that QUALIFY keeps."""
    expressions = (*(each.expression for each in state.projections), *state.qualify)
    node, pulled = over_windows(state.block.reading, state.node, expressions)
    count = len(state.projections)
    projections = tuple(replace(each, expression=new) for each, new in zip(state.projections, pulled, strict=False))
    return replace(state, node=Filter(node, pulled[count:]) if state.qualify else node, projections=projections)


def _outputs(state: _State) -> tuple[Node, tuple[Output, ...], Mapping[str, Expression]]:
    """The rows with the columns that SELECT computes, all columns of SELECT, and the expressions that it computes."""
    reading = state.block.reading
    outputs: list[Output] = []
    new: dict[str, Expression] = {}
    for projection in state.projections:
        if isinstance(projection.expression, exp.Column):
            outputs.append(Output(projection.name, projection.expression.name))
            continue
        name = reading.unique(projection.name)
        reading.retype(name, projection.expression)
        outputs.append(Output(projection.name, name))
        new[name] = projection.expression
    return (Extend(state.node, new) if new else state.node), tuple(outputs), new


def _of_none(state: _State, new: Mapping[str, Expression], name: str) -> Expression:
    """The value of a column of an aggregate over all rows if there are no rows."""
    of_none = state.of_none or {}
    return substitute(new[name], of_none) if name in new else of_none.get(name, exp.Null())
