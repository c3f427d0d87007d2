"""Fifteen views of a shop in three layers, brought up to date by one run of Dagster after an hour of changes."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants import medallion
from benchmarks.contestants.medallion import BRONZE, Recomputed, Views
from benchmarks.harness import data, report
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Result, at_most
from lakehouse import Policy

CLICKS, ORDERS, ITEMS, CUSTOMERS, PRODUCTS = 10_000_000, 2_000_000, 3, 200_000, 20_000
WARM = 2
HOUR = 1_000
"""In an hour one in this many clicks and orders is new, and one in this many orders and customers changes."""


def run(lab: Lab) -> Result:
    with lab.room() as room, dg.instance_for_test(temp_dir=str(room)) as instance:
        without = Views(lab.ours(), instance, "views, no vectors", Policy(deletion_vectors=False))
        contestants = [Views(lab.ours(), instance), without, Recomputed(lab.ours())]
        costs: dict[str, list[Cost]] = {each.name: [] for each in contestants}
        for each in contestants:
            data.clone(sources(lab), room / each.name)
            each.step(room / each.name)
        for turn in range(WARM + lab.rounds):
            for each in contestants:
                change(lab, room / each.name, turn)
                _, lap = lab.meter.measure(each.name, lambda: each.step(room / each.name))  # noqa: B023
                costs[each.name].append(lap.cost)
                print(f"  {each.name:14} {lap.cost.wall:7.2f} s {lap.cost.cpu:7.2f} CPU", flush=True)
        *own, rival = (room / each.name for each in contestants)
        for each in own:
            checked(lab.spark, each, rival)
    ours, no_vectors, theirs = (medians(of[WARM:]) for of in costs.values())
    return Result(
        "medallion",
        "Fifteen views in three layers",
        f"{lab.rows(CLICKS):,} clicks, {lab.rows(ORDERS):,} orders with {ITEMS} items each, {lab.rows(CUSTOMERS):,} "
        f"customers, {lab.rows(PRODUCTS):,} products; filters, joins, sums, a rank and a lag. An hour brings 0.1 % new "
        "clicks and orders, 0.1 % of the orders change their status, 0.1 % of the customers their country. One run of "
        "Dagster brings all views up to date; the rival overwrites each table with its query, without Dagster. After "
        "the last hour all tables are equal. Without vectors is Policy(deletion_vectors=False) for the tables of the "
        f"views. Medians of {lab.rounds} hours.",
        report.COLUMNS[:-1],
        [(name, *report.figures(cost)) for name, cost in zip(costs, (ours, no_vectors, theirs), strict=True)],
        [
            at_most("CPU against a recompute: at most a third", ours.cpu / theirs.cpu, 1 / 3),
            at_most("seconds, Dagster included: at most 20", ours.wall, 20),
        ],
    )


def generated(spark: SparkSession, lab: Lab, parts: dict[str, range]) -> dict[str, DataFrame]:
    """Rows of tables for ranges of numbers; every value is a function of the row's number."""
    key, customers, products = F.col("id"), lab.rows(CUSTOMERS), lab.rows(PRODUCTS)
    customer = F.pmod(F.xxhash64(key), F.lit(customers)).alias("customer")
    product = F.pmod(F.xxhash64(key, F.lit(1)), F.lit(products)).alias("product")
    day = F.date_add(F.lit("2024-01-01").cast("date"), (key * 700 / lab.rows(ORDERS)).cast("int")).alias("day")
    of: dict[str, Callable[[DataFrame], DataFrame]] = {
        "clicks": lambda rows: rows.select(
            *(key, customer, product, _one_of(("view", "cart", "buy", "bot")).alias("kind")),
            F.timestamp_seconds(F.lit(1_704_067_200) + key * 60_480_000 / lab.rows(CLICKS)).alias("at"),
        ),
        "orders": lambda rows: rows.select(
            key, customer, day, _one_of(("paid", "paid", "paid", "open")).alias("status")
        ),
        "items": lambda rows: rows.select(
            *(key, F.floor(key / ITEMS).alias("order_id"), product, (key % 5 + 1).cast("int").alias("quantity")),
            (F.pmod(F.xxhash64(key, F.lit(2)), F.lit(100_000)) / 100).cast("decimal(10,2)").alias("price"),
        ),
        "customers": lambda rows: rows.select(
            key, _called("country", 40).alias("country"), F.when(key % 3 > 0, _called("segment", 5)).alias("segment")
        ),
        "products": lambda rows: rows.select(
            key, F.concat(F.lit("product "), key).alias("name"), _called("category", 50).alias("category")
        ),
    }
    return {
        name: of[name](spark.range(part.start, part.stop, 1, max(1, len(part) // data.ROWS_PER_FILE)))
        for name, part in parts.items()
    }


def sources(lab: Lab) -> Path:
    """A directory with the tables of the shop."""
    path = data.cache() / f"shop-{lab.rows(CLICKS)}"
    counts = {"clicks": CLICKS, "orders": ORDERS, "items": ITEMS * ORDERS, "customers": CUSTOMERS, "products": PRODUCTS}
    if not path.exists():
        with data.made(path) as scratch:
            for name, frame in generated(lab.spark, lab, {n: range(lab.rows(counts[n])) for n in BRONZE}).items():
                frame.write.format("delta").options(**data.PROPERTIES).save(str(scratch / "bronze" / name))
    return path


def change(lab: Lab, root: Path, turn: int) -> None:
    """Makes the changes of an hour in the shop."""
    clicks, orders = lab.rows(CLICKS), lab.rows(ORDERS)
    new_clicks, new_orders = (
        range(count + turn * count // HOUR, count + (turn + 1) * count // HOUR) for count in (clicks, orders)
    )
    new_items = range(new_orders.start * ITEMS, new_orders.stop * ITEMS)
    parts = {"clicks": new_clicks, "orders": new_orders, "items": new_items}
    for name, frame in generated(lab.spark, lab, parts).items():
        frame.coalesce(1).write.format("delta").mode("append").save(str(root / "bronze" / name))
    for name, first, count, value in (
        ("orders", orders * 9 // 10, orders // HOUR, "status = 'paid'"),
        ("customers", 0, lab.rows(CUSTOMERS) // HOUR, f"country = 'country {turn}'"),
    ):
        start = first + turn * count
        where = f"id >= {start} AND id < {start + count}"
        lab.spark.sql(f"UPDATE {data.name(root / 'bronze' / name)} SET {value} WHERE {where}").collect()


def checked(spark: SparkSession, ours: Path, rival: Path) -> None:
    """Ends the run if a table differs from its recompute."""
    for table in medallion.queries():
        columns = ", ".join(sorted(spark.read.table(data.name(rival / table)).columns))
        for one, other in ((ours, rival), (rival, ours)):
            rows = (f"SELECT {columns} FROM {data.name(root / table)}" for root in (one, other))
            assert spark.sql(" EXCEPT ALL ".join(rows)).isEmpty(), f"{table} differs from its recompute"


def _one_of(words: tuple[str, ...]) -> Column:
    place = (F.pmod(F.xxhash64("id", F.lit(3)), F.lit(len(words))) + 1).cast("int")
    return F.element_at(F.array(*map(F.lit, words)), place)


def _called(what: str, count: int) -> Column:
    return F.concat(F.lit(f"{what} "), (F.col("id") % count).cast("string"))
