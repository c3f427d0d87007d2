"""`lakehouse changes TABLE`: what the commits of a table did, and which run made them."""

from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass

from lakehouse.cli.answer import Answer
from lakehouse.cli.tables import at, columns, log_of, logs_of
from lakehouse.cli.where import add_place
from lakehouse.cursor.mark import Mark
from lakehouse.delta.commit_info import Commit, Rows
from lakehouse.delta.log import Log
from lakehouse.errors import ReadError


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


_HEADINGS = ("VERSION", "COMMITTED (UTC)", "OPERATION", "ROWS", "RUN")


def add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("table", metavar="TABLE", help="the asset key, its parts joined by /")
    parser.add_argument("--after", type=int, metavar="V", help="the version behind which to begin; else the last ten")
    parser.add_argument("--upto", type=int, metavar="V", help="the last version; else the newest")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: Namespace) -> Answer:
    listed = changes(given.table, log_of(given.table, logs_of(given)), given.after, given.upto)
    rows = [_HEADINGS] + [
        (str(change.version), at(change.committed), change.operation, str(change.rows), change.run or "")
        for change in listed
    ]
    return Answer({"table": given.table, "changes": [asdict(change) for change in listed]}, "\n".join(columns(rows)))
