"""`lakehouse status`: where each table stands, how far it has read its sources, and when it was last proven right."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakehouse.cli.answer import Answer
from lakehouse.cli.compared import Comparisons, comparisons
from lakehouse.cli.location import add_place, definitions
from lakehouse.cli.tables import at, columns, declared_logs, in_partition, logs_of
from lakehouse.log.rows import counted
from lakehouse.status.new_code import NewCode
from lakehouse.status.tables import TableState, TableStatus, table_statuses

if TYPE_CHECKING:
    import dagster as dg

_SHOWN = 3
"""So many partitions are named."""
_COMPARED = "COMPARED (UTC)"
_HEADINGS = ("TABLE", "VERSION", "WRITTEN (UTC)", "STATE", _COMPARED, "READ")


def add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: Namespace) -> Answer:
    defs = None if given.root is not None else definitions(given.module)
    statuses = table_statuses(logs_of(given)) if defs is None else _declared(defs)
    compared = Comparisons({}, "no definitions are loaded") if defs is None else comparisons(defs)
    rows = [_HEADINGS, *(_row(status, compared) for status in statuses)]
    gaps = sum(status.state is TableState.GAP for status in statuses)
    problems = sum(status.state is TableState.UNREADABLE for status in statuses)
    different = sum(comparison.equal is False for comparison in compared.by_table.values())
    wrong = [f"{counted(gaps, 'table')} with a gap"] * (gaps > 0)
    wrong += [f"{counted(problems, 'table')} of which not every log can be read"] * (problems > 0)
    wrong += [f"{counted(different, 'table')} that differed when last compared with a recompute"] * (different > 0)
    last = ", ".join([counted(len(statuses), "table"), *wrong]) + "."
    if compared.unknown is not None and defs is not None:
        last += f"\nWhen tables were compared with a recompute is not known here: {compared.unknown}."
    texts = list(columns(_without_empty_column(rows, _HEADINGS.index(_COMPARED))))
    waiting = [_waiting(status.name, status.new_code) for status in statuses if status.new_code is not None]
    return Answer(
        {"tables": [_value(status, compared) for status in statuses], "comparisons_unknown": compared.unknown},
        "\n".join([*texts, "", *waiting, last]),
        code=1 if wrong else 0,
    )


def _declared(defs: "dg.Definitions") -> list[TableStatus]:
    """Where the tables of definitions stand, which know the code of their assets as well."""
    from lakehouse.cli.recoded import compared_code

    return table_statuses(declared_logs(defs), compared_code(defs))


def _waiting(table: str, new: NewCode) -> str:
    """What the next run of a table compares because its code changed."""
    if new.partitions:
        shown = ", ".join(new.partitions[:_SHOWN]) + ", ..." * (len(new.partitions) > _SHOWN)
        of = f"each of {counted(len(new.partitions), 'partition')} is compared once, in its own next run: {shown}"
    else:
        rows = "" if new.rows is None else f" ({counted(new.rows, 'row')})"
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
            of += f" ({counted(reading.unread, 'version')} unread since {at(reading.since)})"
        yield of
