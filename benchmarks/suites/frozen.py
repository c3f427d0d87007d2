"""A correction in a dimension, for a table that owns one hundredth of its rows, one that owns all rows, and by hand."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.ours import Lake
from benchmarks.harness import data, report
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.race import WARM, rotated
from benchmarks.harness.report import Goal, Result, at_most
from lakehouse import Changes, Table, View

ROWS, ROWS_LARGE, CUSTOMERS, DAYS = 5_000_000, 50_000_000, 100_000, 200
OWNED = "day >= DATE'2026-07-18'"
"""The last two of the days, which begin with the first day of 2026."""
KEY = ("id", "day")
QUERY = "SELECT id, day, customer, value, city FROM {trades} JOIN {customers} USING (customer)"
KEYS: Mapping[str, str | tuple[str, ...]] = {"trades": KEY, "customers": "customer"}
OWNS, ALL, BY_HAND = "Table(owns=...)", "a view of all rows", "partition overwrite by hand"


def enriched(trades: Changes, customers: Changes) -> View:
    return View(QUERY.format(trades="trades", customers="customers"))


def kept(spark: SparkSession, root: Path, owns: str | None) -> None:
    table = Table(key=KEY, partition_by="day", properties=data.PROPERTIES, owns=owns)
    Lake(spark, root, dict(KEYS), trust_key=True).materialize(enriched, table, target="target")


def by_hand(spark: SparkSession, root: Path) -> None:
    rows = spark.sql(_query(root)).where(OWNED)
    options: dict[str, Any] = {**data.PROPERTIES, "replaceWhere": OWNED}
    rows.write.format("delta").options(**options).mode("overwrite").save(str(root / "target"))


def run(lab: Lab) -> Result:
    rows, costs = lab.rows(ROWS_LARGE if lab.large else ROWS), dict[str, list[Cost]]()
    spark = lab.ours()
    contestants: dict[str, Callable[[Path], None]] = {
        OWNS: lambda root: kept(spark, root, OWNED),
        ALL: lambda root: kept(spark, root, None),
        BY_HAND: lambda root: by_hand(spark, root),
    }
    with lab.room() as room:
        for name in contestants:
            data.clone(tables(lab, rows), room / name)
            kept(spark, room / name, OWNED if name == OWNS else None)
        for turn in range(WARM + lab.rounds):
            for name in rotated(list(contestants), turn):
                lab.spark.sql(
                    f"UPDATE {data.name(room / name / 'customers')} SET city = 'moved {turn}' "
                    f"WHERE customer % 100 = {turn}"
                ).collect()
                before = frozen(spark, room / name)
                _, lap = lab.meter.measure(name, lambda: contestants[name](room / name))  # noqa: B023
                if turn >= WARM:
                    costs.setdefault(name, []).append(lap.cost)
                print(f"  {name:30} {lap.cost.wall:7.2f} s {lap.cost.cpu:7.2f} CPU")
                assert name == ALL or frozen(spark, room / name) == before, f"{name} changed a frozen row"
                assert owned(spark, room / name), f"{name} does not equal its query"
        shutil.rmtree(room, ignore_errors=True)
    medians_ = {name: medians(of) for name, of in costs.items()}
    return Result(
        "frozen_large" if lab.large else "frozen",
        "A past that stays",
        f"{rows:,} trades of {DAYS} days joined with {CUSTOMERS:,} customers, partitioned by day; `owns` is true of "
        "two days, one hundredth of the rows. Before each step one customer in a hundred moves. After each step the "
        f"owned rows equal the query, and the others are as before. Medians of {lab.rounds} steps.",
        report.COLUMNS[:-1],
        [(name, *report.figures(cost)) for name, cost in medians_.items()],
        [
            at_most("CPU against a view of all rows: at most 0.2", medians_[OWNS].cpu / medians_[ALL].cpu, 0.2),
            less(
                "CPU of a partition overwrite against ours: at least 4", medians_[BY_HAND].cpu / medians_[OWNS].cpu, 4
            ),
        ],
    )


def less(what: str, ratio: float, limit: float) -> Goal:
    return Goal(what, f"{ratio:.2f}", ratio >= limit)


def tables(lab: Lab, rows: int) -> Path:
    """A directory with trades and customers."""
    path = data.cache() / f"frozen-{rows}"
    if not path.exists():
        with data.made(path) as scratch:
            customers = lab.spark.range(0, CUSTOMERS, 1, 1).selectExpr(
                "id AS customer", "concat('city ', CAST(id % 500 AS string)) AS city"
            )
            day = F.expr(f"date_add(DATE'2026-01-01', CAST(id * {DAYS} div {rows} AS int))")
            trades = data.rows(lab.spark, rows, 6).withColumn("day", day).where(f"customer < {CUSTOMERS}")
            for name, frame in {"trades": trades, "customers": customers}.items():
                frame.write.format("delta").options(**data.PROPERTIES).save(str(scratch / name))
    return path


def _query(root: Path) -> str:
    return QUERY.format(**{name: data.name(root / name) for name in KEYS})


_SUMS = "count(*)", "sum(CAST(xxhash64(id, day, customer, value, city) AS DECIMAL(38)))"


def frozen(spark: SparkSession, root: Path) -> Any:
    """A digest of the rows that no run may change."""
    return spark.read.table(data.name(root / "target")).where(f"NOT {OWNED}").selectExpr(*_SUMS).collect()


def owned(spark: SparkSession, root: Path) -> bool:
    """Whether the owned rows equal those of the query."""
    due = spark.sql(_query(root)).where(OWNED).selectExpr(*_SUMS).collect()
    return due == spark.read.table(data.name(root / "target")).where(OWNED).selectExpr(*_SUMS).collect()
