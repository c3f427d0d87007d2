"""The tables that a command is about and their logs, without Spark; `lakehouse changes`."""

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.cli.command import (
    DAGSTER_HOME,
    Answer,
    Command,
    UsageError,
    add_json,
    add_place,
    add_table,
    definitions,
    manager,
    named_root,
    no_such,
)
from lakehouse.cursor.mark import mark_in, rows_of
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.location import Location
from lakehouse.delta.log import Head, Log
from lakehouse.errors import LakehouseError, ReadError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.cli.pages.table_pages import Change
    from lakehouse.dagster.code_location import CodeLocation
    from lakehouse.delta.file_log import FileLog
    from lakehouse.spark.table_version import ReadableLogs, TableRef, TableVersion


def logs_of(given: Namespace) -> "Mapping[str, FileLog]":
    """The log of each table, by name: of all tables below a directory if one is named, else of the definitions' tables.

    Raises:
        UsageError: There is no such directory.
    """
    if given.root is not None:
        from lakehouse.delta.file_log import FileLog

        root = named_root(given)
        return {name: FileLog(Location(f"{root}/{name}"), name) for name in tables_below(str(root))}
    from lakehouse.dagster.io_manager import code_location_of

    return readable_logs(code_location_of(definitions(given))).logs


def readable_logs(code_location: "CodeLocation") -> "ReadableLogs":
    """The logs of a code location's tables. A table with a catalog name is looked for where earlier runs found it."""
    from lakehouse.spark.table_version import ReadableLogs  # it loads PySpark, which a help text does not need

    return ReadableLogs.of(_found_refs(code_location))


def _found_refs(code_location: "CodeLocation") -> "Sequence[TableRef]":
    """Where the tables are: a catalog name is looked up in Dagster's event log, if `DAGSTER_HOME` names an instance."""
    refs = code_location.refs
    if not os.environ.get(DAGSTER_HOME) or all(ref.files is not None for ref in refs):
        return refs
    import dagster as dg

    from lakehouse.dagster.table_facts import noted_locations

    addresses = dict[str, str]()
    with suppress(Exception), dg.DagsterInstance.get() as instance:  # its storage may be anywhere
        for key, table in code_location.tables.items():
            noted = noted_locations(instance, key)
            own = {table.name: noted[table.name]} if table.name in noted else {}
            addresses = {**noted, **addresses, **own}
    return [ref.found_among(addresses) for ref in refs]


def log_of(table: str, logs: "Mapping[str, FileLog]") -> "FileLog":
    """The log of one table.

    Raises:
        UsageError: There is no table of that name.
    """
    if table not in logs:
        raise UsageError(no_such("table", table, logs))
    return logs[table]


@dataclass(frozen=True, slots=True)
class NamedTable:
    """The table that a command line names, where it stands, and the session that reads its rows."""

    ref: "TableRef"
    session: "Callable[[], SparkSession]"
    key: Sequence[str]
    log: Log
    head: Head

    @classmethod
    def of(cls, given: Namespace) -> "NamedTable":
        """The table that the command line names.

        Raises:
            UsageError: Nothing has its name.
            ReadError: There is no table yet.
        """
        table = cls.of_ref(*_find_table(given))
        if table is None:
            raise no_table(given.table)
        return table

    @classmethod
    def of_ref(
        cls, ref: "TableRef", session: "Callable[[], SparkSession]", key: Sequence[str] = ()
    ) -> "NamedTable | None":
        """A table at its newest version; None if there is no table yet."""
        log = ref.log(session)
        head = log.head()
        return None if head is None else cls(ref, session, key, log, head)

    def at(self, version: int, where: str | None = None) -> "TableVersion":
        """The table at a version."""
        from lakehouse.spark.table_version import TableVersion

        return TableVersion(self.session, self.ref, self.head.table_id, version, where)


def _find_table(given: Namespace) -> "tuple[TableRef, Callable[[], SparkSession], Sequence[str]]":
    """Where a table is, the session that reads it, and its declared key."""
    from lakehouse.dagster.io_manager import code_location_of, managers_of

    if given.root is not None:
        from lakehouse.spark.table_version import TableRef

        log_of(given.table, logs_of(given))
        return TableRef.at_path(given.table, f"{given.root}/{given.table}"), manager(given).session, ()
    defs = definitions(given)
    tables = {table.name: table for table in code_location_of(defs).tables.values() if table.ref is not None}
    if given.table not in tables:
        raise UsageError(no_such("table", given.table, tables))
    table = tables[given.table]
    assert table.ref is not None
    return table.ref, managers_of(defs.resources)[table.manager].session, table.declared.key_columns


@contextmanager
def reading_old_files(what: str) -> Generator[None]:
    """Explains an error while reading: files of an old version may be gone.

    Raises:
        ReadError: Something that is not the library's own error was raised.
    """
    from lakehouse.spark.diagnosis import first_line

    try:
        yield
    except LakehouseError:
        raise
    except Exception as error:
        cure = "Nothing was written. VACUUM may have removed files of an old version: try a later one."
        raise ReadError(f"{what}: {first_line(error)}", cure) from error


def no_table(name: str) -> ReadError:
    """The error of a command that has nothing to read, because there is no table of that name."""
    return ReadError(f"There is no table '{name}'.", "Nothing was read. `lakehouse status` lists the tables.")


def tables_below(root: str) -> list[str]:
    """The names of the Delta tables below a directory of this machine; directories inside a table are not searched."""
    names: list[str] = []
    for directory, below, _ in os.walk(root):
        if "_delta_log" in below:
            names.append(Path(directory).relative_to(root).as_posix())
            below.clear()
    return sorted(names)


def changes_between(table: str, log: Log, after: int | None, upto: int | None) -> "tuple[int, list[Change]]":
    """The newest version of a table, and its commits `(after, upto]`, oldest first; if `after` is None, the last ten.

    Raises:
        ReadError: There is no table, it has no such versions, or its log no longer has them.
    """
    head = log.head()
    if head is None:
        raise no_table(table)
    last = head.version if upto is None else upto
    first = max(-1, last - 10) if after is None else after
    if last > head.version or first > last:
        raise ReadError(
            f"'{table}' has no versions ({first}, {last}]: it is at version {head.version}.",
            "Nothing was read. Give --after and --upto within its history.",
        )
    changes = sorted(map(change_of, log.commits(last, first + 1)), key=lambda change: change.version)
    oldest = min((change.version for change in changes), default=last + 1)
    if after is not None and oldest > first + 1:
        raise ReadError(
            f"The log of '{table}' no longer has the commits {first + 1} to {oldest - 1}: they were cleaned up.",
            f"Nothing was read. Leave --after out, or give --after {oldest - 1}.",
        )
    return head.version, changes


def change_of(commit: Commit) -> "Change":
    """What a commit did, and which run made it."""
    from lakehouse.cli.pages.table_pages import Change

    mark = mark_in(commit)
    run = None if mark is None else mark.run
    return Change(commit.version, commit.timestamp, commit.operation, rows_of(commit), run)


def _add_changes_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_table(parser)
    parser.add_argument("--after", type=int, metavar="V", help="the version behind which to begin; else the last ten")
    parser.add_argument("--upto", type=int, metavar="V", help="the last version; else the newest")
    add_json(parser)


def _run_changes(given: Namespace) -> Answer:
    from lakehouse.cli.pages.table_pages import changes_page

    newest, listed = changes_between(given.table, log_of(given.table, logs_of(given)), given.after, given.upto)
    page = changes_page(given.table, newest, listed, time.time())
    return Answer({"table": given.table, "changes": [asdict(change) for change in listed]}, page)


CHANGES = Command(_add_changes_arguments, _run_changes)
