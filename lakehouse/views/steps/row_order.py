"""Which values that are computed from many rows depend on the order in which Spark takes the rows.

The last digits of a sum of floating-point numbers do, and so does what is taken of rows that are equal in their order.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.delta.text import fold
from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Filter,
    FullJoin,
    Generate,
    Join,
    MarkJoin,
    Node,
    Scan,
    SetKind,
    SetOperation,
    Windows,
    children,
    columns_in,
    expressions,
)
from lakehouse.views.functions import AVERAGES, CHOOSING, FLOATING, LONG, STATISTICS, SUMMING
from lakehouse.views.sql.parsing import CALLED
from lakehouse.views.sql.scopes import type_of

_EXACT = frozenset(
    {
        *(exp.DType.BIGINT, exp.DType.BINARY, exp.DType.BOOLEAN, exp.DType.DATE, exp.DType.DECIMAL, exp.DType.INT),
        *(exp.DType.SMALLINT, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ),
        *(exp.DType.TINYINT,),
    }
)


class Rounding(Enum):
    """What may round numbers that it adds: a SUM floating ones, and texts; an AVERAGE adds doubles, so long ones too.

    Doubles hold each whole number up to 2^53. A sum of INT comes there after 4 million of the largest ones in one
    group, so it counts as exact. A single BIGINT may be there.
    """

    SUM = re.compile(r"\b(?:double|float|variant|string|char|varchar)\b"), _EXACT, FLOATING
    AVERAGE = (
        re.compile(r"\b(?:double|float|variant|string|char|varchar|bigint)\b"),
        _EXACT - {exp.DType.BIGINT},
        FLOATING | LONG,
    )

    def __init__(self, types: re.Pattern[str], exact: frozenset[exp.DType], functions: frozenset[str]) -> None:
        self.types, self.exact, self.functions = types, exact, functions

    def columns(self, node: Node, types: Mapping[str, str]) -> frozenset[str]:
        """The columns of a node and below that may hold such numbers.

        Args:
            node: The node.
            types: The types of columns, as Spark's `simpleString()` has them.
        """
        below = frozenset[str]().union(*(self.columns(child, types) for child in children(node)))
        match node:
            case Scan(names=names):
                return frozenset(name for name in names if self.types.search(types.get(name, "double")))
            case Extend(new=new) | Aggregation(aggregates=new) | Windows(windows=new):
                return below | {name for name, value in new.items() if self.may_round(value, below, types)}
            case Generate(generator=generator, new=new):
                return below | set(new) if columns_in(generator) & below else below
            case SetOperation(names=names):
                return below | {name for of_branch in names for name, one in of_branch.items() if one in below}
            case _:
                return below

    def may_round(self, value: Expr, below: frozenset[str], types: Mapping[str, str]) -> bool:
        """Whether a value may be such a number, or hold some."""
        match value:
            case exp.Case() | exp.If():
                branches = [value.args.get("true"), value.args.get("false"), value.args.get("default")]
                branches += [branch.args["true"] for branch in value.args.get("ifs", ())]
                return any(self.may_round(branch, below, types) for branch in branches if branch is not None)
            case exp.Cast() | exp.TryCast():
                return value.args["to"].this not in self.exact
            case exp.Predicate() | exp.Count() | exp.CountIf() | exp.ApproxDistinct() | exp.Length():
                return False
            case exp.Column():
                return value.name in below
            case exp.Div():  # of whole numbers, too
                return True
            case exp.Literal():
                is_large = value.is_int and int(value.name) > _LARGEST_INT
                return not value.is_string and ("e" in value.name.lower() or (is_large and self is Rounding.AVERAGE))
            case exp.Sum() if (type_of(value.this, types) or "").startswith("decimal"):
                return False
            case exp.DateDiff() if value.args.get("unit") is not None:
                return self is Rounding.AVERAGE
            case exp.Func() if _names_of(value) & self.functions:
                return True
            case _:
                return any(self.may_round(one, below, types) for one in value.iter_expressions())


_LARGEST_INT = 2**31 - 1


def depends_on_order(value: Expression, may_round: Mapping[Rounding, frozenset[str]], types: Mapping[str, str]) -> bool:
    """Whether the last digits of a value that is computed from many rows depend on the order of the rows.

    Args:
        value: The value.
        may_round: For a sum and an average, the columns below that may hold numbers which it rounds.
        types: The types of columns, as Spark's `simpleString()` has them.
    """
    return any(_adds_inexactly(call, may_round, types) for call in value.find_all(exp.Func))


def _adds_inexactly(call: exp.Func, may_round: Mapping[Rounding, frozenset[str]], types: Mapping[str, str]) -> bool:
    """Whether a function adds numbers, and may round them."""
    names = _names_of(call)
    if names & STATISTICS:
        return True
    adds = Rounding.SUM if names & SUMMING else Rounding.AVERAGE if names & AVERAGES else None
    return adds is not None and any(adds.may_round(one, may_round[adds], types) for one in call.iter_expressions())


ROWS = ""
"""No column has this name: under it stands what decides which rows a node has."""


def order_dependent(node: Node, depends: Callable[[Expression], bool]) -> dict[str, str]:
    """The columns of a node and below that depend on the order of rows, each with the one below that does by itself.

    Args:
        node: The node.
        depends: Whether a value that is computed from many rows depends on their order by itself.
    """
    below = dict[str, str]()
    for child in children(node):
        below |= order_dependent(child, depends)

    def source(*of: str) -> str | None:
        return next((below[name] for name in of if name in below), None)

    sources = dict[str, str | None]()
    match node:
        case Scan():
            pass
        case Extend(new=new):
            sources = {name: source(*sorted(columns_in(e))) for name, e in new.items()}
        case Generate(generator=generator, new=new):
            sources = dict.fromkeys(new, source(*sorted(columns_in(generator))))
        case Aggregation(groups=by, aggregates=new) | Windows(partition=by, windows=new):
            sources = {
                name: name if depends(e) else source(ROWS, *by, *sorted(columns_in(e))) for name, e in new.items()
            }
            sources[ROWS] = source(ROWS, *by)
        case SetOperation(names=names):
            sources = {name: source(*(of_branch[name] for of_branch in names)) for name in names[0]}
            sources[ROWS] = source(ROWS, *below) if node.kind is not SetKind.UNION_ALL else source(ROWS)
        case MarkJoin(value=value):
            sources[value] = source(ROWS, *sorted(columns_in(*expressions(node))))
        case Filter() | Join() | FullJoin():
            sources[ROWS] = source(ROWS, *sorted(columns_in(*expressions(node))))
    return below | {name: one for name, one in sources.items() if one is not None}


def chooses(value: Expression) -> bool:
    """Whether a value is that of any one of several rows that are equal in their order, or lists them in any order."""
    return bool(function_names(value) & CHOOSING)


def function_names(expression: Expr) -> frozenset[str]:
    """The names of the functions in an expression; all names of a function of which the tree does not keep the name."""
    return frozenset[str]().union(*map(_names_of, expression.find_all(exp.Func)))


def _names_of(call: exp.Func) -> frozenset[str]:
    """The name of a function, or all of its names if the tree does not keep the one of the text."""
    return frozenset({call.meta[CALLED]}) if CALLED in call.meta else fold(call.sql_names())
