"""Whether the key that a source declares identifies a row of it in each version of a range."""

from lakehouse.cursor.find import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, application_id
from lakehouse.cursor.walk import readable_mark
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log
from lakehouse.sql.text import folded


def is_unique(log: Log, head: Head, asset: str, key: tuple[str, ...], commits: tuple[Commit, ...]) -> bool:
    """Whether every key that the commits touched is a single row after them.

    On an asset's own table it is where every commit of the range is the asset's, compared by this key with the version
    just before it; not where somebody else wrote, or the asset when it had another key. On a table that no asset has
    ever written the declared key is a promise of those who write it. In a partitioned table nothing is assumed: a key
    may be in several partitions.

    Args:
        log: The source's log.
        head: Where it stood.
        asset: The asset that owns the table, if one does.
        key: The columns that are declared now.
        commits: The commits of the range.
    """
    if head.partition_columns or any(commit.operation == "RESTORE" for commit in commits):
        return False
    loud = [commit for commit in commits if not commit.is_quiet]
    marks = [readable_mark(commit, asset) for commit in loud]
    if any(mark is not None for mark in marks):
        return all(_is_compared(mark, commit, key) for mark, commit in zip(marks, loud, strict=True))
    return log.epoch(application_id(asset, (), FIRST_GENERATION), head.version) == 0


def _is_compared(mark: Mark | None, commit: Commit, key: tuple[str, ...]) -> bool:
    if mark is None or mark.partitions or not mark.compared or mark.base + 1 != commit.version:
        return False
    return folded(mark.key) == folded(key)
