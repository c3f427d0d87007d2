"""How one input is read: the options of `dg.AssetIn(metadata=Read(...))`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from lakehouse.delta.table import Declared


@dataclass(frozen=True, slots=True)
class Read(Declared):
    """Options of one input.

    Args:
        start: Where a first read starts. `"snapshot"`: the whole source as inserts. A version: the changes
            after it. A timestamp: the changes committed after it; one without a time zone is in UTC, wherever it runs.
        clamp: Whether a start outside the source's available history means the closest available version instead of
            an error.
        max_versions: At most so many versions in one run, those without rows and those left out not counted; the
            rest is the next run's.
        max_bytes: At most so many bytes of changes in one run, by what the same commits say they wrote. A commit
            is never split, so one larger commit is read alone.
        exclude_operations: Operations whose commits are left out whole (`"DELETE"`).
        exclude_metadata: Texts; a commit whose `userMetadata` contains one of them is left out whole.
        archive: The asset that keeps this source's feed (`Append(changes.log())`): read where the feed itself
            can no longer answer.

    Raises:
        ValueError: A limit below one, or a start that is neither a snapshot, a version nor a time.
    """

    _PREFIX: ClassVar[str] = "lakehouse/read/"
    start: Literal["snapshot"] | int | datetime | str = "snapshot"
    clamp: bool = False
    max_versions: int | None = None
    max_bytes: int | None = None
    exclude_operations: tuple[str, ...] = ()
    exclude_metadata: tuple[str, ...] = ()
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
        for name in ("exclude_operations", "exclude_metadata"):
            given: str | tuple[str, ...] = getattr(self, name)
            texts = (given,) if isinstance(given, str) else tuple(given)
            if not all(text.strip() for text in texts):
                raise ValueError(f"{name} holds an empty text, which is in every commit.")
            object.__setattr__(self, name, texts)
        for name in ("max_versions", "max_bytes"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name} is at least 1, not {limit}.")
        self._keep()

    @property
    def is_whole(self) -> bool:
        """Whether every change of the source is read sooner or later: the read has no late start and no exclusions."""
        return self.start == "snapshot" and not self.excludes

    @property
    def excludes(self) -> bool:
        """Whether the options leave out commits."""
        return bool(self.exclude_operations or self.exclude_metadata)

    def leaves_out(self, operation: str, metadata: str | None) -> bool:
        """Whether a commit is left out.

        Args:
            operation: The commit's operation, as the log names it.
            metadata: The commit's `userMetadata`; None if it has none.
        """
        return operation in self.exclude_operations or any(text in (metadata or "") for text in self.exclude_metadata)


def _is_start(value: Any) -> bool:
    return isinstance(value, int | datetime | str) and not isinstance(value, bool)


def _timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"start is 'snapshot', a version or an ISO timestamp, not {text!r}.") from error
