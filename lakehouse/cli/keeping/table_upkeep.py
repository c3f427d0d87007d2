"""`lakehouse upkeep`: compacts tables and removes what no reader needs any more, only where that is due."""

import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.cli.command import Answer, Command, add_json, add_target
from lakehouse.cli.keeping.table_readers import only_spark_knows, table_of_ours
from lakehouse.cli.loading import definitions
from lakehouse.cli.tables import declared_logs
from lakehouse.delta.commit_info import count_of
from lakehouse.errors import UpkeepError

if TYPE_CHECKING:
    from lakehouse.dagster.code_location import AssetTable, CodeLocation
    from lakehouse.upkeep.due import TableUpkeep


@dataclass(frozen=True, slots=True)
class UpkeepLook:
    """What a table needs, and how many files it has afterwards; None if nothing was done."""

    upkeep: "TableUpkeep"
    files_after: int | None = None


def _add_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("tables", metavar="TABLE", nargs="*", help="asset keys, their parts joined by /; else all")
    parser.add_argument("--dry-run", action="store_true", help="say what is due and why; start no Spark")
    add_json(parser)


def _run(given: Namespace) -> Answer:
    from lakehouse.dagster.io_manager import code_location_of

    defs = definitions(given)
    code_location = code_location_of(defs)
    named = {table.name: table for table in code_location.tables.values()}
    listed = [table_of_ours(name, named) for name in given.tables] or [
        table for table in named.values() if table.is_written and table.root is not None
    ]
    looks = list[UpkeepLook]()
    for table in listed:
        upkeep = _upkeep(table, code_location, is_named=bool(given.tables))
        if upkeep is not None:
            does = upkeep.tasks and not given.dry_run
            looks.append(UpkeepLook(upkeep, _carry_out(defs, table, upkeep) if does else None))
    lines = [_line(look, dry_run=given.dry_run) for look in looks]
    return Answer({"tables": [_value(look) for look in looks]}, "\n".join([*lines, _last_line(looks)]))


def _upkeep(table: "AssetTable", code_location: "CodeLocation", *, is_named: bool) -> "TableUpkeep | None":
    """What a table needs; None if there is no table yet, or if only Spark can list its files and nobody named it.

    Raises:
        UpkeepError (NOT_OURS): Only Spark can list the files of a table that the command line names.
    """
    from lakehouse.delta.file_log import FileLog
    from lakehouse.upkeep.due import Rules, upkeep_of
    from lakehouse.upkeep.readers import readers_of

    logs = declared_logs(code_location)
    log = logs.get(table.name)
    unreadable = only_spark_knows(code_location, table.name)
    is_there = table.ref is not None and table.ref.why_only_spark() is None  # a catalog name may mean another place now
    if is_there and isinstance(log, FileLog):
        readers = readers_of(table.name, logs, int(time.time() * 1000), {}, unreadable)
        upkeep = None if readers is None else upkeep_of(log, readers, Rules())
        if upkeep is not None or readers is None:
            return upkeep
    if is_named:
        raise UpkeepError.not_ours(
            table.name,
            "only Spark can list its files",
            "Run OPTIMIZE and VACUUM of it in Spark, as docs/how-to/upkeep.md says.",
        )
    return None


def _carry_out(defs: Any, table: "AssetTable", upkeep: "TableUpkeep") -> int | None:
    """Does what is due; how many files the table has afterwards."""
    from lakehouse.dagster.io_manager import managers_of
    from lakehouse.delta.file_log import FileLog
    from lakehouse.upkeep.carry_out import carry_out

    manager, ref = managers_of(defs.resources)[table.manager], table.ref
    assert ref is not None, f"{table.name} has a manager"
    assert ref.files is not None, f"the log of {table.name} was read from its files"
    carry_out(manager.writing_session(), ref, upkeep)
    log = FileLog(ref.files, ref.name)
    head = log.head()
    files = None if head is None else log.live_files(head.version)
    return None if files is None else len(files)


def _line(look: UpkeepLook, *, dry_run: bool) -> str:
    upkeep = look.upkeep
    if not upkeep.tasks:
        return f"{upkeep.table}: nothing is due."
    works = "; ".join(f"{task.work.value}: {task.why}" for task in upkeep.tasks)
    if dry_run or look.files_after is None:
        return f"{upkeep.table}: due: {works}."
    return f"{upkeep.table}: {works}. It has {count_of(look.files_after, 'file')} now, and had {len(upkeep.live):,}."


def _last_line(looks: list[UpkeepLook]) -> str:
    due = sum(bool(look.upkeep.tasks) for look in looks)
    return f"{count_of(len(looks), 'table')}, of which {due} needed upkeep."


def _value(look: UpkeepLook) -> dict[str, Any]:
    upkeep = look.upkeep
    return {
        "table": upkeep.table,
        "due": [
            {"work": task.work.name.lower(), "statement": task.work.value, "why": task.why} for task in upkeep.tasks
        ],
        "files": len(upkeep.live),
        "bytes": sum(file.bytes for file in upkeep.live),
        "unneeded_files": len(upkeep.unneeded),
        "unneeded_bytes": sum(file.bytes for file in upkeep.unneeded),
        "files_after": look.files_after,
    }


UPKEEP = Command(_add_arguments, _run)
