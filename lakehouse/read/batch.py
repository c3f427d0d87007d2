"""Which of the pending commits of a source one run reads, and how far it looks ahead to find out."""

from lakehouse.cursor.mark import Position
from lakehouse.declare.read import Read
from lakehouse.limits import limits
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log, commits_between
from lakehouse.spark.snapshot import TableRef


def pending(
    log: Log, ref: TableRef, position: Position, head: Head, read: Read, furthest: int
) -> tuple[Commit, ...] | None:
    """The commits after a position, oldest first; under a limit only the first of them, at least a batch.

    So a backlog that is read in batches costs what it holds, and not its square. A log that only Spark can read is read
    from its end anyway.

    Args:
        log: The log of the source.
        ref: The source.
        position: How far it has been read.
        head: Where it stands.
        read: The options of the input.
        furthest: How far rows of the reader may reflect the source: a batch reaches at least as far.

    Returns:
        The commits. None if the log no longer has the first of them.

    Raises:
        UnreadableLogError: A commit in the middle is missing.
    """
    is_limited = read.max_versions is not None or read.max_bytes is not None
    if not is_limited or ref.why_only_spark() is not None:
        return commits_between(log, ref.name, position.version, head.version)
    commits, after, size = tuple[Commit, ...](), position.version, limits().commits_ahead
    while after < head.version:
        more = commits_between(log, ref.name, after, min(head.version, after + size))
        if more is None:
            return None
        commits += more
        if len(capped(commits, read, furthest)) < len(commits):
            break
        after, size = commits[-1].version, 2 * size
    return commits


def capped(commits: tuple[Commit, ...], read: Read, furthest: int) -> tuple[Commit, ...]:
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
