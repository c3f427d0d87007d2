"""How `lakehouse status --html` looks: one self-contained page, for a browser, for paper and for a telephone."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from statistics import median
from typing import Any

from lakehouse.cli.graph import Comparison
from lakehouse.cli.pages.screen import GOOD, QUIET, WAITING, WRONG, ago, count, short, span
from lakehouse.cli.pages.status_page import SIGNS, SOON, waiting
from lakehouse.cli.pages.table_pages import amount, reader_note, size
from lakehouse.cursor.unread import TableState
from lakehouse.delta.commit_info import count_of
from lakehouse.status.lakehouse_status import (
    COMMITS_TOLD,
    RECENT,
    RUNS,
    LakehouseStatus,
    LostAttempts,
    PastRun,
    TableReport,
)
from lakehouse.status.table_status import SourcePosition

_TEMPLATE = "status_report.html"
_CLASSES = {GOOD: "good", WAITING: "waiting", WRONG: "wrong", QUIET: "quiet", "": ""}
"""The CSS class for each style of the terminal."""
_HEIGHT = 28
"""The height of a chart of runs, in which each run is eight units wide."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """A bar of a chart: its place, its height, and the title that describes its run."""

    x: int
    y: int
    height: int
    title: str


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell in the table of lost attempts: how many there were, and how dark the cell is, from 0 to 4."""

    attempts: int
    shade: int


def status_report(lakehouse: LakehouseStatus, compared: Mapping[str, Comparison]) -> str:
    """The page: tables by group, what needs attention, readers, upkeep, attempts that were lost, what runs cost."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    tables = sorted(lakehouse.tables, key=lambda table: (_folder(table), table.status.name))
    environment = Environment(
        loader=PackageLoader("lakehouse.cli", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    now = lakehouse.now / 1000
    unreadable = {table.status.name for table in tables if table.status.problem is not None}
    return environment.get_template(_TEMPLATE).render(
        time=f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC",
        tiles=_tiles(tables),
        attention=[*_attention(tables, compared, now)],
        groups=[
            (folder, [_table(table, compared.get(table.status.name), now) for table in group])
            for folder, group in groupby(tables, key=_folder)
        ],
        readers=[row for table in tables for row in _readers(table, unreadable, lakehouse.now)],
        due=[(table.status.name, task.work.value, task.why) for table in tables for task in table.due],
        lost=_lost([pair for table in tables for pair in table.lost]),
        costs=_costs(tables, now),
        recent=count_of(RECENT.days, "day"),
        commits_told=COMMITS_TOLD,
        runs=RUNS,
    )


def _folder(table: TableReport) -> str:
    return table.status.name.rpartition("/")[0]


def _tiles(tables: Sequence[TableReport]) -> list[tuple[str, str, str]]:
    """The tiles at the top of the page: number, words, class."""
    states = [(state, sum(table.status.state is state for table in tables)) for state in TableState]
    shown = [(f"{number:,}", state.value, _CLASSES[SIGNS[state][1]]) for state, number in states if number]
    rows, sizes = [table.status.rows for table in tables], [table.size for table in tables if table.size is not None]
    holds = [
        (count(sum(number or 0 for number in rows)), "rows", ""),
        (size(sum(of.bytes for of in sizes)), f"in {count_of(sum(of.files for of in sizes), 'file')}", ""),
    ]
    return [(f"{len(tables):,}", "tables" if len(tables) != 1 else "table", ""), *shown, *holds]


def _attention(
    tables: Sequence[TableReport], compared: Mapping[str, Comparison], now: float
) -> Iterator[tuple[str, str, str]]:
    """What needs attention, worst first: class, table, sentence."""
    for table in tables:
        status = table.status
        for problem in filter(None, (status.problem, table.problem, *(reading.problem for reading in status.reads))):
            yield "wrong", status.name, problem
        for reading in status.reads:
            if reading.gap is not None and not reading.is_snapshot:
                yield "wrong", status.name, f"changes of {reading.source} cannot be read any more: {reading.gap}"
    for name, comparison in sorted(compared.items()):
        if comparison.equal is False:
            yield "wrong", name, f"different from a recompute, {ago(comparison.at, now)}"
    for table in tables:
        for reading in table.status.reads:
            if reading.until is not None and reading.until / 1000 - now < SOON.total_seconds():
                yield "wrong", table.status.name, f"{_deadline(reading.until / 1000 - now)} of {reading.source}"
    for table in tables:
        for look in table.readers:
            if look.back.files:
                until = look.reader.until
                more = "" if until is None else f", for {span(until / 1000 - now)} more"
                yield "waiting", table.status.name, f"{look.reader.name} holds back {amount(look.back)} of it{more}"
        if table.status.new_code is not None:
            yield "waiting", table.status.name, waiting(table.status.new_code)
        if table.status.disagreement is not None:
            yield "waiting", table.status.name, table.status.disagreement
    due = [table.status.name for table in tables if table.due]
    if due:
        yield "waiting", "lakehouse upkeep", f"due of {count_of(len(due), 'table')}"


def _deadline(remaining: float) -> str:
    return f"{span(remaining)} left to read changes" if remaining > 0 else f"{span(-remaining)} too late for changes"


def _table(table: TableReport, comparison: Comparison | None, now: float) -> dict[str, Any]:
    status = table.status
    sign, style = SIGNS[status.state]
    return {
        "folder": f"{_folder(table)}/" if _folder(table) else "",
        "name": status.name.rpartition("/")[2],
        "state": f"{sign} {status.state.value}",
        "class": _CLASSES[style],
        "rows": count(status.rows),
        "bytes": "" if table.size is None else size(table.size.bytes),
        "files": "" if table.size is None else f"{table.size.files:,}",
        "version": "" if status.version is None else f"{status.version}",
        "written": ago(status.written, now),
        "compared": _comparison(comparison, now),
        "reads": [_reading(reading, now, of_partition=bool(status.partitions)) for reading in status.reads],
    }


def _comparison(comparison: Comparison | None, now: float) -> str:
    """When a table was last compared with a recompute, and what came of it; nothing if it never was."""
    return "" if comparison is None or comparison.at is None else f"{comparison}, {ago(comparison.at, now)}"


def _reading(reading: SourcePosition, now: float, *, of_partition: bool) -> dict[str, Any]:
    """How far a table has read a source: a bar, and words."""
    newest = reading.newest or 0
    share = 1.0 if newest <= 0 else min(1.0, max(0.0, reading.read / newest))
    kind, words = "good", ""
    if reading.gap is not None or reading.problem is not None:
        kind, words = "wrong", "gap" if reading.gap is not None else "unreadable"
    elif reading.newest is None:
        kind, words = "quiet", "not looked at"
    elif reading.is_snapshot:
        kind, words = "quiet", "snapshot"
    elif reading.unread and not of_partition:
        since = "" if reading.since is None else f", {span(now - reading.since / 1000)}"
        kind, words = "waiting", f"{count_of(reading.unread, 'version')}{since}"
    at = f"{reading.read}" + ("" if reading.newest is None else f" of {reading.newest}")
    return {"source": reading.source, "at": at, "words": words, "class": kind, "width": round(60 * share)}


def _readers(table: TableReport, unreadable: Collection[str], now: int) -> Iterator[dict[str, Any]]:
    """The readers of a table. Tables that cannot be read are left out: they may read any table, and are shown once."""
    for look in table.readers:
        reader = look.reader
        if reader.name in unreadable:
            continue
        yield {
            "table": table.status.name,
            "reader": reader.name,
            "read": "" if reader.read is None else f"{reader.read}",
            "unread": f"{reader.unread}" if reader.unread else "",
            "limit": span(reader.limit.total_seconds()),
            "holds": amount(look.back),
            "note": reader.problem or reader_note(reader, now).plain,
        }


def _lost(pairs: Sequence[LostAttempts]) -> dict[str, Any]:
    """The attempts that were lost: a row for each writer, a column for each rival."""
    rivals = sorted({pair.rival for pair in pairs})
    most = max((pair.attempts for pair in pairs), default=1)
    number = {(pair.writer, pair.rival): pair.attempts for pair in pairs}

    def cell(writer: str, rival: str) -> _Cell:
        attempts = number.get((writer, rival), 0)
        return _Cell(attempts, -(-4 * attempts // most))

    writers = sorted({pair.writer for pair in pairs})
    return {"rivals": rivals, "rows": [(writer, [cell(writer, rival) for rival in rivals]) for writer in writers]}


def _costs(tables: Sequence[TableReport], now: float) -> list[dict[str, Any]]:
    """What the newest runs of each table wrote, the table with the most bytes first."""
    costly = sorted(tables, key=lambda table: (-sum(run.bytes for run in table.runs), table.status.name))
    return [
        {
            "table": table.status.name,
            "runs": len(table.runs),
            "last": ago(table.runs[0].at, now),
            "rows": count(sum(run.rows.total for run in table.runs)),
            "bytes": size(sum(run.bytes for run in table.runs)),
            "median": size(round(median(run.bytes for run in table.runs))),
            "bars": _bars(table.runs, now),
        }
        for table in costly
        if table.runs
    ]


def _bars(runs: Sequence[PastRun], now: float) -> list[_Bar]:
    """A bar for each run, the oldest first; its height compares the run's bytes with those of the other runs."""
    most = max(run.bytes for run in runs) or 1
    bars = list[_Bar]()
    for place, run in enumerate(reversed(runs)):
        height = max(1, round(_HEIGHT * run.bytes / most))
        title = (
            f"version {run.version}, {ago(run.at, now)}, run {short(run.run)}: {run.rows.sentence}, {size(run.bytes)}"
        )
        bars.append(_Bar(8 * place, _HEIGHT - height, height, title))
    return bars
