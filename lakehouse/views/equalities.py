"""What conditions imply about NULL, and which columns they make equal."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import Join, Side, columns, columns_in

_COMPARING = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like)
"""Comparisons that are NULL if either side is."""
_EQUAL_BUT_OTHER = re.compile(r"\b(double|float|collate)\b", re.IGNORECASE)
"""Occurs in the name of a type whose equal values may still be told apart, by a cast to a text or by a hash."""
PROPAGATING = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Neg),
    *(exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Lower, exp.Upper, exp.Substring),
)
"""Expressions that are NULL if a part of them is."""


def may_be_equal_but_other(kind: str) -> bool:
    """Whether a type calls values equal that may still be told apart: 0.0 and -0.0, texts under a collation."""
    return _EQUAL_BUT_OTHER.search(kind) is not None


def rejects_null(condition: Expression, of: frozenset[str]) -> bool:
    """Whether a condition is never true of a row in which all of these columns are NULL."""
    match condition:
        case exp.Paren():
            return rejects_null(condition.this, of)
        case exp.Between():
            return _is_null_with(condition.this, of)
        case exp.Not(this=exp.Is(expression=exp.Null()) as is_null):
            return _is_null_with(is_null.this, of)
        case _ if isinstance(condition, _COMPARING):
            return _is_null_with(condition.this, of) or _is_null_with(condition.expression, of)
        case _:
            return False


def _is_null_with(expression: Expression, of: frozenset[str]) -> bool:
    """Whether an expression is NULL if all of these columns are."""
    return bool(columns_in(expression) & of) and all(isinstance(node, PROPAGATING) for node in expression.walk())


def equal_columns(condition: Expression, types: Mapping[str, str]) -> tuple[str, str] | None:
    """The two columns of one type that have the same value if a condition is true; None if it implies no such pair.

    Columns of a type that calls different values equal are not such a pair: 0.0 and -0.0, texts under a collation.
    """
    if not isinstance(condition, exp.EQ):
        return None
    one, other = condition.this, condition.expression
    if not (isinstance(one, exp.Column) and isinstance(other, exp.Column)):
        return None
    kind = types.get(one.name)
    is_one_value = kind is not None and kind == types.get(other.name) and not may_be_equal_but_other(kind)
    return (one.name, other.name) if is_one_value else None


class Classes:
    """The columns that are equal in every row for which conditions hold."""

    def __init__(self, conditions: Iterable[Expression], types: Mapping[str, str]) -> None:
        self._parent: dict[str, str] = {}
        for condition in conditions:
            if (pair := equal_columns(condition, types)) is not None:
                self._parent[self.of(pair[0])] = self.of(pair[1])

    def of(self, column: str) -> str:
        """The column that represents all columns that are equal to a column."""
        while (parent := self._parent.get(column, column)) != column:
            column = parent
        return column

    def among(self, column: str, columns: Iterable[str]) -> str | None:
        """A column among some that is equal to a column: itself if possible, else the first by name; else None."""
        equal = sorted(one for one in columns if self.of(one) == self.of(column))
        return column if column in equal else next(iter(equal), None)


def on_equalities(condition: Iterable[Expression], of: Collection[str], types: Mapping[str, str]) -> dict[str, str]:
    """The columns of other items that ON makes equal to a column of a LEFT item, each with that column."""
    equal: dict[str, str] = {}
    for each in condition:
        if (pair := equal_columns(each, types)) is not None:
            other, own = pair if pair[1] in of else pair[::-1]
            if own in of and other not in of:
                equal[other] = own
    return equal


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An equality between an expression over the rows that are sought, and one over the rows that are given.

    Args:
        sought: The first expression.
        given: The second one.
        null_safe: Whether two NULLs are equal.
    """

    sought: Expression
    given: Expression
    null_safe: bool = False

    @property
    def has_columns(self) -> bool:
        """Whether both expressions depend on their rows."""
        return bool(columns_in(self.sought) and columns_in(self.given))

    @property
    def equality(self) -> Expression:
        """The pair as a condition with `=`, which is never true for NULL."""
        return exp.EQ(this=self.sought, expression=self.given)


def key_pairs(conditions: Iterable[Expression], sought: Collection[str], given: Collection[str]) -> Iterator[KeyPair]:
    """The pairs of expressions, over two sets of columns, that conditions make equal."""
    for each in conditions:
        if isinstance(each, exp.EQ | exp.NullSafeEQ):
            for one, other in ((each.this, each.expression), (each.expression, each.this)):
                pair = KeyPair(one, other, isinstance(each, exp.NullSafeEQ))
                if pair.has_columns and columns_in(one) <= set(sought) and columns_in(other) <= set(given):
                    yield pair


def without_coalesce(join: Join, expression: Expression, types: Mapping[str, str]) -> Expression:
    """`a` for `coalesce(a, b)`, if in every row of the join a = b in one type, or the item of b is missing."""
    if not isinstance(expression, exp.Coalesce):
        return expression
    all_of = [expression.this, *expression.expressions]
    if not all(isinstance(one, exp.Column) for one in all_of):
        return expression
    first, *others = [one.name for one in all_of]
    return expression.this if all(_are_equal_if_there(join, first, one, types) for one in others) else expression


def _are_equal_if_there(join: Join, first: str, other: str, types: Mapping[str, str]) -> bool:
    """Whether two columns are equal in every row of a join in which the item of the second is not missing."""
    conditions = [*join.where]
    for item in join.items:
        if item.side is Side.LEFT and other in columns(item.node):
            conditions += item.on
    pairs = (equal_columns(each, types) for each in conditions)
    return any(pair is not None and set(pair) == {first, other} for pair in pairs)
