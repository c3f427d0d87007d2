"""What "since last time" means."""

from dataclasses import dataclass

NOTHING_READ = -1


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions `(after, upto]` of one table: `after` exclusive, `upto` inclusive, never open-ended.

    Args:
        after: The last version read before; `NOTHING_READ` if nothing was read.
        upto: The last version of this range, pinned before anything is read.

    Raises:
        ValueError: The range ends before it starts, or starts before the first possible version.
    """

    after: int
    upto: int

    def __post_init__(self) -> None:
        if self.after < NOTHING_READ:
            raise ValueError(f"A range starts after version {NOTHING_READ} or later, not after {self.after}.")
        if self.upto < self.after:
            raise ValueError(f"The range ({self.after}, {self.upto}] ends before it starts.")

    @property
    def is_empty(self) -> bool:
        return self.upto == self.after

    def __len__(self) -> int:
        return self.upto - self.after

    def __str__(self) -> str:
        return f"({self.after}, {self.upto}]"
