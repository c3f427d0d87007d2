"""Which commits of a source one run reads: where it starts, how many there are, which key its rows have meanwhile."""

from itertools import takewhile

from lakehouse.cursor.cursor import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position, application_id
from lakehouse.cursor.walk import readable_mark
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.limits import limits
from lakehouse.delta.log import Head, Log, commits_between
from lakehouse.delta.read_options import Read
from lakehouse.delta.text import fold
from lakehouse.errors import StartError
from lakehouse.spark.table_version import TableRef


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


def start_version(asset: str, name: str, log: Log, head: Head, read: Read) -> int:
    """The version after which a first read starts.

    Raises:
        StartError: A start outside the history, unless the input is clamped.
    """
    if isinstance(read.start, int):
        if read.start > head.version and not read.clamp:
            raise StartError(asset, name, f"version {read.start}", f"ends at version {head.version}")
        if commits_between(log, name, read.start, head.version) is None:
            oldest = min(commit.version for commit in log.commits(head.version))
            if not read.clamp:
                raise StartError(asset, name, f"version {read.start}", f"begins later, at version {oldest}")
            return oldest - 1
        return min(read.start, head.version)
    assert not isinstance(read.start, str)
    millis = int(read.start.timestamp() * 1000)
    # Where writers' clocks differ, a later commit may have an earlier time: it is read if one before it is.
    commits = sorted(log.commits(head.version), key=lambda commit: commit.version)
    until = tuple(takewhile(lambda commit: commit.timestamp <= millis, commits))
    if until == tuple(commits) and until[-1].timestamp < millis and not read.clamp:
        raise StartError(asset, name, read.start.isoformat(), "has no commit that late")
    if not until and commits[0].version > 0 and not read.clamp:
        raise StartError(asset, name, read.start.isoformat(), f"begins later, at version {commits[0].version}")
    return until[-1].version if until else commits[0].version - 1


def unique_key(
    log: Log, head: Head, asset: str, promised: tuple[str, ...], commits: tuple[Commit, ...]
) -> tuple[str, ...]:
    """The columns by which each row that the commits touched is unique after them; empty if no such columns are known.

    On an asset's own table they are the columns by which every commit of the range was compared with the version just
    before it, if the asset made them all, by one key. That need not be the key which is declared: the rows of a
    `History` are identified by the entity and the start. Of a table that no asset has ever written only a promise of
    its key can be had, because Delta enforces no key. In a partitioned table nothing is assumed: a key may be in
    several partitions.

    Args:
        log: The source's log.
        head: Where it stood.
        asset: The asset that owns the table, if one does.
        promised: The columns that are believed of a table that no asset has ever written; empty if none are.
        commits: The commits of the range.
    """
    if head.partition_columns or any(commit.operation == "RESTORE" for commit in commits):
        return ()
    with_rows = [commit for commit in commits if not commit.is_quiet]
    marks = [readable_mark(commit, asset) for commit in with_rows]
    compared = [
        mark for mark, commit in zip(marks, with_rows, strict=True) if mark is not None and _is_compared(mark, commit)
    ]
    if any(mark is not None for mark in marks):
        keys = {fold(mark.key) for mark in compared}
        return compared[0].key if len(compared) == len(with_rows) and len(keys) == 1 else ()
    never_written = log.epoch(application_id(asset, (), FIRST_GENERATION), head.version) == 0
    return promised if never_written else ()


def _is_compared(mark: Mark, commit: Commit) -> bool:
    return not mark.partitions and mark.compared and mark.base + 1 == commit.version
