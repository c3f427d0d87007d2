"""One changed row of ten million, with expectations and without: conditions cost in proportion to the changed rows."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.contestants.by_hand import Batch
from benchmarks.contestants.ours import Ours
from benchmarks.harness import race, report
from benchmarks.harness.data import KEY, Pair, change, name, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.race import Contestant
from benchmarks.harness.report import Goal, Result, at_most
from lakehouse import Expect, Table

ROWS = 10_000_000
CONDITIONS = ("value >= 0", "status IN ('new', 'paid', 'sent', 'done')", "at >= TIMESTAMP '2020-01-01'")
DROPPING = Table(key=KEY, expect=(Expect(CONDITIONS[0]), Expect(CONDITIONS[1], "fail"), Expect(CONDITIONS[2], "drop")))
QUARANTINING = Table(
    key=KEY, expect=(Expect(CONDITIONS[0]), Expect(CONDITIONS[1], "fail"), Expect(CONDITIONS[2], "quarantine"))
)
PLAIN, THREE, QUARANTINE = "ours", "ours, warn, fail and drop", "ours, warn, fail and quarantine"
MERGE, TESTED = "R2t batch MERGE", "R2t, then the table tested"


@dataclass
class Tested(Batch):
    """The step by hand, and then each condition over the whole table, as tests outside a pipeline do."""

    def step(self, pair: Pair) -> None:
        super().step(pair)
        for condition in CONDITIONS:
            broken = f"SELECT count(*) FROM {name(pair.target)} WHERE NOT coalesce({condition}, false)"
            assert self.spark.sql(broken).collect()[0][0] == 0


def run(lab: Lab) -> Result:
    contestants: list[Contestant] = [
        Ours(lab.ours(), PLAIN),
        Ours(lab.ours(), THREE, DROPPING),
        Ours(lab.ours(), QUARANTINE, QUARANTINING),
        Batch(lab.ours(), MERGE),
        Tested(lab.ours(), TESTED),
    ]
    with lab.room() as room:
        first = lab.rows(ROWS) // 3

        def one_row(source: Path, turn: int) -> None:
            change(lab.spark, source, neighbours(first + 1_000 * turn))

        tallies = race.kept(lab.meter, race.entered(lab.table(ROWS, 6), contestants, room), one_row, lab.rounds)
    cpu = {each: tally.cost.cpu for each, tally in tallies.items()}
    return Result(
        "expectations",
        "Expectations",
        "Ten million rows of six columns. A round updates one row; each contestant has tables of its own. The "
        f"conditions are {', '.join(f'`{each}`' for each in CONDITIONS)}, and all rows fulfil them. `R2t` is what one "
        "writes by hand, once without a test and once with the conditions asked of the table after the write, when a "
        "row that breaks one is already there for everybody.",
        report.COLUMNS,
        [report.row(each, tally) for each, tally in tallies.items()],
        [
            at_most("CPU with warn, fail and drop against none: at most 1.1x", cpu[THREE] / cpu[PLAIN], 1.1),
            at_most("CPU with a quarantine against none: at most 1.2x", cpu[QUARANTINE] / cpu[PLAIN], 1.2),
            Goal("CPU of warn, fail and drop against R2t tested", f"{cpu[THREE] / cpu[TESTED]:.2f}x", None),
        ],
    )
