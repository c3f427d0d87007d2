"""A set of keys as a literal predicate on a table's columns.

The predicate is literal because only literals prune. Delta leaves out files by comparing their minimum and maximum with
literals; it uses only the minimum and maximum of a list (`IN`), and a join with the keys prunes nothing. So keys that
are close together become a range, and the ranges are added to the list. Delta looks at the condition of a statement as
written, before any optimization: a literal of another type than its column, or a BETWEEN, would leave out no file.
"""

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from heapq import nlargest
from itertools import count, islice, pairwise
from math import isnan

from lakehouse.delta.limits import limits
from lakehouse.delta.text import Literal, literal, quote

LITERALS = frozenset(
    {
        *("tinyint", "smallint", "int", "bigint", "float", "double", "boolean"),
        *("string", "binary", "date", "timestamp", "timestamp_ntz"),
    }
)
"""Types whose values can be written exactly as SQL literals."""
_BOUNDS = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1)
    for kind, bits in {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}.items()
}
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


@dataclass(frozen=True, slots=True)
class KeySet:
    """Distinct keys of some columns, for conditions on any relation with these columns.

    Args:
        columns: The key's columns.
        keys: The keys, each with one value per column.
        values: The distinct values of each column.
    """

    columns: Sequence[str]
    keys: Sequence[tuple[Literal, ...]]
    values: Sequence["_Values"]

    @classmethod
    def of(cls, columns: Sequence[str], keys: Sequence[tuple[Literal, ...]], types: Sequence[str] = ()) -> "KeySet":
        """A set of distinct keys; `types` are the types of the columns, where they are known."""
        kinds = types or [""] * len(columns)
        return cls(columns, keys, [_Values.of((key[i] for key in keys), kind) for i, kind in enumerate(kinds)])

    def predicate(self, prefix: str = "") -> KeyPredicate:
        """The condition that a row has one of the keys; two NULLs are the same key."""
        return self.predicate_on([prefix + quote(column) for column in self.columns])

    def predicate_on(self, names: Sequence[str]) -> KeyPredicate:
        """The condition that the values of SQL expressions are one of the keys; two NULLs are the same key."""
        if not self.keys:
            return KeyPredicate("FALSE", is_exact=True)
        if len(names) == 1:
            return self.values[0].predicate(names[0])
        near = " AND ".join(f"({values.within(name)})" for name, values in zip(names, self.values, strict=True))
        listed = self._as_lists(names) if len(self.keys) <= limits().listed_keys else None
        return KeyPredicate(near if listed is None else f"{near} AND ({listed})", is_exact=listed is not None)

    def _as_lists(self, names: Sequence[str]) -> str | None:
        """The keys as a list of the column with the most values, for each combination of the others; None if many.

        Spark looks a value up in a list, and it compiles the same code whatever the listed values are.
        """
        *others, last = sorted(range(len(names)), key=lambda place: len(self.values[place].not_null))
        lists: dict[tuple[Literal, ...], list[Literal]] = {}
        for key in self.keys:
            lists.setdefault(tuple(key[place] for place in others), []).append(key[last])
        if len(lists) > limits().listed_keys_together:
            return None
        kinds = [values.kind for values in self.values]
        return " OR ".join(
            " AND ".join(
                [
                    *(_is(names[place], value, kinds[place]) for place, value in zip(others, same, strict=True)),
                    f"({_is_one_of(names[last], listed, kinds[last])})",
                ]
            )
            for same, listed in lists.items()
        )


@dataclass(frozen=True, slots=True)
class _Values:
    """The distinct values of one column: the values that are not NULL in Spark's order, and a few ranges over them."""

    not_null: Sequence[Literal]
    ranges: Sequence[tuple[Literal, Literal]]
    are_whole: bool
    """Whether the ranges contain no other values, as with consecutive days or numbers, or with few values."""
    null: bool
    kind: str

    @classmethod
    def of(cls, values: Iterable[Literal], kind: str) -> "_Values":
        distinct = set(values)
        not_null = sorted(distinct - {None}, key=_order)
        whole = _whole_ranges(not_null)
        ranges = [_round_ends(*ends, kind) for ends in _wide_ranges(not_null)] if whole is None else whole
        return cls(not_null, ranges, whole is not None, None in distinct, kind)

    def predicate(self, name: str) -> KeyPredicate:
        if self.are_whole:
            return KeyPredicate(self.within(name), is_exact=True)
        if len(self.not_null) <= limits().listed_keys:
            values = [*self.not_null, None] if self.null else self.not_null
            return KeyPredicate(f"({self.within(name)}) AND ({_is_one_of(name, values, self.kind)})", is_exact=True)
        return KeyPredicate(self.within(name), is_exact=False)

    def within(self, name: str) -> str:
        return self._or_null(
            name,
            (
                _is(name, low, self.kind)
                if low is high or low == high
                else f"({name} >= {literal(low, self.kind)} AND {name} <= {literal(high, self.kind)})"
                for low, high in self.ranges
            ),
        )

    def _or_null(self, name: str, terms: Iterable[str]) -> str:
        return " OR ".join([*terms, f"{name} IS NULL"] if self.null else terms)


def _is(name: str, value: Literal, kind: str) -> str:
    return f"{name} IS NULL" if value is None else f"{name} = {literal(value, kind)}"


def _is_one_of(name: str, values: Sequence[Literal], kind: str) -> str:
    """The condition that a column has one of the values: IN, = for a single value, and IS NULL for NULL."""
    match listed := [value for value in values if value is not None]:
        case []:
            terms = []
        case [value]:
            terms = [_is(name, value, kind)]
        case _:
            terms = [f"{name} IN ({', '.join(literal(value, kind) for value in listed)})"]
    return " OR ".join([*terms, f"{name} IS NULL"] if len(listed) < len(values) else terms)


def _whole_ranges(values: Sequence[Literal]) -> list[tuple[Literal, Literal]] | None:
    """The ranges that hold exactly these sorted values; None if that takes more than `key_ranges` ranges."""
    ends = (i for i, (low, high) in enumerate(pairwise(values), 1) if not _are_neighbours(low, high))
    cuts = list(islice(ends, limits().key_ranges))
    return _ranges(values, cuts) if len(cuts) < limits().key_ranges else None


def _wide_ranges(values: Sequence[Literal]) -> list[tuple[Literal, Literal]]:
    """At most `key_ranges` ranges over sorted values, separated at the widest gaps between neighbours.

    A gap separates two ranges only if it is wide compared with the range around it. Narrow gaps would leave out few
    rows.
    """
    numbers = [_number(value) for value in values]
    # How far two texts are apart is not known, so all gaps count the same and the first texts are cut off.
    gaps = (2.0 if low is None or high is None else high - low for low, high in pairwise(numbers))
    cuts: list[int] = []
    for gap, index in nlargest(limits().key_ranges - 1, zip(gaps, count(-1, -1), strict=False)):
        place = bisect(cuts, -index)
        low = numbers[cuts[place - 1] if place else 0]
        high = numbers[(cuts[place] if place < len(cuts) else len(values)) - 1]
        if low is None or high is None or gap * limits().gap_parts >= high - low:
            cuts.insert(place, -index)
    return _ranges(values, cuts)


def _ranges(values: Sequence[Literal], cuts: Sequence[int]) -> list[tuple[Literal, Literal]]:
    """The first and the last value of each part of the values, which begins at a cut."""
    ends = [0, *cuts, len(values)] if values else []
    return [(values[start], values[end - 1]) for start, end in pairwise(ends)]


def _round_ends(low: Literal, high: Literal, kind: str) -> tuple[Literal, Literal]:
    """A range of numbers with rounded ends, so that different sets of scattered keys mostly have the same range.

    The ends are part of the code that Spark generates, and Spark does not compile the same code again (ADR 39).
    """
    if not (isinstance(low, int) and isinstance(high, int)) or low == high:
        return low, high
    step = 1 << max(0, ((high - low) // limits().end_parts).bit_length())
    least, most = _BOUNDS.get(kind, _BOUNDS["bigint"])
    return max(least, low // step * step), min(most, (high // step + 1) * step - 1)


def _are_neighbours(low: Literal, high: Literal) -> bool:
    """Whether no value of their type lies between the two."""
    if isinstance(low, datetime) or isinstance(high, datetime):
        return False
    if isinstance(low, date) and isinstance(high, date):
        return high.toordinal() - low.toordinal() == 1
    return isinstance(low, int) and isinstance(high, int) and high - low == 1


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
