"""How much tables hold."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """What the files of a table hold, rows that were deleted from them included."""

    rows: int
    bytes: int
    files: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.rows + other.rows, self.bytes + other.bytes, self.files + other.files)

    def fits(self, most: "Size") -> bool:
        """Whether it is no more than `most` in either way."""
        return self.rows <= most.rows and self.bytes <= most.bytes


def total(sizes: Sequence[Size | None]) -> Size | None:
    """All of them together; None where there is none, or one is not known."""
    present = [size for size in sizes if size is not None]
    return sum(present, Size(0, 0)) if present and len(present) == len(sizes) else None
