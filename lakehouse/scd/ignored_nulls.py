"""Updates whose NULLs leave a value as it was (R14 to R18).

Each leaf of a column has the newest value that an upsert gave it since the key was last deleted, so a late event fills
the leaves that later events left NULL, and nothing from before a delete comes back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from lakehouse.delta.text import quote
from lakehouse.errors import WriteError
from lakehouse.scd.columns import ColumnChoice, ResultColumns
from lakehouse.scd.events import DELETES, NEXT, SEQUENCE, over_past

_DELETED = "__scd_deleted"


@dataclass(frozen=True, slots=True)
class NullUpdates:
    """Which columns keep their value where an update says NULL.

    Args:
        everywhere: All of them.
        choice: Those of a list, or all but those of a list.
    """

    everywhere: bool
    choice: ColumnChoice

    def columns(self, function: str, layout: ResultColumns) -> tuple[str, ...]:
        """The columns, of those that are kept and no key.

        Raises:
            WriteError (EVENT_OPTION): More than one of the options is given, or a list that is empty or names another
                column.
        """
        choice = self.choice
        if self.everywhere and choice.is_given:
            other = choice.option if choice.only is not None else choice.except_option
            raise WriteError.event_option(
                function,
                "ONE_NULL_OPTION",
                f"was given both ignore_null_updates and {other}",
                "Give one of the two.",
            )
        if choice.only is not None and not choice.only:
            raise WriteError.event_option(
                function, "EMPTY_COLUMN_LIST", f"was given an empty {choice.option}", "Leave the option out."
            )
        return choice.of(function, layout.values) if self.everywhere or choice.is_given else ()


def fill(frame: DataFrame, layout: ResultColumns, columns: tuple[str, ...]) -> DataFrame:
    """The events with each leaf of some columns as the events up to each have left it.

    Args:
        frame: Events in their order, from `in_order`.
        layout: The columns of the result.
        columns: The columns whose NULLs leave a value as it was.
    """
    if not columns:
        return frame
    kinds = {name: layout.schema[name].dataType for name in columns}
    leaves = {leaf: f"__scd_leaf_{i}" for i, leaf in enumerate(_leaves_of(kinds))}
    over = over_past(layout.keys, SEQUENCE)
    given = f"CASE WHEN NOT {DELETES} AND {{0}} IS NOT NULL THEN struct({SEQUENCE} AS at, {{0}} AS value) END"
    authored = [f"last({given.format(leaf)}, TRUE) {over} AS {alias}" for leaf, alias in leaves.items()]
    deleted = f"last(CASE WHEN {DELETES} THEN {SEQUENCE} END, TRUE) {over} AS {_DELETED}"
    filled = (
        f"{_fill(quote(name), kinds[name], leaves)} AS {quote(name)}" if name in kinds else quote(name)
        for name in layout.names
    )
    return frame.selectExpr("*", *authored, deleted).selectExpr(*filled, SEQUENCE, DELETES, NEXT)


def _leaves_of(kinds: dict[str, DataType]) -> Iterator[str]:
    for name, kind in kinds.items():
        yield from _leaves(quote(name), kind)


def _leaves(path: str, kind: DataType) -> Iterator[str]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _leaves(f"{path}.{quote(field.name)}", field.dataType)
    else:
        yield path


def _fill(path: str, kind: DataType, leaves: dict[str, str]) -> str:
    """A value of its leaves; a struct all of whose leaves are NULL is NULL (R18)."""
    if not isinstance(kind, StructType):
        alias = leaves[path]
        return f"CASE WHEN {_DELETED} IS NULL OR {alias}.at > {_DELETED} THEN {alias}.value END"
    fields = {field.name: _fill(f"{path}.{quote(field.name)}", field.dataType, leaves) for field in kind.fields}
    is_known = " OR ".join(f"({value}) IS NOT NULL" for value in fields.values())
    return f"CASE WHEN {is_known} THEN struct({', '.join(f'{v} AS {quote(n)}' for n, v in fields.items())}) END"
