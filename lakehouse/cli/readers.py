"""`lakehouse readers TABLE`: which tables read a table, and how far."""

from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from lakehouse.cli.answer import Answer
from lakehouse.cli.table_status import SourcePosition, TableStatus, readers, table_statuses
from lakehouse.cli.tables import at, columns, in_partition, log_of, logs_of
from lakehouse.cli.where import add_place
from lakehouse.delta.commit_info import count_of

_HEADINGS = ("READER", "READ", "NEWEST", "UNREAD VERSIONS", "SINCE (UTC)", "NOTE")


def add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("table", metavar="TABLE", help="the asset key, its parts joined by /")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: Namespace) -> Answer:
    logs = logs_of(given)
    log_of(given.table, logs)
    statuses = table_statuses(logs)
    listed = list(readers(given.table, statuses))
    problems = {status.name: status.problem for status in statuses if status.problem and status.name != given.table}
    rows = [_HEADINGS, *(_row(status, reading) for status, reading in listed)]
    last = [f"{count_of(len(listed), 'reader')}.", *(f"{name} may be another: {why}" for name, why in problems.items())]
    value = [{"reader": status.name, "partitions": status.partitions, **asdict(reading)} for status, reading in listed]
    text = "\n".join([*columns(rows), "", *last])
    wrong = bool(problems) or any(reading.problem for _, reading in listed)
    return Answer({"table": given.table, "readers": value, "unreadable": problems}, text, code=int(wrong))


def _row(status: TableStatus, reading: SourcePosition) -> tuple[str, ...]:
    is_known = reading.newest is not None and not status.partitions
    unread = (str(reading.unread), at(reading.since)) if is_known else ("", "")
    note = reading.problem or reading.gap or ("snapshot" if reading.is_snapshot else in_partition(status).rstrip(": "))
    newest = "" if reading.newest is None else str(reading.newest)
    return (status.name, str(reading.read), newest, *unread, note)
