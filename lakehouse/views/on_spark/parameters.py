"""Spark's named parameters, put into SQL text as literals: Delta's parser hands none of their values on to Spark's."""

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from lakehouse.delta.text import literal
from lakehouse.errors.views import ViewError

_TOKEN = re.compile(
    r"""(?<!\w)[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`"""
    r"""|--[^\n]*|/\*.*?\*/|::|:(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL,
)
"""What may hold a colon: texts, quoted names, comments, a cast; and a parameter."""


def with_values(sql: str, args: Mapping[str, Any]) -> str:
    """SQL text with the value of each named parameter in its place. Texts, names and comments stay as they are."""

    def value(token: re.Match[str]) -> str:
        name = token["name"]
        return token[0] if name is None or name not in args else f" {_value(name, args[name])} "

    return _TOKEN.sub(value, sql) if args else sql


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
