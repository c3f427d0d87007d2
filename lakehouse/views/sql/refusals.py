"""What the tree of a text alone refuses: operators whose result no keys follow, each with its way out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from sqlglot import exp
from sqlglot.expressions.core import Expr

from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import Place
from lakehouse.views.functions import WINDOW_FUNCTIONS
from lakehouse.views.sql.parsing import CALLED, Parsed, is_table_name, name_of, of_the_run, place_of, span_of

OWN_ASSET = "make this part an asset of its own, in Python, and name that asset here"


@dataclass(frozen=True, slots=True)
class RefusedPart:
    """Why a part of a text is refused.

    Args:
        code: The stable word.
        what: What it says, and why that cannot be kept.
        remedy: What to write instead.
        word: The keyword with which the part begins, if its tree does not know where that is.
    """

    code: str
    what: str
    remedy: str
    word: str = ""

    def at(self, parsed: Parsed, node: Expr) -> ViewError:
        """The error at a part of a text."""
        return ViewError(self.code, self.what, parsed.at(node, self.word), self.remedy)


_LIMIT = "takes its rows from all rows, so one change may move every row"
_TOP = "Leave the limit to those who read the table, or filter by row_number() OVER (PARTITION BY ... ORDER BY ...)."
_TABLE_FUNCTION = RefusedPart(
    "VIEW_TABLE_FUNCTION",
    "A view reads tables, and a function in FROM is none",
    f"Name a table; or {OWN_ASSET}.",
)
_GROUPING_SETS = RefusedPart(
    "VIEW_GROUPING_SETS",
    "ROLLUP, CUBE and GROUPING SETS are not read yet",
    "Write a UNION ALL of one GROUP BY for each set, with a constant column that tells the sets apart.",
    "GROUP",
)
_OPERATORS: dict[type[Expr], RefusedPart] = {
    exp.Limit: RefusedPart("VIEW_LIMIT", f"LIMIT {_LIMIT}", _TOP, "LIMIT"),
    exp.Offset: RefusedPart("VIEW_LIMIT", f"OFFSET {_LIMIT}", _TOP, "OFFSET"),
    exp.Fetch: RefusedPart("VIEW_LIMIT", f"FETCH {_LIMIT}", _TOP, "FETCH"),
    exp.TableSample: RefusedPart(
        "VIEW_TABLESAMPLE",
        "TABLESAMPLE takes other rows in each run",
        "Filter by a hash of a column: WHERE pmod(xxhash64(id), 10) = 0.",
        "TABLESAMPLE",
    ),
    exp.Version: RefusedPart(
        "VIEW_VERSION",
        "A view reads each table at the version that the run has pinned",
        "Take VERSION AS OF or TIMESTAMP AS OF out.",
    ),
    exp.Pivot: RefusedPart(
        "VIEW_PIVOT",
        "PIVOT and UNPIVOT are not read yet",
        "Write one aggregate for each value, sum(x) FILTER (WHERE y = 1) AS y1, or stack(...) for UNPIVOT.",
        "PIVOT",
    ),
    exp.Values: RefusedPart(
        "VIEW_VALUES", "VALUES is no table that a change could reach", "Put the rows into a table.", "VALUES"
    ),
    exp.Rollup: _GROUPING_SETS,
    exp.Cube: _GROUPING_SETS,
    exp.GroupingSets: _GROUPING_SETS,
    exp.Any: RefusedPart("VIEW_ANY_ALL", "A view has no ANY (...)", "Write EXISTS with the condition.", "ANY"),
    exp.All: RefusedPart("VIEW_ANY_ALL", "A view has no ALL (...)", "Write NOT EXISTS with the condition.", "ALL"),
    exp.QueryTransform: RefusedPart(
        "VIEW_OPERATOR", "TRANSFORM runs a program", "Write the asset in Python.", "TRANSFORM"
    ),
    exp.CurrentRole: RefusedPart("VIEW_NOT_DETERMINISTIC", "current_role belongs to the session", "Name a constant."),
}
"""Parts of a tree that are refused wherever they stand."""

_QUERY = frozenset({"with_", "order", "sort", "cluster", "distribute"})
_ALLOWED: dict[type[Expr], frozenset[str]] = {
    exp.Select: _QUERY
    | {
        "expressions",
        "hint",
        "distinct",
        "from_",
        "laterals",
        "joins",
        "where",
        "group",
        "having",
        "qualify",
        "windows",
    },
    exp.Subquery: _QUERY | {"this", "alias"},
    exp.Union: _QUERY | {"this", "expression", "distinct"},
    exp.Except: _QUERY | {"this", "expression", "distinct"},
    exp.Intersect: _QUERY | {"this", "expression", "distinct"},
    exp.Table: frozenset({"this", "alias", "db", "catalog", "joins"}),
    exp.Join: frozenset({"this", "on", "side", "kind", "using", "method"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
    exp.Group: frozenset({"expressions"}),
    exp.Lateral: frozenset({"this", "view", "outer", "alias"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.With: frozenset({"expressions"}),
    exp.Star: frozenset({"except_"}),
    exp.Distinct: frozenset({"expressions"}),
}
"""What each part of a query may consist of."""
_BY_ARGUMENT = {
    "recursive": RefusedPart(
        "VIEW_RECURSIVE", "A recursive query goes over its own rows", f"Flatten the levels, or {OWN_ASSET}.", "WITH"
    ),
    "by_name": RefusedPart(
        "VIEW_OPERATOR", "BY NAME is not read", "List the columns of each branch in one order.", "UNION"
    ),
    "all": RefusedPart("VIEW_GROUP_BY_ALL", "GROUP BY ALL names no group", "List the columns after GROUP BY.", "GROUP"),
    "on": RefusedPart(
        "VIEW_DISTINCT_ON",
        "DISTINCT ON takes any one row of several",
        "Filter by row_number() OVER (...) = 1.",
        "DISTINCT",
    ),
    "system_time": RefusedPart("VIEW_VERSION", "A view reads what the run has pinned", "Take the version out."),
    "totals": _GROUPING_SETS,
}
"""Refusals of arguments that have a way out of their own."""

_OF_THE_RUN: dict[type[Expr], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
}
"""Functions of the run that need no brackets."""


def refuse(parsed: Parsed) -> None:
    """Raise if a part of the tree is refused.

    Raises:
        ViewError: One of the parts that are refused.
    """
    for node in parsed.tree.walk():
        if (refusal := _OPERATORS.get(type(node))) is not None:
            raise refusal.at(parsed, node)
        if (name := _OF_THE_RUN.get(type(node))) is not None:
            raise of_the_run(name, parsed.at(node, name.upper()))
        if (allowed := _ALLOWED.get(type(node))) is not None:
            _refuse_arguments(parsed, node, allowed)
        for kind, check in _CHECKS.items():
            if isinstance(node, kind):
                check(parsed, node)
    _refuse_unused(parsed)


def _refuse_arguments(parsed: Parsed, node: Expr, allowed: frozenset[str]) -> None:
    """Raise if a part of a query consists of more than it may."""
    for name, value in node.args.items():
        if not value or name in allowed:
            continue
        inner: object = cast("list[object]", value)[0] if isinstance(value, list) else value
        refusal = (_OPERATORS.get(type(inner)) if isinstance(inner, Expr) else None) or _BY_ARGUMENT.get(name)
        if refusal is None:
            words = name.strip("_").replace("_", " ").upper()
            refusal = RefusedPart(
                "VIEW_OPERATOR",
                f"{words} of {type(node).__name__.upper()} is not read",
                f"Take it out, or {OWN_ASSET}.",
            )
        at = node.expression if isinstance(node, exp.SetOperation) else node
        raise refusal.at(parsed, inner if isinstance(inner, Expr) and span_of(inner) else at)


def _check_placeholder(parsed: Parsed, node: Expr) -> None:
    """Raise if a parameter has no name."""
    if not isinstance(node, exp.Placeholder) or not node.args.get("this"):
        remedy = "Write a named parameter, :name, and give its value as an argument."
        raise ViewError("VIEW_PARAMETER", "A parameter of a view has a name", parsed.of_parameter(""), remedy)


def _check_table(parsed: Parsed, node: Expr) -> None:
    """Raise if what stands in FROM is no name of a table."""
    if isinstance(node, exp.Table) and not isinstance(node.parent, exp.JoinHint) and not is_table_name(node):
        raise _TABLE_FUNCTION.at(parsed, node)
    alias: exp.TableAlias | None = node.args.get("alias")
    if alias is not None and not isinstance(alias.this, exp.Identifier):
        _check_placeholder(parsed, alias.this)


def _check_lateral(parsed: Parsed, node: Expr) -> None:
    """Raise if LATERAL is no LATERAL VIEW."""
    if not node.args.get("view"):
        what = "A LATERAL subquery is computed for each row"
        remedy = "Write a join with a grouped subquery, a scalar subquery, or a LATERAL VIEW."
        raise ViewError("VIEW_LATERAL", what, parsed.at(node, "LATERAL"), remedy)


def _check_window(parsed: Parsed, node: Expr) -> None:
    """Raise if a window goes over all rows."""
    parts = node.args.get("partition_by") or ()
    if not node.args.get("alias") and all(isinstance(part, exp.Literal | exp.Null) for part in parts):
        what = "A window without PARTITION BY goes over all rows, so one change may move every row"
        remedy = "Name the columns within which the window goes: OVER (PARTITION BY ...)."
        raise ViewError("VIEW_WINDOW_WITHOUT_PARTITION", what, parsed.at(node), remedy)


def _check_group(parsed: Parsed, node: Expr) -> None:
    """Raise if GROUP BY has several columns in brackets, or brackets without any."""
    for key in node.expressions:
        if isinstance(key, exp.Tuple):
            what = "GROUP BY has brackets around its columns, or brackets without a column"
            raise ViewError("VIEW_GROUPING_SETS", what, parsed.at(node, "GROUP"), "List the columns without brackets.")


def _check_function(parsed: Parsed, node: Expr) -> None:
    """Raise if a function of windows stands alone."""
    name = node.meta.get(CALLED, "")
    parent = node.parent
    while isinstance(parent, exp.IgnoreNulls | exp.RespectNulls):
        parent = parent.parent
    if name in WINDOW_FUNCTIONS and not isinstance(parent, exp.Window):
        remedy = "Write OVER (PARTITION BY ... ORDER BY ...) after it."
        raise ViewError("VIEW_WINDOW_WITHOUT_PARTITION", f"{name}() needs a window", parsed.at(node), remedy)


_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_PREDICATES = (*_COMPARISONS, exp.Between, exp.In, exp.Like, exp.ILike, exp.RegexpLike, exp.Is, exp.Not)


def _check_comparison(parsed: Parsed, node: Expr) -> None:
    """Raise if a comparison compares another one.

    Spark reads `a = b IN (c)` from the left, and sqlglot from the right. Beside `<=>` sqlglot writes brackets itself.
    """
    for operand in (node.this, node.expression):
        own = operand.this if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ) and operand.key == "paren" else operand
        if isinstance(own, _PREDICATES) and not own.meta.get(CALLED):
            what = "A comparison of the result of another one can be read in two ways"
            remedy = "Put the inner comparison into brackets; beside <=>, name it as a column of a subquery."
            raise ViewError("VIEW_COMPARISON", what, parsed.at(node), remedy)


_CHECKS: dict[type[Expr], Callable[[Parsed, Expr], None]] = {
    exp.Placeholder: _check_placeholder,
    exp.Parameter: _check_placeholder,
    exp.SessionParameter: _check_placeholder,
    exp.Table: _check_table,
    exp.Lateral: _check_lateral,
    exp.Window: _check_window,
    exp.Group: _check_group,
    exp.Func: _check_function,
    **dict.fromkeys(_COMPARISONS, _check_comparison),
}
"""What is looked at more closely."""


def _refuse_unused(parsed: Parsed) -> None:
    """Raise if a common table expression is not used, or ORDER BY reads a table: those rows would stay unrestricted."""
    for cte in parsed.tree.find_all(exp.CTE):
        within = cte.find_ancestor(exp.Query)
        if within is not None and next(_uses(within, cte), None) is None:
            what = f"Nothing reads the common table expression {cte.alias}"
            raise ViewError("VIEW_UNUSED_CTE", what, parsed.at(cte.args["alias"]), "Take it out.")
    for order in parsed.tree.find_all(exp.Order, exp.Sort, exp.Cluster, exp.Distribute):
        if (query := order.find(exp.Query)) is not None:
            what = "A subquery in ORDER BY decides nothing about a table"
            raise ViewError("VIEW_SUBQUERY", what, parsed.at(query), "Take it out.")


def _uses(query: Expr, cte: exp.CTE) -> Iterator[exp.Table]:
    """Where a query may read a common table expression."""
    for table in query.find_all(exp.Table):
        if is_table_name(table) and name_of(table) == cte.alias.lower() and place_of(table) not in _own(cte):
            yield table


def _own(cte: exp.CTE) -> frozenset[Place]:
    """The places of tables within a common table expression, which has no name for itself there."""
    return frozenset(place_of(table) for table in cte.find_all(exp.Table) if is_table_name(table))
