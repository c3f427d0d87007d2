"""The text of an expression over one row, as in an expectation or an `Aggregate`; and why a text is not one."""

from collections.abc import Sequence
from functools import cache

from sqlglot import exp
from sqlglot.expressions.core import Expr

from lakehouse.delta.expect import Expect
from lakehouse.errors import DefinitionError
from lakehouse.errors.views import ViewError
from lakehouse.views.functions import AGGREGATES, GENERATORS, WINDOW_FUNCTIONS
from lakehouse.views.sql.look import why_not_followed
from lakehouse.views.sql.parsing import CALLED, Parsed, parse, require_known_calls
from lakehouse.views.sql.time_windows import is_call
from lakehouse.views.sql.words import cut
from lakehouse.views.view_text import NotFollowedError

_BEGIN, _END = "SELECT (\n", "\n) FROM row"
"""The text is put on lines of its own, so that a comment in its last line ends there."""
_SEVERAL = "it is several expressions or a query, and not one expression"
_ROW = "only the columns of one row count here"


def refuse_conditions(asset: str, expectations: Sequence[Expect]) -> None:
    """Refuses a text that is not a condition on the columns of one row, as far as the text alone shows.

    Raises:
        DefinitionError (CONDITION): There is such a text.
    """
    for each in expectations:
        if not each.is_of_key and (why := why_not_of_the_row(each.condition)) is not None:
            raise DefinitionError.condition(asset, each.condition, why)


def why_not_of_the_row(expression: str) -> str | None:
    """Why a text is not an expression over the columns of one row, as a clause; None if the text shows no reason."""
    parsed = parse_condition(expression)
    return parsed if isinstance(parsed, str) else None


@cache
def parse_condition(expression: str, parameters: frozenset[str] = frozenset()) -> Parsed | str:
    """A query that selects the expression over the columns of one row; else why the text is not one, as a clause.

    Args:
        expression: The text.
        parameters: The parameters that it may have.
    """
    try:
        parsed = parse(cut(f"{_BEGIN}{expression}{_END}"))
        reasons = (why for node in parsed.tree.walk() if (why := _why_no_part(node, parameters)) is not None)
        why = _why_other_shape(parsed) or next(reasons, None)
        if why is None and (other := why_not_followed(parsed)) is not None:
            return other.clause
        require_known_calls(parsed)
    except ViewError as error:
        if error.code == "VIEW_STATEMENT":
            return _SEVERAL
        return error.what if error.what.startswith("Spark") else error.what[:1].lower() + error.what[1:]
    except NotFollowedError as error:
        return error.reason.clause
    return parsed if why is None else why


def _why_other_shape(parsed: Parsed) -> str | None:
    """Why the text is not one expression, for example because it closes the brackets around it; None if it is one."""
    tree = parsed.tree
    if not isinstance(tree, exp.Select) or {name for name, value in tree.args.items() if value} != {
        "expressions",
        "from_",
    }:
        return _SEVERAL
    if len(tree.expressions) != 1 or not isinstance(tree.expressions[0], exp.Paren):
        return _SEVERAL
    return _SEVERAL if isinstance(tree.expressions[0].this, exp.Tuple) else None


def _why_no_part(node: Expr, parameters: frozenset[str]) -> str | None:
    """Why a part of a condition depends on more than the columns of one row, as a clause; None if it does not."""
    name = node.meta.get(CALLED, "")
    if isinstance(node, exp.Query) and node.parent is not None:
        return f"it has a subquery, and {_ROW}"
    if isinstance(node, exp.Window) or name in WINDOW_FUNCTIONS:
        return f"it has a window, and {_ROW}"
    if name in AGGREGATES or isinstance(node, exp.AggFunc):
        return f"it calls the aggregate {name or node.key}(), and {_ROW}"
    if isinstance(node, exp.UDTF) or name in GENERATORS or is_call(node):
        return f"it calls {name or node.key}(), which makes several rows of one"
    if isinstance(node, exp.Star):
        return "it has a star, which stands for columns that are not known yet"
    if isinstance(node, exp.Alias) and isinstance(node.parent, exp.Paren):
        return _SEVERAL
    is_unknown = isinstance(node, exp.Placeholder) and node.this not in parameters
    return "it has a parameter without a value" if is_unknown else None
