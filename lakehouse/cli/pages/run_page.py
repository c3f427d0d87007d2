"""How a run looks in a terminal, a line for each asset as it ends, and how the forecast of the next run looks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from lakehouse.cli.pages.screen import (
    GOOD,
    NAME,
    QUIET,
    WAITING,
    WRONG,
    assemble,
    count,
    grid,
    short,
    span,
    table_name,
)
from lakehouse.cli.pages.table_pages import size
from lakehouse.cli.runs.run_result import AssetEnd, AssetResult, FailedCheck, RunLog, RunResult
from lakehouse.delta.commit_info import Rows, count_of
from lakehouse.read.forecast import Forecast, InputForecast, Reading, RunEffect, WriteForecast


def queue_line(run: str) -> Text:
    """The line for a run that waits in Dagster's queue, because this process does not execute it."""
    return assemble(("Queued as run ", QUIET), short(run), (". Ctrl-C leaves it to Dagster.", QUIET))


def asset_line(result: AssetResult | FailedCheck, width: int) -> Text:
    """What became of one asset, or of a check that was not passed, in one line; if something failed, also why."""
    if isinstance(result, FailedCheck):
        sign, style = ("✖ ", WRONG) if result.is_error else ("! ", WAITING)
        return assemble((sign, style), f"check {result.name} of {result.asset}: ", (result.why or "not passed", style))
    line = Text.assemble(_sign(result.end), table_name(result.asset), " " * (max(width - len(result.asset), 0) + 2))
    match result.end:
        case AssetEnd.WRITTEN:
            line.append(f"version {result.version}  " if result.version is not None else "")
            line.append(Rows(result.inserted, result.updated, result.deleted).sentence)
        case AssetEnd.UNCHANGED:
            line.append(f"version {result.version}  " if result.version is not None else "")
            line.append("no row changed" if result.waits_for is None else f"waits for {result.waits_for}", QUIET)
        case AssetEnd.FAILED:
            line.append(f"failed: {result.problem}", WRONG)
        case AssetEnd.NOT_RUN:
            line.append(f"not run: {result.problem}", WAITING)
    if result.seconds is not None:
        line.append(f"  {result.seconds:.1f} s", QUIET)
    return line


def _sign(end: AssetEnd) -> tuple[str, str]:
    match end:
        case AssetEnd.WRITTEN | AssetEnd.UNCHANGED:
            return ("✔ ", GOOD)
        case AssetEnd.FAILED:
            return ("✖ ", WRONG)
        case AssetEnd.NOT_RUN:
            return ("○ ", WAITING)


def progress(log: RunLog, status: str, assets: int) -> str:
    """What a run is doing, in one line."""
    if status in ("QUEUED", "NOT_STARTED"):
        return "The run waits in the queue"
    if status in ("STARTING", "MANAGED") or (not log.steps and not log.results):
        return "The run is starting"
    doing = next(((step, what) for step, what in log.steps.items()), None)
    done = f"{len(log.results)} of {assets}"
    if doing is None:
        return done
    names = log.assets_of.get(doing[0], (doing[0],))
    return f"{done}  {names[0]}{f': {doing[1]}' if doing[1] else ''}"


def run_page(result: RunResult) -> Text:
    """What became of a run, in one sentence."""
    ends = {end: sum(each.end is end for each in result.assets) for end in AssetEnd}
    counts = [f"{number} {end.value}" for end, number in ends.items() if number]
    page = assemble(("succeeded" if result.succeeded else "failed", GOOD if result.succeeded else WRONG))
    page.append(f": {count_of(len(result.assets), 'asset')}" + (f" ({', '.join(counts)})" if counts else ""))
    if result.checks:
        failed = sum(check.is_error for check in result.failed_checks)
        warned = len(result.failed_checks) - failed
        parts = [*[f"{failed} failed"] * bool(failed), *[f"{warned} with a warning"] * bool(warned)]
        page.append(f", {count_of(result.checks, 'check')}" + (f" ({', '.join(parts)})" if parts else ""))
    page.append(f"  {span(result.seconds)}, run {short(result.run)}", QUIET)
    return page


_STYLES: Mapping[RunEffect, str] = {
    RunEffect.WRITES: GOOD,
    RunEffect.RECORDS: WAITING,
    RunEffect.NOTHING: QUIET,
    RunEffect.REFUSED: WRONG,
}


def forecast_page(forecast: Forecast) -> RenderableType:
    """What the next run of an asset would do."""
    of = "" if forecast.partition is None else f", partition {forecast.partition},"
    at = "there is no table yet" if forecast.version is None else f"its table is at version {forecast.version}"
    title = Text("The next run of ") + table_name(forecast.asset)
    title.append(f"{of} ").append(forecast.verdict.value, _STYLES[forecast.verdict]).append(f" ({at}).")
    why = assemble((forecast.why, _STYLES[RunEffect.REFUSED] if forecast.verdict is RunEffect.REFUSED else ""))
    tree = Tree(title, guide_style=QUIET)
    if forecast.inputs:
        reads = tree.add(assemble(("reads", NAME)))
        for each in forecast.inputs:
            reads.add(_input(each))
    if forecast.write is not None:
        _add_write(tree, forecast.write)
        recorded = [f"{each.source} at {each.upto}" for each in forecast.inputs]
        if recorded and forecast.verdict in (RunEffect.WRITES, RunEffect.RECORDS):
            tree.add(assemble(("records", NAME), f" {', '.join(recorded)}, in the same commit"))
    return Group(tree, Text(), why)


@dataclass(frozen=True, slots=True)
class ForecastOfMany:
    """What an asset would read now, and which of its sources would be written before its run."""

    forecast: Forecast
    after: tuple[str, ...]

    @property
    def read(self) -> list[InputForecast]:
        """The inputs whose rows are read now."""
        is_read = self.forecast.verdict is RunEffect.WRITES
        return [each for each in self.forecast.inputs if is_read and each.reading is not Reading.NOTHING]

    @property
    def rows(self) -> int | None:
        """How many rows are read now; None if a log does not record it."""
        return _sum(each.rows_read for each in self.read)

    @property
    def bytes(self) -> int | None:
        return _sum(each.bytes for each in self.read)

    @property
    def why(self) -> str:
        """Why the run is refused; else why more than changes is read, and what is to be read later."""
        if self.forecast.verdict is RunEffect.REFUSED:
            return " ".join([self.forecast.why, *(each.why for each in self.forecast.inputs if each.why)])
        reasons = [f"{each.source}: {each.why}" for each in self.read if each.why]
        return "; ".join((*reasons, *[f"then what {' and '.join(self.after)} changed"] * bool(self.after)))

    def as_document(self) -> dict[str, Any]:
        amounts = {"rows_read": self.rows, "bytes_read": self.bytes}
        return {**self.forecast.as_document(), **amounts, "after": self.after}


def _sum(counts: Iterable[int | None]) -> int | None:
    numbers = [*counts]
    return None if None in numbers else sum(filter(None, numbers))


def forecasts_page(forecasts: Sequence[ForecastOfMany], left_out: Mapping[str, str]) -> RenderableType:
    """What all assets would read."""
    table = grid("Table", "Reads", "Rows", "Bytes", "Why", right=("Rows", "Bytes"), folding=("Why",))
    for each in forecasts:
        reads = ", ".join(dict.fromkeys(one.reading.value for one in each.read)) or each.forecast.verdict.value
        amounts = (count(each.rows), "" if each.bytes is None else size(each.bytes)) if each.read else ("", "")
        name, style = table_name(each.forecast.asset), _STYLES[each.forecast.verdict]
        table.add_row(name, assemble((reads, style)), *amounts, Text(each.why))
    rows, whole = sum(each.rows or 0 for each in forecasts), sum(each.bytes or 0 for each in forecasts)
    unknown = sum(each.rows is None for each in forecasts)
    more = f"; of {count_of(unknown, 'table')} no log says how many" if unknown else ""
    total = f"{count_of(len(forecasts), 'table')}: {count_of(rows, 'row')}, about {size(whole)}, are read now{more}."
    return Group(table, Text(), Text(total), *(Text(f"{name} is left out: {why}") for name, why in left_out.items()))


def _add_write(tree: Tree, write: WriteForecast) -> None:
    if write.followed or write.doubts:
        computes = tree.add(assemble(("computes", NAME)))
        for sentence in (*write.followed, *write.doubts):
            computes.add(Text(sentence))
    by = f" by key ({', '.join(write.key)})" if write.key else ""
    writes = tree.add(assemble(("writes", NAME), f" {write.kind}{by}"))
    writes.add(Text(f"{write.strategy}."))
    if write.planned is not None:
        writes.add(Text(f"Planned against the table: {write.planned}."))
    for sentence in write.broken:
        writes.add(Text(sentence, WRONG))


def _input(each: InputForecast) -> Text:
    style = WRONG if each.reading is Reading.REFUSED else ""
    name, colon, rest = str(each).partition(": ")
    return table_name(name) + assemble((colon + rest, style))
