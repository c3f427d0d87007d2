"""Fifty small steps in a row: whether the last one costs as much as the first, and the cost of a read afterwards."""

from benchmarks.contestants.ours import Ours
from benchmarks.harness import report
from benchmarks.harness.data import PROPERTIES, Pair, change, name, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Result, at_most

ROWS, STEPS, WARM = 1_000_000, 50, 5


def run(lab: Lab) -> Result:
    ours, steps = Ours(lab.ours()), lab.times(STEPS)
    with lab.room() as room:
        pair = Pair.of(lab.table(ROWS, 6), room / "pair")
        ours.prepare(pair)
        (before,) = scanned(lab, pair)
        costs: list[Cost] = []
        for turn in range(WARM + steps):
            change(ours.spark, pair.source, neighbours(lab.rows(ROWS) // (WARM + steps) * turn))
            costs.append(lab.meter.measure("step", lambda: ours.step(pair))[1].cost)
        (after,) = scanned(lab, pair)
        upkeep = lab.meter.measure("upkeep", lambda: compacted(lab, pair))[1].cost
        fresh = Pair(room / "fresh")
        rows = lab.spark.read.table(name(pair.target))
        rows.write.format("delta").options(**PROPERTIES).save(str(fresh.target))
        kept_up, anew = scanned(lab, pair, fresh)
    first, last = medians(costs[WARM : WARM + 5]), medians(costs[-5:])
    named = {
        "steps 1 to 5": first,
        f"steps {steps - 4} to {steps}": last,
        "read before": before,
        f"read after {steps} steps": after,
        "upkeep (OPTIMIZE, PURGE)": upkeep,
        "read after upkeep": kept_up,
        "read of a table written anew": anew,
    }
    return Result(
        "many_steps",
        f"{STEPS} small steps in a row",
        "A million rows; each step changes one row elsewhere in the table. A read sums a column of the whole "
        "table; that after upkeep and that of a table written anew, with the same properties, take turns.",
        report.COLUMNS[:-1],
        [(what, *report.figures(cost)) for what, cost in named.items()],
        [
            at_most(f"CPU of the last steps: at most 1.2x of the first, of {STEPS}", last.cpu / first.cpu, 1.2),
            at_most("CPU of a read after upkeep: at most 1.1x of a fresh table", kept_up.cpu / anew.cpu, 1.1),
        ],
    )


def scanned(lab: Lab, *pairs: Pair) -> list[Cost]:
    """The cost of a read of each whole target, in turns: the median of seven reads after a first one."""
    laps: list[list[Cost]] = [[] for _ in pairs]
    for _ in range(8):
        for pair, of in zip(pairs, laps, strict=True):
            query = f"SELECT sum(value), max(note) FROM {name(pair.target)}"
            of.append(lab.meter.measure("read", lambda query=query: lab.spark.sql(query).collect())[1].cost)
    assert all(lap.jobs >= 1 for of in laps for lap in of)
    return [medians(of[1:]) for of in laps]


def compacted(lab: Lab, pair: Pair) -> None:
    lab.spark.sql(f"OPTIMIZE {name(pair.target)}").collect()
    lab.spark.sql(f"REORG TABLE {name(pair.target)} APPLY (PURGE)").collect()
