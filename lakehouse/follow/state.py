"""What a table has not read, as a text that changes when that does: a run is asked for once for each such state."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.cursor.unread import DAY, Backlog, Unbegun
from lakehouse.cursor.walk import mark_of
from lakehouse.errors import LakehouseError
from lakehouse.follow.backlogs import reads_on, recent
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log

_UPKEEP = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END"})


@dataclass(frozen=True, slots=True)
class Span:
    """What is unread of one source.

    Args:
        state: By the source's id and versions, as a text. A table that was replaced may stand at the same version.
        commits: The commits that are unread; of a whole source the newest.
    """

    state: str
    commits: tuple[Commit, ...] = ()

    @classmethod
    def of(cls, backlog: Backlog, newest: Commit | None, now: int) -> "Span":
        """The span of a backlog.

        Args:
            backlog: What is left of the source.
            newest: If all of the source is read: the last commit that makes another run worth while.
            now: Milliseconds since the epoch.
        """
        source = f"{backlog.source} {backlog.head.table_id}@"
        if reads_on(backlog):
            after = f"{source}{backlog.position.version}"
            if backlog.changes:
                return cls(f"{after}-{backlog.changes[-1].version}", backlog.changes)
            return cls(f"{after} day {now // DAY}", backlog.commits or ())
        position = "" if isinstance(backlog, Unbegun) else backlog.position.version
        whole = f"{source}{position} all"
        return cls(whole) if newest is None else cls(f"{whole} of {newest.version}", (newest,))


def state_of(spans: Sequence[Span], declaration: str, own: str) -> str:
    """The state of a table, or of a partition.

    Args:
        spans: What is unread of the sources.
        declaration: What the asset declares, in short.
        own: Where its own table stands.
    """
    return f"{','.join(span.state for span in spans)} as {declaration} by {own}"


def standing(head: Head | None) -> str:
    """Where a table stands, as a text."""
    return "none" if head is None else f"{head.table_id}@{head.version}"


def standing_for_all(log: Log, head: Head | None, asset: str) -> str:
    """Where a table stands for each of its partitions: neither what runs write to the others counts, nor upkeep."""
    commits = () if head is None else recent(log, head)
    newest = next((c for c in commits if c.operation not in _UPKEEP and not _is_of_a_run(c, asset)), None)
    return "none" if head is None or newest is None else f"{head.table_id}@{newest.version}"


def _is_of_a_run(commit: Commit, asset: str) -> bool:
    try:
        return mark_of(commit, asset) is not None
    except LakehouseError:  # damaged, and older than the marks that decide
        return True
