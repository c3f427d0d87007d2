"""The expressions of a block of SELECT: columns get their unique names; subqueries become joined items and marks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Item,
    MarkJoin,
    MarkUse,
    Node,
    Side,
    column,
    columns,
    columns_in,
    in_parentheses,
)
from lakehouse.views.equalities import PROPAGATING
from lakehouse.views.functions import GENERATORS
from lakehouse.views.sql.parsing import CALLED
from lakehouse.views.sql.scopes import (
    Ctes,
    ReadQuery,
    Scope,
    TextReading,
    field_of,
    is_name,
    parts_of,
    resolve,
)
from lakehouse.views.sql.time_windows import TimeWindow, is_call
from lakehouse.views.view_text import NotFollowedError

SAID = "said"
"""The key in a column's `meta` that holds its name in the text, in lower case, if nothing qualifies the name there."""


@dataclass(frozen=True, eq=False, slots=True)
class Sought:
    """A `MarkJoin` whose rows are not known yet: those of the block that contains the subquery."""

    sub: Node
    on: tuple[Expression, ...]
    value: str
    sought: tuple[Expression, ...] = ()
    among: tuple[str, ...] = ()

    def over(self, node: Node, use: MarkUse = MarkUse.ANY) -> MarkJoin:
        """The mark over the rows of a node."""
        return MarkJoin(node, self.sub, self.on, self.value, self.sought, self.among, use)


@dataclass(eq=False)
class Block:
    """The parts of a block of SELECT while it is read.

    Args:
        reading: The reading of the text.
        ctes: The common table expressions in reach.
        outer: The scopes around the block, the nearest first.
        scope: What its own FROM offers.
        aliases: The expressions that its SELECT has named so far, by their names in lower case.
        items: What is joined to its rows: the items of FROM, and then the scalar subqueries of its expressions.
        marks: The subqueries of its expressions that test whether a row has a match.
        window: The intervals of `window()` or `session_window()` that contain its rows; None if neither is called.
    """

    reading: TextReading
    ctes: Ctes
    outer: tuple[Scope, ...] = ()
    scope: Scope = field(default_factory=Scope)
    aliases: dict[str, Expression] = field(default_factory=dict[str, Expression])
    items: list[Item] = field(default_factory=list[Item])
    marks: list[Sought] = field(default_factory=list[Sought])
    window: TimeWindow | None = None

    def read(self, query: Expr) -> ReadQuery:
        """A subquery of the block, which may name the block's columns."""
        return self.reading.read_query(self.reading, query, self.ctes, (self.scope, *self.outer))

    def take(self) -> tuple[tuple[Item, ...], tuple[Sought, ...]]:
        """Take out the items and marks that expressions have added since the last call."""
        brought = tuple(self.items), tuple(self.marks)
        self.items, self.marks = [], []
        return brought

    def refuse_subqueries(self, where: Expr, what: str) -> None:
        """Raise if an expression has added a subquery since the last `take`."""
        items, marks = self.take()
        if items or marks:
            raise self.reading.not_followed(f"A subquery stands in {what}", where)


def rewrite(block: Block, expression: Expr) -> Expression:
    """An expression of the text over unique columns; its subqueries are added to the block.

    Raises:
        ViewError: It names a column that is unknown or ambiguous.
    """
    holder = exp.Paren(this=expression.copy())
    rewrite_below(block, holder)
    return holder.this.pop()


def rewrite_below(block: Block, node: Expr) -> None:
    """Put unique columns into a node in place; nothing else may share its tree."""
    for child in list(node.iter_expressions()):
        new = _replacement(block, child)
        if new is None:
            rewrite_below(block, child)
        else:
            child.replace(new)


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The parts of a condition that AND joins; a part that all branches of an OR have in common is one of them."""
    match condition:
        case None:
            return ()
        case exp.Paren():
            return conjuncts(condition.this)
        case exp.And():
            return conjuncts(condition.this) + conjuncts(condition.expression)
        case exp.Or():
            return _of_or([conjuncts(branch) for branch in _branches(condition)])
        case _:
            return (condition,)


def _of_or(branches: list[tuple[Expression, ...]]) -> tuple[Expression, ...]:
    """(a and b) or (a and c) is a and (b or c), in three-valued logic too."""
    # A subquery is not shared, because two with the same text name their tables at two places.
    shared = tuple(
        each for each in branches[0] if all(each in branch for branch in branches[1:]) and each.find(exp.Query) is None
    )
    rest = [tuple(each for each in branch if each not in shared) for branch in branches]
    if not all(rest):
        return shared
    either = cast("Expression", exp.or_(*(exp.and_(*branch, copy=True) for branch in rest), copy=True))
    return (*shared, either)


def _branches(condition: Expression) -> list[Expression]:
    """The branches of an OR."""
    match condition:
        case exp.Paren(this=exp.Or() | exp.Paren()):
            return _branches(condition.this)
        case exp.Or():
            return _branches(condition.this) + _branches(condition.expression)
        case _:
            return [condition]


def sides(condition: Expression, own: frozenset[str]) -> tuple[Expression, Expression] | None:
    """The sides of an equality: the one over own columns, then the one over none; None for any other condition."""
    if not isinstance(condition, exp.EQ):
        return None
    for one, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
        if columns_in(one) and columns_in(one) <= own and not columns_in(other) & own:
            return one, other
    return None


def own_column(reading: TextReading, condition: Expression, rows: Node, at: Expr) -> str:
    """The column of a query's rows that a condition equates with a column of the surrounding query."""
    pair = sides(condition, columns(rows))
    if pair is None or not isinstance(pair[0], exp.Column):
        raise correlation(reading, at)
    return pair[0].name


def _replacement(block: Block, node: Expr) -> Expression | None:
    """What replaces a node; None if only nodes below it change."""
    if (name := node.meta.get(CALLED)) in GENERATORS:
        what = f"{name}() makes several rows of one within an expression"
        raise block.reading.not_followed(what, node)
    match node:
        case exp.Anonymous() if is_call(node):
            if block.window is None or node != block.window.call:
                what = f"{name}() stands elsewhere than in SELECT or GROUP BY, or next to another one"
                raise block.reading.not_followed(what, node)
            return block.window.part(())
        case exp.Column() | exp.Dot() if is_name(node):
            return _meaning(block, node)
        case exp.Star() | exp.Column(this=exp.Star()) if not _is_counted(node):
            raise block.reading.not_followed("A star stands within an expression", node)
        case exp.Exists(this=exp.Query()):
            return _exists(block, node)
        case exp.In() if node.args.get("query"):
            return _in(block, node)
        case exp.Query():
            return _scalar(block, node)
        case _:
            return None


def _is_counted(node: Expr) -> bool:
    """Whether a star is that of count(*)."""
    return isinstance(node, exp.Star) and isinstance(node.parent, exp.Count)


def _meaning(block: Block, name: exp.Column | exp.Dot) -> Expression:
    """What a name means: a column of FROM, else a name that SELECT has given, else a column of the outer query."""
    _refuse_parameter(block, name)
    meaning = resolve(block.reading, name, (block.scope,))
    path = parts_of(name)
    if meaning is None and block.window is not None and path[0].lower() == block.window.name:
        meaning = block.window.part(path[1:])
    if meaning is None and (alias := block.aliases.get(path[0].lower())) is not None:
        return field_of(in_parentheses(alias.copy()), path[1:])
    meaning = meaning or resolve(block.reading, name, (Scope(), *block.outer))
    if meaning is None:
        names = ", ".join(output.name for output in block.scope.visible)
        what = f"There is no column {block.reading.parsed.words(name)}"
        raise block.reading.refuse("VIEW_UNKNOWN_COLUMN", what, name, f"The columns here are: {names}.")
    if len(path) == 1:
        meaning.meta[SAID] = path[0].lower()
    return meaning


def _refuse_parameter(block: Block, name: exp.Column | exp.Dot) -> None:
    """Raise if a name differs only in case from a parameter of a lambda: the tree has it as a column."""
    within = name.find_ancestor(exp.Lambda)
    while within is not None:
        if any(each.name.lower() == parts_of(name)[0].lower() for each in within.expressions):
            raise block.reading.not_followed("The parameter of a lambda is written in two ways", name)
        within = within.find_ancestor(exp.Lambda)


def _exists(block: Block, node: exp.Exists) -> Expression:
    """The mark of EXISTS."""
    query = block.read(node.this)
    if query.is_one_row:
        what = "An aggregate without GROUP BY has a row even of none, so EXISTS is always true"
        raise block.reading.not_followed(what, node, "EXISTS")
    mark = Sought(query.node, query.correlated, block.reading.unique("exists"))
    block.marks.append(mark)
    return column(mark.value)


def _in(block: Block, node: exp.In) -> Expression:
    """The mark of IN."""
    of_left = node.this
    values = of_left.expressions if isinstance(of_left, exp.Tuple) else [of_left]
    sought = tuple(in_parentheses(rewrite(block, each)) for each in values)
    query = block.read(node.args["query"])
    if query.is_one_row and query.correlated:
        what = "IN looks into an aggregate of the rows that belong to each row"
        raise block.reading.not_followed(what, node)
    if len(sought) != len(query.outputs):
        what = f"IN compares {len(sought)} values with {len(query.outputs)} columns"
        raise block.reading.not_followed(what, node)
    among = tuple(output.column for output in query.outputs)
    if not columns(query.node).issuperset(among):
        raise correlation(block.reading, node)
    mark = Sought(query.node, query.correlated, block.reading.unique("in"), sought, among)
    block.marks.append(mark)
    return column(mark.value)


def _scalar(block: Block, node: exp.Query) -> Expression:
    """The column of a scalar subquery, which joins the rows of the block."""
    reading = block.reading
    if isinstance(node.unnest(), exp.SetOperation):
        raise reading.not_followed("A set operation stands for one value", node)
    query = block.read(node)
    if len(query.outputs) != 1:
        raise reading.not_followed("A subquery with several columns stands for one value", node)
    rows, value = query.node, query.outputs[0].column
    if not query.is_one_row:
        rows, value = _single(block, node, query)
    item, of_none = beside(reading, replace(query, node=rows))
    block.items.append(item)
    return of_none.get(value, column(value))


def beside(reading: TextReading, query: ReadQuery) -> tuple[Item, Mapping[str, Expression]]:
    """The rows of a subquery as an item that joins each row around it, whether it has rows for that row or not.

    Also, the columns that are not NULL without rows, each with its value in either case.
    """
    if not query.correlated:
        return Item(query.node), {}
    of_none = {name: value for name, value in query.of_none.items() if not _is_null(value)}
    if not of_none:
        return Item(query.node, Side.LEFT, query.correlated), {}
    matched = reading.unique("matched", "boolean")
    is_none = exp.Is(this=column(matched), expression=exp.Null())
    rows = Extend(query.node, {matched: exp.true()})
    return Item(rows, Side.LEFT, query.correlated), {
        name: exp.Case(ifs=[exp.If(this=is_none.copy(), true=value.copy())], default=column(name))
        for name, value in of_none.items()
    }


def _single(block: Block, node: exp.Query, query: ReadQuery) -> tuple[Node, str]:
    """The rows and the column of any one value of a scalar subquery, for each value of the columns that match it."""
    reading, value = block.reading, query.outputs[0].column
    groups = [own_column(reading, condition, query.node, node) for condition in query.correlated]
    single = reading.unique("scalar", reading.types.get(value))
    reading.note("A scalar subquery is not an aggregate: if it has several rows, the run fails.")
    return Aggregation(query.node, tuple(dict.fromkeys(groups)), {single: exp.AnyValue(this=column(value))}), single


def correlation(reading: TextReading, node: Expr) -> NotFollowedError:
    """The error of a subquery that is matched with the surrounding row by something other than equality."""
    what = "a subquery is computed for each row around it, by a condition that is not an equality of columns"
    return reading.not_followed(what, node)


def _is_null(expression: Expression) -> bool:
    """Whether an expression over no columns is certainly NULL."""
    nodes = list(expression.walk())
    return any(isinstance(node, exp.Null) for node in nodes) and all(
        isinstance(node, (*PROPAGATING, exp.Div)) for node in nodes
    )
