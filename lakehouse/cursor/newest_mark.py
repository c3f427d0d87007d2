"""The newest mark of a table: what was read last, without asking whether a RESTORE took that back."""

from itertools import islice

from lakehouse.cursor.find import OWNER
from lakehouse.cursor.mark import Mark
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.log import Head, Log

LOOKED_BACK = 200
"""How many of the newest commits are searched for the marks of partitions, or for any mark if no property says whose
the table is."""


def newest_mark(name: str, log: Log, head: Head) -> Mark | None:
    """The newest mark of the asset of a table; None if no commit has one.

    Args:
        name: The asset key, its parts joined by "/".
        log: The log of its table.
        head: Where the table stands.
    """
    commits = log.commits(head.version)
    marks = map(mark_in, commits if head.properties.get(OWNER) == name else islice(commits, LOOKED_BACK))
    return next((mark for mark in marks if mark is not None and mark.asset == name), None)


def mark_in(commit: Commit) -> Mark | None:
    """The mark of a commit; None if it carries none, or a damaged one."""
    try:
        return Mark.from_json(commit.user_metadata)
    except ValueError:
        return None
