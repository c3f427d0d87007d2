"""`lakehouse upkeep`: compacts tables and removes what no reader needs any more, only where that is due."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakehouse.cli.command import Answer, Command, add_json, add_target
from lakehouse.cli.keeping.table_readers import table_of_ours
from lakehouse.cli.loading import definitions
from lakehouse.cli.tables import readable_logs
from lakehouse.delta.commit_info import count_of
from lakehouse.errors import LakehouseError, UpkeepError
from lakehouse.spark.diagnosis import first_line

if TYPE_CHECKING:
    from lakehouse.dagster.code_location import AssetTable, CodeLocation
    from lakehouse.dagster.nights.keeping import UpkeepResult
    from lakehouse.spark.table_version import ReadableLogs
    from lakehouse.upkeep.due import TableUpkeep


def _add_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("tables", metavar="TABLE", nargs="*", help="asset keys, their parts joined by /; else all")
    parser.add_argument("--dry-run", action="store_true", help="say what is due and why; start no Spark")
    add_json(parser)


def _run(given: Namespace) -> Answer:
    from lakehouse.dagster.io_manager import code_location_of, managers_of
    from lakehouse.dagster.nights.keeping import UpkeepResult, keep, tables_to_keep

    defs = definitions(given)
    code_location = code_location_of(defs)
    listed = [table_of_ours(name, code_location) for name in given.tables] or tables_to_keep(code_location)
    managers, run, readable = managers_of(defs.resources), str(uuid4()), readable_logs(code_location)
    results, errors = list[UpkeepResult](), dict[str, str]()
    for table in listed:
        try:
            upkeep = _look(table, code_location, readable, is_named=bool(given.tables))
            if upkeep is not None:
                dry = given.dry_run or not upkeep.tasks
                results.append(UpkeepResult(upkeep) if dry else keep(managers[table.manager], table, upkeep, run))
        except Exception as error:  # other tables are looked after all the same
            if len(listed) == 1:
                raise
            errors[table.name] = str(error) if isinstance(error, LakehouseError) else first_line(error)
    failures = [f"{name}: its upkeep ended with an error. {problem}" for name, problem in errors.items()]
    lines = [*(each.sentence for each in results), *failures, _last_line(results)]
    value = {"tables": [_value(each) for each in results], "errors": errors}
    return Answer(value, "\n".join(lines), code=int(bool(errors)))


def _look(
    table: "AssetTable", code_location: "CodeLocation", readable: "ReadableLogs", *, is_named: bool
) -> "TableUpkeep | None":
    """What a table needs; None if there is no table yet, or if only Spark can list its files and nobody named it.

    Raises:
        UpkeepError (NOT_OURS): Only Spark can list the files of a table that the command line names.
    """
    from lakehouse.dagster.nights.keeping import look

    upkeep, log = look(table, code_location, readable), readable.logs.get(table.name)
    if upkeep is None and is_named and (log is None or log.head() is not None):
        raise UpkeepError.not_ours(
            table.name,
            "only Spark can list its files",
            "Run OPTIMIZE and VACUUM of it in Spark, as docs/how-to/upkeep.md says.",
        )
    return upkeep


def _last_line(results: "list[UpkeepResult]") -> str:
    due = sum(bool(each.upkeep.tasks) for each in results)
    return f"{count_of(len(results), 'table')}, of which {due} needed upkeep."


def _value(result: "UpkeepResult") -> dict[str, Any]:
    upkeep = result.upkeep
    return {
        "table": upkeep.table,
        "due": [
            {"work": task.work.name.lower(), "statement": task.work.value, "why": task.why} for task in upkeep.tasks
        ],
        "files": len(upkeep.live),
        "bytes": sum(file.bytes for file in upkeep.live),
        "unneeded_files": len(upkeep.unneeded),
        "unneeded_bytes": sum(file.bytes for file in upkeep.unneeded),
        "freed_bytes": result.freed_bytes,
        "files_after": result.files_after,
    }


UPKEEP = Command(_add_arguments, _run)
