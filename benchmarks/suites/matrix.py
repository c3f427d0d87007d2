"""A reduced form of Delta's own merge matrix: where the changes are, and what they do."""

from pathlib import Path

from benchmarks.contestants.by_hand import Batch, Recompute
from benchmarks.contestants.ours import Ours
from benchmarks.harness import race, report
from benchmarks.harness.data import KEY, name
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Goal, Result

ROWS, LARGE = 2_500_000, 10_000_000
REACH = (0.05, 1.0)
CHANGES = ("upsert", "delete", "insert")


def run(lab: Lab) -> Result:
    count = LARGE if lab.large else ROWS
    rows, against, best = [], {}, {}
    for reach in REACH:
        for kind in CHANGES:
            contestants = [
                Ours(lab.ours()),
                Batch(lab.ours(), "R2t"),
                Batch(lab.ours(), "R2x", expert=True),
                Recompute(lab.ours(), "R3"),
            ]

            def apply(source: Path, turn: int, kind: str = kind, reach: float = reach) -> None:
                lab.spark.sql(changing(kind, name(source), lab.rows(count), reach, turn)).collect()

            with lab.room() as room:
                entries = race.entered(lab.table(count, 6), contestants, room)
                tallies = race.fresh(lab.meter, entries, apply, lab.rounds, room)
            cell = f"{kind}, {reach:.0%} of the files"
            cpu = {who: tally.cost.cpu for who, tally in tallies.items()}
            against[cell] = cpu["R2t"] / cpu["ours"]
            best[cell] = cpu["ours"] / min(cost for who, cost in cpu.items() if who != "ours")
            rows += [report.row(f"{cell}: {who}", tally) for who, tally in tallies.items()]
    worst = max(best, key=lambda cell: best[cell])
    better = sum(ratio >= 1.5 for ratio in against.values())
    return Result(
        "matrix_large" if lab.large else "matrix",
        f"Merge matrix on {count:,} rows",
        "One per cent of the rows of the part that is touched: 5 % of the key range, or all of it. An upsert updates "
        "half and inserts half. Each run on a fresh clone.",
        report.COLUMNS,
        rows,
        [
            Goal("CPU: never over 1.1x of the best rival", f"{best[worst]:.2f} ({worst})", best[worst] <= 1.1),
            Goal("CPU: 1.5x better than R2t in most cells", f"{better} of {len(against)}", better > len(against) / 2),
        ],
    )


def changing(kind: str, source: str, count: int, reach: float, turn: int) -> str:
    """The statement that changes one per cent of the rows below `reach` of the key range; new keys are negative."""
    part, every = int(count * reach), 100
    some = f"{KEY} >= 0 AND {KEY} < {part} AND {KEY} % {every} = {7 + turn}"
    new = f"-1 - {KEY} - {turn} * {count} AS {KEY}, * EXCEPT ({KEY})"
    match kind:
        case "upsert":
            rows = f"SELECT {KEY}, * EXCEPT ({KEY}) FROM {source} WHERE {some} AND {KEY} % 200 < 100"
            rows += f" UNION ALL SELECT {new} FROM {source} WHERE {some} AND {KEY} % 200 >= 100"
            return (
                f"MERGE INTO {source} t USING ({rows}) s ON t.{KEY} = s.{KEY} "
                f"WHEN MATCHED THEN UPDATE SET value = t.value + 1 WHEN NOT MATCHED THEN INSERT *"
            )
        case "delete":
            return f"DELETE FROM {source} WHERE {some}"
        case _:
            return f"INSERT INTO {source} SELECT {new} FROM {source} WHERE {some}"
