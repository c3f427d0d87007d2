"""Commits across which a feed would tell other rows than there were, without an error."""

from collections.abc import Iterable

from lakehouse.commit_info import Commit
from lakehouse.log import Log


def laid_out_anew(log: Log, commits: Iterable[Commit]) -> Commit | None:
    """The first commit that removed files which were laid out in another way than the table is behind it.

    Delta's feed reads a removed file as if it were one of the version that removed it: a column that was a partition's
    is then NULL in the deleted rows, and a number too large for the column's new type another number.
    """
    for commit in commits:
        if commit.is_quiet or not commit.may_lay_out_anew:
            continue
        before, after = log.file_schema(commit.version - 1), log.file_schema(commit.version)
        if before is None or after is None or not after.reads_as(before):
            return commit
    return None


def freed_by(log: Log, commits: Iterable[Commit]) -> frozenset[str] | None:
    """The names that commits took from their columns, which others may have now; None: any of them.

    A RESTORE takes back what the commits dropped and renamed that it undoes.
    """
    found = frozenset[str]()
    for commit in commits:
        freed: frozenset[str] | None = commit.freed
        if commit.operation == "REPLACE COLUMNS":
            freed = None  # it tells the columns that remain
        elif commit.operation == "RESTORE":
            freed = None if commit.restored is None else _freed_between(log, commit.restored, commit.version)
        if freed is None:
            return None
        found |= freed
    return found


def _freed_between(log: Log, restored: int, version: int) -> frozenset[str] | None:
    undone = tuple(log.commits(version - 1, restored + 1))
    return freed_by(log, undone) if len(undone) == version - 1 - restored else None
