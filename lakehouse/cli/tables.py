"""The tables that a command is about and their logs, without Spark; `lakehouse changes` and `lakehouse readers`."""

import os
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.cli.command import Answer, Command, UsageError, add_place, at, columns, definitions
from lakehouse.cli.table_status import SourcePosition, TableStatus, mark_in, table_statuses
from lakehouse.delta.commit_info import Commit, Rows, count_of
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import Log
from lakehouse.errors import ReadError

if TYPE_CHECKING:
    from lakehouse.dagster.code_location import CodeLocation

_CHANGES = ("VERSION", "COMMITTED (UTC)", "OPERATION", "ROWS", "RUN")
_READERS = ("READER", "READ", "NEWEST", "UNREAD VERSIONS", "SINCE (UTC)", "NOTE")


def logs_of(given: Namespace) -> dict[str, Log]:
    """The log of each table by its name: of a directory all tables below it, else those of the definitions.

    Raises:
        UsageError: There is no such directory.
    """
    if given.root is not None:
        root = Path(given.root)
        if not root.is_dir():
            raise UsageError(f"There is no directory {root}.")
        return {name: FileLog(Location(f"{root}/{name}"), name) for name in tables_below(str(root))}
    from lakehouse.dagster.io_manager import code_location_of

    return declared_logs(code_location_of(definitions(given.module)))


def declared_logs(code_location: "CodeLocation") -> dict[str, Log]:
    """The log of each table of a code location by its name, without those that only Spark can read."""
    refs = filter(None, (table.ref for table in code_location.tables.values()))
    return {
        ref.name: FileLog(ref.files, ref.name) for ref in refs if ref.files is not None and ref.why_only_spark() is None
    }


def log_of(table: str, logs: dict[str, Log]) -> Log:
    """The log of one table.

    Raises:
        UsageError: There is no table of that name.
    """
    if table not in logs:
        raise UsageError(f"There is no table {table}. There are: {', '.join(sorted(logs)) or 'none'}.")
    return logs[table]


def tables_below(root: str) -> list[str]:
    """The names of the Delta tables below a directory of this machine; what is inside a table is none."""
    names: list[str] = []
    for directory, below, _ in os.walk(root):
        if "_delta_log" in below:
            names.append(Path(directory).relative_to(root).as_posix())
            below.clear()
    return sorted(names)


def in_partition(status: TableStatus) -> str:
    """Of which partition the positions are; nothing of a table without partitions."""
    return f"partition {', '.join(status.partitions)}, the last that was written: " if status.partitions else ""


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


def _changes(table: str, log: Log, after: int | None, upto: int | None) -> list[Change]:
    """The commits `(after, upto]` of a table, oldest first; without `after` the last ten."""
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
    mark = mark_in(commit)
    return Change(commit.version, commit.timestamp, commit.operation, commit.rows, None if mark is None else mark.run)


def _add_changes_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("table", metavar="TABLE", help="the asset key, its parts joined by /")
    parser.add_argument("--after", type=int, metavar="V", help="the version behind which to begin; else the last ten")
    parser.add_argument("--upto", type=int, metavar="V", help="the last version; else the newest")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _run_changes(given: Namespace) -> Answer:
    listed = _changes(given.table, log_of(given.table, logs_of(given)), given.after, given.upto)
    rows = [_CHANGES] + [
        (str(change.version), at(change.committed), change.operation, str(change.rows), change.run or "")
        for change in listed
    ]
    return Answer({"table": given.table, "changes": [asdict(change) for change in listed]}, "\n".join(columns(rows)))


def _add_readers_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("table", metavar="TABLE", help="the asset key, its parts joined by /")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _run_readers(given: Namespace) -> Answer:
    logs = logs_of(given)
    log_of(given.table, logs)
    statuses = table_statuses(logs)
    listed = [(status, each) for status in statuses for each in status.reads if each.source == given.table]
    problems = {status.name: status.problem for status in statuses if status.problem and status.name != given.table}
    rows = [_READERS, *(_reader(status, reading) for status, reading in listed)]
    last = [f"{count_of(len(listed), 'reader')}.", *(f"{name} may be another: {why}" for name, why in problems.items())]
    value = [{"reader": status.name, "partitions": status.partitions, **asdict(reading)} for status, reading in listed]
    text = "\n".join([*columns(rows), "", *last])
    wrong = bool(problems) or any(reading.problem for _, reading in listed)
    return Answer({"table": given.table, "readers": value, "unreadable": problems}, text, code=int(wrong))


def _reader(status: TableStatus, reading: SourcePosition) -> tuple[str, ...]:
    is_known = reading.newest is not None and not status.partitions
    unread = (str(reading.unread), at(reading.since)) if is_known else ("", "")
    note = reading.problem or reading.gap or ("snapshot" if reading.is_snapshot else in_partition(status).rstrip(": "))
    newest = "" if reading.newest is None else str(reading.newest)
    return (status.name, str(reading.read), newest, *unread, note)


CHANGES = Command(_add_changes_arguments, _run_changes)
READERS = Command(_add_readers_arguments, _run_readers)
