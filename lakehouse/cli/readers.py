"""`lakehouse readers TABLE`: which tables read a table, and how far."""

from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from lakehouse.cli.answer import Answer
from lakehouse.cli.location import add_place
from lakehouse.cli.tables import at, columns, log_of, logs_of
from lakehouse.log.rows import counted
from lakehouse.status.tables import readers

_HEADINGS = ("READER", "READ", "NEWEST", "UNREAD VERSIONS", "SINCE (UTC)", "GAP")


def add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("table", metavar="TABLE", help="the asset key, its parts joined by /")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: Namespace) -> Answer:
    logs = logs_of(given)
    log_of(given.table, logs)
    listed = list(readers(given.table, logs))
    rows = [_HEADINGS] + [
        (name, str(r.read), str(r.newest), str(r.unread), at(r.since), r.gap or ("snapshot" if r.is_snapshot else ""))
        for name, r in listed
    ]
    text = "\n".join([*columns(rows), "", f"{counted(len(listed), 'reader')}."])
    value = [{"reader": name, **asdict(reading)} for name, reading in listed]
    return Answer({"table": given.table, "readers": value}, text)
