"""What conditions say of columns: which are equal in every row that they keep, and which are not NULL."""

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import columns_in

_COMPARING = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like)
"""What is NULL if one of both sides is."""
_PROPAGATING = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Paren,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Neg,
    exp.Cast,
    exp.TryCast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Lower,
    exp.Upper,
    exp.Substring,
)
"""What is NULL if a part is."""


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
    return bool(columns_in(expression) & of) and all(isinstance(node, _PROPAGATING) for node in expression.walk())
