"""How many rows change."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows a commit inserted, updated and deleted; None if it does not say."""

    inserted: int | None
    updated: int | None
    deleted: int | None

    def __str__(self) -> str:
        parts = [
            f"{count if count is not None else '?'} {name}"
            for name, count in (("inserted", self.inserted), ("updated", self.updated), ("deleted", self.deleted))
            if count != 0
        ]
        return ", ".join(parts) or "none"

    @property
    def total(self) -> int:
        """The sum of the counts that are known."""
        return sum(count or 0 for count in (self.inserted, self.updated, self.deleted))

    @property
    def images(self) -> int | None:
        """How many rows of the feed describe these changes; None if a count is not known."""
        if self.inserted is None or self.updated is None or self.deleted is None:
            return None
        return self.inserted + 2 * self.updated + self.deleted

    def __add__(self, other: "Rows") -> "Rows":
        def add(a: int | None, b: int | None) -> int | None:
            return None if a is None or b is None else a + b

        return Rows(
            add(self.inserted, other.inserted), add(self.updated, other.updated), add(self.deleted, other.deleted)
        )


NO_ROWS = Rows(0, 0, 0)


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 row", "2,000 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
