"""What a check found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self, TypeAlias

from lakehouse.log.rows import counted

Figure: TypeAlias = str | int | float
DIFFERING = "differing"
"""The figure of a comparison with a recompute: how many keys or rows differ."""
SHOWN = 20
"""At most so many records of a kind are shown, be they keys, commits or partitions."""


class Grade(Enum):
    """How a check ended. WARNS: something is to be looked at, or could not be told. FAILED: something is wrong."""

    PASSED = "passed"
    WARNS = "warns"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of one table.

    Args:
        grade: How it ended.
        sentence: What was found, in one sentence or a few.
        figures: Numbers and short texts by name; numbers are plotted over time.
        records: A table of details, each record with the same columns; empty where there are none.
    """

    grade: Grade
    sentence: str
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    records: tuple[Mapping[str, Figure], ...] = ()

    @classmethod
    def unavailable(cls, why: str) -> Self:
        """The finding of a check that cannot be made now."""
        return cls(Grade.WARNS, why)


def lasting(seconds: float) -> str:
    """A duration in its largest unit: "40 seconds", "3 hours", "12 days"."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return counted(int(seconds // size), unit)
    return counted(max(0, int(seconds)), "second")
