"""Which values that are computed from many rows depend on the order in which Spark takes the rows.

The last digits of a sum of floating-point numbers do, and so does what is taken of rows that are equal in their order.
"""

import re
from collections.abc import Mapping

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.delta.text import fold
from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Generate,
    Node,
    Scan,
    SetOperation,
    Windows,
    children,
    columns_in,
)
from lakehouse.views.functions import CHOOSING, FLOATING, STATISTICS, SUMMING
from lakehouse.views.sql.parsing import CALLED

_FLOATING_TYPE = re.compile(r"\b(?:double|float|variant|string|char|varchar)\b")
"""Types of floating-point numbers, and texts, of which Spark makes such numbers to sum them."""
_EXACT = frozenset(
    {
        *(exp.DType.BIGINT, exp.DType.BINARY, exp.DType.BOOLEAN, exp.DType.DATE, exp.DType.DECIMAL, exp.DType.INT),
        *(exp.DType.SMALLINT, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ),
        *(exp.DType.TINYINT,),
    }
)


def floating_columns(node: Node, types: Mapping[str, str]) -> frozenset[str]:
    """The columns of a node and below that may hold floating-point numbers, or texts of which a sum makes some.

    Args:
        node: The node.
        types: The types of the columns of tables, as Spark's `simpleString()` has them.
    """
    below = frozenset[str]().union(*(floating_columns(child, types) for child in children(node)))
    match node:
        case Scan(names=names):
            return frozenset(name for name in names if _FLOATING_TYPE.search(types.get(name, "double")))
        case Extend(new=new) | Aggregation(aggregates=new) | Windows(windows=new):
            return below | {name for name, value in new.items() if _may_float(value, below)}
        case Generate(generator=generator, new=new):
            return below | set(new) if columns_in(generator) & below else below
        case SetOperation(names=names):
            return below | {name for of_branch in names for name, one in of_branch.items() if one in below}
        case _:
            return below


def depends_on_order(value: Expression, floating: frozenset[str]) -> bool:
    """Whether the last digits of a value that is computed from many rows depend on the order of the rows."""
    called = function_names(value)
    if called & STATISTICS:
        return True
    return bool(called & SUMMING) and any(_may_float(one, floating) for one in value.iter_expressions())


def chooses(value: Expression) -> bool:
    """Whether a value is that of any one of several rows that are equal in their order, or lists them in any order."""
    return bool(function_names(value) & CHOOSING)


def function_names(expression: Expr) -> frozenset[str]:
    """The names of the functions in an expression; all names of a function of which the tree does not keep the name."""
    calls = [each for each in expression.walk() if isinstance(each, exp.Func)]
    every = ({each.meta[CALLED]} if CALLED in each.meta else fold(each.sql_names()) for each in calls)
    return frozenset[str]().union(*every)


def _may_float(value: Expr, floating: frozenset[str]) -> bool:
    """Whether a value may be a floating-point number, or hold some, if it is summed."""
    match value:
        case exp.Case() | exp.If():
            branches = [value.args.get("true"), value.args.get("false"), value.args.get("default")]
            branches += [branch.args["true"] for branch in value.args.get("ifs", ())]
            return any(_may_float(branch, floating) for branch in branches if branch is not None)
        case exp.Cast() | exp.TryCast():
            return value.args["to"].this not in _EXACT
        case exp.Predicate() | exp.Count() | exp.CountIf() | exp.ApproxDistinct() | exp.Length():
            return False
        case exp.Column():
            return value.name in floating
        case exp.Div():  # of whole numbers, too
            return True
        case exp.Literal():
            return not value.is_string and "e" in value.name.lower()
        case exp.Func() if value.meta.get(CALLED) in FLOATING:
            return True
        case _:
            return any(_may_float(one, floating) for one in value.iter_expressions())
