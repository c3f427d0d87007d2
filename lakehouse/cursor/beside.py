"""Whether a quarantine is the one that goes with the position of its table, by the marks of both (ADR 49)."""

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.walk import hides, readable_mark
from lakehouse.delta.commit_info import COLUMN_CHANGES
from lakehouse.delta.log import Head, Log, commits_between


def why_quarantine_differs(
    log: Log, head: Head | None, quarantine: str, cursor: Known, partitions: tuple[str, ...]
) -> str | None:
    """Why a quarantine is not known to go with the position of its table, as half a sentence; None if it goes with it.

    A commit of a run that ended before it wrote the table goes with the position if that run followed changes: the
    commit was planned on the table as the table is now, so the next run touches the same keys. A commit that set all of
    the quarantine does not go with the position: its run may have had another definition or other snapshot inputs, or
    a user may have asked for it, and the next run need not do the same.

    Raises:
        UnreadableLogError: A commit of the quarantine is missing.
    """
    beside = cursor.mark.version_of_quarantine
    if head is None:
        return None if cursor.mark.beside is None else f"its quarantine '{quarantine}' is gone"
    if cursor.mark.quarantine not in (None, head.table_id):
        return f"its quarantine '{quarantine}' is another table than the one that the last run left"
    if head.version < beside:
        return f"its quarantine '{quarantine}' is at version {head.version}, and was at {beside}"
    commits = commits_between(log, quarantine, beside, head.version)
    if commits is None:
        return f"commits of its quarantine '{quarantine}' after version {beside} were cleaned up"
    for commit in reversed(commits):
        if hides(commit) or commit.operation in COLUMN_CHANGES:
            return f"version {commit.version} ({commit.operation}) changed its quarantine '{quarantine}'"
        mark = readable_mark(commit, quarantine)
        if mark is None or not mark.meets(partitions):
            continue
        if mark.beside is None or mark.beside < cursor.version:
            return f"a run that came too late wrote version {commit.version} of its quarantine '{quarantine}'"
        if mark.everything:
            return (
                f"a run that set all of its quarantine '{quarantine}' (version {commit.version}) ended before it wrote "
                f"the table"
            )
    return None


def is_ahead(log: Log, head: Head, quarantine: str, cursor: Known, partitions: tuple[str, ...]) -> bool:
    """Whether a run has written the quarantine and not the table; the arguments are those of the function above."""
    newer = log.commits(head.version, cursor.mark.version_of_quarantine + 1)
    marks = (readable_mark(commit, quarantine) for commit in newer)
    return any(mark is not None and mark.meets(partitions) for mark in marks)
