"""What the commits of a table did, by the log."""

from dataclasses import dataclass

from lakehouse.cursor.mark import Mark
from lakehouse.errors import ReadError
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Log
from lakehouse.log.rows import Rows


@dataclass(frozen=True, slots=True)
class Change:
    """One commit.

    Args:
        version: Its version.
        committed: When, in milliseconds since the epoch.
        operation: The operation, as Delta calls it.
        rows: What it did to rows.
        run: The run that made it; None if it carries no mark.
    """

    version: int
    committed: int
    operation: str
    rows: Rows
    run: str | None


def changes(table: str, log: Log, after: int | None, upto: int | None) -> list[Change]:
    """The commits `(after, upto]` of a table, oldest first.

    Args:
        table: Its name.
        log: Its log.
        after: The version behind which they begin; None for the last ten.
        upto: The last version; None for the newest.

    Raises:
        ReadError: There is no table, or it has no such versions.
    """
    head = log.head()
    if head is None:
        raise ReadError(f"There is no table '{table}'.", "Nothing was read. `lakehouse status` lists the tables.")
    last = head.version if upto is None else upto
    first = max(-1, last - 10) if after is None else after
    if last > head.version or first > last:
        raise ReadError(
            f"'{table}' has no versions ({first}, {last}]: it is at version {head.version}.",
            "Nothing was read. Give --after and --upto within its history.",
        )
    return sorted(map(_change, log.commits(last, first + 1)), key=lambda change: change.version)


def _change(commit: Commit) -> Change:
    try:
        mark = Mark.from_json(commit.user_metadata)
    except ValueError:
        mark = None
    return Change(commit.version, commit.timestamp, commit.operation, commit.rows, None if mark is None else mark.run)
