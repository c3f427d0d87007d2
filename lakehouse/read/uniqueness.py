"""Which columns identify a row of a source in each version of a range."""

from lakehouse.cursor.cursor import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, application_id
from lakehouse.cursor.walk import readable_mark
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log
from lakehouse.sql.text import folded


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
        keys = {folded(mark.key) for mark in compared}
        return compared[0].key if len(compared) == len(with_rows) and len(keys) == 1 else ()
    never_written = log.epoch(application_id(asset, (), FIRST_GENERATION), head.version) == 0
    return promised if never_written else ()


def _is_compared(mark: Mark, commit: Commit) -> bool:
    return not mark.partitions and mark.compared and mark.base + 1 == commit.version
