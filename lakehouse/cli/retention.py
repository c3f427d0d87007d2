"""Who needs the past of tables, and what keeps tables in shape: `lakehouse readers`, `cut` and `upkeep`."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakehouse.cli.command import (
    Answer,
    Command,
    UsageError,
    add_json,
    add_place,
    add_table,
    add_target,
    definitions,
    no_such,
)
from lakehouse.cli.pages.table_pages import readers_page
from lakehouse.cli.tables import log_of, logs_of, no_table, readable_logs
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.log import Head, limit_from
from lakehouse.errors import LakehouseError, ReadError, UpkeepError
from lakehouse.spark.diagnosis import first_line
from lakehouse.status.lakehouse_status import ReaderLook, reader_looks
from lakehouse.upkeep.readers import ReaderKind, Readers, readers_of
from lakehouse.upkeep.registration import PropertyChange, keep_longer, register, release, time_travel

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import AssetTable, CodeLocation
    from lakehouse.dagster.definitions.keeping import UpkeepResult
    from lakehouse.delta.file_log import FileLog
    from lakehouse.spark.table_version import ReadableLogs
    from lakehouse.upkeep.due import TableUpkeep


def _add_readers_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_table(parser)
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--register", metavar="NAME", help="a reader that no table here is, or a table with another limit"
    )
    change.add_argument("--release", metavar="NAME", help="forget a registered reader")
    _add_limit(parser)
    add_json(parser)


def _add_limit(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="TIME", help="how long a registered reader may be behind: 14d, 36h, 2w")


def _limit(given: Namespace) -> timedelta | None:
    """How long the reader to be registered may be behind; None if no reader is to be registered."""
    limit = None if given.limit is None else limit_from(given.limit)
    if given.register is None and given.limit is not None:
        raise UsageError("--limit is of a reader that is registered: --register NAME --limit 14d.")
    if given.register is not None and limit is None:
        raise UsageError("A registered reader has a limit, for how long it may be behind: --limit 14d, 36h or 2w.")
    return limit


def _run_readers(given: Namespace) -> Answer:
    limit, name = _limit(given), given.register or given.release
    if name is not None:
        if given.root is not None:
            raise UsageError("Definitions say which Spark commits it: give -m MODULE or -f FILE instead of --root.")
        change = release if limit is None else partial(register, limit=limit)
        _change(definitions(given), given.table, partial(change, table=given.table, reader=name))
    logs, declared, unreadable = _logs_and_names(given)
    log = log_of(given.table, logs)
    readers = readers_of(given.table, logs, int(time.time() * 1000), declared, unreadable)
    if readers is None:
        raise no_table(given.table)
    return _answer(readers, reader_looks(readers, log))


def _answer(readers: Readers, listed: tuple[ReaderLook, ...]) -> Answer:
    problems = {
        look.reader.name: look.reader.problem
        for look in listed
        if look.reader.kind is ReaderKind.UNKNOWN and look.reader.problem is not None
    }
    too_long = [look.reader.name for look in listed if readers.kept_for(look.reader) < look.reader.limit]
    value = {
        "table": readers.table,
        "version": readers.head.version,
        "time_travel_seconds": round(time_travel(readers.head).total_seconds()),
        "readers": [_value_of_reader(readers, look) for look in listed if look.reader.name not in problems],
        "unreadable": problems,
        "limits_beyond_retention": too_long,
    }
    page = readers_page(readers, [(look.reader, look.back) for look in listed])
    return Answer(value, page, code=int(bool(problems or too_long)))


def _value_of_reader(readers: Readers, look: ReaderLook) -> dict[str, Any]:
    reader = look.reader
    return {
        "reader": reader.name,
        "kind": reader.kind.value,
        "state": reader.state(readers.now).value,
        "read": reader.read,
        "newest": readers.head.version,
        "unread": reader.unread,
        "since": reader.since,
        "limit_seconds": round(reader.limit.total_seconds()),
        "until": reader.until,
        "held_files": look.back.files,
        "held_bytes": look.back.bytes,
        "gap": reader.gap,
    }


def _logs_and_names(given: Namespace) -> "tuple[Mapping[str, FileLog], Mapping[str, timedelta], Mapping[str, str]]":
    """The logs that can be read here, the readers that definitions name, and followers whose logs only Spark reads."""
    if given.root is not None:
        return logs_of(given), {}, {}
    from lakehouse.dagster.io_manager import code_location_of

    code_location = code_location_of(definitions(given))
    named = code_location.by_name
    declared = named[given.table].declared.reader_limits if given.table in named else {}
    readable, followers = readable_logs(code_location), code_location.followers_of(given.table)
    return readable.logs, declared, {n: why for n, why in readable.out_of_reach.items() if n in followers}


def _change(defs: "dg.Definitions", name: str, change: Callable[[Head], PropertyChange]) -> None:
    """Changes the registered readers of one of our tables."""
    from lakehouse.dagster.io_manager import code_location_of, managers_of
    from lakehouse.upkeep.carry_out import change_properties

    table = table_of_ours(name, code_location_of(defs))
    manager, ref = managers_of(defs.resources)[table.manager], table.ref
    assert ref is not None, f"{table.name} has a manager"
    head = ref.log(manager.writing_session).head()
    if head is None:
        raise ReadError(f"There is no table '{table.name}' yet.", "Nothing was changed. Materialize its asset first.")
    change_properties(manager.writing_session(), ref, change(head))
    after = ref.log(manager.writing_session).head()
    longer = None if after is None else keep_longer(after)
    if longer is not None:
        change_properties(manager.writing_session(), ref, longer)


def _add_cut_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("tables", metavar="TABLE", nargs="*", help="the tables that are read together; else all")
    parser.add_argument("--sql", action="store_true", help="print a query for each table, and nothing else")
    parser.add_argument("--register", metavar="NAME", help="a reader for whom each table keeps its version of the cut")
    _add_limit(parser)
    add_json(parser)


def _run_cut(given: Namespace) -> Answer:
    from lakehouse.dagster.follow.cutting import cut
    from lakehouse.dagster.io_manager import code_location_of

    limit, defs = _limit(given), definitions(given)
    code_location = code_location_of(defs)
    for table in given.tables:
        if table not in code_location.by_name:
            raise UsageError(no_such("table", table, code_location.by_name))
    answer = cut(defs, *given.tables)
    if limit is not None:
        names = [table_of_ours(name, code_location).name for name in answer.versions]
        for table in names:
            _change(defs, table, partial(register, table=table, reader=given.register, limit=limit))
        answer = cut(defs, *answer.versions)
    queries = [f"{query};" for query in answer.queries.values()]
    if given.sql:
        return Answer(asdict(answer), "\n".join(queries))
    lines = [
        f"{name}: version {version}{_until(answer.until[name])}" for name, version in sorted(answer.versions.items())
    ]
    lines += [f"They stand for {', '.join(f'{source} {at}' for source, at in sorted(answer.stands_for.items()))}."]
    lines += [f"A newer cut waits for {each}." for each in answer.behind]
    return Answer(asdict(answer), "\n".join(lines))


def _until(millis: int | None) -> str:
    if millis is None:
        return ""
    return f", readable until {datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M} UTC at least"


def table_of_ours(name: str, code_location: "CodeLocation") -> "AssetTable":
    """The table of this name, which an asset of the code location writes; it may be a quarantine.

    Raises:
        UsageError: There is no table of that name.
        UpkeepError (NOT_OURS): Another program writes it.
    """
    from lakehouse.dagster.expectation_checks import writer_of_table

    tables = code_location.by_name
    if name not in tables:
        raise UsageError(no_such("table", name, tables))
    table = tables[name]
    if writer_of_table(table, code_location) is None:
        raise UpkeepError.not_ours(
            name,
            "no asset of the code location writes it",
            "Compact and clean it up where it is written. A reader is named in its spec, as "
            'metadata=Table(readers={"bi": "14 days"}): let the program that writes it keep its files and its log as '
            "long.",
        )
    return table


def _add_upkeep_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("tables", metavar="TABLE", nargs="*", help="asset keys, their parts joined by /; else all")
    parser.add_argument("--dry-run", action="store_true", help="say what is due and why; start no Spark")
    add_json(parser)


def _run_upkeep(given: Namespace) -> Answer:
    from lakehouse.dagster.definitions.keeping import UpkeepResult, keep, tables_to_keep
    from lakehouse.dagster.io_manager import code_location_of, managers_of

    defs = definitions(given)
    code_location = code_location_of(defs)
    listed = [table_of_ours(name, code_location) for name in given.tables] or tables_to_keep(code_location)
    managers, run, readable = managers_of(defs.resources), str(uuid4()), readable_logs(code_location)
    results, errors = list[UpkeepResult](), dict[str, str]()
    for table in listed:
        try:
            upkeep = _look_at(table, code_location, readable, is_named=bool(given.tables))
            if upkeep is not None:
                dry = given.dry_run or not upkeep.tasks
                results.append(UpkeepResult(upkeep) if dry else keep(managers[table.manager], table, upkeep, run))
        except Exception as error:  # the upkeep of the other tables goes on
            if len(listed) == 1:
                raise
            errors[table.name] = str(error) if isinstance(error, LakehouseError) else first_line(error)
    failures = [f"{name}: its upkeep ended with an error. {problem}" for name, problem in errors.items()]
    due = sum(bool(each.upkeep.tasks) for each in results)
    total = f"{count_of(len(results), 'table')}, of which {due} needed upkeep."
    lines = [*(each.sentence for each in results), *failures, total]
    value = {"tables": [_value_of_upkeep(each) for each in results], "errors": errors}
    return Answer(value, "\n".join(lines), code=int(bool(errors)))


def _look_at(
    table: "AssetTable", code_location: "CodeLocation", readable: "ReadableLogs", *, is_named: bool
) -> "TableUpkeep | None":
    """What a table needs; None if there is no table yet, or if only Spark can list its files and it was not named."""
    from lakehouse.dagster.definitions.keeping import look

    upkeep, log = look(table, code_location, readable), readable.logs.get(table.name)
    if upkeep is None and is_named and (log is None or log.head() is not None):
        raise UpkeepError.not_ours(
            table.name,
            "only Spark can list its files",
            "Its catalog may keep it. Otherwise run OPTIMIZE and VACUUM of it in Spark, as docs/how-to/upkeep.md says.",
        )
    return upkeep


def _value_of_upkeep(result: "UpkeepResult") -> dict[str, Any]:
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


CUT = Command(_add_cut_arguments, _run_cut)
READERS = Command(_add_readers_arguments, _run_readers)
UPKEEP = Command(_add_upkeep_arguments, _run_upkeep)
