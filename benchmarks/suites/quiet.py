"""Nothing has changed upstream: what it costs to find out."""

from benchmarks.contestants.by_hand import Batch, Stream
from benchmarks.contestants.ours import Ours
from benchmarks.harness import report
from benchmarks.harness.data import Pair
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Goal, Result, at_most

ROWS = 1_000_000


def run(lab: Lab) -> Result:
    contestants = [Ours(lab.ours()), Stream(lab.ours(), "R1t foreachBatch"), Batch(lab.ours(), "R2t batch MERGE")]
    costs: dict[str, Cost] = {}
    with lab.room() as room:
        for index, contestant in enumerate(contestants):
            pair = Pair.of(lab.table(ROWS, 6), room / str(index))
            contestant.prepare(pair)
            contestant.spark.sql(f"UPDATE delta.`{pair.source}` SET value = 0 WHERE id = 1").collect()
            contestant.step(pair)
            laps = [lab.meter.measure(contestant.name, lambda c=contestant, p=pair: c.step(p))[1] for _ in range(10)]
            costs[contestant.name] = medians(lap.cost for lap in laps[1:])
    ours = costs["ours"]
    return Result(
        "quiet",
        "No change upstream",
        "A step when the source stands where the target has read to.",
        report.COLUMNS[:-1],
        [(name, *report.figures(cost)) for name, cost in costs.items()],
        [
            at_most("wall: at most 0.1 s", ours.wall, 0.1),
            Goal("no Spark job", f"{ours.jobs:.0f}", ours.jobs == 0),
        ],
    )
