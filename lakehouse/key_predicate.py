"""A set of keys as a literal predicate on a table's columns.

Literal, because only that prunes: Delta leaves out files by comparing their minimum and maximum with literals, a
list (`IN`) counts there only with its own minimum and maximum, and a join with the keys prunes nothing. So near
keys become a range each, and the ranges stand beside the list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise

from lakehouse.sql import Literal, literal, quote

RANGES = 16
"""At most so many ranges a column: each is looked at for every file of the table."""
LISTED = 1_000
"""At most so many keys are listed; of more only the ranges are said."""
LISTED_TOGETHER = 100
"""The same for keys of several columns, which Spark compares one after the other."""

LITERALS = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})
"""Types whose values stand in SQL text exactly as they are, and are equal just where their texts are."""


@dataclass(frozen=True, slots=True)
class KeyPredicate:
    """A condition that holds for every row with one of the keys.

    Args:
        sql: The condition.
        is_exact: Whether it holds for no other row; if not, the rows have to be joined with the keys as well.
    """

    sql: str
    is_exact: bool


def is_literal(column_type: str) -> bool:
    """Whether values of a type (`DataType.simpleString()`) can be said as literals."""
    return column_type in LITERALS or column_type.startswith("decimal(")


def key_predicate(columns: Sequence[str], keys: Sequence[tuple[Literal, ...]], prefix: str = "") -> KeyPredicate:
    """The condition that a row has one of the keys; two NULLs are the same key.

    Args:
        columns: The key's columns.
        keys: Distinct keys, a value a column; every column of a type that `is_literal`.
        prefix: What stands before each column name ("t." for example).
    """
    if not keys:
        return KeyPredicate("FALSE", is_exact=True)
    names = [prefix + quote(column) for column in columns]
    if len(names) == 1:
        values = [key[0] for key in keys]
        near = _within_ranges(names[0], values)
        if len(values) <= RANGES:
            return KeyPredicate(_listed(names[0], values), is_exact=True)
        if len(values) <= LISTED:
            return KeyPredicate(f"({near}) AND ({_listed(names[0], values)})", is_exact=True)
        return KeyPredicate(near, is_exact=False)
    near = " AND ".join(
        f"({_within_ranges(name, list(dict.fromkeys(key[i] for key in keys)))})" for i, name in enumerate(names)
    )
    if len(keys) > LISTED_TOGETHER:
        return KeyPredicate(near, is_exact=False)
    whole = " OR ".join(f"({' AND '.join(map(_is, names, key))})" for key in keys)
    return KeyPredicate(f"{near} AND ({whole})", is_exact=True)


def _is(name: str, value: Literal) -> str:
    return f"{name} IS NULL" if value is None else f"{name} = {literal(value)}"


def _listed(name: str, values: list[Literal]) -> str:
    known = sorted({value for value in values if value is not None}, key=_order)
    if len(known) <= RANGES:
        terms = [_is(name, value) for value in known]
    else:
        terms = [f"{name} IN ({', '.join(literal(value) for value in known)})"]
    if None in values:
        terms.append(f"{name} IS NULL")
    return " OR ".join(terms)


def _within_ranges(name: str, values: list[Literal]) -> str:
    known = sorted({value for value in values if value is not None}, key=_order)
    terms = [
        f"{name} = {literal(low)}" if low == high else f"{name} BETWEEN {literal(low)} AND {literal(high)}"
        for low, high in _ranges(known)
    ]
    if None in values:
        terms.append(f"{name} IS NULL")
    return " OR ".join(terms)


def _ranges(values: Sequence[Literal]) -> list[tuple[Literal, Literal]]:
    """At most `RANGES` ranges over sorted values, apart where the gaps between neighbours are widest."""
    if not values:
        return []
    gaps = [index for index in range(1, len(values)) if _gap(values[index - 1], values[index]) > 1]
    gaps.sort(key=lambda index: -_gap(values[index - 1], values[index]))
    cuts = [0, *sorted(gaps[: RANGES - 1]), len(values)]
    return [(values[start], values[end - 1]) for start, end in pairwise(cuts)]


def _gap(low: Literal, high: Literal) -> float:
    """How far two neighbours are apart; of texts only that they are, so the first ones are cut."""
    if isinstance(low, date) and isinstance(high, date):
        return float(high.toordinal() - low.toordinal())
    if isinstance(low, int | Decimal) and isinstance(high, int | Decimal):
        return float(high) - float(low)
    return 2.0


def _order(value: Literal) -> tuple[str, object]:
    """Spark's order: numbers and dates by value, texts by their UTF-8 bytes."""
    return ("", value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else ("", value)
