"""Type 2: the rows that each key had, each with the interval in which it was current."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from lakehouse.frames.types import comparable
from lakehouse.scd.columns import END_AT, START_AT, ColumnChoice, Names, ResultColumns
from lakehouse.scd.events import DELETES, NEXT, SEQUENCE, in_order, marked, over_keys, over_past
from lakehouse.scd.ignored_nulls import NullUpdates, fill
from lakehouse.sql.text import quote, same

_BEFORE, _HEAD, _ENDS = "__scd_before", "__scd_head", "__scd_ends"


def type2(
    events: DataFrame,
    keys: Names,
    sequence_by: str | Column,
    *,
    apply_as_deletes: str | Column | None = None,
    column_list: Sequence[str] | None = None,
    except_column_list: Sequence[str] | None = None,
    ignore_null_updates: bool = False,
    ignore_null_updates_column_list: Sequence[str] | None = None,
    ignore_null_updates_except_column_list: Sequence[str] | None = None,
    track_history_column_list: Sequence[str] | None = None,
    track_history_except_column_list: Sequence[str] | None = None,
) -> DataFrame:
    """The rows that each key has had, each with the interval `[__START_AT, __END_AT)` in which it was current.

    The result depends on the events alone: not on their order of arrival, nor on how often one of them came. Parameters
    and meaning are those of Databricks' AUTO CDC.

    Args:
        events: Every event of the keys that it has events of: `touched.rows`, for example.
        keys: The columns that identify an entity.
        sequence_by: What orders the events of a key: a column, or an expression such as `struct(at, id)`, which orders
            field by field. Never NULL.
        apply_as_deletes: The condition that an event deletes its key: an expression over all columns of the events.
        column_list: The columns to keep; the keys must be among them. Default: all.
        except_column_list: The columns to leave out, instead.
        ignore_null_updates: Whether a NULL in an update leaves the value as it was, in every column.
        ignore_null_updates_column_list: The columns in which it does.
        ignore_null_updates_except_column_list: The columns in which it does not, instead.
        track_history_column_list: The columns whose change begins a new row; other columns show their newest value.
            Default: all that are kept, the sequence's own among them unless it is left out.
        track_history_except_column_list: The columns whose change begins none, instead.

    Returns:
        The kept columns in the events' order, then `__START_AT` and `__END_AT` of the type of the sequence. The current
        row of a key has NULL as its end; a key that is deleted has no current row. Intervals of a key do not overlap.

    Raises:
        EventOptionError: The options and the columns of the events do not fit together.
        BadEventError: While the result is written: an event has NULL in its key or its sequence, or two upserts of a
            key at one sequence differ.
    """
    function = "scd.type2()"
    layout = ResultColumns.of(
        function,
        events.schema,
        keys,
        ColumnChoice("column_list", "except_column_list", column_list, except_column_list),
    )
    tracked = ColumnChoice(
        "track_history_column_list",
        "track_history_except_column_list",
        track_history_column_list,
        track_history_except_column_list,
    ).of(function, layout.values)
    ignored = NullUpdates(
        ignore_null_updates,
        ColumnChoice(
            "ignore_null_updates_column_list",
            "ignore_null_updates_except_column_list",
            ignore_null_updates_column_list,
            ignore_null_updates_except_column_list,
        ),
    ).columns(function, layout)
    deletes = ("apply_as_deletes", "FALSE" if apply_as_deletes is None else apply_as_deletes)
    ordered = in_order(marked(function, events, layout, sequence_by, {DELETES: deletes}), layout)
    return _intervals(fill(ordered, layout, ignored), layout, tracked)


def _intervals(events: DataFrame, layout: ResultColumns, tracked: tuple[str, ...]) -> DataFrame:
    """One row for each run of upserts that are equal in the tracked columns (R20).

    A run is shown with the values of its last event; its interval begins at its first event and ends at the next event
    of the key, which is a delete or begins another run.
    """
    values = list(comparable(layout.fields(tracked)).values())
    before = ", ".join([f"{DELETES} AS deletes", *(f"{value} AS v{i}" for i, value in enumerate(values))])
    other = [f"NOT ({same(f'{_BEFORE}.v{i}', value)})" for i, value in enumerate(values)]
    is_head = " OR ".join([f"{_BEFORE} IS NULL", f"{_BEFORE}.deletes", *other])
    names, over = [quote(name) for name in layout.names], over_keys(layout, SEQUENCE)
    heads = events.selectExpr("*", f"lag(struct({before})) {over} AS {_BEFORE}").selectExpr(
        *names, SEQUENCE, DELETES, NEXT, f"NOT {DELETES} AND ({is_head}) AS {_HEAD}"
    )
    runs = heads.selectExpr(
        *names,
        DELETES,
        f"last(CASE WHEN {_HEAD} THEN {SEQUENCE} END, TRUE) {over_past(layout)} AS {START_AT}",
        f"{NEXT} AS {END_AT}",
        f"lead({DELETES} OR {_HEAD}) {over} AS {_ENDS}",
    )
    return runs.where(f"NOT {DELETES} AND coalesce({_ENDS}, TRUE)").selectExpr(*names, START_AT, END_AT)
