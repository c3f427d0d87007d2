"""Events in the order of their sequence, one of each key at each sequence value; ambiguous events are an error.

Errors that depend on rows are raised inside the plan, and a commit reports them as broken promises.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, StructType

from lakehouse.delta.text import fold, literal, quote, quote_all, same
from lakehouse.errors import WriteError
from lakehouse.scd.columns import ColumnChoice, ResultColumns, require_order
from lakehouse.spark.broken_promises import BROKEN, Breach
from lakehouse.spark.diagnosis import first_line
from lakehouse.spark.types import comparable

SEQUENCE, DELETES, NEXT = "__scd_sequence", "__scd_deletes", "__scd_next"
"""Columns of an event: its sequence, whether it deletes its key, the sequence of the key's next event (NULL: none)."""
_BEFORE, _DELETED = "__scd_before", "__scd_deleted"
Condition: TypeAlias = tuple[str, str | Column]
"""The name of an option, and its value: a column, or an expression."""


@dataclass(frozen=True, slots=True)
class Events:
    """The result of events: the rows, and which events and values were left out on the way.

    A `Merge` takes it as its rows, and `touched.of(...)` restricts it. It is not a DataFrame, so that no method of a
    DataFrame loses what was left out; `dataclasses.replace(events, rows=...)` gives it other rows.

    Args:
        rows: The rows of the result.
        truncates: The condition by which events were applied as truncates; None if none were.
        ignored_nulls: The columns in which a NULL of an update left the value as it was.
    """

    rows: DataFrame
    truncates: str | None = None
    ignored_nulls: tuple[str, ...] = ()

    if not TYPE_CHECKING:  # a type checker knows the attributes

        def __getattr__(self, name: str) -> object:
            if hasattr(DataFrame, name):
                raise AttributeError(
                    f"Events are not a DataFrame, so they have no `{name}`. Their rows are one: events.rows.{name}"
                )
            return object.__getattribute__(self, name)


def mark_events(
    function: str, events: DataFrame, layout: ResultColumns, sequence_by: str | Column, conditions: dict[str, Condition]
) -> DataFrame:
    """The events with their sequence as `SEQUENCE`, and for each condition whether it is true of the event.

    Raises:
        WriteError (EVENT_OPTION): Spark cannot resolve an option, the sequence has no order, or a condition is not a
            BOOLEAN.
    """
    frame = with_options(function, events, {SEQUENCE: ("sequence_by", sequence_by), **conditions})
    schema = frame.schema
    require_order(function, schema[SEQUENCE].dataType)
    for name, (option, _) in conditions.items():
        if not isinstance(schema[name].dataType, BooleanType):
            raise WriteError.event_option(
                function,
                "NO_CONDITION",
                f"was given {option} with a value of {schema[name].dataType.simpleString()}",
                "Give a condition that is true or false, such as \"op = 'D'\".",
            )
    columns = [quote(name) for name in layout.names]
    truths = [f"coalesce({name}, FALSE) AS {name}" for name in conditions]
    return frame.selectExpr(*columns, SEQUENCE, *truths)


def in_order(frame: DataFrame, layout: ResultColumns) -> DataFrame:
    """One event of each key at each sequence value, with the sequence of the key's next event as `NEXT`.

    If a delete and an upsert have one sequence, the delete counts (R3). Equal events are one event. Two different
    upserts at one sequence raise an error, as does a NULL in a key or a sequence (R1).
    """
    sequence = frame.schema[SEQUENCE].dataType
    guarded = frame.selectExpr(*map(quote, layout.names), f"{_complete(layout, sequence)} AS {SEQUENCE}", DELETES)
    values = list(comparable(layout.fields(layout.values)).values())
    before = ", ".join([f"{SEQUENCE} AS at", *(f"{value} AS v{i}" for i, value in enumerate(values))])
    differs = [f"NOT ({same(f'{_BEFORE}.v{i}', value)})" for i, value in enumerate(values)]
    conflicts = f"NOT {DELETES} AND {_BEFORE}.at <=> {SEQUENCE} AND ({' OR '.join(differs) or 'FALSE'})"
    over = over_keys(layout.keys, SEQUENCE, DELETES)
    beside = guarded.selectExpr("*", f"lag(struct({before})) {over} AS {_BEFORE}", f"lead({SEQUENCE}) {over} AS {NEXT}")
    problem = _problem("TWO_UPSERTS", layout, _where(layout.values, differs))
    last = beside.where(f"CASE WHEN {conflicts} THEN raise_error({problem}) ELSE NOT ({NEXT} <=> {SEQUENCE}) END")
    return last.drop(_BEFORE)


def over_keys(keys: tuple[str, ...], *order: str) -> str:
    """The window of a key's events in an order, as SQL."""
    return f"OVER (PARTITION BY {quote_all(keys)} ORDER BY {', '.join(order)})"


def over_past(keys: tuple[str, ...], order: str) -> str:
    """The window of a key's events up to the current one, as SQL."""
    past = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return f"OVER (PARTITION BY {quote_all(keys)} ORDER BY {order} {past})"


def with_options(function: str, frame: DataFrame, options: dict[str, Condition]) -> DataFrame:
    """The frame with the value of each option as a new column.

    Raises:
        WriteError (EVENT_OPTION): Spark cannot resolve the value of an option.
    """
    try:
        return _with_columns(frame, options)
    except AnalysisException:
        for name, (option, value) in options.items():
            try:
                _with_columns(frame, {name: (option, value)})
            except AnalysisException as error:
                raise WriteError.event_option(
                    function,
                    "UNRESOLVED_EXPRESSION",
                    f"was given {option} that Spark cannot resolve: {first_line(error)}",
                    f"The columns that {option} may name are: {', '.join(frame.columns)}.",
                ) from None
        raise


def _with_columns(frame: DataFrame, options: dict[str, Condition]) -> DataFrame:
    """The frame with the new columns, resolved now rather than when the frame is used."""
    with_them = frame.withColumns({name: _as_column(value, frame) for name, (_, value) in options.items()})
    _ = with_them.schema
    return with_them


def _as_column(expression: str | Column, frame: DataFrame) -> Column:
    """A column by its name, or an expression."""
    if isinstance(expression, Column):
        return expression
    return F.col(quote(expression)) if expression.lower() in fold(frame.columns) else F.expr(expression)


def _complete(layout: ResultColumns, kind: DataType) -> str:
    """The sequence, or an error where the sequence or the key has a NULL in it."""
    nulls = [f"{quote(name)} IS NULL" for name in layout.keys]
    problem = _problem("NULL_KEY", layout, _where(layout.keys, nulls))
    return f"CASE WHEN {' OR '.join(nulls)} THEN raise_error({problem}) ELSE {complete_sequence(layout, kind)} END"


def complete_sequence(layout: ResultColumns, kind: DataType) -> str:
    """The sequence as SQL, or an error if it has a NULL in it."""
    problem = _problem("NULL_SEQUENCE", layout, "array()")
    return f"CASE WHEN {' OR '.join(_nulls(SEQUENCE, kind))} THEN raise_error({problem}) ELSE {SEQUENCE} END"


def _nulls(value: str, kind: DataType) -> list[str]:
    """The conditions, as SQL, that a sequence or one of its fields is NULL."""
    fields = kind.fields if isinstance(kind, StructType) else ()
    within = [term for field in fields for term in _nulls(f"{value}.{quote(field.name)}", field.dataType)]
    return [f"{value} IS NULL", *within]


def _where(columns: tuple[str, ...], conditions: list[str]) -> str:
    """The names of the columns whose condition holds, as an array in SQL."""
    named = (
        f"CASE WHEN {condition} THEN {literal(name)} END" for name, condition in zip(columns, conditions, strict=True)
    )
    return f"array_compact(array({', '.join(named)}))"


def _problem(rule: str, layout: ResultColumns, columns: str) -> str:
    """The error text for an event that breaks a rule, as SQL."""
    key = ", ".join(f"CAST({quote(name)} AS STRING) AS {quote(name)}" for name in layout.keys)
    kind = f"{literal(Breach.EVENT.value)} AS kind, {literal(rule)} AS rule"
    of_event = f"struct({key}) AS key, {columns} AS columns, CAST({SEQUENCE} AS STRING) AS at"
    event = f"to_json(struct({kind}, {of_event}), map('ignoreNullFields', 'false'))"
    return f"concat({literal(BROKEN)}, {event})"


def columns_of_null_updates(
    function: str, layout: ResultColumns, only: Sequence[str] | None, without: Sequence[str] | None, *, everywhere: bool
) -> tuple[str, ...]:
    """The columns, of those that are kept and not a key, that keep their value where an update has NULL.

    Raises:
        WriteError (EVENT_OPTION): More than one of the options is given, or a list that is empty or names another
            column.
    """
    option = "ignore_null_updates"
    choice = ColumnChoice(f"{option}_column_list", f"{option}_except_column_list", only, without)
    if everywhere and choice.is_given:
        other = choice.option if only is not None else choice.except_option
        raise WriteError.event_option(
            function, "ONE_NULL_OPTION", f"was given both {option} and {other}", "Give one of the two."
        )
    if only is not None and not only:
        raise WriteError.event_option(
            function, "EMPTY_COLUMN_LIST", f"was given an empty {choice.option}", "Leave the option out."
        )
    return choice.of(function, layout.values) if everywhere or choice.is_given else ()


def fill(frame: DataFrame, layout: ResultColumns, columns: tuple[str, ...]) -> DataFrame:
    """The events, with each leaf of some columns as the key's events up to and with each have left it (R14 to R18).

    A leaf has the newest value that an upsert gave it since the key was last deleted, so a late event fills the leaves
    that later events left NULL, and nothing from before a delete comes back.
    """
    if not columns:
        return frame
    kinds = {name: layout.schema[name].dataType for name in columns}
    all_leaves = (leaf for name, kind in kinds.items() for leaf in _leaves(quote(name), kind))
    leaves = {leaf: f"__scd_leaf_{i}" for i, leaf in enumerate(all_leaves)}
    over = over_past(layout.keys, SEQUENCE)
    given = f"CASE WHEN NOT {DELETES} AND {{0}} IS NOT NULL THEN struct({SEQUENCE} AS at, {{0}} AS value) END"
    authored = [f"last({given.format(leaf)}, TRUE) {over} AS {alias}" for leaf, alias in leaves.items()]
    deleted = f"last(CASE WHEN {DELETES} THEN {SEQUENCE} END, TRUE) {over} AS {_DELETED}"
    filled = (
        f"{_fill(quote(name), kinds[name], leaves)} AS {quote(name)}" if name in kinds else quote(name)
        for name in layout.names
    )
    return frame.selectExpr("*", *authored, deleted).selectExpr(*filled, SEQUENCE, DELETES, NEXT)


def _leaves(path: str, kind: DataType) -> Iterator[str]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _leaves(f"{path}.{quote(field.name)}", field.dataType)
    else:
        yield path


def _fill(path: str, kind: DataType, leaves: dict[str, str]) -> str:
    """A value made of its leaves; a struct is NULL if all of its leaves are NULL (R18)."""
    if not isinstance(kind, StructType):
        alias = leaves[path]
        return f"CASE WHEN {_DELETED} IS NULL OR {alias}.at > {_DELETED} THEN {alias}.value END"
    fields = {field.name: _fill(f"{path}.{quote(field.name)}", field.dataType, leaves) for field in kind.fields}
    is_known = " OR ".join(f"({value}) IS NOT NULL" for value in fields.values())
    return f"CASE WHEN {is_known} THEN struct({', '.join(f'{v} AS {quote(n)}' for n, v in fields.items())}) END"
