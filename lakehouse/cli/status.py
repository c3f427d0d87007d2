"""`lakehouse status`: where each table stands, and how far it has read its sources."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from lakehouse.cli.answer import Answer
from lakehouse.cli.location import add_place
from lakehouse.cli.tables import at, columns, logs_of
from lakehouse.log.rows import counted
from lakehouse.status.tables import TableState, TableStatus, table_status

_THREADS = 16
_HEADINGS = ("TABLE", "VERSION", "WRITTEN (UTC)", "STATE", "READ")


def add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: Namespace) -> Answer:
    logs = logs_of(given)

    def look(name: str) -> TableStatus | None:
        return table_status(name, logs)

    with ThreadPoolExecutor(_THREADS) as threads:
        statuses = [status for status in threads.map(look, logs) if status is not None]
    rows = [_HEADINGS, *(_row(status) for status in statuses)]
    gaps = sum(status.state is TableState.GAP for status in statuses)
    last = f"{counted(len(statuses), 'table')}" + (f", {counted(gaps, 'table')} with a gap." if gaps else ".")
    value = [{**asdict(status), "state": status.state.value} for status in statuses]
    return Answer({"tables": value}, "\n".join([*columns(rows), "", last]), code=1 if gaps else 0)


def _row(status: TableStatus) -> tuple[str, ...]:
    return (status.name, str(status.version), at(status.written), status.state.value, "; ".join(_read(status)))


def _read(status: TableStatus) -> Iterator[str]:
    for reading in status.reads:
        of = f"{reading.source} at {reading.read}"
        if reading.newest is not None:
            of += f" of {reading.newest}"
        if reading.gap is not None:
            of += f" (gap: {reading.gap})"
        elif reading.unread:
            of += f" ({counted(reading.unread, 'version')} unread since {at(reading.since)})"
        yield of
