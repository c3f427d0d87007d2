"""Type 1: the row that each key has now."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.scd.columns import ColumnChoice, Names, ResultColumns
from lakehouse.scd.events import DELETES, NEXT, SEQUENCE, complete_sequence, in_order, marked
from lakehouse.scd.ignored_nulls import NullUpdates, fill
from lakehouse.scd.truncates import with_truncates
from lakehouse.sql.text import quote

_TRUNCATES, _LOW = "__scd_truncates", "__scd_low"


def type1(
    events: DataFrame,
    keys: Names,
    sequence_by: str | Column,
    *,
    apply_as_deletes: str | Column | None = None,
    apply_as_truncates: str | None = None,
    column_list: Sequence[str] | None = None,
    except_column_list: Sequence[str] | None = None,
    ignore_null_updates: bool = False,
    ignore_null_updates_column_list: Sequence[str] | None = None,
    ignore_null_updates_except_column_list: Sequence[str] | None = None,
) -> DataFrame:
    """The row that each key has after all of its events; a key whose newest event deletes it has none.

    The result depends on the events alone: not on their order of arrival, nor on how often one of them came. Parameters
    and meaning are those of Databricks' AUTO CDC.

    Args:
        events: Every event of the keys that it has events of: `touched.rows`, for example.
        keys: The columns that identify an entity.
        sequence_by: What orders the events of a key: a column, or an expression such as `struct(at, id)`, which orders
            field by field. Never NULL.
        apply_as_deletes: The condition that an event deletes its key: an expression over all columns of the events.
        apply_as_truncates: The condition that an event deletes every key: events of the same and of earlier sequences
            have no effect, whenever they arrive. Its own key does not count, and may be NULL. Of touched rows ask with
            the same text: `touched(..., also="op = 'T'")`.
        column_list: The columns to keep; the keys must be among them. Default: all.
        except_column_list: The columns to leave out, instead.
        ignore_null_updates: Whether a NULL in an update leaves the value as it was, in every column.
        ignore_null_updates_column_list: The columns in which it does.
        ignore_null_updates_except_column_list: The columns in which it does not, instead.

    Returns:
        The kept columns in the events' order.

    Raises:
        EventOptionError: The options and the columns of the events do not fit together.
        BadEventError: While the result is written: an event has NULL in its key or its sequence, or two upserts of a
            key at one sequence differ.
    """
    function = "scd.type1()"
    layout = ResultColumns.of(
        function,
        events.schema,
        keys,
        ColumnChoice("column_list", "except_column_list", column_list, except_column_list),
    )
    ignored = NullUpdates(
        ignore_null_updates,
        ColumnChoice(
            "ignore_null_updates_column_list",
            "ignore_null_updates_except_column_list",
            ignore_null_updates_column_list,
            ignore_null_updates_except_column_list,
        ),
    ).columns(function, layout)
    conditions = {DELETES: ("apply_as_deletes", "FALSE" if apply_as_deletes is None else apply_as_deletes)}
    if apply_as_truncates is not None:
        conditions[_TRUNCATES] = ("apply_as_truncates", apply_as_truncates)
    frame = marked(function, events, layout, sequence_by, conditions)
    since_truncates = frame if apply_as_truncates is None else _after_truncates(frame, layout)
    newest = fill(in_order(since_truncates, layout), layout, ignored).where(f"{NEXT} IS NULL AND NOT {DELETES}")
    rows = newest.selectExpr(*map(quote, layout.names))
    return rows if apply_as_truncates is None else with_truncates(rows, layout.keys, apply_as_truncates)


def _after_truncates(frame: DataFrame, layout: ResultColumns) -> DataFrame:
    """The events that no truncate takes away: those after the last one (R10)."""
    sequence = complete_sequence(layout, frame.schema[SEQUENCE].dataType)
    low = frame.where(_TRUNCATES).agg(F.max(F.expr(sequence)).alias(_LOW))
    beside = frame.where(f"NOT {_TRUNCATES}").crossJoin(F.broadcast(low))
    return beside.where(f"{_LOW} IS NULL OR {SEQUENCE} IS NULL OR {SEQUENCE} > {_LOW}").drop(_TRUNCATES, _LOW)
