"""What a range of changes holds: the whole source, nothing, or the change data feed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField

from lakehouse.frames.driver_rows import Local, is_empty
from lakehouse.frames.exactness import inexact_in
from lakehouse.log.commit_info import Commit


@dataclass(frozen=True, slots=True)
class Everything:
    """The whole source counts as inserted: a first read, or a comparison of everything.

    Args:
        reason: Why the known position is not continued; None at a first read.
        newest: The commit of the version that is read; None if it was cleaned up.
    """

    reason: str | None = None
    newest: Commit | None = None

    @property
    def committed(self) -> int:
        """When the version that is read was committed, in milliseconds since the epoch."""
        return 0 if self.newest is None else self.newest.timestamp


@dataclass(frozen=True, slots=True)
class Nothing:
    """No row changed in the range.

    Args:
        since: The digest of the commit that was read last; None if it is not known.
    """

    since: str | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """The change data feed of the range.

    Args:
        rows: The rows that changed, with the feed's three columns; at the driver if they are few.
        via: How they were read if the plain feed could not answer; None if it could.
        commits: The commits that were read; none if an archive has them.
        archived: Whether the rows come from an archive, and not from Delta's feed.
        newest: The commit at the end of the range, if an archive has the range; None if that was cleaned up.
    """

    rows: DataFrame | Local
    via: str | None = None
    commits: tuple[Commit, ...] = ()
    archived: bool = False
    newest: Commit | None = None

    @property
    def frame(self) -> DataFrame:
        return self.rows.frame if isinstance(self.rows, Local) else self.rows


def tells_otherwise(feed: Feed, columns: Iterable[StructField]) -> bool:
    """Whether the feed has a value in one of the columns that may be another one in the table.

    A key that is computed of such a value may be a key that no row has.
    """
    inexact = inexact_in(columns)
    return inexact is not None and not is_empty(feed.frame.where(inexact))


Content: TypeAlias = Everything | Nothing | Feed
