"""Which columns of the events a call keeps, tracks and fills: decided from the schema, before any row is read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

from lakehouse.delta.text import fold
from lakehouse.errors import WriteError

Names: TypeAlias = str | Sequence[str]
START_AT, END_AT = "__START_AT", "__END_AT"
RESERVED = "__scd_"
"""The prefix of columns that the functions use themselves."""
_UNORDERED: tuple[type[DataType], ...] = (MapType, VariantType, CalendarIntervalType)


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """All columns, those of a list, or all but those of a list."""

    option: str
    except_option: str
    only: Sequence[str] | None
    without: Sequence[str] | None

    @property
    def is_given(self) -> bool:
        return self.only is not None or self.without is not None

    def of(self, function: str, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns that are chosen from `columns`, in their order.

        Raises:
            WriteError (EVENT_OPTION): Both lists are given, or a list names a column that is not among `columns`.
        """
        if self.only is not None and self.without is not None:
            raise WriteError.event_option(
                function,
                "ONE_COLUMN_LIST",
                f"was given both {self.option} and {self.except_option}",
                "Give one of the two.",
            )
        for option, names in ((self.option, self.only), (self.except_option, self.without)):
            require_columns(function, option, names or (), columns)
        if self.only is not None:
            return tuple(name for name in columns if name.lower() in fold(self.only))
        return tuple(name for name in columns if name.lower() not in fold(self.without or ()))


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """The key and the other columns of the result, under the names that the events give them."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    schema: StructType

    @classmethod
    def of(cls, function: str, schema: StructType, keys: Names, selected: ColumnChoice) -> "ResultColumns":
        """The columns of a result, after a check that the options fit the events.

        Raises:
            WriteError (EVENT_OPTION): No key, an unknown, reserved or unselected column, or a key of a type that
                identifies nothing.
        """
        listed = (keys,) if isinstance(keys, str) else tuple(keys)
        if not listed:
            raise WriteError.event_option(function, "EMPTY_KEYS", "was given no keys", "Name the columns of the key.")
        require_columns(function, "keys", listed, schema.names)
        chosen = selected.of(function, schema.names)
        left_out = [name for name in listed if name.lower() not in fold(chosen)]
        if left_out:
            raise WriteError.event_option(
                function,
                "KEY_NOT_SELECTED",
                f"leaves out the key column {left_out[0]}",
                f"Keep it in {selected.option}, and out of {selected.except_option}.",
            )
        for name in [*chosen, *(column for column in schema.names if column.lower().startswith(RESERVED))]:
            if name.upper() in (START_AT, END_AT) or name.lower().startswith(RESERVED):
                raise WriteError.event_option(
                    function,
                    "RESERVED_COLUMN",
                    f"reads a column {name}, a name that it gives itself",
                    f"Rename the column, or leave it out with {selected.except_option}.",
                )
        for name in listed:
            _require_identity(function, next(field for field in schema.fields if field.name.lower() == name.lower()))
        is_key = fold(listed)
        return cls(
            tuple(name for name in chosen if name.lower() in is_key),
            tuple(name for name in chosen if name.lower() not in is_key),
            schema,
        )

    @property
    def names(self) -> list[str]:
        """The columns of the result, in the order of the events' columns."""
        names = {*self.keys, *self.values}
        return [name for name in self.schema.names if name in names]

    def fields(self, names: Iterable[str]) -> StructType:
        return StructType([self.schema[name] for name in names])


def require_columns(function: str, option: str, names: Iterable[str], columns: Sequence[str]) -> None:
    """Refuses a column that the events do not have.

    Raises:
        WriteError (EVENT_OPTION): A name is not among `columns`; a field within a struct is not, either.
    """
    for name in names:
        if name.lower() not in fold(columns):
            raise WriteError.event_option(
                function,
                "UNKNOWN_COLUMN",
                f"names a column {name} in {option}, and the columns to choose from are {', '.join(columns)}",
                "Correct the name; a field within a struct is not a column.",
            )


def require_order(function: str, sequence: DataType) -> None:
    """Refuses a sequence whose values have no order.

    Raises:
        WriteError (EVENT_OPTION): A part of the type cannot be compared.
    """
    if any(isinstance(kind, _UNORDERED) for kind in _parts(sequence)):
        raise WriteError.event_option(
            function,
            "UNORDERED_SEQUENCE",
            f"is to order events by a {sequence.simpleString()}, whose values have no order",
            "Give sequence_by a number, a time, a text, or a struct of such.",
        )


def _require_identity(function: str, field: StructField) -> None:
    for kind in _parts(field.dataType):
        if isinstance(kind, FloatType | DoubleType):
            raise WriteError.event_option(
                function,
                "FLOATING_POINT_KEY",
                f"has a key column {field.name} of {field.dataType.simpleString()}, whose equal values may differ",
                "Cast it to an integer, a decimal or a text.",
            )
        if isinstance(kind, _UNORDERED):
            raise WriteError.event_option(
                function,
                "UNORDERED_KEY",
                f"has a key column {field.name} of {field.dataType.simpleString()}, which identifies nothing",
                "Choose columns of numbers, texts, dates or times as the key.",
            )


def _parts(kind: DataType) -> Iterator[DataType]:
    yield kind
    match kind:
        case StructType():
            for field in kind.fields:
                yield from _parts(field.dataType)
        case ArrayType():
            yield from _parts(kind.elementType)
        case MapType():
            yield from _parts(kind.keyType)
            yield from _parts(kind.valueType)
        case _:
            pass
