"""`lakehouse changes TABLE`: what the commits of a table did, and which run made them."""

from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from lakehouse.cli.answer import Answer
from lakehouse.cli.location import add_place
from lakehouse.cli.tables import at, columns, log_of, logs_of
from lakehouse.status.commits import changes

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
