"""`lakehouse status`: where each table stands, and how far it has read its sources."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict

from lakehouse.cli.answer import Answer
from lakehouse.cli.location import add_place
from lakehouse.cli.tables import at, columns, in_partition, logs_of
from lakehouse.log.rows import counted
from lakehouse.status.tables import TableState, TableStatus, table_statuses

_HEADINGS = ("TABLE", "VERSION", "WRITTEN (UTC)", "STATE", "READ")


def add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: Namespace) -> Answer:
    statuses = table_statuses(logs_of(given))
    rows = [_HEADINGS, *(_row(status) for status in statuses)]
    gaps = sum(status.state is TableState.GAP for status in statuses)
    problems = sum(status.state is TableState.UNREADABLE for status in statuses)
    wrong = [f"{counted(gaps, 'table')} with a gap"] * (gaps > 0)
    wrong += [f"{counted(problems, 'table')} of which not every log can be read"] * (problems > 0)
    last = ", ".join([counted(len(statuses), "table"), *wrong]) + "."
    value = [{**asdict(status), "state": status.state.value} for status in statuses]
    return Answer({"tables": value}, "\n".join([*columns(rows), "", last]), code=1 if wrong else 0)


def _row(status: TableStatus) -> tuple[str, ...]:
    version = "" if status.version is None else str(status.version)
    reads = status.problem or in_partition(status) * bool(status.reads) + "; ".join(_read(status))
    return (status.name, version, at(status.written), status.state.value, reads)


def _read(status: TableStatus) -> Iterator[str]:
    for reading in status.reads:
        of = f"{reading.source} at {reading.read}"
        if reading.newest is not None:
            of += f" of {reading.newest}"
        if reading.problem is not None:
            of += f" ({reading.problem})"
        elif reading.newest is None:
            of += " (not looked at)"
        elif reading.gap is not None:
            of += f" (gap: {reading.gap})"
        elif reading.unread and not status.partitions:
            of += f" ({counted(reading.unread, 'version')} unread since {at(reading.since)})"
        yield of
