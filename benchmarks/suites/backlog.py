"""A backlog of fifty versions read in one step, compared with a single version."""

from pathlib import Path

from benchmarks.contestants.ours import Ours
from benchmarks.harness import race, report
from benchmarks.harness.data import change, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.race import Entry
from benchmarks.harness.report import Result, at_most

ROWS, PENDING = 1_000_000, 50


def run(lab: Lab) -> Result:
    entries: dict[str, Entry] = {}
    waiting: dict[Path, int] = {}
    with lab.room() as room:
        for versions in (1, lab.times(PENDING)):
            contestant = Ours(lab.ours(), f"{versions} pending")
            entries |= race.entered(lab.table(ROWS, 6), [contestant], room / str(versions))
            waiting[room / str(versions) / "leader"] = versions

        def commits(source: Path, turn: int) -> None:
            for version in range(waiting[source] if turn == race.WARM else 1):
                change(lab.spark, source, neighbours(lab.rows(ROWS) // 3 + version))

        tallies = race.fresh(lab.meter, entries, commits, lab.rounds, room)
    one, many = (tally.cost for tally in tallies.values())
    return Result(
        "backlog",
        f"{PENDING} pending versions in one step",
        f"A million rows; the source has one commit of one row, or {PENDING} of them, that the target has not read.",
        report.COLUMNS,
        [report.row(name, tally) for name, tally in tallies.items()],
        [at_most(f"CPU of {PENDING} versions: at most 1.5x of one", many.cpu / one.cpu, 1.5)],
    )
