"""One changed row of ten million, six columns: the step that a schedule makes all day."""

from pathlib import Path

from benchmarks.contestants.by_hand import Batch, Rust, Stream
from benchmarks.contestants.ours import Ours
from benchmarks.harness import race, report
from benchmarks.harness.data import change, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Goal, Result, at_most

ROWS = 10_000_000
TRUSTING = "ours, trust_key=True"


def run(lab: Lab) -> Result:
    table, plain = lab.table(ROWS, 6), lab.table(ROWS, 6, vectors=False)
    contestants = [
        Ours(lab.ours()),
        Ours(lab.ours(), TRUSTING, trust_key=True),
        Stream(lab.as_delivered(), "R1 foreachBatch, defaults"),
        Stream(lab.ours(), "R1t, our settings"),
        Batch(lab.as_delivered(), "R2 batch MERGE, defaults"),
        Batch(lab.ours(), "R2t, our settings"),
        Batch(lab.ours(), "R2x, hint and key range too", expert=True),
    ]
    rust = Rust()
    with lab.room() as room:
        entries = race.entered(table, contestants, room) | race.entered(plain, [rust], room / "rust")
        first = lab.rows(ROWS) // 3

        def one_row(source: Path, turn: int) -> None:
            change(lab.spark, source, neighbours(first + 1_000 * turn))

        tallies = race.kept(lab.meter, entries, one_row, lab.rounds)
    cpu = {name: tally.cost.cpu for name, tally in tallies.items()}
    ours = tallies["ours"].cost
    return Result(
        "small_step",
        "One changed row of 10 million",
        "Ten million rows of six columns in 16 files in the order of the key; source and target with deletion vectors "
        "and a change data feed. A round updates one row; each contestant has tables of its own and brings its "
        "target up to its source. With `Table(trust_key=True)` of the source its changed rows come from its change "
        "feed, otherwise from its files. R4 is delta-rs, without a JVM, on tables without deletion vectors, which "
        "it does not write.",
        report.COLUMNS,
        [report.row(name, tally) for name, tally in tallies.items()],
        [
            at_most("CPU: at most 1/4 of R1", ours.cpu / cpu["R1 foreachBatch, defaults"], 0.25),
            at_most("CPU: at most 1/4 of R2", ours.cpu / cpu["R2 batch MERGE, defaults"], 0.25),
            at_most("CPU: at most 1/2 of R2t", ours.cpu / cpu["R2t, our settings"], 0.5),
            at_most("wall: at most 1.5 s", ours.wall, 1.5),
            at_most("at most 10 MB read", ours.read / 1e6, 10),
            at_most("at most 1 MB written", ours.written / 1e6, 1),
            at_most("at most 25 jobs", ours.jobs, 25),
            Goal("CPU against trust_key=True (reported)", f"{ours.cpu / cpu[TRUSTING]:.2f}", None),
            Goal("CPU against R4 (reported)", f"{ours.cpu / cpu[rust.name]:.1f}", None),
        ],
    )
