"""`lakehouse show`: the first rows of a table, as it is or as it was, without Spark where deltalake reads its rows."""

from argparse import ArgumentParser, Namespace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from lakehouse.cli.command import Answer, Command, UsageError, add_json, add_place, add_table
from lakehouse.cli.tables import NamedTable, named_table, no_table
from lakehouse.errors import ReadError

if TYPE_CHECKING:
    from lakehouse.delta.log import Head, Log

_MOST = 20
"""So many rows are shown."""


def _add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_table(parser)
    parser.add_argument("--where", metavar="SQL", help="only rows of this condition; starts Spark")
    parser.add_argument("--limit", metavar="N", type=int, default=_MOST, help=f"how many rows are shown ({_MOST})")
    parser.add_argument("--at", metavar="VERSION", type=int, help="the version; else the newest")
    add_json(parser)


def _run(given: Namespace) -> Answer:
    from lakehouse.cli.pages.table_pages import rows_page

    if given.limit < 1:
        raise UsageError("--limit is a number of rows from 1.")
    table = named_table(given)
    log = table.ref.log(table.session)
    head = log.head()
    if head is None:
        raise no_table(given.table)
    version = head.version if given.at is None else given.at
    if not 0 <= version <= head.version:
        raise UsageError(f"{given.table} has no version {version}: its versions are 0 to {head.version}.")
    rows = [{name: _plain(value) for name, value in row.items()} for row in _rows(table, log, head, version, given)]
    value = {"table": given.table, "version": version, "rows": rows}
    return Answer(value, rows_page(given.table, version, rows, given.limit))


def _rows(table: NamedTable, log: "Log", head: "Head", version: int, given: Namespace) -> list[dict[str, Any]]:
    """The rows, by deltalake if it knows the features of the table, else by Spark, whose SQL a condition is."""
    from lakehouse.cli.pages.screen import working_beside
    from lakehouse.delta.file_log import FileLog
    from lakehouse.spark.diagnosis import first_line
    from lakehouse.spark.table_version import TableVersion

    try:
        rows = log.first_rows(version, given.limit) if isinstance(log, FileLog) and given.where is None else None
        if rows is None:
            with working_beside(f"Spark reads {given.table}"):
                frame = TableVersion(table.session, table.ref, head.table_id, version, given.where).rows()
                rows = cast("list[dict[str, Any]]", cast("Any", frame.limit(given.limit)).toArrow().to_pylist())
    except Exception as error:
        raise ReadError(
            f"Version {version} of '{given.table}' cannot be shown: {first_line(error)}",
            "Nothing was written. VACUUM may have removed files of an old version: try a later one.",
        ) from error
    return rows


def _plain(value: Any) -> Any:
    """A value as JSON has it: times and decimals as text, times with a zone in UTC."""
    match value:
        case datetime():
            return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat(" ")
        case date() | time() | Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case list():
            return [_plain(each) for each in cast("list[Any]", value)]
        case dict():
            return {str(name): _plain(each) for name, each in cast("dict[Any, Any]", value).items()}
        case _:
            return value


SHOW = Command(_add_arguments, _run)
