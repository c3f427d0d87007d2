"""Relational algebra with unique column names: what the text of a view says, in ten kinds of node.

Every column has a name that is unique in the whole tree. So a node refers to the columns of the nodes below by these
names, and two occurrences of a table never clash. Only scans and set operations rename columns; only `Extend`,
`Generate`, `Aggregation`, `Windows` and `MarkJoin` compute new ones.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.view_text import Reason


@dataclass(frozen=True, slots=True)
class Place:
    """Where the text names a table: from offset `start` up to `end` (excluded), and whether an alias follows."""

    start: int
    end: int
    has_alias: bool


@dataclass(frozen=True, eq=False, slots=True)
class Scan:
    """One occurrence of a table: its columns under unique names.

    Args:
        table: The table as the text names it, in lower case.
        names: The column of the table that each unique name stands for.
        alias: What the text calls this occurrence.
        place: Where the text names it. Two uses of a common table expression scan the same places.
    """

    table: str
    names: Mapping[str, str]
    alias: str
    place: Place


CONSTANT = Scan("", {}, "", Place(0, 0, has_alias=False))
"""The table without a name: one row without columns, which no change reaches."""


class Side(Enum):
    """How an item takes part in a join: an INNER row must match; a LEFT row may be missing, and is then NULL."""

    INNER = "inner"
    LEFT = "left"


@dataclass(frozen=True, eq=False, slots=True)
class Item:
    """An item of FROM. Only a LEFT item has conditions of its own (ON)."""

    node: "Node"
    side: Side = Side.INNER
    on: tuple[Expression, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Join:
    """The items of FROM in order, each joined to those before it, and the conjuncts of WHERE and of inner joins' ON."""

    items: tuple[Item, ...]
    where: tuple[Expression, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class FullJoin:
    """The rows of both sides that match by ON, and the rows of either side without a match."""

    left: "Node"
    right: "Node"
    on: tuple[Expression, ...]


class MarkUse(Enum):
    """How filters above use the boolean of a `MarkJoin`: to keep rows where it is true, or false, or otherwise."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    ANY = "any"


@dataclass(frozen=True, eq=False, slots=True)
class MarkJoin:
    """The rows of a node with one more column: whether a subquery has a matching row (EXISTS, IN, SEMI, ANTI).

    Args:
        node: The rows.
        sub: The subquery.
        on: The conditions over columns of both.
        value: The unique name of the boolean column.
        sought: For IN, the expressions over the rows whose values are sought in the columns `among`; else empty.
        among: For IN, the columns of the subquery; else empty.
        use: How the boolean is used.
    """

    node: "Node"
    sub: "Node"
    on: tuple[Expression, ...]
    value: str
    sought: tuple[Expression, ...] = ()
    among: tuple[str, ...] = ()
    use: MarkUse = MarkUse.ANY


@dataclass(frozen=True, eq=False, slots=True)
class Filter:
    """The rows for which all conjuncts are true."""

    node: "Node"
    where: tuple[Expression, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Extend:
    """The rows of a node with columns that are computed row by row."""

    node: "Node"
    new: Mapping[str, Expression]


@dataclass(frozen=True, eq=False, slots=True)
class Generate:
    """The rows of a node, each once for every row that a generator makes from it (LATERAL VIEW, explode).

    Args:
        node: The rows.
        generator: The generator's call.
        new: The unique names of the columns that it gives.
        outer: Whether a row from which it makes no row stays, with NULL (OUTER).
    """

    node: "Node"
    generator: Expression
    new: tuple[str, ...]
    outer: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Aggregation:
    """One row for each group; without aggregates, this is DISTINCT. Groups are columns, which keep their names."""

    node: "Node"
    groups: tuple[str, ...]
    aggregates: Mapping[str, Expression]


@dataclass(frozen=True, eq=False, slots=True)
class Windows:
    """The rows of a node with window functions over partitions by some of its columns."""

    node: "Node"
    partition: tuple[str, ...]
    windows: Mapping[str, Expression]


class SetKind(Enum):
    """The set operations that are nodes of their own."""

    UNION_ALL = "UNION ALL"
    EXCEPT = "EXCEPT"
    EXCEPT_ALL = "EXCEPT ALL"
    INTERSECT = "INTERSECT"
    INTERSECT_ALL = "INTERSECT ALL"


@dataclass(frozen=True, eq=False, slots=True)
class SetOperation:
    """A set operation, by position of the columns. UNION is a DISTINCT (`Aggregation`) over UNION ALL.

    Args:
        kind: Which set operation.
        nodes: The branches.
        names: For each branch, its column for each unique name of the result.
        has_same_types: Whether the branches have columns of the same types, even where the types are not known.
    """

    kind: SetKind
    nodes: tuple["Node", ...]
    names: tuple[Mapping[str, str], ...]
    has_same_types: bool = False

    def of_one_type(self, types: Mapping[str, str]) -> frozenset[str]:
        """The columns that have the same type in all branches, so that Spark converts none of their values."""
        if self.has_same_types:
            return frozenset(self.names[0])
        kinds = {name: {types.get(of_branch[name]) for of_branch in self.names} for name in self.names[0]}
        return frozenset(name for name, every in kinds.items() if len(every) == 1 and None not in every)


Node: TypeAlias = Scan | Join | FullJoin | MarkJoin | Filter | Extend | Generate | Aggregation | Windows | SetOperation


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result: its name in the text, and its unique name."""

    name: str
    column: str


@dataclass(frozen=True, slots=True)
class OrderBy:
    """A part of an ORDER BY, over the unique names of the columns of the result."""

    value: Expression
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class FirstRows:
    """A LIMIT with a number at the end of a text.

    Args:
        rows: The number.
        text: The text without the LIMIT, which selects the values that the result leaves out at its end.
        left_out: The names of the values that the rows are ordered by, and that are no columns of the result.
    """

    rows: int
    text: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Top:
    """A last LIMIT or OFFSET, which the algebra leaves out.

    Args:
        why: Why all rows are computed for it.
        by: The parts of its ORDER BY that can be computed from columns of the result, or are values that it leaves out.
        first: The LIMIT, if these parts alone decide which rows it takes; else None.
        end: Where its ORDER BY ends in the text.
    """

    why: Reason
    by: tuple[OrderBy, ...]
    first: FirstRows | None
    end: int

    @property
    def columns(self) -> frozenset[str]:
        """The unique names of the columns that are whole terms of its ORDER BY: rows that differ there are ordered."""
        return frozenset(each.value.name for each in self.by if isinstance(each.value, exp.Column))


@dataclass(frozen=True, eq=False, slots=True)
class Query:
    """What a text says.

    Args:
        text: The text.
        root: Its algebra.
        outputs: The columns of its result, in order.
        types: The types of columns, as Spark's `simpleString()` has them, where they are known.
        notes: What in the text has no meaning, or no certain one, for a table (a last ORDER BY), as sentences.
        whole: Why any change makes a run compute all rows below its top; None if keys follow the changes.
        top: Which of the rows the result has; None if it has all.
        offer: For an aggregate of all rows, the columns that its FROM offers: unique names, each with its name in SQL.
    """

    text: str
    root: Node
    outputs: tuple[Output, ...]
    types: Mapping[str, str]
    notes: tuple[str, ...] = ()
    whole: Reason | None = None
    top: Top | None = None
    offer: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def why_whole(self) -> Reason | None:
        """Why any change makes a run compute all rows; None if keys follow the changes."""
        return self.whole or (self.top and self.top.why)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below a node."""
    match node:
        case Scan():
            return ()
        case Join(items=items):
            return tuple(item.node for item in items)
        case FullJoin(left=left, right=right):
            return left, right
        case MarkJoin(node=below, sub=sub):
            return below, sub
        case Filter() | Extend() | Generate() | Aggregation() | Windows():
            return (node.node,)
        case SetOperation(nodes=nodes):
            return nodes


def nodes_of(node: Node) -> Iterator[Node]:
    """A node and all nodes below it."""
    yield node
    for child in children(node):
        yield from nodes_of(child)


def columns(node: Node) -> frozenset[str]:
    """The unique names of a node's columns."""
    match node:
        case Scan(names=names) | Aggregation(groups=names):
            below = frozenset(names)
        case SetOperation():
            below = frozenset[str]()
        case MarkJoin(node=rows):
            below = columns(rows)
        case _:
            below = frozenset[str]().union(*map(columns, children(node)))
    return below | computed_columns(node).keys()


def computed_columns(node: Node) -> Mapping[str, tuple[Expression, ...]]:
    """The columns that a node computes under new names, each with the expressions that it comes from."""
    match node:
        case Extend(new=new) | Aggregation(aggregates=new) | Windows(windows=new):
            return {name: (expression,) for name, expression in new.items()}
        case Generate(generator=generator, new=new):
            return dict.fromkeys(new, (generator,))
        case MarkJoin(value=value):
            return {value: expressions(node)}
        case SetOperation(names=names):
            return {name: tuple(column(of_branch[name]) for of_branch in names) for name in names[0]}
        case Scan() | Join() | FullJoin() | Filter():
            return {}


def expressions(node: Node) -> tuple[Expression, ...]:
    """The expressions in a node itself, not in the nodes below it."""
    match node:
        case Scan():
            return ()
        case Join(items=items, where=where):
            return (*where, *(condition for item in items for condition in item.on))
        case FullJoin(on=on):
            return on
        case MarkJoin(on=on, sought=sought, among=among):
            return (*on, *sought, *map(column, among))
        case Filter(where=where):
            return where
        case Extend(new=new):
            return tuple(new.values())
        case Generate(generator=generator):
            return (generator,)
        case Aggregation(groups=groups, aggregates=aggregates):
            return (*map(column, groups), *aggregates.values())
        case Windows(partition=partition, windows=windows):
            return (*map(column, partition), *windows.values())
        case SetOperation(names=names):
            return tuple(column(name) for of_branch in names for name in of_branch.values())


def column(name: str) -> exp.Column:
    """A column as an expression."""
    return exp.column(name)


def columns_in(*of: Expression | None) -> frozenset[str]:
    """The unique names of the columns in expressions."""
    return frozenset(each.name for one in of if one is not None for each in one.find_all(exp.Column))


def substitute(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """An expression with others in place of some of its columns, in parentheses where these are needed."""

    def replace(node: Expression) -> Expression:
        if not isinstance(node, exp.Column) or node.name not in by:
            return node
        return in_parentheses(by[node.name].copy())

    return expression.copy().transform(replace)


def is_captured(expression: Expression, by: Mapping[str, Expression]) -> bool:
    """Whether `substitute` would insert a column that a lambda parameter of the same name hides there."""
    put = {name.lower() for each in columns_in(expression) & by.keys() for name in columns_in(by[each])}
    lambdas = expression.find_all(exp.Lambda)
    return any(parameter.name.lower() in put for each in lambdas for parameter in each.expressions)


def nulls_of(names: Iterable[str]) -> dict[str, Expression]:
    """NULL for each of some columns."""
    return {name: exp.null() for name in names}


def without_item(join: Join, index: int) -> Join:
    """A join without one of its items, under the same conditions with NULL for the columns of that item."""
    nulls = nulls_of(columns(join.items[index].node))
    items = tuple(
        replace(item, on=tuple(substitute(each, nulls) for each in item.on))
        for k, item in enumerate(join.items)
        if k != index
    )
    return Join(items, tuple(substitute(each, nulls) for each in join.where))


def in_parentheses(expression: Expression) -> Expression:
    """An expression that can be an operand of any operator: sqlglot adds no parentheses by itself."""
    operators = exp.Binary | exp.Connector | exp.Unary | exp.Between | exp.In
    needed = isinstance(expression, operators) and not isinstance(expression, exp.Paren)
    return exp.Paren(this=expression) if needed else expression
