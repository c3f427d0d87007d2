"""What a table has not read of a source: the one answer for a run, the sensor, the condition, the checks, `status`."""

from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import TypeAlias

from lakehouse.cursor.cursor import Cursor, Known, Lost
from lakehouse.cursor.mark import Position
from lakehouse.delta.commit_info import COLUMN_CHANGES, Commit
from lakehouse.delta.limits import limits
from lakehouse.delta.log import NOTHING_READ, Commits, Head, Log, commit_at, commits_between, log_kept
from lakehouse.delta.table import Read
from lakehouse.errors import ReadError, UnreadableLogError

DAY = 24 * 60 * 60 * 1000
"""In milliseconds. Delta keeps 30 days of a log unless told otherwise."""
WEEK = 7 * DAY
OTHER_PARTITIONS = "other partitions of it are mapped to this run than to the one before"


class TableState(Enum):
    """Where a table stands, or how far it is as the reader of one source: the same words on every page.

    MISSING: no run has made it yet. SOURCE: no run of this library wrote it. BY_PARTITION: each partition has positions
    of its own, and logs do not show which rows of a source are a partition's. GAP: changes of a source can no longer be
    read. ASLEEP: a reader is behind for longer than its limit. UNREADABLE: its log cannot be read, or the log of a
    source. UNKNOWN: a source is not among the tables that are looked at; a reader is known by its name alone.
    """

    MISSING = "no table yet"
    SOURCE = "source"
    UP_TO_DATE = "up to date"
    BEHIND = "behind"
    BY_PARTITION = "by partition"
    GAP = "gap"
    ASLEEP = "asleep"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Unread:
    """How far a table has read one source, and what is left.

    Args:
        source: The source's name.
        position: How far it has read.
        head: Where the source stands.
        commits: The unread commits, oldest first, including those without rows; None if the log no longer has all
            the commits after the position. Empty if the source does not go on from the position.
        gap: Why the next run cannot read on commit by commit, as the second half of a sentence; None if it can.
    """

    source: str
    position: Position
    head: Head
    commits: tuple[Commit, ...] | None
    gap: str | None = None

    @property
    def changes(self) -> tuple[Commit, ...] | None:
        """The unread commits that may have changed a row, or the columns; None if the log cannot show them."""
        return None if self.commits is None else tuple(commit for commit in self.commits if commit.concerns_readers)

    @property
    def versions(self) -> int:
        """How many unread versions may have changed a row; all of them if the log cannot show it."""
        changes = self.changes
        return max(0, self.head.version - self.position.version) if changes is None else len(changes)

    @property
    def since(self) -> int | None:
        """When the oldest unread change was committed, in milliseconds since the epoch; None if there is none."""
        return min((commit.timestamp for commit in self.changes or ()), default=None)

    def log_cleanup_is_near(self, now: int) -> bool:
        """Whether log cleanup could soon reach the commits after the position, so that a run is asked for.

        Commits without rows count, too. A run before that moves past them after a day (`why_passed`).
        """
        return bool(self.commits) and now - self.commits[0].timestamp > commits_last(self.head)


@dataclass(frozen=True, slots=True)
class Unbegun:
    """A table has no position of a source from which it could read on, so the next run reads all of it.

    Args:
        source: The source's name.
        head: Where the source stands.
        reason: Why, as the second half of a sentence.
    """

    source: str
    head: Head
    reason: str


Backlog: TypeAlias = Unread | Unbegun


def backlog(cursor: Cursor, log: Commits, source: str, head: Head, limited: Read | None = None) -> Backlog:
    """What a table has not read of a source whose changes it follows; `limited` as in `unread_after`.

    Raises:
        UnreadableLogError: A commit in the middle of the range is missing, or the log cannot be read.
    """
    position = cursor.reads.get(source)
    if position is None:
        return Unbegun(source, head, cursor.reason if isinstance(cursor, Lost) else "it has not been read yet")
    if position.is_snapshot:
        return Unbegun(source, head, "it was a snapshot input so far, so its changes were not followed")
    again = why_compared_again(cursor)
    if again is not None:
        return Unread(source, position, head, (), again)
    return unread_after(position, log, source, head, limited=limited)


def unread_after(
    position: Position,
    log: Commits,
    source: str,
    head: Head,
    furthest: int = NOTHING_READ,
    limited: Read | None = None,
) -> Unread:
    """What is unread after a position in a source that stands at `head`.

    A RESTORE of the source is one more commit after the position, with a feed of its own, which is judged like any
    other feed (lakehouse/read/feed_trust.py). A source that was restored from a backup has another past: that is a gap.

    Args:
        position: How far the source has been read.
        log: Its log.
        source: Its name.
        head: Where it stands.
        furthest: How far rows of the reader may reflect the source, if further than the position.
        limited: The options of the input: under its limits only the first commits are read, at least a batch. None
            reads all commits.
    """
    broken = why_broken_off(position, head.table_id, head.version, furthest)
    if broken is None and position.version < head.version:
        broken = why_another_past(position, log)
    if broken is not None:
        return Unread(source, position, head, (), broken)
    commits = pending(log, source, position.version, head.version, limited or Read(), furthest)
    gap = f"the log after version {position.version} was cleaned up" if commits is None else None
    return Unread(source, position, head, commits, gap)


def pending(log: Commits, source: str, after: int, upto: int, read: Read, furthest: int) -> tuple[Commit, ...] | None:
    """The commits after a version, oldest first; under a limit only the first of them, at least a batch.

    So the cost of reading a backlog in batches grows with its length, and not with the square of its length.

    Returns:
        The commits. None if the log no longer has the first of them.
    """
    if read.max_versions is None and read.max_bytes is None:
        return commits_between(log, source, after, upto)
    commits, size = tuple[Commit, ...](), limits().commits_ahead
    while after < upto:
        try:
            more = commits_between(log, source, after, min(upto, after + size))
        except UnreadableLogError:  # all of these are gone; the commits after them show whether they were cleaned up
            more = commits_between(log, source, after, upto)
        if more is None:
            return None
        commits += more
        if len(cap(commits, read, furthest)) < len(commits):
            break
        after, size = commits[-1].version, 2 * size
    return commits


def cap(commits: tuple[Commit, ...], read: Read, furthest: int) -> tuple[Commit, ...]:
    """The commits that one run reads: whole commits, and at least one with rows. Commits without rows do not count."""
    versions, written = 0, 0
    for index, commit in enumerate(commits):
        if commit.is_quiet or read.leaves_out(commit.operation, commit.user_metadata):
            continue
        versions, written = versions + 1, written + commit.bytes_written
        too_many = read.max_versions is not None and versions > read.max_versions
        too_large = read.max_bytes is not None and written > read.max_bytes
        if versions > 1 and commit.version > furthest and (too_many or too_large):
            return commits[:index]
    return commits


def why_broken_off(position: Position, table: str, version: int, furthest: int = NOTHING_READ) -> str | None:
    """Why a source does not go on from a position, whatever its log still has; None if it does."""
    if position.table != table:
        return f"another table (id {table}) has taken its place"
    read = max(position.version, furthest)
    if read > version:
        return f"its log ends at version {version}, and version {read} was read"
    return None


def why_another_past(position: Position, log: Commits) -> str | None:
    """Why the commits after a position do not continue what was read, although the table is the same; None if they do.

    A source that was restored from a backup and has grown since has another commit at the position. One commit is read.
    """
    commit = None if position.commit is None else commit_at(log, position.version)
    if commit is None or position.commit is None or commit.has_digest(position.commit):
        return None
    return (
        f"its version {position.version} is not the commit that was read, probably because the table was restored from "
        f"a backup"
    )


def why_compared_again(cursor: Cursor) -> str | None:
    """Why everything is compared once more although each source could be read on; None if nothing asks for that."""
    if not isinstance(cursor, Known) or not cursor.must_be_compared_again:
        return None
    return f"another writer committed just before version {cursor.version}, the run that had compared everything"


def commits_last(head: Head) -> int:
    """How old a commit may be before what it says is committed again, because log cleanup could reach it: milliseconds.

    Half the time for which the log is kept, but at least a day, because a run commits nothing again before that.
    """
    return max(DAY, int(log_kept(head).total_seconds() * 500))


def why_passed(commits: tuple[Commit, ...], now: int) -> str | None:
    """Why a new position is recorded after commits of which no row was read, as a clause; None if it need not be."""
    if any(commit.operation in COLUMN_CHANGES for commit in commits):
        return "the columns of its source have changed"
    if commits and now - commits[0].timestamp > DAY:
        return "log cleanup could reach the commits behind the position"
    return None


def own_mark_is_old(cursor: Cursor, head: Head | None, log: Commits, now: int) -> bool:
    """Whether log cleanup may soon remove the last own commit: it is a week old, or others have committed after it.

    Cleanup keeps the newest commit, but a burst of other commits can make the mark old before the next run.
    """
    if not isinstance(cursor, Known) or head is None:
        return False
    times = [at.timestamp for version in {cursor.version, head.version} for at in log.commits(version, version)]
    # Without times the table is gone, which the commit finds out.
    return bool(times) and (max(times) - min(times) > DAY or now - min(times) > WEEK)


def start_version(asset: str, name: str, log: Log, head: Head, read: Read) -> int:
    """The version after which a first read starts.

    Raises:
        ReadError (START): The start is outside the history, and the input is not clamped.
    """
    if isinstance(read.start, int):
        if read.start > head.version and not read.clamp:
            raise ReadError.start(asset, name, f"version {read.start}", f"ends at version {head.version}")
        if commits_between(log, name, read.start, head.version) is None:
            oldest = min(commit.version for commit in log.commits(head.version))
            if not read.clamp:
                raise ReadError.start(asset, name, f"version {read.start}", f"begins later, at version {oldest}")
            return oldest - 1
        return min(read.start, head.version)
    assert not isinstance(read.start, str)
    millis = int(read.start.timestamp() * 1000)
    # Where writers' clocks differ, a later commit may have an earlier time: it is read if one before it is.
    commits = sorted(log.commits(head.version), key=lambda commit: commit.version)
    until = tuple(takewhile(lambda commit: commit.timestamp <= millis, commits))
    if until == tuple(commits) and until[-1].timestamp < millis and not read.clamp:
        raise ReadError.start(asset, name, read.start.isoformat(), "has no commit that late")
    if not until and commits[0].version > 0 and not read.clamp:
        raise ReadError.start(asset, name, read.start.isoformat(), f"begins later, at version {commits[0].version}")
    return until[-1].version if until else commits[0].version - 1
