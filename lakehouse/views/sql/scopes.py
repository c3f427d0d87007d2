"""What names mean: which columns a FROM offers, under which qualifiers, in the order in which Spark looks them up."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.delta.text import quote
from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import Node, Output, Query, column
from lakehouse.views.sql.parsing import CALLED, Parsed
from lakehouse.views.sql.words import span_of
from lakehouse.views.view_text import NotFollowedError, Reason


@dataclass(frozen=True, eq=False, slots=True)
class FromItem:
    """The columns that names find in an item of FROM.

    Args:
        alias: Its qualifier, in lower case.
        path: The whole name of a table without an alias, part by part; Spark lets it qualify columns too.
        columns: Its columns.
    """

    alias: str
    columns: tuple[Output, ...]
    path: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Scope:
    """The columns that names find in all items of a FROM together.

    Args:
        relations: The items in which qualified names are looked up.
        visible: The columns of names without a qualifier, and of `*`; a column of USING is among them once.
        hidden: The columns of USING that only a qualified name reaches.
    """

    relations: tuple[FromItem, ...] = ()
    visible: tuple[Output, ...] = ()
    hidden: tuple[Output, ...] = ()

    def beside(self, other: "Scope") -> "Scope":
        """The scope of both."""
        return Scope(self.relations + other.relations, self.visible + other.visible, self.hidden + other.hidden)

    @property
    def offer(self) -> Mapping[str, str]:
        """Columns by unique name, each as SQL names it; without ambiguous columns of a subquery that has no alias."""
        names = [output.name.lower() for output in self.visible]
        alone = {output.column: quote(output.name) for output in self.visible if names.count(output.name.lower()) == 1}
        columns = ((each, output) for each in self.relations if each.alias for output in each.columns)
        return alone | {output.column: f"{quote(each.alias)}.{quote(output.name)}" for each, output in columns}

    def find(self, parts: tuple[str, ...]) -> tuple[tuple[Output, ...], tuple[str, ...]]:
        """The columns that a name, in lower case, may mean, and the struct fields that follow."""
        qualified = [
            output
            for relation in self.relations
            if relation.alias == parts[0]
            for output in relation.columns
            if (output.name.lower(),) == parts[1:2]
        ]
        if qualified:
            return tuple(qualified), parts[2:]
        return tuple(output for output in self.visible if output.name.lower() == parts[0]), parts[1:]


@dataclass(frozen=True, eq=False, slots=True)
class ReadQuery:
    """A query of the text as algebra.

    Args:
        node: Its algebra.
        outputs: Its columns.
        correlated: Its conditions over columns of the surrounding query.
        is_one_row: Whether it is an aggregate over all rows, which has one row even if there are none to aggregate.
        of_none: For an aggregate over all rows, the value of each column if there are no rows.
        offer: For an aggregate over all rows, the columns of its FROM by their unique names, each as SQL names it.
    """

    node: Node
    outputs: tuple[Output, ...]
    correlated: tuple[Expression, ...] = ()
    is_one_row: bool = False
    of_none: Mapping[str, Expression] = field(default_factory=dict[str, Expression])
    offer: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, eq=False, slots=True)
class Common:
    """A common table expression, and those that its query can use. Each use reads it again, under new unique names."""

    tree: exp.CTE
    ctes: "Ctes"


Ctes: TypeAlias = Mapping[str, Common]
"""The common table expressions in reach, by their names in lower case."""


@dataclass(eq=False)
class TextReading:
    """One reading of a text: the schemas of its tables, and what is learned during the reading.

    Args:
        parsed: The text.
        schemas: The columns of each table, under the table's name in lower case, with their types.
        read_query: Reads a query within the text, given the common table expressions and the scopes around it.
    """

    parsed: Parsed
    schemas: Mapping[str, Mapping[str, str]]
    read_query: "Callable[[TextReading, Expr, Ctes, tuple[Scope, ...]], ReadQuery]"
    types: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    whole: Reason | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @cached_property
    def _text(self) -> str:
        """The text in lower case."""
        return self.parsed.text.lower()

    def unique(self, name: str, type_: str | None = None) -> str:
        """A new unique name, derived from a name in the text."""
        stem = re.sub(r"^(?=\d)", "c", re.sub(r"[^a-z0-9_]", "_", name.lower()))[:24]
        column = f"{stem or 'c'}_{next(self._numbers)}"
        while column in self._text:  # a lambda of the text may have this parameter
            column = f"{stem or 'c'}_{next(self._numbers)}"
        if type_ is not None:
            self.types[column] = type_
        return column

    def retype(self, column: str, expression: Expression) -> None:
        """Record the type of a computed column, if it follows from the expression."""
        if (type_ := type_of(expression, self.types)) is not None:
            self.types[column] = type_

    def note(self, sentence: str) -> None:
        """Add a sentence to the notes, unless it is there."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def refuse(self, code: str, what: str, node: Expr | None, remedy: str, word: str = "") -> ViewError:
        """The refusal of a part of the text."""
        return ViewError(code, what, None if node is None else self.parsed.at(node, word), remedy)

    def not_followed(self, what: str, node: Expr, word: str = "") -> NotFollowedError:
        """The error that keys cannot follow changes through a part of the text."""
        clause = what if what[1:2].isupper() else what[:1].lower() + what[1:]
        return NotFollowedError(clause, self.parsed.at(node, word))

    def query(self, root: Node, outputs: tuple[Output, ...]) -> Query:
        """The query that was read, with what was learned during the reading."""
        return Query(self.parsed.text, root, outputs, dict(self.types), tuple(self.notes), self.whole)


def parts_of(name: exp.Column | exp.Dot) -> tuple[str, ...]:
    """The parts of a dotted name, as the text has them."""
    if isinstance(name, exp.Dot):
        below = name.this
        assert isinstance(below, exp.Column | exp.Dot)
        return *parts_of(below), name.expression.name
    return tuple(part.name for part in name.parts)


def is_name(node: Expression) -> bool:
    """Whether an expression is a dotted name, which begins with a column or a qualifier."""
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        node = node.this
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)


def resolve(reading: TextReading, name: exp.Column | exp.Dot, scopes: tuple[Scope, ...]) -> Expression | None:
    """The column, or the field of a column, that a name means: in the innermost scope that has one.

    Raises:
        ViewError: The name means several columns.
        NotFollowedError: The whole name of a table qualifies it, or it is of a query two or more levels further out.
    """
    path = parts_of(name)
    parts = tuple(part.lower() for part in path)
    for level, scope in enumerate(scopes):
        for relation in scope.relations:
            size = len(relation.path)
            if size > 1 and len(parts) > size and relation.path == parts[:size]:
                raise reading.not_followed("A table's whole name qualifies a column", name)
        columns, fields = scope.find(parts)
        if len({output.column for output in columns}) > 1:
            remedy = "Put the alias of its table before it."
            raise reading.refuse("VIEW_UNKNOWN_COLUMN", f"Several tables have a column {path[0]}", name, remedy)
        if columns and level > 1:
            what = "A subquery reads a column of a query that is not right around it"
            raise reading.not_followed(what, name)
        if columns:
            return _field(reading, name, columns[0], path[len(path) - len(fields) :])
    return None


def _field(reading: TextReading, name: Expression, output: Output, fields: tuple[str, ...]) -> Expression:
    """A column, or a field within it."""
    type_ = reading.types.get(output.column)
    if fields and type_ == "variant":
        raise reading.not_followed("A path goes into a VARIANT, whose values cannot be compared", name)
    if fields and type_ and not type_.startswith(("struct<", "array<", "map<")):
        what = f"The column {output.name} is of type {type_}, which has no field {fields[0]}"
        raise reading.refuse("VIEW_UNKNOWN_COLUMN", what, name, "Correct the name.")
    value: Expression = column(output.column)
    span = span_of(name)
    if span is not None:
        value.meta.update(start=span[0], end=span[1] - 1)
    return field_of(value, fields)


def field_of(value: Expression, fields: tuple[str, ...]) -> Expression:
    """A field within a value, with brackets around the value, so that it is not read as the column of a table."""
    for each in fields:
        value = exp.Dot(this=exp.Paren(this=value), expression=exp.to_identifier(each, quoted=True))
    return value


_TIMES = ("timestamp_micros", "timestamp_millis", "timestamp_seconds")
"""Functions whose value is a TIMESTAMP, whatever the settings."""
_KEEPING = (exp.Max, exp.Min, exp.AnyValue, exp.First, exp.Last, exp.FirstValue, exp.LastValue)
"""Functions whose value has the type of their argument."""


def type_of(expression: Expression, types: Mapping[str, str]) -> str | None:
    """The type of an expression, as Spark's `simpleString()` has it; None if it does not follow from the expression."""
    match expression:
        case exp.Column():
            return types.get(expression.name)
        case exp.Paren():
            return type_of(expression.this, types)
        case exp.Cast() | exp.TryCast() if expression.args["to"].this in _SIMPLE:
            return expression.args["to"].sql(dialect="spark").lower().replace(" ", "")
        case exp.Count():
            return "bigint"
        case exp.Sum():
            return _type_of_sum(type_of(expression.this, types))
        case exp.Boolean():
            return "boolean"
        case exp.Literal() if expression.is_string:
            return "string"
        case exp.Literal() if expression.name.isdigit() and int(expression.name) < 1 << 31:
            return "int"
        case exp.Coalesce():
            every = {type_of(each, types) for each in (expression.this, *expression.expressions)}
            return every.pop() if len(every) == 1 else None
        case exp.Window() | exp.Filter():
            return type_of(expression.this, types)
        case exp.Anonymous() if expression.meta.get(CALLED) in _TIMES:
            return "timestamp"
        case _ if isinstance(expression, _KEEPING):
            return type_of(expression.this, types)
        case _:
            return None


def _type_of_sum(kind: str | None) -> str | None:
    """The type of a sum of values of a type."""
    if kind in {"tinyint", "smallint", "int", "bigint"}:
        return "bigint"
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind or "")
    return None if match is None else f"decimal({min(int(match[1]) + 10, 38)},{match[2]})"


_SIMPLE = frozenset(
    {
        *(exp.DType.BIGINT, exp.DType.BOOLEAN, exp.DType.DATE, exp.DType.DECIMAL, exp.DType.DOUBLE, exp.DType.FLOAT),
        *(exp.DType.INT, exp.DType.SMALLINT, exp.DType.TINYINT, exp.DType.TIMESTAMPTZ),
    }
)
"""Types of casts whose printed name is that of `simpleString()`."""
