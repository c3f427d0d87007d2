"""What each partition of a table has not read of a source, and which commits are worth a run of it."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from lakehouse.cursor.cursor import Cursor, Lost
from lakehouse.cursor.unread import Backlog, Unread, backlog
from lakehouse.follow.partitions import SourcePartitions
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import FileSchema, Head, Log
from lakehouse.log.size import Size


def backlogs_by_partition(
    cursors: Mapping[str, Cursor],
    log: Log,
    name: str,
    head: Head,
    partitions: SourcePartitions,
    *,
    refuses_gaps: bool,
) -> Mapping[str, tuple[Backlog, Commit | None]]:
    """What each partition has not read of a source: the commits that may have changed its rows. Each is read once.

    Args:
        cursors: How far each partition has read.
        log: The log of the source.
        name: The source's name.
        head: Where it stands.
        partitions: To which partitions its rows belong.
        refuses_gaps: Whether a run refuses a gap.

    Returns:
        Of each partition, and the last commit that makes another run worth while if all of the source is to be read:
        that changed its rows, as far as that is known. A run that refuses a gap refuses it whatever the source commits.
    """
    walked, by_cursor = _Walked(log), dict[int, Backlog]()
    for cursor in cursors.values():  # many partitions may have one
        if id(cursor) not in by_cursor:
            by_cursor[id(cursor)] = backlog(cursor, walked, name, head)
    ranges = [each.commits or () for each in by_cursor.values() if reads_on(each)]
    if len(ranges) < len(by_cursor):
        ranges.append(tuple(reversed(list(recent(walked, head)))))
    with_rows = list(filter(has_rows, max(ranges, key=len, default=())))
    changed = partitions.changed_by(with_rows)
    backlogs = dict[str, tuple[Backlog, Commit | None]]()
    for partition, cursor in cursors.items():
        unread_part, newest = by_cursor[id(cursor)], None
        commits = with_rows if changed is None else changed.get(partition, ())
        if reads_on(unread_part):
            first = bisect_right(commits, unread_part.position.version, key=_version)
            unread_part = replace(unread_part, commits=tuple(commits[first:]))
        elif commits and not (refuses_gaps and (isinstance(cursor, Lost) or isinstance(unread_part, Unread))):
            newest = commits[-1]
        backlogs[partition] = (unread_part, newest)
    return backlogs


def reads_on(backlog: Backlog) -> TypeGuard[Unread]:
    """Whether the next run reads on from a position, commit by commit; otherwise it reads all, or refuses."""
    return isinstance(backlog, Unread) and backlog.gap is None


RECENT = 30
"""So many of the newest commits of a source are searched for the last commit with rows of a partition."""


def recent(log: Log, head: Head) -> Iterator[Commit]:
    """The newest commits of a source, the newest first."""
    return log.commits(head.version, max(0, head.version - RECENT + 1))


def has_rows(commit: Commit) -> bool:
    return not commit.is_quiet


def _version(commit: Commit) -> int:
    return commit.version


@dataclass
class _Walked:
    """A log whose commits are read once, however often they are walked back over: once for each partition."""

    log: Log
    _read: list[Commit] = field(default_factory=list[Commit])

    def head(self) -> Head | None:
        return self.log.head()

    def size(self) -> Size | None:
        return self.log.size()

    def live_rows(self, version: int) -> int | None:
        return self.log.live_rows(version)

    def file_schema(self, version: int) -> FileSchema | None:
        return self.log.file_schema(version)

    def growths(self, versions: Collection[int]) -> Mapping[int, int | None]:
        return self.log.growths(versions)

    def epoch(self, application_id: str, version: int) -> int | None:
        return self.log.epoch(application_id, version)

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        first = self._read[0].version if self._read else newest
        yield from self._read[first - newest : first - oldest + 1]
        unread = self._read[-1].version - 1 if self._read else newest
        for commit in self.log.commits(unread, oldest) if unread >= oldest else ():
            self._read.append(commit)
            yield commit
