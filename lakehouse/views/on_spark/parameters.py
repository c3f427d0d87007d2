"""Spark's named parameters, put into SQL text as literals: Delta's parser hands none of their values on to Spark's."""

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from lakehouse.delta.text import literal
from lakehouse.errors.views import ViewError
from lakehouse.views.sql.tokens import Token, cut, replace_tokens


def with_values(sql: str, args: Mapping[str, Any]) -> str:
    """SQL text with the value of each named parameter in its place. Texts, names and comments stay as they are."""
    return replace_tokens(sql, _values_in(sql, args)) if args else sql


def _values_in(sql: str, args: Mapping[str, Any]) -> Iterator[tuple[Token, str]]:
    """What stands in the place of the colon and of the name of each parameter; two colons are a cast."""
    sequence = tuple(cut(sql))
    for before, colon, name in zip((None, *sequence), sequence, sequence[1:], strict=False):
        is_cast = before is not None and before.is_symbol(":") and before.end == colon.start
        if colon.is_symbol(":") and colon.end == name.start and not is_cast and name.text in args:
            yield colon, " "
            yield name, f"{_value(name.text, args[name.text])} "


def _value(name: str, value: object) -> str:
    """A value as SQL."""
    if value is None or isinstance(value, str | bytes | bool | int | float | Decimal | date):
        return literal(value)
    raise ViewError(
        "VIEW_PARAMETER",
        f"The value of the parameter :{name} is a {type(value).__name__}, which is no literal of SQL",
        None,
        "Give a text, a number, a date, a datetime, a boolean, bytes or None; write a list in the text itself.",
    )
