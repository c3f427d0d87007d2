"""How a run looks in a terminal: a line for each asset as it ends, and a sentence at the end."""

from typing import TYPE_CHECKING, assert_never

from rich.text import Text

from lakehouse.cli.pages.screen import GOOD, QUIET, WAITING, WRONG, assemble, short, span, table_name
from lakehouse.cli.runs.run_result import AssetEnd, AssetResult, FailedCheck, RunResult
from lakehouse.delta.commit_info import Rows, count_of

if TYPE_CHECKING:
    from lakehouse.cli.runs.run_log import RunLog


def queue_line(run: str) -> Text:
    """Where a run waits that this process does not execute."""
    return assemble(("Queued as run ", QUIET), short(run), (". Ctrl-C leaves it to Dagster.", QUIET))


def asset_line(result: AssetResult | FailedCheck, width: int) -> Text:
    """What became of one asset, in one line; of one that failed, also why.

    Args:
        result: What became of it.
        width: The length of the longest name that is expected.
    """
    if isinstance(result, FailedCheck):
        return assemble(("✖ ", WRONG), f"check {result.name} of {result.asset}: ", (result.why or "not passed", WRONG))
    line = Text.assemble(_sign(result.end), table_name(result.asset), " " * (max(width - len(result.asset), 0) + 2))
    match result.end:
        case AssetEnd.WRITTEN:
            line.append(f"version {result.version}  " if result.version is not None else "")
            line.append(Rows(result.inserted, result.updated, result.deleted).sentence)
        case AssetEnd.UNCHANGED:
            line.append(f"version {result.version}  " if result.version is not None else "")
            line.append("no row changed", QUIET)
        case AssetEnd.FAILED:
            line.append(f"failed: {result.problem}", WRONG)
        case AssetEnd.NOT_RUN:
            line.append(f"not run: {result.problem}", WAITING)
        case _:
            assert_never(result.end)
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
        case _:
            assert_never(end)


def progress(log: "RunLog", status: str, assets: int) -> str:
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
