"""Facts beside the row of type 2 that was current when each of them happened."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import EventOptionError
from lakehouse.scd.columns import END_AT, START_AT, Names, require_columns
from lakehouse.scd.events import with_options
from lakehouse.sql.text import folded, quote

_AT, _START, _END = "__scd_at", "__scd_start", "__scd_end"


def as_of(
    facts: DataFrame,
    history: DataFrame,
    at: str | Column,
    keys: Names,
    *,
    start_at: str = START_AT,
    end_at: str = END_AT,
) -> DataFrame:
    """Each fact once, with the columns of its key's row that was current at `at`; NULL in them if none was.

    Args:
        facts: The facts, with the key's columns.
        history: Rows with intervals that do not overlap within a key: a result of `type2`, or a table of it.
        at: When each fact happened, in the history's sequence: a column of the facts, or an expression over them.
        keys: The columns that identify an entity, on both sides.
        start_at: The history's column with the start of the interval, which belongs to the interval.
        end_at: The column with the end, which does not; NULL: the row is current still.

    Returns:
        The columns of the facts, then those of the history without the keys and the interval.

    Raises:
        EventOptionError: A column is missing or stands on both sides, or Spark cannot resolve `at`.
    """
    function = "scd.as_of()"
    key = (keys,) if isinstance(keys, str) else tuple(keys)
    require_columns(function, "keys", key, facts.columns)
    for option, names in (("keys", key), ("start_at", (start_at,)), ("end_at", (end_at,))):
        require_columns(function, option, names, history.columns)
    own = folded([*key, start_at, end_at])
    values = [name for name in history.columns if name.lower() not in own]
    for name in values:
        if name.lower() in folded(facts.columns):
            raise EventOptionError(
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
