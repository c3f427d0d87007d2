"""What the readings of a query share: what is known of its columns, the steps so far, and each other."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from sqlglot.expressions.core import Expr, Expression

from lakehouse.delta.text import quote
from lakehouse.errors.views import TextPlace
from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Filter,
    Generate,
    MarkJoin,
    Node,
    Query,
    Scan,
    SetOperation,
    Windows,
    children,
    columns_in,
    expressions,
    nodes_of,
)
from lakehouse.views.plan import Found, Image, SourceRows, Sql, Step
from lakehouse.views.printing import is_printable, unprintable_part
from lakehouse.views.sql.parsing import CALLED, span_of
from lakehouse.views.steps.key_limits import KeyLimit, rows_of
from lakehouse.views.steps.relations import NOTHING, Relation, select, text, unite
from lakehouse.views.steps.row_order import Rounding, chooses, depends_on_order, order_dependent
from lakehouse.views.steps.wording import Wording
from lakehouse.views.view_text import NotFollowedError


class State(Enum):
    """Which rows of a node: those of NOW, those BEFORE the change, or NONE, for the types of its columns."""

    NOW = "now"
    BEFORE = "before"
    NONE = "none"


EVER = (Image.NOW, Image.GONE)
"""The images that hold every row that a source has or had."""


@dataclass(frozen=True, eq=False, slots=True)
class QueryFacts:
    """What is known of a query before it is planned.

    Args:
        query: The query.
        changed: The tables that may have changed.
        small: The tables that are read whole instead of by keys.
        used: The columns that the query uses.
        of_many: The columns that are computed from several rows, by group or partition: an old value needs old rows.
        unprintable: The columns that no step can compute, each with the part of an expression behind it that is not
            written again; None for EXISTS and IN.
        of_order: The columns whose last digits depend on the order of rows, each with the one that does by itself.
        wording: What people call the columns.
    """

    query: Query
    changed: frozenset[str]
    small: frozenset[str]
    used: frozenset[str]
    of_many: frozenset[str]
    unprintable: Mapping[str, Expr | None]
    of_order: Mapping[str, str]
    wording: Wording

    @classmethod
    def of(cls, query: Query, changed: Collection[str], small: Collection[str]) -> "QueryFacts":
        """The facts of a query, of which some tables changed."""
        below = tuple(nodes_of(query.root))
        used = columns_in(*(e for node in below for e in expressions(node)))
        may_round = {each: each.columns(query.root, query.types) for each in Rounding}
        return cls(
            query,
            frozenset(changed),
            frozenset(small),
            used.union(output.column for output in query.outputs),
            _of_many(query.root),
            _unprintable(query.root),
            order_dependent(query.root, lambda value: depends_on_order(value, may_round, query.types)),
            Wording.of(query),
        )

    def changes(self, node: Node) -> bool:
        """Whether a table below a node may have changed."""
        return any(scan.table in self.changed for scan in scans_of(node))

    def is_small(self, node: Node) -> bool:
        """Whether all tables below a node are small."""
        return all(scan.table in self.small for scan in scans_of(node))

    def can_say(self, expression: Expression) -> bool:
        """Whether a step may compute an expression."""
        return is_printable(expression) and not columns_in(expression) & self.unprintable.keys()

    def sayable(self, limits: tuple[KeyLimit, ...]) -> tuple[KeyLimit, ...]:
        """The pairs of limits that a step may compute."""
        parts = (
            KeyLimit(x.step, tuple(pair for pair in x.pairs if self.can_say(pair[0])), x.null_safe) for x in limits
        )
        return tuple(limit for limit in parts if limit.pairs)

    def null(self, column: str) -> str:
        """The SQL of NULL in a column."""
        kind = self.query.types.get(column)
        return f"CAST(NULL AS {kind})" if kind else "NULL"


class Planning(ABC):
    """One plan in the making: its steps so far, and the three readings of a node, which need each other."""

    def __init__(self, facts: QueryFacts, prefix: str) -> None:
        self.facts = facts
        self.steps: list[Step] = []
        self.values_before: dict[str, None] = {}
        self.read_whole: dict[str, str] = {}
        self._prefix = prefix
        self._moved_rows: dict[tuple[int, frozenset[str]], Relation] = {}

    @abstractmethod
    def delta(self, node: Node, want: frozenset[str]) -> Relation | None:
        """A superset of the values of columns in the rows that a node has more or fewer of than before."""

    @abstractmethod
    def superset(
        self, node: Node, want: frozenset[str], limits: tuple[KeyLimit, ...], images: tuple[Image, ...]
    ) -> Relation:
        """A superset of the values of columns in the rows of a node, in the images, that match limits."""

    @abstractmethod
    def rows(self, node: Node, limits: tuple[KeyLimit, ...], state: State) -> Relation:
        """The rows of a node in a state that match limits, each as often as it is there; and perhaps others."""

    def unite_branches(
        self, node: SetOperation, want: frozenset[str], of_branches: Mapping[int, Relation]
    ) -> Relation | None:
        """The values of a set operation in rows of some of its branches, by their places; None of none.

        Spark converts the values of branches to one type, which may make one value of two. So each branch takes part,
        if need be without a row.
        """
        if not of_branches:
            return None
        converted = want - node.of_one_type(self.facts.query.types)
        if converted and not all(map(can_be_written, node.nodes)):
            self._refuse_types(converted)
        rows = [
            select(
                of_branches[place] if place in of_branches else self.rows(branch, (), State.NONE),
                want,
                computed={name: names[name] for name in want},
            )
            for place, (branch, names) in enumerate(zip(node.nodes, node.names, strict=True))
            if converted or place in of_branches
        ]
        return unite(rows)

    def step(self, relation: Relation, why: str) -> tuple[Relation, str]:
        """Makes a relation a step, without duplicates: its rows from then on, and its name."""
        name = f"{self._prefix}{len(self.steps) + 1}"
        columns = ", ".join(relation.columns)
        self.steps.append(
            Step(name, text(f"SELECT DISTINCT {columns or NOTHING} FROM ", relation), relation.columns, why)
        )
        return Relation((f"SELECT {columns or NOTHING} FROM ", Found(name)), relation.columns), name

    def scan(
        self, scan: Scan, columns: Iterable[str], image: Image, any_of: Iterable[tuple[KeyLimit, ...]]
    ) -> Relation:
        """Columns of an occurrence of a table, under their unique names."""
        names = tuple(sorted(columns))
        listed = ", ".join(f"{quote(scan.names[name])} AS {name}" for name in names)
        return Relation((f"SELECT {listed or NOTHING} FROM ", rows_of(scan, names, image, any_of)), names)

    def moved_rows(self, scan: Scan, columns: frozenset[str]) -> Relation:
        """The rows of an occurrence that changed in some columns: a step, made once."""
        if (id(scan), columns) not in self._moved_rows:
            moved = self.scan(scan, columns, Image.MOVED, ())
            names = ", ".join(sorted(scan.names[name] for name in columns))
            self._moved_rows[id(scan), columns] = self.step(moved, f"rows of {label(scan)} that changed in {names}")[0]
        return self._moved_rows[id(scan), columns]

    def say_values_before(self, node: Aggregation | Windows, want: Iterable[str]) -> None:
        """Notes columns whose values before the change are computed as well.

        Raises:
            NotFollowedError: Another computation of the values may give others.
        """
        values = node.aggregates if isinstance(node, Aggregation) else node.windows
        words = self.facts.wording
        names = words.of_columns(want)
        for name in sorted(self.facts.of_order.keys() & set(want)):
            source = self.facts.of_order[name]
            follows = "its" if source == name else f"follows from {words.of_column(source)}, whose"
            raise NotFollowedError(
                f"{words.of_column(name)} decides which keys change, and {follows} last digits depend on the order in "
                "which Spark takes the rows",
                self._place(values.get(source)),
            )
        sentence = f"{names} of {label(node)} is computed from many rows, and decides which keys change"
        if any(chooses(values[name]) for name in want if name in values):
            sentence += ", so its order has to tell these rows apart: name enough columns in it"
        self.values_before[sentence] = None

    def say_read_whole(self, node: Node, why: str) -> None:
        """Notes why tables may be read whole: the first reason of each."""
        for scan in scans_of(node):
            if scan.table not in self.facts.small:
                self.read_whole.setdefault(scan.table, why)

    def whole_reads(self, sql: Sql = ()) -> tuple[tuple[str, str], ...]:
        """The tables, small ones apart, of which the steps or some more SQL need all rows, each with the reason."""
        places = [part for one in (*(step.sql for step in self.steps), sql) for part in one]
        tables = (
            place.table
            for place in places
            if isinstance(place, SourceRows) and place.image is Image.NOW and not place.any_of
        )
        whole = dict.fromkeys(table for table in tables if table not in self.facts.small)
        return tuple((table, self.read_whole.get(table, "no key limits it")) for table in whole)

    def _refuse_types(self, columns: Iterable[str]) -> None:
        """Refuses keys that Spark converts from the types of branches of which no step can tell the types."""
        raise NotFollowedError(
            f"{self.facts.wording.of_columns(columns)} decides which keys change, and may be of another type in each "
            "branch of a set operation"
        )

    def refuse_values(self, columns: Iterable[str]) -> None:
        """Refuses keys that no step can compute."""
        if names := sorted(self.facts.unprintable.keys() & set(columns)):
            part = self.facts.unprintable[names[0]]
            by = (
                "EXISTS or IN" if part is None else f"{part.meta[CALLED]}()" if CALLED in part.meta else "an expression"
            )
            raise NotFollowedError(
                f"{self.facts.wording.of_columns(names[:1])} decides which keys change, and is computed by {by}, which "
                "no step writes again",
                self._place(part),
            )

    def _place(self, part: Expr | None) -> TextPlace | None:
        """Where the text says a part: its function alone, because what that is called with may be elsewhere."""
        if part is None:
            return None
        span = (part.meta["start"], part.meta["end"] + 1) if "start" in part.meta else span_of(part)
        return None if span is None else TextPlace.of(self.facts.query.text, *span)


def scans_of(node: Node) -> tuple[Scan, ...]:
    """The occurrences of tables below a node."""
    return tuple(below for below in nodes_of(node) if isinstance(below, Scan))


def label(node: Node) -> str:
    """What people call a node: its tables as the text calls them."""
    return ", ".join(sorted({scan.alias for scan in scans_of(node)}))


def is_one_row(node: Node) -> bool:
    """Whether a node is an aggregate of all rows."""
    while isinstance(node, Extend | Filter):
        node = node.node
    return isinstance(node, Aggregation) and not node.groups


def can_be_written(node: Node) -> bool:
    """Whether all that a node and those below it compute may be written again."""
    return all(is_printable(e) for below in nodes_of(node) for e in expressions(below))


def _of_many(node: Node) -> frozenset[str]:
    """The columns of a node and below that are computed from several rows by group or partition."""
    below = frozenset[str]().union(*map(_of_many, children(node)))
    match node:
        case Aggregation(groups=groups, aggregates=aggregates):
            return below | aggregates.keys() if groups else below
        case Windows(windows=windows):
            return below | windows.keys()
        case Extend(new=new):
            return below | {name for name, e in new.items() if columns_in(e) & below}
        case SetOperation(names=names):
            return below | {name for of_branch in names for name, one in of_branch.items() if one in below}
        case _:
            return below


def _unprintable(node: Node) -> dict[str, Expr | None]:
    """The columns of a node and below that no step can compute, each with what is not written again; None for marks."""
    below = dict[str, Expr | None]()
    for child in children(node):
        below |= _unprintable(child)

    def parts(expression: Expression) -> list[Expr | None]:
        own = unprintable_part(expression)
        return [below[name] for name in sorted(columns_in(expression) & below.keys())] if own is None else [own]

    match node:
        case Extend(new=new):
            return below | {name: one[0] for name, e in new.items() if (one := parts(e))}
        case Generate(generator=generator, new=new):
            return below | {name: one[0] for name in new if (one := parts(generator))}
        case MarkJoin(value=value):
            return {**below, value: None}
        case Aggregation(aggregates=computed) | Windows(windows=computed):
            every = (unprintable_part(e) for each in nodes_of(node) for e in expressions(each))
            part = next((each for each in every if each is not None), None)
            return below if part is None else below | dict.fromkeys(computed, part)
        case SetOperation(names=names):
            return below | {name: below[one] for branch in names for name, one in branch.items() if one in below}
        case _:
            return below
