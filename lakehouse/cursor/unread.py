"""What a table has not read of a source, by the logs of both: the one answer for a run, the sensor and the checks."""

from dataclasses import dataclass

from lakehouse.cursor.mark import Position
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log, commits_between

DAY = 24 * 60 * 60 * 1000
"""Milliseconds. Delta keeps 30 days of a log unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Unread:
    """How far a table has read one source, and what is left.

    Args:
        source: The source's name.
        position: How far it has read.
        head: Where the source stands.
        commits: The unread commits, oldest first, those without rows among them; None where the log no longer has all
            the commits after the position. Empty where the source is replaced or behind.
    """

    source: str
    position: Position
    head: Head
    commits: tuple[Commit, ...] | None

    @property
    def is_replaced(self) -> bool:
        """Whether another table stands where the table that was read stood."""
        return self.position.table != self.head.table_id

    @property
    def is_behind(self) -> bool:
        """Whether the source stands before the position: it was restored from a backup, or copied over."""
        return not self.is_replaced and self.position.version > self.head.version

    @property
    def changes(self) -> tuple[Commit, ...] | None:
        """The unread commits that may have changed a row; None where the log cannot tell."""
        return None if self.commits is None else tuple(commit for commit in self.commits if not commit.is_quiet)

    @property
    def versions(self) -> int:
        """How many unread versions may have changed a row; all of them where the log cannot tell."""
        changes = self.changes
        return max(0, self.head.version - self.position.version) if changes is None else len(changes)

    @property
    def since(self) -> int | None:
        """When the oldest unread change was committed, in milliseconds since the epoch; None where there is none."""
        return min((commit.timestamp for commit in self.changes or ()), default=None)

    def expires(self, now: int) -> bool:
        """Whether log cleanup could reach the commits after the position some day, although none of them has rows.

        Args:
            now: Milliseconds since the epoch.
        """
        return expires(self.commits or (), now)


def expires(commits: tuple[Commit, ...], now: int) -> bool:
    """Whether commits that were read have stood behind a position for a day, so that it should be put down again.

    Args:
        commits: The commits after the position, oldest first.
        now: Milliseconds since the epoch.
    """
    return bool(commits) and now - commits[0].timestamp > DAY


def unread(log: Log, source: str, position: Position, head: Head | None = None) -> Unread | None:
    """What a table that stands at a position has not read of a source; None where the source is not there.

    Args:
        log: The log of the source.
        source: Its name.
        position: How far it has been read.
        head: Where the source stands; the log is asked if None.

    Raises:
        UnreadableLogError: A commit in the middle of the range is missing, or the log cannot be read.
    """
    head = log.head() if head is None else head
    if head is None:
        return None
    if position.table != head.table_id or position.version > head.version:
        return Unread(source, position, head, ())
    return Unread(source, position, head, commits_between(log, source, position.version, head.version))
