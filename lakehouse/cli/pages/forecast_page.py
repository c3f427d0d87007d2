"""How the answer of `lakehouse explain` looks: what the next run reads, computes, writes and records, as a tree."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from lakehouse.cli.pages.screen import (
    GOOD,
    NAME,
    QUIET,
    WAITING,
    WRONG,
    ago,
    assemble,
    short,
    table_name,
)
from lakehouse.cli.pages.table_pages import Change
from lakehouse.delta.commit_info import count_of
from lakehouse.read.forecast import Forecast, InputForecast, Reading, RunEffect, WriteForecast

_STYLES: Mapping[RunEffect, str] = {
    RunEffect.WRITES: GOOD,
    RunEffect.RECORDS: WAITING,
    RunEffect.NOTHING: QUIET,
    RunEffect.REFUSED: WRONG,
}
_SHOWN = 5
"""So many commits of a source are shown, the newest."""


def forecast_page(forecast: Forecast, commits: Mapping[str, Sequence[Change]], now: float) -> RenderableType:
    """What the next run of an asset would do.

    Args:
        forecast: The answer of `explain`.
        commits: Of each source that is read by its changes the commits that changed rows, as far as they are known.
        now: The present, in seconds since the epoch.
    """
    of = "" if forecast.partition is None else f", partition {forecast.partition},"
    at = "there is no table yet" if forecast.version is None else f"its table is at version {forecast.version}"
    title = Text("The next run of ") + table_name(forecast.asset)
    title.append(f"{of} ").append(forecast.verdict.value, _STYLES[forecast.verdict]).append(f" ({at}).")
    why = assemble((forecast.why, _STYLES[RunEffect.REFUSED] if forecast.verdict is RunEffect.REFUSED else ""))
    tree = Tree(title, guide_style=QUIET)
    if forecast.inputs:
        reads = tree.add(assemble(("reads", NAME)))
        for each in forecast.inputs:
            source = reads.add(_input(each))
            if commits.get(each.source):
                source.add(_commits(commits[each.source], now))
    if forecast.write is not None:
        _add_write(tree, forecast.write)
        recorded = [f"{each.source} at {each.upto}" for each in forecast.inputs]
        if recorded and forecast.verdict in (RunEffect.WRITES, RunEffect.RECORDS):
            tree.add(assemble(("records", NAME), f" {', '.join(recorded)}, in the same commit"))
    return Group(tree, Text(), why)


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


def _commits(commits: Sequence[Change], now: float) -> RenderableType:
    """The newest commits, what each did, and who made it."""
    newest = sorted(commits, key=lambda commit: -commit.version)[:_SHOWN]
    page = [
        Text(f"version {commit.version}: {commit.rows.sentence}, ").append_text(_made(commit, now)) for commit in newest
    ]
    return Group(*page, *_left_out(len(commits) - len(newest)))


def _made(commit: Change, now: float) -> Text:
    by = "another program" if commit.run is None else f"run {short(commit.run)}"
    return assemble((f"{by}, {ago(commit.committed, now)}", QUIET))


def _left_out(more: int) -> Iterator[Text]:
    if more:
        yield assemble((f"and {count_of(more, 'commit')} before", QUIET))
