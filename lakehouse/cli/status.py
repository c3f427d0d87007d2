"""`lakehouse status`: where each table stands, how far it has read its sources, when it was last compared."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.cli.command import Answer, Command, add_place, at, columns, definitions
from lakehouse.cli.table_status import NewCode, TableState, TableStatus, table_statuses
from lakehouse.cli.tables import declared_logs, in_partition, logs_of
from lakehouse.cursor.code import Code
from lakehouse.delta.commit_info import count_of
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import AssetTable, CodeLocation
    from lakehouse.dagster.definitions.past_checks import MadeCheck
    from lakehouse.dagster.io_manager import DeltaIOManager

_HOME = "DAGSTER_HOME"
_SHOWN = 3
"""So many partitions are named."""
_COMPARED = "COMPARED (UTC)"
_HEADINGS = ("TABLE", "VERSION", "WRITTEN (UTC)", "STATE", _COMPARED, "READ")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is known of a table's comparisons with a recompute.

    Args:
        at: When the last one was made, in milliseconds since the epoch; None if none was.
        equal: Whether the table was right then; None if none was made.
        of: What was compared, if not the whole table: a partition, a part of the keys.
        impossible: Why no recompute says what the table must hold; None if one does.
    """

    at: int | None = None
    equal: bool | None = None
    of: str = ""
    impossible: str | None = None

    def __str__(self) -> str:
        if self.impossible is not None:
            return "cannot be"
        if self.at is None:
            return "never"
        return f"{at(self.at)} {'equal' if self.equal else 'DIFFERENT'}{f' ({self.of})' if self.of else ''}"


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparisons of the tables.

    Args:
        by_table: Those of each table that an asset makes; without those that only Dagster would know, if it is unknown.
        unknown: Why Dagster's event log is not at hand, as a clause; None if it is.
    """

    by_table: dict[str, Comparison]
    unknown: str | None = None


def comparisons(code_location: "CodeLocation") -> Comparisons:
    """When each table of a code location was last compared, by the instance of Dagster that `DAGSTER_HOME` names."""
    import dagster as dg

    from lakehouse.dagster.definitions.past_checks import last_compared
    from lakehouse.dagster.definitions.recompute import why_not_recomputed

    made = (table for table in code_location.tables.values() if table.asset is not None)
    reasons = {table.key: why_not_recomputed(table) for table in made}
    impossible = {key.to_user_string(): Comparison(impossible=why) for key, why in reasons.items() if why is not None}
    if not os.environ.get(_HOME):
        return Comparisons(impossible, f"the variable {_HOME} is not set")
    try:
        with dg.DagsterInstance.get() as instance:
            made = {key: last_compared(instance, key) for key, why in reasons.items() if why is None}
    except Exception as error:  # its storage may be anywhere, and the logs of the tables say the rest all the same
        return Comparisons(impossible, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return Comparisons(impossible | {key.to_user_string(): _comparison(last) for key, last in made.items()})


def _comparison(last: "MadeCheck | None") -> Comparison:
    from lakehouse.dagster.definitions.past_checks import PART, PARTITION

    if last is None:
        return Comparison()
    named = ((PARTITION, last.text(PARTITION)), (PART, last.text(PART)))
    of = ", ".join(f"{name} {text}" for name, text in named if text is not None)
    return Comparison(int(last.at * 1000), last.evaluation.passed, of)


def _add_status_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _run_status(given: Namespace) -> Answer:
    if given.root is not None:
        statuses, compared = table_statuses(logs_of(given)), Comparisons({}, "no definitions are loaded")
    else:
        statuses, compared = _of_definitions(definitions(given.module))
    rows = [_HEADINGS, *(_row(status, compared) for status in statuses)]
    gaps = sum(status.state is TableState.GAP for status in statuses)
    problems = sum(status.state is TableState.UNREADABLE for status in statuses)
    different = sum(comparison.equal is False for comparison in compared.by_table.values())
    wrong = [f"{count_of(gaps, 'table')} with a gap"] * (gaps > 0)
    wrong += [f"{count_of(problems, 'table')} of which not every log can be read"] * (problems > 0)
    wrong += [f"{count_of(different, 'table')} that differed when last compared with a recompute"] * (different > 0)
    last = ", ".join([count_of(len(statuses), "table"), *wrong]) + "."
    if compared.unknown is not None and given.root is None:
        last += f"\nWhen tables were compared with a recompute is not known here: {compared.unknown}."
    texts = list(columns(_without_empty_column(rows, _HEADINGS.index(_COMPARED))))
    waiting = [_waiting(status.name, status.new_code) for status in statuses if status.new_code is not None]
    return Answer(
        {"tables": [_value(status, compared) for status in statuses], "comparisons_unknown": compared.unknown},
        "\n".join([*texts, "", *waiting, last]),
        code=1 if wrong else 0,
    )


def _of_definitions(defs: "dg.Definitions") -> tuple[list[TableStatus], Comparisons]:
    """Where the tables of definitions stand, and when they were last compared."""
    from lakehouse.dagster.io_manager import code_location_of, managers_of

    code_location, managers = code_location_of(defs), managers_of(defs.resources)
    codes = {
        table.name: code
        for table in code_location.tables.values()
        if table.manager in managers and (code := _code_to_compare(table, managers[table.manager])) is not None
    }
    return table_statuses(declared_logs(code_location), codes), comparisons(code_location)


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


def _waiting(table: str, new: NewCode) -> str:
    """What the next run of a table compares because its code changed."""
    if new.partitions:
        shown = ", ".join(new.partitions[:_SHOWN]) + ", ..." * (len(new.partitions) > _SHOWN)
        of = f"each of {count_of(len(new.partitions), 'partition')} is compared once, in its own next run: {shown}"
    else:
        rows = "" if new.rows is None else f" ({count_of(new.rows, 'row')})"
        of = f"its next run compares everything once{rows}"
    return f"{table}: {new.why}; {of}."


def _value(status: TableStatus, compared: Comparisons) -> dict[str, Any]:
    comparison = compared.by_table.get(status.name)
    return {
        **asdict(status),
        "state": status.state.value,
        "compared": None if comparison is None else asdict(comparison),
    }


def _row(status: TableStatus, compared: Comparisons) -> tuple[str, ...]:
    version = "" if status.version is None else str(status.version)
    reads = status.problem or in_partition(status) * bool(status.reads) + "; ".join(_read(status))
    comparison = str(compared.by_table.get(status.name, ""))
    return (status.name, version, at(status.written), status.state.value, comparison, reads)


def _without_empty_column(rows: Sequence[tuple[str, ...]], column: int) -> list[tuple[str, ...]]:
    """The rows without a column of which nothing is known."""
    if any(row[column] for row in rows[1:]):
        return list(rows)
    return [(*row[:column], *row[column + 1 :]) for row in rows]


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
            of += f" ({count_of(reading.unread, 'version')} unread since {at(reading.since)})"
        yield of


STATUS = Command(_add_status_arguments, _run_status)
