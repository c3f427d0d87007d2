"""Where a first read starts that does not read its whole source."""

from itertools import takewhile

from lakehouse.declare.read import Read
from lakehouse.errors import StartError
from lakehouse.log.log import Head, Log, commits_between


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
