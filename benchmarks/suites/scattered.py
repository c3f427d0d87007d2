"""One per cent of ten million rows, spread over all files."""

from pathlib import Path

from benchmarks.contestants.by_hand import Batch, Recompute
from benchmarks.contestants.ours import Ours
from benchmarks.harness import race, report
from benchmarks.harness.data import KEY, change
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Result, at_most

ROWS = 10_000_000


def run(lab: Lab) -> Result:
    contestants = [
        Ours(lab.ours()),
        Batch(lab.ours(), "R2t, our settings"),
        Batch(lab.ours(), "R2x, hint and key range too", expert=True),
        Recompute(lab.ours()),
    ]
    with lab.room() as room:
        entries = race.entered(lab.table(ROWS, 6), contestants, room)

        def one_per_cent(source: Path, turn: int) -> None:
            change(lab.spark, source, f"{KEY} % 100 = {7 + turn}")

        tallies = race.fresh(lab.meter, entries, one_per_cent, lab.rounds, room)
    cpu = {name: tally.cost.cpu for name, tally in tallies.items()}
    return Result(
        "scattered",
        "1 % scattered over 10 million rows",
        "Every hundredth row changes, in every file; each run on a fresh clone of the tables.",
        report.COLUMNS,
        [report.row(name, tally) for name, tally in tallies.items()],
        [
            at_most("CPU: at most 0.7x of R2t", cpu["ours"] / cpu["R2t, our settings"], 0.7),
            at_most("CPU: at most 0.7x of R3", cpu["ours"] / cpu["R3 recompute"], 0.7),
        ],
    )
