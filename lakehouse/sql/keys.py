"""A set of keys as a literal predicate on a table's columns.

Literal, because only that prunes: Delta leaves out files by comparing their minimum and maximum with literals, a
list (`IN`) counts there only with its own minimum and maximum, and a join with the keys prunes nothing. So near
keys become a range each, and the ranges stand beside the list. Delta looks at a condition of its statements as
it is written, not optimized: a literal of another type than its column, or a BETWEEN, would leave out no file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from heapq import nlargest
from itertools import pairwise
from math import isnan

from lakehouse.limits import limits
from lakehouse.sql.text import Literal, literal, quote

LITERALS = frozenset(
    {
        *("tinyint", "smallint", "int", "bigint", "float", "double", "boolean"),
        *("string", "binary", "date", "timestamp", "timestamp_ntz"),
    }
)
"""Types whose values stand in SQL text exactly as they are."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    """Whether values of a type (`DataType.simpleString()`) have literals."""
    return column_type in LITERALS or column_type.startswith("decimal(")


def key_predicate(
    columns: Sequence[str], keys: Sequence[tuple[Literal, ...]], prefix: str = "", types: Sequence[str] = ()
) -> KeyPredicate:
    """The condition that a row has one of the keys; two NULLs are the same key.

    Args:
        columns: The key's columns.
        keys: Distinct keys, a value a column; every column of a type that `is_literal`.
        prefix: What stands before each column name ("t." for example).
        types: The columns' types (`DataType.simpleString()`); none where Spark optimizes the condition, and finds them.
    """
    if not keys:
        return KeyPredicate("FALSE", is_exact=True)
    types = types or [""] * len(columns)
    names = [prefix + quote(column) for column in columns]
    if len(names) == 1:
        return _of_one_column(names[0], _Values.of((key[0] for key in keys), types[0]))
    each = [_Values.of((key[i] for key in keys), kind) for i, kind in enumerate(types)]
    near = " AND ".join(f"({values.within(name)})" for name, values in zip(names, each, strict=True))
    if len(keys) > limits().listed_keys_together:
        return KeyPredicate(near, is_exact=False)
    whole = " OR ".join(f"({' AND '.join(map(_is, names, key, types))})" for key in keys)
    return KeyPredicate(f"{near} AND ({whole})", is_exact=True)


def _of_one_column(name: str, values: "_Values") -> KeyPredicate:
    if values.are_whole:
        return KeyPredicate(values.within(name), is_exact=True)
    if len(values.not_null) <= limits().key_ranges:
        return KeyPredicate(values.listed(name), is_exact=True)
    if len(values.not_null) <= limits().listed_keys:
        return KeyPredicate(f"({values.within(name)}) AND ({values.listed(name)})", is_exact=True)
    return KeyPredicate(values.within(name), is_exact=False)


@dataclass(frozen=True, slots=True)
class _Values:
    """The distinct values of one column: the values that are not NULL in Spark's order, and a few ranges over them."""

    not_null: Sequence[Literal]
    ranges: Sequence[tuple[Literal, Literal]]
    null: bool
    kind: str

    @classmethod
    def of(cls, values: Iterable[Literal], kind: str) -> "_Values":
        distinct = set(values)
        not_null = sorted(distinct - {None}, key=_order)
        return cls(not_null, _ranges(not_null), None in distinct, kind)

    @property
    def are_whole(self) -> bool:
        """Whether the ranges hold no other value, as for consecutive days or numbers."""
        return sum(_count(low, high) for low, high in self.ranges) == len(self.not_null)

    def within(self, name: str) -> str:
        terms = [
            _is(name, low, self.kind)
            if low == high
            else f"({name} >= {literal(low, self.kind)} AND {name} <= {literal(high, self.kind)})"
            for low, high in self.ranges
        ]
        return " OR ".join([*terms, f"{name} IS NULL"] if self.null else terms)

    def listed(self, name: str) -> str:
        few = len(self.not_null) <= limits().key_ranges
        values = [literal(value, self.kind) for value in self.not_null]
        terms = [f"{name} = {value}" for value in values] if few else [f"{name} IN ({', '.join(values)})"]
        return " OR ".join([*terms, f"{name} IS NULL"] if self.null else terms)


def _is(name: str, value: Literal, kind: str) -> str:
    return f"{name} IS NULL" if value is None else f"{name} = {literal(value, kind)}"


def _count(low: Literal, high: Literal) -> int:
    """How many values a range can hold; 0 if they cannot be counted."""
    if isinstance(low, datetime) or isinstance(high, datetime):
        return 0
    if isinstance(low, date) and isinstance(high, date):
        return high.toordinal() - low.toordinal() + 1
    if isinstance(low, int) and isinstance(high, int):
        return high - low + 1
    return 0


def _ranges(values: Sequence[Literal]) -> list[tuple[Literal, Literal]]:
    """At most `key_ranges` ranges over sorted values, separated at the widest gaps between neighbours."""
    if not values:
        return []
    gaps = ((gap, -index) for index, gap in enumerate(_gaps(values), 1) if gap > 1)
    cuts = [0, *sorted(-index for _, index in nlargest(limits().key_ranges - 1, gaps)), len(values)]
    return [(values[start], values[end - 1]) for start, end in pairwise(cuts)]


def _gaps(values: Sequence[Literal]) -> list[float]:
    """How far neighbours are apart; of texts and binaries only that they are, so the first ones are cut."""
    numbers = [_number(value) for value in values]
    return [2.0 if low is None or high is None else high - low for low, high in pairwise(numbers)]


def _number(value: Literal) -> float | None:
    match value:
        case datetime():
            return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH).total_seconds()
        case date():
            return value.toordinal()
        case int() | float() | Decimal():
            return float(value)
        case _:
            return None


def _order(value: Literal) -> tuple[bool, object]:
    """Spark's order: numbers, times and binaries by value, NaN after all others, texts by their UTF-8 bytes."""
    if isinstance(value, float) and isnan(value):
        return True, 0.0
    return False, value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
