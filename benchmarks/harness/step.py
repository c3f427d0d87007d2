"""Where the time of one incremental step goes: `python -m benchmarks.harness.step --rows 10000000 --rounds 6`.

One changed row of a table with six columns, applied by this project phase by phase, and by rivals beside it.
"""

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.contestants.by_hand import Batch, Stream
from benchmarks.contestants.ours import Ours
from benchmarks.harness import data, sessions
from benchmarks.harness.meter import Cost, Lap, Meter, medians

HEADINGS = {
    "wall": 8,
    "CPU": 8,
    "(JVM)": 8,
    "jobs": 6,
    "tasks": 7,
    "rows in": 12,
    "MB in": 9,
    "MB read": 9,
    "MB out": 8,
}
COLUMNS = " " * 34 + "".join(f"{text:>{width}}" for text, width in HEADINGS.items()) + f"{'shuffle':>9}"


def line(name: str, cost: Cost) -> str:
    mb = 1e6
    return (
        f"{name:34}{cost.wall:8.2f}{cost.cpu:8.2f}{cost.jvm_cpu:8.2f}{cost.jobs:6.0f}{cost.tasks:7.0f}"
        f"{cost.input_rows:12,.0f}{cost.input_bytes / mb:9.2f}{cost.read / mb:9.2f}{cost.written / mb:8.2f}"
        f"{cost.shuffled / mb:9.3f}"
    )


def jobs(laps: list[Lap]) -> None:
    whole = max(laps, key=lambda lap: lap.cost.wall)
    for job in whole.jobs:
        phase = min((lap for lap in laps if job in lap.jobs), key=lambda lap: lap.cost.wall)
        said = " ".join(job.description.split())[:110]
        print(
            f"   job {job.id:5} {job.seconds:6.3f} s {job.tasks:4} tasks {job.input_rows:12,} rows in "
            f"{job.shuffled:10,} B shuffled  [{phase.name.strip('- ')}] {job.name} | {said}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--keys", type=int, default=1, help="how many neighbouring rows change")
    options.add_argument("--columns", type=int, default=6, choices=(2, 6))
    options.add_argument("--rounds", type=int, default=6, help="the first is not counted")
    options.add_argument("--against", default="R2,R2t", help="of R1,R1t,R2,R2t,R2x; empty for none")
    options.add_argument("--quick", action="store_true", help="a JVM that compiles less; for counters")
    options.add_argument("--jobs", action="store_true", help="list the Spark jobs of the last step of ours")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=data.cache()) as scratch:
        profile(given, Path(scratch))


def profile(given: argparse.Namespace, scratch: Path) -> None:
    spark = sessions.start(scratch, quick=given.quick)
    meter = Meter(spark)
    table = data.built(spark, given.rows, given.columns)
    ours = Ours(sessions.ours(spark))
    rivals = {
        "R1": Stream(sessions.as_delivered(spark)),
        "R1t": Stream(sessions.ours(spark), "R1t the same, our settings"),
        "R2": Batch(sessions.as_delivered(spark)),
        "R2t": Batch(sessions.ours(spark), "R2t the same, our settings"),
        "R2x": Batch(sessions.ours(spark), "R2x the same, hint and key range", expert=True),
    }
    contestants = [ours, *(rivals[name] for name in given.against.split(",") if name)]
    pairs = [data.Pair.of(table, scratch / str(index)) for index, _ in enumerate(contestants)]
    for contestant, pair in zip(contestants, pairs, strict=True):
        contestant.prepare(pair)
    seen: dict[str, list[Cost]] = defaultdict(list)
    last: list[Lap] = []
    print(f"{COLUMNS}   (each round, the first is not counted)")
    for turn in range(given.rounds):
        low = given.rows // 3 + 1000 * turn
        for contestant, pair in zip(contestants, pairs, strict=True):
            data.change(contestant.spark, pair.source, data.neighbours(low, given.keys))
            if contestant is ours:
                with meter.lap("ours"):
                    ours.step(pair, lambda name: meter.lap(f"  {name}"))
                last = meter.settle()
                laps = last
            else:
                with meter.lap(contestant.name):
                    contestant.step(pair)
                laps = meter.settle()
            print(line(laps[-1].name, laps[-1].cost), flush=True)
            if turn > 0:
                for name, costs in by_name(laps).items():
                    seen[name].append(costs)
    print(f"\n{given.keys} of {given.rows:,} rows x {given.columns} columns changed; medians of {given.rounds - 1}\n")
    print(COLUMNS)
    for name, costs in sorted(seen.items(), key=lambda item: item[0].startswith("  ")):
        print(line(name, medians(costs)))
    if given.jobs:
        jobs(last)
    for contestant, pair in zip(contestants, pairs, strict=True):
        assert data.same(spark, pair.source, pair.target), f"{contestant.name} left another table than its source"


def by_name(laps: list[Lap]) -> dict[str, Cost]:
    """The cost of each phase; the costs of a repeated phase are added up."""
    found: dict[str, Cost] = {}
    for lap in laps:
        found[lap.name] = found[lap.name] + lap.cost if lap.name in found else lap.cost
    return found


if __name__ == "__main__":
    main()
