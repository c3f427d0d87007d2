"""Views over ten million orders: the cost of a step by the share of the orders that changed."""

import shutil
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.views import QUERIES, Kept, Query, Recomputed
from benchmarks.harness import data, report
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Goal, Result, at_most

ROWS, CUSTOMERS = 10_000_000, 100_003
SHARES = (0.000_001, 0.000_1, 0.001, 0.01, 0.1, 0.5)
KEYS: dict[str, str | tuple[str, ...]] = {"orders": "id", "customers": "customer"}
"""The declared keys of the tables."""
MANY = 0.01
"""The share from which a step is compared with a recompute."""
DEARER = 1.15
"""A step of many rows should cost at most this many times as much as a recompute."""
EXPERT = 1.5
"""A step of one row should cost at most this many times as much as the asset that an expert writes."""


class Contestant(Protocol):
    name: str

    def step(self, root: Path) -> None: ...


def run(lab: Lab) -> Result:
    rows, goals = list[tuple[str, ...]](), list[Goal]()
    for query in QUERIES:
        costs = stepped(lab, query)
        for share, of in costs.items():
            rows += [(f"{query.name}, {percent(share)}: {name}", *report.figures(cost)) for name, cost in of.items()]
            if share >= MANY:
                ratio = of["view"].cpu / of["R3 recompute"].cpu
                goals.append(at_most(f"{query.name}, {percent(share)}: against a recompute", ratio, DEARER))
        if query.by_hand is not None:
            fewest = costs[SHARES[0]]
            ratio = fewest["view"].cpu / fewest["by hand"].cpu
            what = f"{query.name}, few rows: at most {EXPERT} times the CPU of the asset by hand"
            goals.append(Goal(what, f"{ratio:.2f}", ratio <= EXPERT))
        told = ", ".join(
            f"{percent(share)}: {of['R3 recompute'].cpu / of['view'].cpu:.1f}" for share, of in costs.items()
        )
        goals.append(Goal(f"{query.name}: CPU of a recompute against ours", told, None))
    return Result(
        "views",
        "Views, by the share of the rows that changed",
        f"{lab.rows(ROWS):,} orders and {CUSTOMERS:,} customers. A share of the orders changes, next to each other; "
        "each step is made on a fresh clone of the tables. Ours go by the default `Policy(refresh='auto')`: where many "
        "rows changed they compute all rows, and replace a table of more than 250,000. After each step the table "
        "equals the query. "
        f"The sources declare their keys. Medians of {lab.rounds} steps, after one that is not counted.",
        report.COLUMNS[:-1],
        rows,
        goals,
    )


def stepped(lab: Lab, query: Query) -> dict[float, dict[str, Cost]]:
    """The cost of a step of each contestant, by the share of the orders that changed."""
    with lab.room() as room:
        contestants = entered(lab, query)
        for contestant in contestants:
            data.clone(tables(lab), room / contestant.name)
            contestant.step(room / contestant.name)
        return {share: after_changes(lab, query, contestants, room, share) for share in SHARES}


def after_changes(lab: Lab, query: Query, contestants: list[Contestant], room: Path, share: float) -> dict[str, Cost]:
    """The cost of a step of each contestant after a share of the orders changed, each time in fresh clones."""
    costs: dict[str, list[Cost]] = {}
    for turn in range(1 + lab.rounds):
        for contestant in contestants:
            copy = room / f"{contestant.name} {turn}"
            data.clone(room / contestant.name, copy)
            count = max(1, int(lab.rows(ROWS) * share))
            data.change(lab.spark, copy / "orders", data.neighbours(lab.rows(ROWS) // 3, count))
            _, lap = lab.meter.measure(contestant.name, lambda: contestant.step(copy))  # noqa: B023
            if turn:
                costs.setdefault(contestant.name, []).append(lap.cost)
            what = f"{query.name} {percent(share)} {contestant.name:14}"
            print(f"  {what} {lap.cost.wall:7.2f} s {lap.cost.cpu:7.2f} CPU", flush=True)
            if turn == lab.rounds:
                checked(lab.spark, query, copy)
            shutil.rmtree(copy)
    return {name: medians(of) for name, of in costs.items()}


def percent(share: float) -> str:
    """A share as a percentage; the smallest share has four decimal places."""
    return f"{100 * share:g} %"


def entered(lab: Lab, query: Query) -> list[Contestant]:
    contestants: list[Contestant] = [Kept("view", lab.ours(), query.as_view("target"), query.key, keys=KEYS)]
    if query.by_hand is not None:
        contestants.append(Kept("by hand", lab.ours(), query.by_hand, query.key, keys=KEYS))
    return [*contestants, Recomputed(lab.ours(), query)]


def tables(lab: Lab) -> Path:
    """A directory with orders and customers."""
    path = data.cache() / f"views-{lab.rows(ROWS)}"
    if not path.exists():
        with data.made(path) as scratch:
            customers = lab.spark.range(0, CUSTOMERS, 1, 1).select(
                F.col("id").alias("customer"),
                F.concat(F.lit("city "), (F.col("id") % 500).cast("string")).alias("city"),
            )
            frames = {"orders": data.rows(lab.spark, lab.rows(ROWS), 6), "customers": customers}
            for name, frame in frames.items():
                frame.write.format("delta").options(**data.PROPERTIES).save(str(scratch / name))
    return path


def checked(spark: SparkSession, query: Query, root: Path) -> None:
    """Ends the run if the table does not hold the rows of its query."""
    due = spark.sql(query.over(root))
    kept = spark.read.table(data.name(root / "target")).select(*due.columns)
    sums = "count(*)", "sum(CAST(xxhash64(*) AS DECIMAL(38)))"
    assert due.selectExpr(*sums).collect() == kept.selectExpr(*sums).collect(), f"{query.name} is not what it says"
