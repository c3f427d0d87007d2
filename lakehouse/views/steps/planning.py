"""What the readings of a query share: what is known of its columns, and the steps so far."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from re import fullmatch
from typing import Self, TypeAlias

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.delta.text import quote
from lakehouse.errors.views import TextPlace
from lakehouse.views.algebra import (
    CONSTANT,
    Aggregation,
    Extend,
    Filter,
    Generate,
    MarkJoin,
    Node,
    Query,
    Scan,
    SetKind,
    SetOperation,
    Windows,
    children,
    columns_in,
    computed_columns,
    expressions,
    nodes_of,
    substitute,
)
from lakehouse.views.equalities import may_be_equal_but_other
from lakehouse.views.plan import Found, Image, SourceRows, Sql, Step
from lakehouse.views.printing import is_printable, unprintable_part
from lakehouse.views.sql.parsing import CALLED
from lakehouse.views.sql.words import span_of
from lakehouse.views.steps.relations import NOTHING, KeyLimit, Relation, print_sql, rows_of, text
from lakehouse.views.view_text import NotFollowedError

EVER = (Image.NOW, Image.GONE)
"""The images that hold every row that a source has or had."""


@dataclass(frozen=True, slots=True)
class Unsaid:
    """Why no step computes a column: how the text computes it, as a clause, and the part of the text that does."""

    how: str
    part: Expr | None = None


_Definition: TypeAlias = str | Expression | exp.Column
_LONG = 60
"""This many letters of an expression are enough to find it in the text."""


@dataclass(frozen=True, eq=False, slots=True)
class Wording:
    """The words for the columns of a query in messages, without unique names, which are unknown outside the algebra.

    Args:
        outputs: The names of the columns of the result, by their unique names.
        definitions: For every other column, its name in its table, or the expression that computes it.
    """

    outputs: Mapping[str, str]
    definitions: Mapping[str, _Definition]

    @classmethod
    def of(cls, query: Query) -> Self:
        """The words for the columns of a query."""
        definitions = dict[str, _Definition]()
        for node in nodes_of(query.root):
            if isinstance(node, Scan):
                definitions.update(node.names)
            elif isinstance(node, MarkJoin):
                definitions[node.value] = "IN (...)" if node.sought else "EXISTS (...)"
            elif not isinstance(node, Generate):
                definitions.update({name: of[0] for name, of in computed_columns(node).items()})
        return cls({output.column: output.name for output in reversed(query.outputs)}, definitions)

    def of_column(self, name: str) -> str:
        """The words for a column."""
        if name in self.outputs:
            return self.outputs[name]
        match self.definitions.get(name):
            case str() as own:
                return own
            case None:  # a generator gives it, and its unique name is its name and a number
                stem = fullmatch(r"(.*?)_\d+", name)
                return name if stem is None else stem[1]
            case expression:
                words = self.of_expression(expression)
                return words if len(words) <= _LONG else f"{words[:_LONG]}..."

    def of_columns(self, names: Iterable[str]) -> str:
        """The words for some columns, in alphabetical order."""
        return ", ".join(sorted({self.of_column(name) for name in names}))

    def of_expression(self, expression: Expression) -> str:
        """An expression with the words for its columns."""
        words: dict[str, Expression] = {name: exp.Var(this=self.of_column(name)) for name in columns_in(expression)}
        return print_sql(substitute(expression, words))


@dataclass(frozen=True, eq=False, slots=True)
class QueryFacts:
    """What is known of a query before it is planned.

    Args:
        query: The query.
        changed: The tables that may have changed.
        small: The tables that are read whole instead of by keys.
        used: The columns that the query uses.
        unsaid: The columns that no step computes: a step computes from single rows, and only what can be printed.
        merged: The columns whose equal values the query takes as one, although they can be told apart.
        told_apart: The columns whose equal values an expression can tell apart.
        wording: The words for the columns in messages.
    """

    query: Query
    changed: frozenset[str]
    small: frozenset[str]
    used: frozenset[str]
    unsaid: Mapping[str, Unsaid]
    merged: frozenset[str]
    told_apart: frozenset[str]
    wording: Wording

    @classmethod
    def of(cls, query: Query, changed: Collection[str], small: Collection[str]) -> "QueryFacts":
        """The facts of a query, if some of its tables may have changed."""
        used = columns_in(*(e for node in nodes_of(query.root) for e in expressions(node)))
        doubtful, merged = set[str](), set[str]()
        unsaid = _unsaid(query.root, query.types, doubtful, merged)
        by_row = (node for node in nodes_of(query.root) if not isinstance(node, Aggregation | Windows))
        of_rows = (expression for node in by_row for expression in expressions(node))
        return cls(
            query,
            frozenset(changed) - {CONSTANT.table},
            frozenset(small) | {CONSTANT.table},
            used.union(output.column for output in query.outputs),
            unsaid,
            frozenset(merged),
            frozenset(name for each in of_rows for name in _told_apart(each, doubtful)),
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
        is_of_one_row = not columns_in(expression) & self.unsaid.keys() and not _told_apart(expression, self.merged)
        return is_printable(expression) and is_of_one_row

    def sayable(self, limits: tuple[KeyLimit, ...]) -> tuple[KeyLimit, ...]:
        """Limits, reduced to the pairs that a step may compute."""
        parts = (
            KeyLimit(x.step, tuple(pair for pair in x.pairs if self.can_say(pair[0])), x.null_safe) for x in limits
        )
        return tuple(limit for limit in parts if limit.pairs)

    def null(self, column: str) -> str:
        """NULL as SQL, in the type of a column."""
        kind = self.query.types.get(column)
        return f"CAST(NULL AS {kind})" if kind else "NULL"


class Planning:
    """One plan in the making.

    Args:
        facts: What is known of the query.
        prefix: How the names of its steps begin.
        superset: The second reading of a node (supersets). It is passed in because it and hops need each other.
    """

    def __init__(self, facts: QueryFacts, prefix: str, superset: "Superset") -> None:
        self.facts = facts
        self.superset = superset
        self.steps: list[Step] = []
        self.read_whole: dict[str, str] = {}
        self._prefix = prefix
        self._moved_rows: dict[tuple[int, frozenset[str]], Relation] = {}

    def step(self, relation: Relation, why: str) -> tuple[Relation, str]:
        """Makes a relation a step. Returns the rows of the step, as a relation, and its name.

        Without duplicates, unless DISTINCT would keep one of two values that a later step can tell apart.
        """
        name = f"{self._prefix}{len(self.steps) + 1}"
        columns = ", ".join(relation.columns)
        distinct = "" if self.facts.told_apart.intersection(relation.columns) else "DISTINCT "
        self.steps.append(
            Step(name, text(f"SELECT {distinct}{columns or NOTHING} FROM ", relation), relation.columns, why)
        )
        return Relation((f"SELECT {columns or NOTHING} FROM ", Found(name)), relation.columns), name

    def scan(
        self, scan: Scan, columns: Iterable[str], image: Image, any_of: Iterable[tuple[KeyLimit, ...]]
    ) -> Relation:
        """Columns of an occurrence of a table, under their unique names."""
        names = tuple(sorted(columns))
        if scan is CONSTANT:
            return Relation((f"SELECT {NOTHING}{' WHERE FALSE' if image is Image.NONE else ''}",), names)
        listed = ", ".join(f"{quote(scan.names[name])} AS {name}" for name in names)
        return Relation((f"SELECT {listed or NOTHING} FROM ", rows_of(scan, names, image, any_of)), names)

    def moved_rows(self, scan: Scan, columns: frozenset[str]) -> Relation:
        """The rows of an occurrence that changed in some columns, as a step that is made once."""
        if (id(scan), columns) not in self._moved_rows:
            moved = self.scan(scan, columns, Image.MOVED, ())
            names = ", ".join(sorted(scan.names[name] for name in columns))
            self._moved_rows[id(scan), columns] = self.step(moved, f"rows of {label(scan)} that changed in {names}")[0]
        return self._moved_rows[id(scan), columns]

    def say_read_whole(self, node: Node, why: str) -> None:
        """Records why the tables below a node may be read whole: the first reason for each table."""
        for scan in scans_of(node):
            if scan.table not in self.facts.small:
                self.read_whole.setdefault(scan.table, why)

    def whole_reads(self, sql: Sql = ()) -> tuple[tuple[str, str], ...]:
        """The tables, except small ones, that the steps or some more SQL read whole, each with the reason."""
        places = [part for one in (*(step.sql for step in self.steps), sql) for part in one]
        tables = (
            place.table
            for place in places
            if isinstance(place, SourceRows) and place.image is Image.NOW and not place.any_of
        )
        whole = dict.fromkeys(table for table in tables if table not in self.facts.small)
        return tuple((table, self.read_whole.get(table, "no key limits it")) for table in whole)

    def require_said(self, columns: Iterable[str]) -> None:
        """Refuses columns if no step computes one of them, because the keys that it decides are not found then."""
        if names := sorted(self.facts.unsaid.keys() & set(columns)):
            why = self.facts.unsaid[names[0]]
            words = self.facts.wording.of_columns(names[:1])
            raise NotFollowedError(
                f"{words} decides which keys change, and is computed {why.how}", self._place(why.part)
            )

    def _place(self, part: Expr | None) -> TextPlace | None:
        """Where the text has a part: only the name of a function, because its arguments may be elsewhere."""
        if part is None:
            return None
        span = (part.meta["start"], part.meta["end"] + 1) if "start" in part.meta else span_of(part)
        return None if span is None else TextPlace.of(self.facts.query.text, *span)


def scans_of(node: Node) -> tuple[Scan, ...]:
    """The occurrences of tables below a node."""
    return tuple(below for below in nodes_of(node) if isinstance(below, Scan))


def label(node: Node) -> str:
    """The words for a node in messages: its tables as the text calls them."""
    return ", ".join(sorted({scan.alias for scan in scans_of(node)}))


def is_one_row(node: Node) -> bool:
    """Whether a node is an aggregate of all rows."""
    while isinstance(node, Extend | Filter):
        node = node.node
    return isinstance(node, Aggregation) and not node.groups


def _unsaid(node: Node, types: Mapping[str, str], doubtful: set[str], merged: set[str]) -> dict[str, Unsaid]:
    """The columns that no step computes, of a node and of the nodes below it.

    Adds to `doubtful` the columns that may have equal values that can be told apart, as far as types show it, and to
    `merged` those of which a group, a partition or a set operation takes such values as one.
    """
    below = dict[str, Unsaid]()
    for child in children(node):
        below |= _unsaid(child, types, doubtful, merged)
    if isinstance(node, Scan):
        doubtful |= {name for name in node.names if may_be_equal_but_other(types.get(name, ""))}
    for name, of in computed_columns(node).items():
        kind = types.get(name)
        is_doubtful = bool(columns_in(*of) & doubtful) if kind is None else may_be_equal_but_other(kind)
        doubtful |= {name} if is_doubtful else set()
        if isinstance(node, MarkJoin):
            below[name] = Unsaid("by EXISTS or IN, which no step writes again")
        elif isinstance(node, Aggregation | Windows):
            below[name] = Unsaid("from many rows", of[0])
        elif (part := next(filter(None, map(unprintable_part, of)), None)) is not None:
            by = f"{part.meta[CALLED]}()" if CALLED in part.meta else "an expression"
            below[name] = Unsaid(f"by {by}, which no step writes again", part)
        elif of_below := sorted(columns_in(*of) & below.keys()):
            below[name] = below[of_below[0]]
        elif any(_told_apart(each, merged) for each in of):
            below[name] = Unsaid("from a value that stands for others that are equal to it, such as 0.0 for -0.0")
        elif merged & {each.name for each in of if isinstance(each, exp.Column)}:
            merged.add(name)
    merged |= doubtful & set(_taken_as_one(node))
    return below


def _taken_as_one(node: Node) -> Iterable[str]:
    """The columns of which a node takes equal values as one."""
    match node:
        case Aggregation(groups=names) | Windows(partition=names):
            return names
        case SetOperation(kind=kind, names=(names, *_)) if kind is not SetKind.UNION_ALL:
            return names
        case _:
            return ()


_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is)


def _told_apart(expression: Expression, columns: Collection[str]) -> frozenset[str]:
    """The columns among some for whose equal values an expression may differ: not if it is a column, or compares it."""
    used = (each for each in expression.find_all(exp.Column) if each.name in columns and each is not expression)
    return frozenset(each.name for each in used if not isinstance(each.parent, _COMPARISONS))


Superset: TypeAlias = Callable[[Planning, Node, frozenset[str], tuple[KeyLimit, ...], tuple[Image, ...]], Relation]
