"""`lakehouse status`: where each table stands, what readers hold back, which upkeep is due; as text or as a page."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from lakehouse.cli.command import Answer, Command, add_page, add_place, definitions, target
from lakehouse.cli.graph import Comparisons, behind, comparisons, groups_in_order
from lakehouse.cli.pages.status_page import StatusPage
from lakehouse.cli.tables import logs_of, readable_logs
from lakehouse.cursor.digests import Code
from lakehouse.cursor.unread import TableState
from lakehouse.errors import LakehouseError
from lakehouse.status.lakehouse_status import Declarations, TableReport, lakehouse_status
from lakehouse.status.table_status import TableStatus

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import AssetTable, CodeLocation
    from lakehouse.dagster.io_manager import DeltaIOManager

_WRONG = (TableState.GAP, TableState.UNREADABLE)
"""The states for which the exit code is 1."""


def _add_status_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_page(parser)


def _run_status(given: Namespace) -> Answer:
    if given.root is None:
        page = _of_definitions(definitions(given), target(given).words)
    else:
        page = StatusPage(lakehouse_status(logs_of(given), _now()), Comparisons({}, "no definitions are loaded"))
    return _answer(page)


def _now() -> int:
    return int(time.time() * 1000)


def _answer(page: StatusPage) -> Answer:
    """The answer of the command: a document and a page about the tables."""
    lakehouse, compared = page.lakehouse, page.compared
    value = {
        "tables": [
            {**_value(table, compared), "group": page.groups.get(table.status.name)} for table in lakehouse.tables
        ],
        "behind": list(page.behind),
        "comparisons_unknown": compared.unknown,
        "held_back": [asdict(holder) for holder in lakehouse.holders],
        "left_out": dict(page.left_out),
    }
    is_wrong = any(status.state in _WRONG for status in page.statuses)
    differs = any(comparison.equal is False for comparison in compared.by_table.values())
    return Answer(value, page.view(), code=int(is_wrong or differs))


def _value(table: TableReport, compared: Comparisons) -> dict[str, Any]:
    status, comparison = table.status, compared.by_table.get(table.status.name)
    return {
        **asdict(status),
        "state": status.state.value,
        "compared": None if comparison is None else asdict(comparison),
        "files": None if table.size is None else table.size.files,
        "bytes": None if table.size is None else table.size.bytes,
        "due": [{"work": task.work.name.lower(), "why": task.why} for task in table.due],
        "lost_attempts": [asdict(lost) for lost in table.lost],
        "readers_unknown": table.problem,
    }


def _of_definitions(defs: "dg.Definitions", words: Sequence[str]) -> StatusPage:
    """What is known of the tables of definitions, including tables that no run has made yet."""
    from lakehouse.dagster.io_manager import code_location_of, managers_of

    code_location = code_location_of(defs)
    readable = readable_logs(code_location)
    logs, left_out = readable.logs, readable.out_of_reach
    declarations = _declarations(code_location, managers_of(defs.resources), left_out)
    lakehouse = lakehouse_status(logs, _now(), declarations)
    by_name = {table.status.name: table for table in lakehouse.tables}
    assets = {table.name for table in code_location.tables.values() if table.is_written}
    groups = groups_in_order(defs, logs)
    tables = [
        by_name.get(name) or TableReport(TableStatus(name, None, None))
        for name in groups
        if name in by_name or name in assets
    ]
    late = behind(code_location, groups, lakehouse.statuses)
    shown = replace(lakehouse, tables=tuple(tables))
    return StatusPage(shown, comparisons(code_location), words, groups, late, left_out)


def _declarations(
    code_location: "CodeLocation", managers: "Mapping[str, DeltaIOManager]", left_out: Mapping[str, str]
) -> Declarations:
    """What definitions declare about their tables and no log records."""
    tables = [*code_location.tables.values()]
    unreadable = dict[str, dict[str, str]]()
    for table in tables:
        for source in code_location.followed_by(table) if table.name in left_out else ():
            unreadable.setdefault(source.name, {})[table.name] = left_out[table.name]
    return Declarations(
        {
            table.name: code
            for table in tables
            if table.manager in managers and (code := _code_to_compare(table, managers[table.manager])) is not None
        },
        {table.name: table.declared.reader_limits for table in tables},
        unreadable,
        {each.name for each in tables if each.is_written and each.ref is not None and not each.ref.why_only_spark()},
        code_location.ways.agreeing,
    )


def _code_to_compare(table: "AssetTable", manager: "DeltaIOManager") -> Code | None:
    """The code of a table, if its next run compares everything when the code in its mark is another; else None."""
    from lakehouse.read.decide import compares_new_code

    if table.asset is None or not table.is_written or not table.stands_alone:
        return None
    try:
        described = manager.asset_of(table.asset, table.key)
    except LakehouseError:  # its next run is refused
        return None
    leaves_rows_out = not all(read.is_whole for read in table.changes.values())
    return described.code if compares_new_code(described, leaves_rows_out=leaves_rows_out) else None


STATUS = Command(_add_status_arguments, _run_status)
