"""`lakehouse show` and `lakehouse diff`: the rows of a table at a version, and those in which two versions differ."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from lakehouse.cli.command import Answer, Command, UsageError, add_json, add_place, add_table
from lakehouse.cli.tables import NamedTable, reading_old_files
from lakehouse.cursor.find import LOOKED_BACK
from lakehouse.cursor.mark import mark_in
from lakehouse.delta.text import fold
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.delta.log import Head, Log
    from lakehouse.difference.between_versions import VersionDiff


MOST = 20
"""How many rows are shown at most, unless `--limit` is given."""


def _add_show_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_table(parser)
    parser.add_argument("--where", metavar="SQL", help="only rows of this condition; starts Spark")
    parser.add_argument("--limit", metavar="N", type=int, default=MOST, help=f"how many rows are shown ({MOST})")
    parser.add_argument("--at", metavar="VERSION", type=int, help="the version; else the newest")
    add_json(parser)


def _run_show(given: Namespace) -> Answer:
    from lakehouse.cli.pages.table_pages import rows_page

    if given.limit < 1:
        raise UsageError("--limit is a number of rows from 1.")
    table = NamedTable.of(given)
    newest = table.head.version
    version = newest if given.at is None else given.at
    if not 0 <= version <= newest:
        raise UsageError(f"{given.table} has no version {version}: its versions are 0 to {newest}.")
    with reading_old_files(f"Version {version} of '{given.table}' cannot be shown"):
        rows = [{name: _plain(value) for name, value in row.items()} for row in _rows_at(table, version, given)]
    value = {"table": given.table, "version": version, "rows": rows}
    return Answer(value, rows_page(given.table, version, rows, given.limit))


def _rows_at(table: NamedTable, version: int, given: Namespace) -> list[dict[str, Any]]:
    """The rows, read by deltalake if it supports the table's features, else by Spark; Spark also reads a condition."""
    from lakehouse.cli.pages.screen import working_beside
    from lakehouse.delta.file_log import FileLog

    log = table.log
    rows = log.first_rows(version, given.limit) if isinstance(log, FileLog) and given.where is None else None
    if rows is not None:
        return rows
    with working_beside(f"Spark reads {given.table}"):
        frame = table.at(version, given.where).rows()
        return cast("list[dict[str, Any]]", cast("Any", frame.limit(given.limit)).toArrow().to_pylist())


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: times, decimals, NaN and infinities as text, times with a zone in UTC."""
    match value:
        case datetime():
            return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat(" ")
        case date() | time() | Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case timedelta():
            return str(value)
        case float() if not isfinite(value):  # json would write a word that is no JSON
            return json.dumps(value)
        case list() | tuple():  # a map is a list of pairs
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
    parser.add_argument("--limit", metavar="N", type=int, default=MOST, help=f"how many rows are shown ({MOST})")
    add_json(parser)


def _run_diff(given: Namespace) -> Answer:
    from lakehouse.cli.pages.screen import working_beside
    from lakehouse.cli.pages.table_pages import diff_page

    table = NamedTable.of(given)
    first, last = _versions(given, table.head)
    key = tuple(given.key or key_in(table.log, last) or table.key)
    with (
        working_beside(f"Comparing versions {first} and {last} of {given.table}") as work,
        reading_old_files(f"Versions {first} and {last} of '{given.table}' cannot be compared"),
    ):
        diff, way = diff_of(table, (first, last), key, given.limit, work.say)
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
    if head.version == 0:
        raise UsageError(f"{given.table} has only one version, 0, so there is no other version to compare it with.")
    if not 0 <= first < last <= head.version:
        raise UsageError(
            f"{given.table} has no versions {first} and {last} to compare: its versions are 0 to {head.version}, and "
            f"the earlier one comes first."
        )
    return first, last


def key_in(log: "Log", version: int) -> tuple[str, ...]:
    """The key in the newest mark that records a unique key; empty if no recent mark does."""
    marks = (mark_in(commit) for commit in islice(log.commits(version), LOOKED_BACK))
    return next((mark.key for mark in marks if mark is not None and mark.key), ())


def diff_of(
    table: NamedTable, versions: tuple[int, int], key: tuple[str, ...], most: int, say: Callable[[str], None]
) -> "tuple[VersionDiff, str]":
    """What differs, and how that was found: by the keys in the change feed, or by comparing all rows of both versions.

    Before that, `say` is called with the number of rows that are read, according to the log.
    """
    from lakehouse.delta.commit_info import NO_ROWS, count_of
    from lakehouse.difference.between_versions import VersionDiff, diff_versions
    from lakehouse.read.feed_trust import why_off, why_unreliable
    from lakehouse.spark.diagnosis import first_line
    from lakehouse.spark.driver_rows import is_empty
    from lakehouse.spark.exactness import inexact_in

    log, head, (first, last) = table.log, table.head, versions
    commits = tuple(sorted(log.commits(last, first + 1), key=lambda commit: commit.version))
    if not any(commit.concerns_readers for commit in commits):
        return VersionDiff(NO_ROWS, ()), "the log: no commit between them changed a row"
    before, after = table.at(first), table.at(last)
    why = "the table has no key" if not key else why_off(log, head, commits, commits)
    why = why or why_unreliable(log, commits, after, maps=head.maps_columns)
    if why is None:
        rows, which = sum((commit.rows for commit in commits), NO_ROWS).images, "of the change feed and of their keys"
    else:
        counts = [log.live_rows(version) for version in versions]
        rows, which = None if None in counts else sum(filter(None, counts)), "of both versions"
    say(f"{table.ref.name}: {'rows' if rows is None else count_of(rows, 'row')} {which} are read.")
    try:
        feed = None if why is not None else after.feed(first + 1, last)
        if feed is not None:
            inexact = inexact_in(field for field in feed.schema.fields if field.name.lower() in fold(key))
            if inexact is None or is_empty(feed.where(inexact)):
                return diff_versions(before, after, key, most, feed), "the keys in the change feed"
            why = "the change feed may tell other keys than the table holds"
    except LakehouseError:
        raise
    except Exception as error:
        why = f"the change feed cannot be read: {first_line(error)}"
    return diff_versions(before, after, key, most), f"all rows of both versions, because {why}"


SHOW = Command(_add_show_arguments, _run_show)
DIFF = Command(_add_diff_arguments, _run_diff)
