"""The same change on tables of growing size: the cost should follow the change."""

from pathlib import Path

from benchmarks.contestants.by_hand import Batch
from benchmarks.contestants.ours import Ours
from benchmarks.harness import race, report
from benchmarks.harness.data import change, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.race import Entry, Tally
from benchmarks.harness.report import Goal, Result, at_most

SIZES = (1_000_000, 10_000_000)
LARGE = (1_000_000, 10_000_000, 100_000_000)
KEYS = (1, 1_000)


def run(lab: Lab) -> Result:
    sizes = LARGE if lab.large else SIZES
    tallies = {keys: measured(lab, sizes, keys) for keys in KEYS}
    rows = [report.row(f"{name}, {counted(keys)}", tally) for keys in KEYS for name, tally in tallies[keys].items()]
    goals = []
    for keys, of in tallies.items():
        small, large = (of[named("ours", size)].cost for size in (sizes[0], sizes[-1]))
        title = f"CPU of {sizes[-1]:,} rows against {sizes[0]:,}, {counted(keys)}: at most 1.15x"
        goals.append(at_most(title, large.cpu / small.cpu, 1.15))
        rival = of[named("R2t", sizes[-1])].cost
        what = f"CPU of R2t against ours, {sizes[-1]:,} rows, {counted(keys)}"
        less = rival.cpu / large.cpu
        what, reached = (f"{what}: at least 15x", less >= 15) if lab.large else (what, None)
        goals.append(Goal(what, f"{less:.1f}x", reached))
    return Result(
        "growth_large" if lab.large else "growth",
        f"Growth to {sizes[-1]:,} rows",
        "Two columns, 625,000 rows a file, in the order of the key; one key or 1,000 neighbouring keys change. "
        "All sizes are measured side by side, on tables that stay from step to step.",
        report.COLUMNS,
        rows,
        goals,
    )


def counted(keys: int) -> str:
    return "1 key" if keys == 1 else f"{keys:,} keys"


def measured(lab: Lab, sizes: tuple[int, ...], keys: int) -> dict[str, Tally]:
    entries: dict[str, Entry] = {}
    middle: dict[Path, int] = {}
    with lab.room() as room:
        for size in sizes:
            contestants = [Ours(lab.ours(), named("ours", size)), Batch(lab.ours(), named("R2t", size))]
            entries |= race.entered(lab.table(size, 2), contestants, room / str(size))
            middle[room / str(size) / "leader"] = lab.rows(size) // 3

        def some_rows(source: Path, turn: int) -> None:
            change(lab.spark, source, neighbours(middle[source] + 5_000 * turn, keys))

        return race.kept(lab.meter, entries, some_rows, lab.rounds)


def named(who: str, size: int) -> str:
    return f"{who} {size:,}"
