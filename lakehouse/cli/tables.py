"""The tables that a command is about, those of the definitions or below a directory, and their logs without Spark."""

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.cli.answer import UsageError
from lakehouse.cli.table_status import TableStatus
from lakehouse.cli.where import definitions
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import Log

if TYPE_CHECKING:
    from lakehouse.dagster.code_location import CodeLocation


def logs_of(given: Namespace) -> dict[str, Log]:
    """The log of each table by its name: of a directory all tables below it, else those of the definitions.

    Raises:
        UsageError: There is no such directory.
    """
    if given.root is not None:
        root = Path(given.root)
        if not root.is_dir():
            raise UsageError(f"There is no directory {root}.")
        return {name: FileLog(Location(f"{root}/{name}"), name) for name in tables_below(str(root))}
    from lakehouse.dagster.io_manager import code_location_of

    return declared_logs(code_location_of(definitions(given.module)))


def log_of(table: str, logs: dict[str, Log]) -> Log:
    """The log of one table.

    Raises:
        UsageError: There is no table of that name.
    """
    if table not in logs:
        raise UsageError(f"There is no table {table}. There are: {', '.join(sorted(logs)) or 'none'}.")
    return logs[table]


def tables_below(root: str) -> list[str]:
    """The names of the Delta tables below a directory of this machine; what is inside a table is none."""
    names: list[str] = []
    for directory, below, _ in os.walk(root):
        if "_delta_log" in below:
            names.append(Path(directory).relative_to(root).as_posix())
            below.clear()
    return sorted(names)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of text as aligned lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def in_partition(status: TableStatus) -> str:
    """Of which partition the positions are; nothing of a table without partitions."""
    return f"partition {', '.join(status.partitions)}, the last that was written: " if status.partitions else ""


def at(millis: int | None) -> str:
    """A time in UTC, to the second; nothing if there is none."""
    return "" if millis is None else datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="seconds")


def declared_logs(code_location: "CodeLocation") -> dict[str, Log]:
    """The log of each table of a code location by its name, without those that only Spark can read."""
    refs = filter(None, (table.ref for table in code_location.tables.values()))
    return {
        ref.name: FileLog(ref.files, ref.name) for ref in refs if ref.files is not None and ref.why_only_spark() is None
    }
