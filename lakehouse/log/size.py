"""How much tables hold."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """What the files of a table hold, with the rows that deletion vectors hide."""

    rows: int
    bytes: int
    files: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.rows + other.rows, self.bytes + other.bytes, self.files + other.files)

    def fits(self, most: "Size") -> bool:
        """Whether neither rows nor bytes exceed `most`."""
        return self.rows <= most.rows and self.bytes <= most.bytes


def total(sizes: Sequence[Size | None]) -> Size | None:
    """The sum of the sizes; None if there are none, or if one of them is not known."""
    present = [size for size in sizes if size is not None]
    return sum(present, Size(0, 0)) if present and len(present) == len(sizes) else None
