"""Which keys one check compares: a part of them, by a hash of the key, and another part the next time."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Self, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.frames.types import comparable
from lakehouse.sql.text import folded

Sample: TypeAlias = int | float | None
"""How many keys a check compares, about; or the share of them; None: all keys of a table that is not large."""
LARGE = 10_000_000
"""Rows above which a table is compared by a sample, if nobody said how large the sample is."""
OF_LARGE = 1_000_000
"""About so many keys of a large table are compared at once."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the parts into which a hash of the key divides all keys, those that no table has among them.

    The part is a predicate on the key alone. Whatever an asset computes, the rows of its result that satisfy the
    predicate are therefore all the rows that the table must hold of the keys in the part.

    Args:
        number: Which part, from 0.
        of: How many parts there are.
    """

    number: int = 0
    of: int = 1

    def following(self, of: int) -> Self:
        """The part that is compared after this one was right: so many checks in a row compare each key once.

        Args:
            of: How many parts there are now.
        """
        return replace(self, number=(self.number + 1) % of, of=of)

    def again(self, of: int) -> Self:
        """The part that is compared after this one was wrong: the same, for as long as there are as many parts."""
        return replace(self, number=self.number % of, of=of)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """What `str` gave; None for another text."""
        number, _, of = text.partition(" of ")
        return cls(int(number) - 1, int(of)) if number.isdecimal() and of.isdecimal() and int(of) else None

    @property
    def is_all(self) -> bool:
        return self.of == 1

    def holds(self, key: Iterable[str], schema: StructType) -> Column:
        """The condition that a row's key is in the part.

        Equal keys have equal hashes on both sides of a comparison if both have these types.

        Args:
            key: The key's columns.
            schema: The columns of the table, and of the result that was fitted to them.
        """
        texts = {name.lower(): text for name, text in comparable(schema).items()}
        columns = [F.expr(texts[column]) for column in sorted(folded(key))]
        return F.pmod(F.xxhash64(*columns), F.lit(self.of)) == self.number

    def __str__(self) -> str:
        return f"{self.number + 1} of {self.of}"


def parts(rows: int, sample: Sample) -> int:
    """Into how many parts the keys of a table are divided.

    By a number of keys the parts are a power of two, so that a growing table keeps them for as long as possible: each
    key comes after as many checks as there are parts.

    Args:
        rows: How many rows the table has.
        sample: How many keys are compared at once, or their share.
    """
    match sample:
        case float():
            return ceil(1 / sample)
        case int():
            return _power_of_two(rows / sample)
        case None:
            return _power_of_two(rows / OF_LARGE) if rows > LARGE else 1


def _power_of_two(least: float) -> int:
    return 1 << max(0, ceil(least) - 1).bit_length()
