"""Which expressions sqlglot writes as it has read them: only these are used in the SQL of steps."""

import re

from sqlglot import exp
from sqlglot.expressions.core import Expr

from lakehouse.views.functions import CALLABLE, TIME_WINDOWS
from lakehouse.views.sql.parsing import CALLED, REWRITTEN

REWRITTEN_FUNCTIONS = frozenset(
    {
        *("array_agg", "date_diff", "dateadd", "first", "grouping", "grouping_id", "interval", "last", "listagg"),
        *("overlay", "percentile_cont", "percentile_disc", "position", "string_agg", "struct", "timestampadd"),
        *("timestampdiff", "var_samp"),
    }
)
"""Functions that sqlglot writes differently: the result differs for some values, or is not proved to be the same."""

PRINTABLE_FUNCTIONS = CALLABLE - TIME_WINDOWS - REWRITTEN_FUNCTIONS
"""Functions that are written as they are read, or under another name of the same function."""

_CLASSES = (
    *(exp.Column, exp.Identifier, exp.Null, exp.Boolean, exp.Paren, exp.Tuple, exp.Placeholder, exp.Var),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape),
    *(exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.TryCast, exp.DataTypeParam, exp.Interval, exp.Extract),
    *(exp.Bracket, exp.Dot, exp.Lambda, exp.Trim),
    *(exp.Star, exp.Distinct, exp.Filter, exp.Where, exp.IgnoreNulls, exp.RespectNulls, exp.AnyValue),
    *(exp.ArgMax, exp.ArgMin, exp.ApproxQuantile, exp.Quantile),
    *(exp.Substring, exp.Transform, exp.TsOrDsToDate),
    *(exp.Window, exp.WindowSpec, exp.Order, exp.Ordered),
)
"""Parts of a tree other than calls whose name is kept. `TsOrDsToDate` may be around an argument, unwritten."""

_TYPES = frozenset(
    {
        *(exp.DType.BIGINT, exp.DType.BINARY, exp.DType.BOOLEAN, exp.DType.DATE, exp.DType.DECIMAL, exp.DType.DOUBLE),
        *(exp.DType.FLOAT, exp.DType.INT, exp.DType.SMALLINT, exp.DType.TEXT, exp.DType.TIMESTAMP),
        *(exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ, exp.DType.TINYINT),
    }
)
"""Types of casts, without CHAR and VARCHAR, whose length would be lost."""

_PLAIN_TEXT = re.compile(r"[^\\'\x00-\x1f]*")
"""Texts without characters that could be escaped."""


def is_printable(expression: Expr) -> bool:
    """Whether the SQL that sqlglot writes for an expression means what the text does."""
    return unprintable_part(expression) is None


def unprintable_part(expression: Expr) -> Expr | None:
    """The first part of an expression that sqlglot would write differently; None if it writes all as the text does."""
    return next((node for node in expression.walk() if not _is_printable(node)), None)


def _is_printable(node: Expr) -> bool:
    """Whether a node itself is written as it is read."""
    match node:
        case exp.Literal():
            return not node.is_string or _PLAIN_TEXT.fullmatch(node.name) is not None
        case exp.DataType():
            return node.this in _TYPES and REWRITTEN not in node.meta and node.args.get("collate") is None
        case exp.In():
            return not node.args.get("query") and not node.args.get("unnest")
        case exp.BitwiseLeftShift() | exp.BitwiseRightShift():
            # Spark reads a & 1 << b from the right, sqlglot from the left; a call of shiftleft looks the same.
            return not isinstance(node.this, exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseXor)
        case exp.Add() if _is_interval(node.this) and _is_interval(node.expression):
            return False  # INTERVAL 1 DAY 2 HOURS is read as a sum, and written without brackets
        case exp.Func() if CALLED in node.meta:
            return node.meta[CALLED] in PRINTABLE_FUNCTIONS
        case _:
            return isinstance(node, _CLASSES)


def _is_interval(node: Expr) -> bool:
    """Whether a node is an interval, or a sum of intervals."""
    return isinstance(node, exp.Interval) or (isinstance(node, exp.Add) and _is_interval(node.expression))
