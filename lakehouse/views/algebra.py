"""Relational algebra with unique column names: what the text of a view says, in nine kinds of node.

Every column has one name in the whole tree. So a node names a column of a node below without renaming, and two
occurrences of a table never clash. Columns are renamed at scans and set operations alone, and computed by `Extend`,
`Aggregation` and `Windows` alone.
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
    """Where the text names a table: between which offsets, the second excluded, and whether an alias follows."""

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
        place: Where the text names it. Two uses of a common table expression have the same places.
    """

    table: str
    names: Mapping[str, str]
    alias: str
    place: Place


CONSTANT = Scan("", {}, "", Place(0, 0, has_alias=False))
"""The table without a name: one row without columns, which no change reaches."""


class Side(Enum):
    """How an item of a join takes part: INNER rows match; LEFT rows may be missing, and then are NULL."""

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
    """The items of FROM in order, each joined to those before it, and the conjuncts of WHERE and of inner ON."""

    items: tuple[Item, ...]
    where: tuple[Expression, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class FullJoin:
    """Rows of both sides, matched by ON, and those of either side without a match."""

    left: "Node"
    right: "Node"
    on: tuple[Expression, ...]


class MarkUse(Enum):
    """How a filter above uses a mark: rows that have it, rows that lack it, or in any other way."""

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
        value: The unique name of the boolean.
        sought: Of IN, the expressions over the rows that are sought in the columns `among`; else empty.
        among: Of IN, the columns of the subquery; else empty.
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
    """The rows of a node, each once for every row that a generator makes of it (LATERAL VIEW, explode).

    Args:
        node: The rows.
        generator: The generator's call.
        new: The unique names of the columns that it gives.
        outer: Whether a row of which it makes none stays, with NULL (OUTER).
    """

    node: "Node"
    generator: Expression
    new: tuple[str, ...]
    outer: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Aggregation:
    """One row for each group; without aggregates that is DISTINCT. Groups are columns, which keep their names."""

    node: "Node"
    groups: tuple[str, ...]
    aggregates: Mapping[str, Expression]


@dataclass(frozen=True, eq=False, slots=True)
class Windows:
    """The rows of a node with window functions over the partitions by some of its columns."""

    node: "Node"
    partition: tuple[str, ...]
    windows: Mapping[str, Expression]


class SetKind(Enum):
    """The set operations that stand as nodes."""

    UNION_ALL = "UNION ALL"
    EXCEPT = "EXCEPT"
    EXCEPT_ALL = "EXCEPT ALL"
    INTERSECT = "INTERSECT"
    INTERSECT_ALL = "INTERSECT ALL"


@dataclass(frozen=True, eq=False, slots=True)
class SetOperation:
    """A set operation by position. UNION is a DISTINCT (`Aggregation`) of UNION ALL.

    Args:
        kind: Which one.
        nodes: The branches.
        names: For each branch, its column for each unique name of the result.
        has_same_types: Whether the branches have the same types, even where these are not known.
    """

    kind: SetKind
    nodes: tuple["Node", ...]
    names: tuple[Mapping[str, str], ...]
    has_same_types: bool = False

    def of_one_type(self, types: Mapping[str, str]) -> frozenset[str]:
        """The columns that have one type in all branches, so that Spark converts no value of a branch."""
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
    """A last LIMIT of a number.

    Args:
        rows: The number.
        text: The text without it.
    """

    rows: int
    text: str


@dataclass(frozen=True, slots=True)
class Top:
    """A last LIMIT or OFFSET, which the algebra leaves out.

    Args:
        why: Why all rows are computed for it.
        by: The parts of its ORDER BY that follow from columns of the result.
        first: The LIMIT, if such parts alone decide which rows it takes; else None.
    """

    why: Reason
    by: tuple[OrderBy, ...]
    first: FirstRows | None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that stand alone in its ORDER BY, by their unique names: rows that differ there have an order."""
        return frozenset(each.value.name for each in self.by if isinstance(each.value, exp.Column))


@dataclass(frozen=True, eq=False, slots=True)
class Query:
    """What a text says.

    Args:
        text: The text.
        root: Its algebra.
        outputs: The columns of its result, in order.
        types: The types of columns, as Spark's `simpleString()` has them, where they are known.
        notes: What of the text means nothing for a table (a last ORDER BY), as sentences.
        whole: Why all rows below its top are computed if one moves; None if keys follow the changes.
        top: Which of the rows the result has; None if it has all.
        offer: Of an aggregate of all rows, what its FROM offers: columns by their unique names, each as SQL names it.
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
        """Why all rows are computed if one moves; None if keys follow the changes."""
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
    """The expressions that stand in a node itself."""
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
    """The expression that is a column."""
    return exp.column(name)


def columns_in(*of: Expression | None) -> frozenset[str]:
    """The unique names of the columns in expressions."""
    return frozenset(each.name for one in of if one is not None for each in one.find_all(exp.Column))


def substitute(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """An expression in which expressions stand for some of its columns, in parentheses where they need some."""

    def replace(node: Expression) -> Expression:
        if not isinstance(node, exp.Column) or node.name not in by:
            return node
        return in_parentheses(by[node.name].copy())

    return expression.copy().transform(replace)


def is_captured(expression: Expression, by: Mapping[str, Expression]) -> bool:
    """Whether `substitute` would put a column in that a parameter of a lambda of the expression hides there."""
    put = {name.lower() for each in columns_in(expression) & by.keys() for name in columns_in(by[each])}
    lambdas = expression.find_all(exp.Lambda)
    return any(parameter.name.lower() in put for each in lambdas for parameter in each.expressions)


def nulls_of(names: Iterable[str]) -> dict[str, Expression]:
    """NULL for each of some columns."""
    return {name: exp.null() for name in names}


def without_item(join: Join, index: int) -> Join:
    """The other items of a join, under its conditions where the item is missing, so that its columns are NULL."""
    nulls = nulls_of(columns(join.items[index].node))
    items = tuple(
        replace(item, on=tuple(substitute(each, nulls) for each in item.on))
        for k, item in enumerate(join.items)
        if k != index
    )
    return Join(items, tuple(substitute(each, nulls) for each in join.where))


def in_parentheses(expression: Expression) -> Expression:
    """An expression that may stand under any operator: sqlglot writes no parentheses of its own."""
    operators = exp.Binary | exp.Connector | exp.Unary | exp.Between | exp.In
    needed = isinstance(expression, operators) and not isinstance(expression, exp.Paren)
    return exp.Paren(this=expression) if needed else expression
