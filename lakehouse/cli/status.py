"""`lakehouse status`: where each table stands, how far it has read its sources, when it was last compared."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakehouse.cli.command import Answer, Command, UsageError, add_place
from lakehouse.cli.comparisons import Comparisons, comparisons
from lakehouse.cli.keeping.table_readers import holding
from lakehouse.cli.loading import definitions, target
from lakehouse.cli.pages.readers_page import Holder
from lakehouse.cli.table_status import TableState, TableStatus, table_statuses
from lakehouse.cli.tables import declared_logs, logs_of, out_of_reach
from lakehouse.cursor.code import Code
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import AssetTable
    from lakehouse.dagster.io_manager import DeltaIOManager

_WRONG = (TableState.GAP, TableState.UNREADABLE)
"""States that are there to be found."""


def _add_status_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    more = parser.add_mutually_exclusive_group()
    more.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=2.0,
        metavar="SECONDS",
        help="look again every two seconds, or as often as you say, until Ctrl-C",
    )
    more.add_argument("--json", action="store_true", help="print one JSON document")


def _run_status(given: Namespace) -> Answer:
    if given.root is not None:

        def look() -> Answer:
            unknown = Comparisons({}, "no definitions are loaded")
            logs = logs_of(given)
            statuses = table_statuses(logs)
            return _answer(statuses, unknown, holders=holding(logs, statuses))
    else:
        words, defs = target(given).words, definitions(given)

        def look() -> Answer:
            return _of_definitions(defs, words)

    return look() if given.watch is None else _watch(look, given.watch)


def _answer(
    statuses: Sequence[TableStatus],
    compared: Comparisons,
    words: Sequence[str] | None = None,
    first: Sequence[str] = (),
    holders: Sequence[Holder] = (),
    left_out: Mapping[str, str] | None = None,
) -> Answer:
    """What the command says of the tables.

    Args:
        statuses: Where they stand.
        compared: When they were compared.
        words: The words of the command line that name the definitions; None if only a root is named.
        first: The tables that do not exist yet, and that a run makes without the name of a partition.
        holders: The readers that hold something back.
        left_out: Why the logs of the other tables cannot be read without Spark.
    """
    from lakehouse.cli.pages.status_page import StatusPage

    unknown = None if words is None else compared.unknown
    page = StatusPage(statuses, compared.by_table, unknown, time.time(), words, first, holders, left_out or {})
    is_wrong = any(status.state in _WRONG for status in statuses)
    differs = any(comparison.equal is False for comparison in compared.by_table.values())
    value = {
        "tables": [_value(status, compared) for status in statuses],
        "comparisons_unknown": compared.unknown,
        "held_back": [asdict(holder) for holder in holders],
        "left_out": left_out or {},
    }
    return Answer(value, page.view(), code=int(is_wrong or differs))


def _value(status: TableStatus, compared: Comparisons) -> dict[str, Any]:
    comparison = compared.by_table.get(status.name)
    return {
        **asdict(status),
        "state": status.state.value,
        "compared": None if comparison is None else asdict(comparison),
    }


def _watch(look: Callable[[], Answer], seconds: float) -> Answer:
    """Shows the page again and again, until somebody interrupts; then the last page is the answer."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if not console.is_terminal:
        raise UsageError("--watch needs a terminal. Leave it out, or give --json again and again.")
    answer = look()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(answer.text, refresh=True)
                time.sleep(seconds)
                answer = look()
    except KeyboardInterrupt:
        return answer


def _of_definitions(defs: "dg.Definitions", words: Sequence[str]) -> Answer:
    """Where the tables of definitions stand, when each was compared, and which of them a run makes first."""
    from lakehouse.dagster.io_manager import code_location_of, managers_of

    code_location, managers = code_location_of(defs), managers_of(defs.resources)
    codes = {
        table.name: code
        for table in code_location.tables.values()
        if table.manager in managers and (code := _code_to_compare(table, managers[table.manager])) is not None
    }
    logs = declared_logs(code_location)
    by_name = {status.name: status for status in table_statuses(logs, codes)}
    assets = {table.name: table for table in code_location.tables.values() if table.is_written}
    statuses = [
        by_name.get(name) or TableStatus(name, None, None) for name in logs if name in by_name or name in assets
    ]
    first = [name for name in logs if name not in by_name and name in assets and assets[name].partitions_def is None]
    holders, left_out = holding(logs, statuses), out_of_reach(code_location)
    return _answer(statuses, comparisons(code_location), words, first, holders, left_out)


def _code_to_compare(table: "AssetTable", manager: "DeltaIOManager") -> Code | None:
    """The code of a table whose next run compares everything if the code is another than in the table's mark."""
    from lakehouse.read.decide import compares_new_code

    if table.asset is None or not table.is_written or not table.stands_alone:
        return None
    try:
        described = manager.describe(table.asset, table.key)
    except LakehouseError:  # its next run is refused
        return None
    leaves_rows_out = not all(read.is_whole for read in table.changes.values())
    return described.code if compares_new_code(described, leaves_rows_out=leaves_rows_out) else None


STATUS = Command(_add_status_arguments, _run_status)
