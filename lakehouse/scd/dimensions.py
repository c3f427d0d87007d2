"""What events result in: type 1, type 2, and facts joined to the row of type 2 that was current."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.delta.text import fold, quote, same
from lakehouse.errors import WriteError
from lakehouse.scd.columns import END_AT, START_AT, ColumnChoice, Names, ResultColumns, require_columns
from lakehouse.scd.events import (
    DELETES,
    NEXT,
    SEQUENCE,
    Events,
    columns_of_null_updates,
    complete_sequence,
    fill,
    in_order,
    mark_events,
    over_keys,
    over_past,
    with_options,
)
from lakehouse.spark.types import comparable

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
) -> Events:
    """The row that each key has after all of its events; a key whose newest event deletes it has none.

    The result depends on the events alone: not on their order of arrival, nor on how often an event arrived. Parameters
    and meaning are those of Databricks' AUTO CDC.

    Args:
        events: Events, with every event of each key that is among them: `touched.rows`, for example.
        keys: The columns that identify an entity.
        sequence_by: What orders the events of a key: a column, or an expression such as `struct(at, id)`, which orders
            field by field. Never NULL.
        apply_as_deletes: The condition that an event deletes its key: an expression over all columns of the events.
        apply_as_truncates: The condition that an event deletes every key: events of the same and of earlier sequences
            have no effect, whenever they arrive. Its own key does not count, and may be NULL. If the events are touched
            rows, ask for truncates by the same text: `touched(..., also="op = 'T'")`.
        column_list: The columns to keep; the keys must be among them. Default: all.
        except_column_list: The columns to leave out, instead.
        ignore_null_updates: Whether a NULL in an update leaves the value as it was, in every column.
        ignore_null_updates_column_list: The columns in which it does.
        ignore_null_updates_except_column_list: The columns in which it does not, instead.

    Returns:
        `Events`, whose `rows` have the kept columns in the events' order.

    Raises:
        WriteError (EVENT_OPTION): The options and the columns of the events do not fit together.
        WriteError (BAD_EVENT): While the result is written: an event has NULL in its key or its sequence, or two
            upserts of a key at one sequence differ.
    """
    function = "scd.type1()"
    selected = ColumnChoice("column_list", "except_column_list", column_list, except_column_list)
    layout = ResultColumns.of(function, events.schema, keys, selected)
    only, without = ignore_null_updates_column_list, ignore_null_updates_except_column_list
    ignored = columns_of_null_updates(function, layout, only, without, everywhere=ignore_null_updates)
    conditions = {DELETES: ("apply_as_deletes", "FALSE" if apply_as_deletes is None else apply_as_deletes)}
    if apply_as_truncates is not None:
        conditions[_TRUNCATES] = ("apply_as_truncates", apply_as_truncates)
    frame = mark_events(function, events, layout, sequence_by, conditions)
    since_truncates = frame if apply_as_truncates is None else _after_truncates(frame, layout)
    newest = fill(in_order(since_truncates, layout), layout, ignored).where(f"{NEXT} IS NULL AND NOT {DELETES}")
    return Events(newest.selectExpr(*map(quote, layout.names)), apply_as_truncates, ignored)


def _after_truncates(frame: DataFrame, layout: ResultColumns) -> DataFrame:
    """The events that no truncate takes away: those after the last truncate (R10)."""
    sequence = complete_sequence(layout, frame.schema[SEQUENCE].dataType)
    low = frame.where(_TRUNCATES).agg(F.max(F.expr(sequence)).alias(_LOW))
    beside = frame.where(f"NOT {_TRUNCATES}").crossJoin(F.broadcast(low))
    return beside.where(f"{_LOW} IS NULL OR {SEQUENCE} IS NULL OR {SEQUENCE} > {_LOW}").drop(_TRUNCATES, _LOW)


BEGIN, END = "__scd_run_begin", "__scd_run_end"
"""Columns of the last state of a run of upserts: the bounds of the run's first state, and of the state that ends it."""
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
) -> Events:
    """The rows that each key has had, each with the interval `[__START_AT, __END_AT)` in which it was current.

    The result depends on the events alone: not on their order of arrival, nor on how often an event arrived. Parameters
    and meaning are those of Databricks' AUTO CDC.

    Args:
        events: Events, with every event of each key that is among them: `touched.rows`, for example.
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
            Default: all kept columns, including the sequence's own unless it is left out.
        track_history_except_column_list: The columns whose change begins no new row, instead.

    Returns:
        `Events`, whose `rows` have the kept columns in the events' order, then `__START_AT` and `__END_AT` of the
        type of the sequence. The current row of a key has NULL as its end; a key that is deleted has no current
        row. Intervals of a key do not overlap.

    Raises:
        WriteError (EVENT_OPTION): The options and the columns of the events do not fit together.
        WriteError (BAD_EVENT): While the result is written: an event has NULL in its key or its sequence, or two
            upserts of a key at one sequence differ.
    """
    function = "scd.type2()"
    selected = ColumnChoice("column_list", "except_column_list", column_list, except_column_list)
    layout = ResultColumns.of(function, events.schema, keys, selected)
    tracked = ColumnChoice(
        "track_history_column_list",
        "track_history_except_column_list",
        track_history_column_list,
        track_history_except_column_list,
    ).of(function, layout.values)
    only, without = ignore_null_updates_column_list, ignore_null_updates_except_column_list
    ignored = columns_of_null_updates(function, layout, only, without, everywhere=ignore_null_updates)
    deletes = ("apply_as_deletes", "FALSE" if apply_as_deletes is None else apply_as_deletes)
    ordered = in_order(mark_events(function, events, layout, sequence_by, {DELETES: deletes}), layout)
    values = list(comparable(layout.fields(tracked)).values())
    runs = runs_of_upserts(fill(ordered, layout, ignored), layout.keys, SEQUENCE, DELETES, values, [SEQUENCE])
    interval = (f"{BEGIN}.{SEQUENCE} AS {START_AT}", f"{END}.{SEQUENCE} AS {END_AT}")
    return Events(runs.selectExpr(*map(quote, layout.names), *interval), ignored_nulls=ignored)


def runs_of_upserts(
    states: DataFrame, keys: tuple[str, ...], order: str, is_gone: str, tracked: Sequence[str], bounds: Sequence[str]
) -> DataFrame:
    """The last state of each run of upserts that are equal in the tracked columns, with the bounds of the run (R20).

    A run begins at its first state, and ends at the next state of its key that has no row or begins another run.

    Args:
        states: The states of each key after its events, or after the commits that changed it.
        keys: The columns that identify an entity.
        order: The column that orders the states of a key; no two are equal.
        is_gone: SQL: whether the key has no row in a state.
        tracked: SQL of the tracked values, in a form that can be compared for equality.
        bounds: SQL of the values that the result has of the first state of a run, as the fields of `BEGIN`, and of the
            state that ends the run, as the fields of `END`. `END` is NULL if the run has no end.
    """
    over, bound = over_keys(keys, order), f"struct({', '.join(bounds)})"
    before = ", ".join([f"{is_gone} AS gone", *(f"{value} AS v{i}" for i, value in enumerate(tracked))])
    other = [f"NOT ({same(f'{_BEFORE}.v{i}', value)})" for i, value in enumerate(tracked)]
    is_head = " OR ".join([f"{_BEFORE} IS NULL", f"{_BEFORE}.gone", *other])
    heads = states.selectExpr("*", f"lag(struct({before})) {over} AS {_BEFORE}").selectExpr(
        *map(quote, states.columns), f"NOT ({is_gone}) AND ({is_head}) AS {_HEAD}"
    )
    runs = heads.selectExpr(
        "*",
        f"last(CASE WHEN {_HEAD} THEN {bound} END, TRUE) {over_past(keys, order)} AS {BEGIN}",
        f"lead({bound}) {over} AS {END}",
        f"lead({is_gone} OR {_HEAD}) {over} AS {_ENDS}",
    )
    return runs.where(f"NOT ({is_gone}) AND coalesce({_ENDS}, TRUE)")


_AT, _START, _END = "__scd_at", "__scd_start", "__scd_end"


def as_of(
    facts: DataFrame,
    history: DataFrame | Events,
    at: str | Column,
    keys: Names,
    *,
    start_at: str = START_AT,
    end_at: str = END_AT,
) -> DataFrame:
    """Each fact once, with the columns of its key's row that was current at `at`; NULL in them if none was.

    Args:
        facts: The facts, with the key's columns.
        history: Rows with intervals that do not overlap within a key: a result of `type2`, or a table that holds one.
        at: When each fact happened, in the history's sequence: a column of the facts, or an expression over them.
        keys: The columns that identify an entity, on both sides.
        start_at: The history's column with the start of the interval, which belongs to the interval.
        end_at: The history's column with the end, which does not belong to it; NULL: the row is still current.

    Returns:
        The columns of the facts, then those of the history without the keys and the interval.

    Raises:
        WriteError (EVENT_OPTION): A column is missing or is on both sides, or Spark cannot resolve `at`.
    """
    function = "scd.as_of()"
    history = history.rows if isinstance(history, Events) else history
    key = (keys,) if isinstance(keys, str) else tuple(keys)
    require_columns(function, "keys", key, facts.columns)
    for option, names in (("keys", key), ("start_at", (start_at,)), ("end_at", (end_at,))):
        require_columns(function, option, names, history.columns)
    own = fold([*key, start_at, end_at])
    values = [name for name in history.columns if name.lower() not in own]
    for name in values:
        if name.lower() in fold(facts.columns):
            raise WriteError.event_option(
                function,
                "COLUMN_ON_BOTH_SIDES",
                f"finds a column {name} in the facts and in the history",
                "Rename or drop the column on one side.",
            )
    beside = {name: f"__scd_key_{index}" for index, name in enumerate(key)}
    rows = history.select(
        *(F.col(quote(name)).alias(alias) for name, alias in beside.items()),
        F.col(quote(start_at)).alias(_START),
        F.col(quote(end_at)).alias(_END),
        *(F.col(quote(name)) for name in values),
    )
    same_key = (F.col(quote(name)).eqNullSafe(F.col(alias)) for name, alias in beside.items())
    within = (F.col(_AT) >= F.col(_START)) & (F.col(_END).isNull() | (F.col(_AT) < F.col(_END)))
    beside_at = with_options(function, facts, {_AT: ("at", at)})
    joined = beside_at.join(rows, reduce(Column.__and__, same_key) & within, "left")
    return joined.select(*map(quote, [*facts.columns, *values]))
