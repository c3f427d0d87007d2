"""Names and values in SQL text: quoted here, nowhere else."""

import re
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import TypeAlias

Literal: TypeAlias = str | bytes | int | float | bool | Decimal | date | datetime | None


_PART = re.compile(r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`.]+))\.")
"""A part of a catalog name and the dot after it."""


def fold(names: Iterable[str]) -> frozenset[str]:
    """Names in lower case, because Spark and Delta compare them without case."""
    return frozenset(name.lower() for name in names)


def quote(name: str) -> str:
    """A column or name part as a SQL identifier."""
    return f"`{name.replace('`', '``')}`"


def name_parts(name: str) -> tuple[str, ...]:
    """The parts of a catalog name, split at its dots; a part in backticks may have dots; () if it is not a name."""
    matches = list(_PART.finditer(f"{name}."))
    if "".join(part.group() for part in matches) != f"{name}.":
        return ()
    return tuple(part["quoted"].replace("``", "`") if part["quoted"] else part["plain"] for part in matches)


def quote_all(names: tuple[str, ...] | list[str], prefix: str = "") -> str:
    """Columns as a comma-separated list, each after `prefix` ("t." for example)."""
    return ", ".join(prefix + quote(name) for name in names)


_SUFFIXES = {"tinyint": "Y", "smallint": "S", "bigint": "L"}


def literal(value: Literal, kind: str = "") -> str:
    """A value as a SQL literal of its own type.

    A number, or a time without a zone, gets the type `kind`, which is the type of the column that the value belongs to.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"{value}{_SUFFIXES.get(kind, '')}"
        case Decimal() if value.is_finite():
            return f"{value}BD"
        case Decimal():
            raise ValueError(f"SQL has no decimal {value}.")
        case float() if isfinite(value):
            return f"{value!r}{'F' if kind == 'float' else 'D'}"
        case float():
            return f"CAST({literal(repr(value))} AS {'FLOAT' if kind == 'float' else 'DOUBLE'})"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime() if kind == "timestamp_ntz":
            return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
        case datetime():
            return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case str():
            # Spark replaces ${...} in a whole statement before it parses it, inside literals too.
            escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
            return f"'{escaped}'"


def own_literal(value: Literal) -> str:
    """A value as a SQL literal; a time without a zone is a TIMESTAMP_NTZ."""
    has_no_zone = isinstance(value, datetime) and value.tzinfo is None
    return literal(value, "timestamp_ntz" if has_no_zone else "")


def same(left: str, right: str, *, nulls: bool = True) -> str:
    """Equality under which two NULLs are the same; plain equality, a cheaper join, if a side has no NULL."""
    return f"{left} <=> {right}" if nulls else f"{left} = {right}"
