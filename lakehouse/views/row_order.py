"""Where a text's result depends on an order of rows that the text leaves open."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.views.algebra import Aggregation, Query, Windows, columns, columns_in, expressions, nodes_of
from lakehouse.views.sql.parsing import CALLED
from lakehouse.views.steps.planning import Wording
from lakehouse.views.touch import determined_by, key_of

_OF_ONE_ROW = (
    *(exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.First, exp.FirstValue, exp.Lag, exp.Last, exp.LastValue, exp.Lead),
    *(exp.Mode, exp.NthValue),
)
"""Functions whose value is that of one row: any of the rows that their order leaves equal."""
_OF_EACH_ROW = (exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat, exp.Ntile, exp.RowNumber)
"""Functions that list or number rows: in any order, as far as theirs leaves them equal."""
_WITHOUT_ORDER = frozenset(
    ("array_contains", "array_max", "array_min", "array_size", "array_sort", "cardinality", "size", "sort_array")
)
"""Functions of a list that give the same for any order of its elements."""


def open_orders(query: Query, keys: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Each aggregate and window whose value depends on an order that the text leaves open, as a sentence.

    Two computations of the same rows may differ there, and a recompute too: Spark reads rows in the order of files.

    Args:
        query: The query.
        keys: The keys of its tables, where they have one.
    """
    wording = Wording.of(query)
    for node in nodes_of(query.root):
        match node:
            case Aggregation(node=below, groups=groups, aggregates=computed):
                rows, among = replace(query, root=below), {*groups}
                computed = {name: e for name, e in computed.items() if not _loses_order(query, name)}
            case Windows(node=below, partition=partition, windows=computed):
                rows, among = replace(query, root=below), {*partition}
            case _:
                continue
        for expression in computed.values():
            by = among | _ordering(expression)
            if _depends(expression, determined_by(rows, by, keys), rows, keys):
                called = expression.meta.get(CALLED) or wording.of_expression(expression)
                equal = f" that are equal in {wording.of_columns(by)}" if by else ""
                yield (
                    f"{called} takes rows{equal} in any order, so two computations of the same rows may differ. An "
                    "order that decides, or sort_array of a list, settles that."
                )


def _ordering(expression: Expression) -> set[str]:
    """The columns by which a function takes its rows."""
    ordered = {each.this for each in expression.find_all(exp.Ordered)}
    ordered |= {each.expression for each in expression.find_all(exp.ArgMax, exp.ArgMin)}
    return {each.name for each in ordered if isinstance(each, exp.Column)}


def _depends(expression: Expression, settled: set[str], rows: Query, keys: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether the value depends on the order of rows in which the settled columns are equal."""
    function = next(expression.find_all(*_OF_ONE_ROW, *_OF_EACH_ROW), None)
    if function is None and not _is_of_some_rows(expression.args.get("spec")):
        return False
    key = key_of(rows.root, keys, rows.types)
    if settled.issuperset(columns(rows.root) if key is None else key):
        return False
    if isinstance(function, exp.RowNumber | exp.Ntile) or function is None:
        return True
    return not settled.issuperset(columns_in(function.this))


def _is_of_some_rows(frame: Expression | None) -> bool:
    """Whether a frame counts rows, and does not hold the whole partition."""
    if frame is None or frame.args.get("kind") != "ROWS":
        return False
    return {frame.args.get("start"), frame.args.get("end")} != {"UNBOUNDED"}


def _loses_order(query: Query, name: str) -> bool:
    """Whether a list is used only by functions that give the same for any order of its elements."""
    uses = [
        use.parent
        for node in nodes_of(query.root)
        for each in expressions(node)
        for use in each.find_all(exp.Column)
        if use.name == name
    ]
    is_shown = any(output.column == name for output in query.outputs)
    return bool(uses) and not is_shown and all(_name_of(use) in _WITHOUT_ORDER for use in uses)


def _name_of(function: Expr | None) -> str:
    if isinstance(function, exp.Anonymous):
        return function.name.lower()
    return function.sql_name().lower() if isinstance(function, exp.Func) else ""
