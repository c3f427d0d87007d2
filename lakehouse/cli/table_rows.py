"""`lakehouse show` and `lakehouse diff`: the rows of a table at a version, and those in which two versions differ."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from lakehouse.cli.command import Answer, Command, UsageError, add_json, add_place, add_table
from lakehouse.cli.tables import NamedTable, named_table, no_table
from lakehouse.cursor.find import LOOKED_BACK
from lakehouse.cursor.mark import mark_in
from lakehouse.errors import LakehouseError, ReadError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.delta.commit_info import Commit
    from lakehouse.delta.log import Head, Log
    from lakehouse.difference.between_versions import VersionDiff
    from lakehouse.spark.table_version import TableVersion


_MOST = 20
"""So many rows are shown."""


def _add_show_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_table(parser)
    parser.add_argument("--where", metavar="SQL", help="only rows of this condition; starts Spark")
    parser.add_argument("--limit", metavar="N", type=int, default=_MOST, help=f"how many rows are shown ({_MOST})")
    parser.add_argument("--at", metavar="VERSION", type=int, help="the version; else the newest")
    add_json(parser)


def _run_show(given: Namespace) -> Answer:
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
    rows = [{name: _plain(value) for name, value in row.items()} for row in _rows_at(table, log, head, version, given)]
    value = {"table": given.table, "version": version, "rows": rows}
    return Answer(value, rows_page(given.table, version, rows, given.limit))


def _rows_at(table: NamedTable, log: "Log", head: "Head", version: int, given: Namespace) -> list[dict[str, Any]]:
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


def _add_diff_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_table(parser)
    parser.add_argument(
        "versions", metavar="V", type=int, nargs="*", help="the earlier and the later version; else the last two"
    )
    parser.add_argument(
        "--key", metavar="COLUMN", action="append", help="a column that identifies a row; may be repeated"
    )
    parser.add_argument("--limit", metavar="N", type=int, default=_MOST, help=f"how many rows are shown ({_MOST})")
    add_json(parser)


def _run_diff(given: Namespace) -> Answer:
    from lakehouse.cli.pages.screen import working_beside
    from lakehouse.cli.pages.table_pages import diff_page

    table = named_table(given)
    log = table.ref.log(table.session)
    head = log.head()
    if head is None:
        raise no_table(given.table)
    first, last = _versions(given, head)
    commits = sorted(log.commits(last, first + 1), key=lambda commit: commit.version)
    key = tuple(given.key or _key_in(log, last) or table.key)
    with working_beside(f"Comparing versions {first} and {last} of {given.table}"):
        diff, way = _diff(table, log, head, commits, (first, last), key, given.limit)
    value = {"table": given.table, "after": first, "upto": last, "key": list(key), "by": way, **asdict(diff)}
    return Answer(value, diff_page(given.table, (first, last), diff, way))


def _versions(given: Namespace, head: "Head") -> tuple[int, int]:
    match given.versions:
        case []:
            first, last = head.version - 1, head.version
        case [first]:
            last = head.version
        case [first, last]:
            pass
        case _:
            raise UsageError("Two versions are compared: lakehouse diff TABLE V1 V2.")
    if not 0 <= first < last <= head.version:
        raise UsageError(
            f"{given.table} has no versions {first} and {last} to compare: its versions are 0 to {head.version}, and "
            f"the earlier one comes first."
        )
    return first, last


def _key_in(log: "Log", version: int) -> tuple[str, ...]:
    """The key that the newest mark says is unique; empty if none says that."""
    marks = (mark_in(commit) for commit in islice(log.commits(version), LOOKED_BACK))
    return next((mark.key for mark in marks if mark is not None and mark.key), ())


def _diff(
    table: NamedTable,
    log: "Log",
    head: "Head",
    commits: "Sequence[Commit]",
    versions: tuple[int, int],
    key: tuple[str, ...],
    most: int,
) -> "tuple[VersionDiff, str]":
    """What differs, and by what that was found: the change feed names the keys, or all rows of both are compared."""
    from lakehouse.delta.commit_info import NO_ROWS
    from lakehouse.difference.between_versions import VersionDiff, diff_versions
    from lakehouse.spark.diagnosis import first_line
    from lakehouse.spark.table_version import TableVersion

    if all(commit.is_quiet for commit in commits):
        return VersionDiff(NO_ROWS, ()), "the log: no commit between them changed a row"
    before, after = (TableVersion(table.session, table.ref, head.table_id, version) for version in versions)
    why = "the table has no key" if not key else _why_no_feed(log, head, commits, after)
    try:
        if why is None:
            touched: DataFrame = after.feed(versions[0] + 1, versions[1])
            try:
                return diff_versions(before, after, key, most, touched), "the keys in the change feed"
            except LakehouseError:
                raise
            except Exception as error:
                why = f"the change feed cannot be read: {first_line(error)}"
        return diff_versions(before, after, key, most), f"all rows of both versions, because {why}"
    except LakehouseError:
        raise
    except Exception as error:
        raise ReadError(
            f"Versions {versions[0]} and {versions[1]} of '{table.ref.name}' cannot be compared: {first_line(error)}",
            "Nothing was written. Files of an old version may have been removed by VACUUM: try later versions.",
        ) from error


def _why_no_feed(log: "Log", head: "Head", commits: "Sequence[Commit]", after: "TableVersion") -> str | None:
    """Why the change feed does not tell which keys changed; None if it does."""
    from lakehouse.read.feed_trust import why_off, why_unreliable

    off = why_off(log, head, commits, tuple(commits))
    return off or why_unreliable(log, tuple(commits), after, maps=head.maps_columns)


SHOW = Command(_add_show_arguments, _run_show)
DIFF = Command(_add_diff_arguments, _run_diff)
