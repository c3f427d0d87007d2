"""What one table has not read of one source, by the logs of both."""

from dataclasses import dataclass

from lakehouse.cursor.mark import Position
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log, commits_between


@dataclass(frozen=True, slots=True)
class Unread:
    """How far a table has read one source, and what is left.

    Args:
        source: The source's name.
        position: How far it has read.
        head: Where the source stands.
        commits: The unread commits that may have changed a row, oldest first; None where the log no longer has all the
            commits after the position.
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
    def versions(self) -> int:
        """How many unread versions may have changed a row; all of them where the log cannot tell."""
        return max(0, self.head.version - self.position.version) if self.commits is None else len(self.commits)

    @property
    def since(self) -> int | None:
        """When the oldest unread change was committed, in milliseconds since the epoch; None where there is none."""
        return min((commit.timestamp for commit in self.commits), default=None) if self.commits else None


def unread(log: Log, source: str, position: Position) -> Unread | None:
    """What a table that stands at a position has not read of a source; None where the source is not there.

    Raises:
        UnreadableLogError: A commit in the middle of the range is missing, or the log cannot be read.
    """
    head = log.head()
    if head is None:
        return None
    if position.table != head.table_id or position.version > head.version:
        return Unread(source, position, head, ())
    commits = commits_between(log, source, position.version, head.version)
    loud = None if commits is None else tuple(commit for commit in commits if not commit.is_quiet)
    return Unread(source, position, head, loud)
