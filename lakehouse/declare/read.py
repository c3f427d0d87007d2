"""How one input is read: the options of `dg.AssetIn(metadata=Read(...))`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from lakehouse.declare.metadata import Declared


@dataclass(frozen=True, slots=True)
class Read(Declared):
    """Options of one input.

    Args:
        start: Where a first read starts. `"snapshot"`: the whole source as inserts. A version: the changes
            after it. A timestamp: the changes committed after it; one without a time zone is in UTC, wherever it runs.
        tolerant: Whether a start behind the source's history, or before what is left of it, means its nearest end
            instead of an error.
        max_versions: At most so many versions in one run, those without rows and those left out not counted; the
            rest is the next run's.
        max_bytes: At most so many bytes of changes in one run, by what the same commits say they wrote. A commit
            is never split, so one larger commit is read alone.
        exclude: Commits to leave out, whole, by their operation (`"DELETE"`) or by a text in their
            `userMetadata` (`"mark:backfill"`).
        archive: The asset that keeps this source's feed (`Append(changes.log())`): read where the feed itself
            can no longer answer.

    Raises:
        ValueError: A limit below one, or a start that is neither a snapshot, a version nor a time.
    """

    _PREFIX: ClassVar[str] = "lakehouse/read/"
    start: Literal["snapshot"] | int | datetime | str = "snapshot"
    tolerant: bool = False
    max_versions: int | None = None
    max_bytes: int | None = None
    exclude: tuple[str, ...] = ()
    archive: str | None = None
    _stored: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.start, str) and self.start != "snapshot":
            object.__setattr__(self, "start", _timestamp(self.start))
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            object.__setattr__(self, "start", self.start.replace(tzinfo=UTC))
        if not _is_start(self.start):
            raise ValueError(f"start is 'snapshot', a version or a timestamp, not {self.start!r}.")
        if isinstance(self.start, int) and self.start < 0:
            raise ValueError(f"start is a version from 0, not {self.start}.")
        if isinstance(self.exclude, str):
            object.__setattr__(self, "exclude", (self.exclude,))
        object.__setattr__(self, "exclude", tuple(self.exclude))
        if any(not rule.removeprefix("mark:").strip() for rule in self.exclude):
            raise ValueError("exclude names an operation, or 'mark:' and a text; an empty text is in every commit.")
        for name in ("max_versions", "max_bytes"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name} is at least 1, not {limit}.")
        self._keep()

    @property
    def is_whole(self) -> bool:
        """Whether every change of the source is read, sooner or later: none is before the start, none left out."""
        return self.start == "snapshot" and not self.exclude


def _is_start(value: Any) -> bool:
    return isinstance(value, int | datetime | str) and not isinstance(value, bool)


def _timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"start is 'snapshot', a version or an ISO timestamp, not {text!r}.") from error
