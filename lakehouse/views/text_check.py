"""What the text of a view comes to over tables of known columns, without Spark: how its changes are followed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import Output, Query
from lakehouse.views.plan import TouchedPlan
from lakehouse.views.query import read
from lakehouse.views.rows_plan import why_whole
from lakehouse.views.touch import Touch, choose_touch, table_key
from lakehouse.views.touched_plan import touched_plan
from lakehouse.views.view_text import ViewText, with_place


@dataclass(frozen=True, slots=True)
class CheckedView:
    """How a view would follow its tables.

    Args:
        columns: The columns of the result, in order.
        key: The key of the result, if it follows from the text and the keys of the tables; else None.
        touch: The columns by which changes are followed, and the others by which they could be.
        plan: How the keys are found whose rows may differ, if all tables change.
        notes: What of the text means nothing for a table, as sentences.
        why_whole: Why changes need all rows, or all of a table, as a clause; `Policy(refresh="strict")` refuses that.
            None if keys do, in a table that has a key: `key`, or the one that `Table(key=...)` declares.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...] | None
    touch: Touch
    plan: TouchedPlan
    notes: tuple[str, ...] = ()
    why_whole: str | None = None


def check_text(
    text: ViewText, schemas: Mapping[str, Mapping[str, str]], keys: Mapping[str, tuple[str, ...]]
) -> CheckedView:
    """How a text would follow tables of these columns.

    Args:
        text: The text.
        schemas: For each table, its columns, and their types as Spark's `simpleString()` has them.
        keys: The keys of tables, where they have one.

    Raises:
        ViewError: A view cannot be kept of the text.
    """
    try:
        query = _with_declared_names(text, read(text.text, schemas, tuple(text.args)))
        touch = Touch(text.touch, 0) if text.touch else choose_touch(query, (), (), keys)
        plan = touched_plan(query, touch.columns, tuple(schemas))
        why = why_whole(query, plan, schemas, has_key=True)
    except ViewError as error:
        raise with_place(error, text.origin) from error.__cause__
    columns = tuple(output.name for output in query.outputs)
    return CheckedView(columns, table_key(query, keys), touch, plan, query.notes, why)


def _with_declared_names(text: ViewText, query: Query) -> Query:
    """The query whose columns have the names that a head declares."""
    if not text.columns:
        return query
    if len(text.columns) != len(query.outputs):
        given = ", ".join(output.name for output in query.outputs)
        what = f"The head declares {len(text.columns)} columns, and the query gives {len(query.outputs)}"
        raise ViewError("VIEW_COLUMN_LIST", what, None, f"Declare a column for each of {given}, or none.")
    names = zip(text.columns, query.outputs, strict=True)
    return replace(query, outputs=tuple(Output(column.name, output.column) for column, output in names))
