"""A mark that is committed again, so that log cleanup does not take the position: without a run."""

from dataclasses import replace

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.walk import readable_mark
from lakehouse.delta.log import Head, Log, commits_between


def position_to_renew(log: Log, head: Head, asset: str) -> tuple[Known, int] | None:
    """The position of a table as its newest own commit states it, and when that commit was made.

    None if there is none, or if the next run has to look at what came after that commit: somebody else changed rows,
    or the commit does not hold. None of an archive that is no longer as its runs left it: behind a new mark nobody
    would see the rival's commit, and the archive would count as whole. None also of a table of partitions, which has a
    position for each; and of a table whose marks hold no position that a run could lose.

    Returns:
        The position, and milliseconds since the epoch.
    """
    for commit in log.commits(head.version):
        mark = readable_mark(commit, asset)
        if mark is not None:
            if mark.partitions or not (mark.extract or any(not at.is_snapshot for at in mark.reads.values())):
                return None
            cursor = find_cursor(log, head, asset)
            if not isinstance(cursor, Known) or cursor.version != commit.version or cursor.stale_base:
                return None
            is_edited = mark.log_after is not None and not is_untouched(cursor, log, head)
            return None if is_edited else (cursor, commit.timestamp)
        if not commit.is_quiet:
            return None
    return None


def is_untouched(cursor: Known, log: Log, head: Head) -> bool:
    """Whether no commit but the last own one has changed a row since that one was planned."""
    since = commits_between(log, cursor.mark.asset, cursor.mark.base, head.version)
    return since is not None and all(commit.is_quiet or commit.version == cursor.version for commit in since)


def again(cursor: Known, run: str, attempt: str, base: int) -> Mark:
    """The mark of a position that is committed again, in the sequence of the writer's own commits.

    Delta refuses one of the two if a run of the asset commits at the same time, because both have the next epoch.
    """
    return replace(
        cursor.mark,
        generation=cursor.generation,
        epoch=cursor.epoch + 1,
        run=run,
        attempt=attempt,
        base=base,
        reads=cursor.reads,
        compared=False,
        everything=False,
        decided=None,
        rows=None,
        lost_to=(),
    )
