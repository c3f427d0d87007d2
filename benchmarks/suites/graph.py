"""A graph derived from TPC-H: two joins and three aggregates over orders and their lines, refreshed.

A refresh brings 0.1 % new orders, dated after all others, and deletes the 0.1 % that are oldest, with their lines.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.ours import Lake
from benchmarks.harness import data, race, report
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Goal, Result
from lakehouse import Aggregate, Changes, Merge, Table
from lakehouse.read.feed_reader import Feeds

ORDERS, CUSTOMERS, PARTS, LINES = 1_500_000, 150_000, 200_000, 4
PER_DAY = 625
FACTORS, LARGE = (0.1, 1.0), (0.1, 1.0, 3.0)
KEYS = {"customer": "custkey", "orders": "orderkey", "lineitem": "linekey", "order_lines": "linekey"}


def generated(spark: SparkSession, factor: float, first: int, count: int) -> dict[str, DataFrame]:
    """Orders `first` to `first + count` and their lines; every value a function of the key."""
    key, customers, parts = F.col("id"), int(CUSTOMERS * factor), int(PARTS * factor)
    numbers = spark.range(first, first + count, 1, max(1, count // 400_000))
    day = F.date_add(F.lit("1992-01-01").cast("date"), (key / (PER_DAY * factor)).cast("int"))
    orders = numbers.select(
        key.alias("orderkey"),
        F.pmod(F.xxhash64(key), F.lit(customers)).alias("custkey"),
        day.alias("orderdate"),
        F.concat(F.lit("priority "), (key % 5).cast("string")).alias("priority"),
    )
    line = F.explode(F.sequence(F.lit(0), F.lit(LINES - 1))).alias("line")
    lines = numbers.select(key, line).select(
        (key * LINES + F.col("line")).alias("linekey"),
        key.alias("orderkey"),
        F.pmod(F.xxhash64(key, "line"), F.lit(parts)).alias("partkey"),
        (F.pmod(F.xxhash64("line", key), F.lit(50)) + 1).alias("quantity"),
        (F.pmod(F.xxhash64(key, F.lit(7), "line"), F.lit(10_000_000)) / 100).cast("decimal(12,2)").alias("price"),
    )
    return {"orders": orders, "lineitem": lines}


def customer_rows(spark: SparkSession, factor: float) -> DataFrame:
    key = F.col("id")
    nation = F.concat(F.lit("nation "), (key % 25).cast("string")).alias("nation")
    return spark.range(0, int(CUSTOMERS * factor), 1, 1).select(key.alias("custkey"), nation)


def customer_orders(orders: Changes, customer: Changes) -> Merge:
    """Orders with their customer's nation."""
    touched = orders.touched("orderkey") | customer.touched("custkey").via(orders.source, "orderkey")
    theirs = orders.touched("custkey") | customer.touched("custkey")
    return Merge(touched.of(orders.source).join(theirs.of(customer.source), "custkey", "left"), touched)


def order_lines(lineitem: Changes, orders: Changes) -> Merge:
    """Lines with the day and the customer of their order."""
    touched = lineitem.touched("linekey") | orders.touched("orderkey").via(lineitem.source, "linekey")
    theirs = lineitem.touched("orderkey") | orders.touched("orderkey")
    joined = touched.of(lineitem.source).join(theirs.of(orders.source), "orderkey", "left")
    return Merge(joined.select(*lineitem.source.columns, "custkey", "orderdate"), touched)


def revenue_by_day(order_lines: Changes) -> Aggregate:
    return summed(order_lines, "orderdate")


def revenue_by_customer(order_lines: Changes) -> Aggregate:
    return summed(order_lines, "custkey")


def demand_by_part(order_lines: Changes) -> Aggregate:
    return summed(order_lines, "partkey")


def summed(order_lines: Changes, by: str) -> Aggregate:
    return Aggregate(order_lines, by, count="lines", sums={"quantity": "quantity", "revenue": "price"})


@dataclass(frozen=True, slots=True)
class Node:
    """An asset of the graph, and its full recompute as SQL with `{name}` for a table."""

    asset: Callable[..., Any]
    key: str
    recompute: str


SUMS = "count(*) AS lines, sum(quantity) AS quantity, sum(price) AS revenue FROM {order_lines} GROUP BY"
GRAPH = (
    Node(
        customer_orders,
        "orderkey",
        "SELECT custkey, orderkey, orderdate, priority, nation FROM {orders} LEFT JOIN {customer} USING (custkey)",
    ),
    Node(
        order_lines,
        "linekey",
        "SELECT linekey, orderkey, partkey, quantity, price, custkey, orderdate FROM {lineitem} LEFT JOIN {orders} "
        "USING (orderkey)",
    ),
    Node(revenue_by_day, "orderdate", f"SELECT orderdate, {SUMS} orderdate"),
    Node(revenue_by_customer, "custkey", f"SELECT custkey, {SUMS} custkey"),
    Node(demand_by_part, "partkey", f"SELECT partkey, {SUMS} partkey"),
)


def run(lab: Lab) -> Result:
    rows, goals, ratios = [], [], {}
    for factor in LARGE if lab.large else FACTORS:
        costs = refreshed(lab, factor * lab.scale)
        ratios[factor] = costs["R3 recompute"].cpu / costs["ours"].cpu
        rows += [(f"SF {factor:g}: {name}", *report.figures(cost)) for name, cost in costs.items()]
        what, goal = f"CPU of R3 against ours, SF {factor:g}", factor == 1
        text = f"{what}: at least 3x" if goal else what
        goals.append(Goal(text, f"{ratios[factor]:.2f}x", ratios[factor] >= 3 if goal else None))
    if len(ratios) > 1:
        told = ", ".join(f"{ratio:.1f}x" for ratio in ratios.values())
        goals.append(
            Goal("the ratio grows with the scale factor", told, list(ratios.values()) == sorted(ratios.values()))
        )
    return Result(
        "graph_large" if lab.large else "graph",
        f"A graph derived from TPC-H{', up to SF 3' if lab.large else ''}",
        "orders and their lines (four each), customers; two joins (order and customer; line and order) and three sums "
        "(by day, customer, part). A refresh adds 0.1 % of the orders at the end and deletes 0.1 % at the beginning. "
        f"After the last refresh every table equals the recompute. Medians of {lab.rounds} refreshes. Own generator: "
        "no TPC-H result.",
        report.COLUMNS[:-1],
        rows,
        goals,
    )


def refreshed(lab: Lab, factor: float) -> dict[str, Cost]:
    """The cost of a refresh of the whole graph, ours and recomputed, side by side."""
    count = int(ORDERS * factor)
    spark, theirs = lab.ours(), lab.ours()
    with lab.room() as room:
        data.clone(sources(spark, factor), room / "ours")
        data.clone(sources(spark, factor), room / "rival")
        lake = Lake(spark, room / "ours", KEYS)
        materialize(lake)
        recompute(theirs, room / "rival")
        costs: dict[str, list[Cost]] = {"ours": [], "R3 recompute": []}
        for turn in range(race.WARM + lab.rounds):
            for session, root in ((spark, room / "ours"), (theirs, room / "rival")):
                refresh(session, root, factor, count, turn)
            costs["ours"].append(lab.meter.measure("ours", lambda: materialize(lake))[1].cost)
            again = lab.meter.measure("R3", lambda: recompute(theirs, room / "rival"))[1]
            costs["R3 recompute"].append(again.cost)
        for node in GRAPH:
            name = node.asset.__name__
            columns = ", ".join(sorted(lab.spark.read.table(data.name(room / "rival" / name)).columns))
            for one, other in (("ours", "rival"), ("rival", "ours")):
                query = " EXCEPT ALL ".join(f"SELECT {columns} FROM {data.name(room / x / name)}" for x in (one, other))
                assert lab.spark.sql(query).isEmpty(), f"{name} differs from its recompute"
    return {name: medians(of[race.WARM :]) for name, of in costs.items()}


def materialize(lake: Lake) -> None:
    """One run of all assets."""
    lake = replace(lake, feeds=Feeds())
    for node in GRAPH:
        lake.materialize(node.asset, Table(key=node.key, properties=data.PROPERTIES))


def recompute(spark: SparkSession, root: Path) -> None:
    """R3: every table anew, from the tables as they are."""
    for node in GRAPH:
        tables = {path.name: data.name(path) for path in root.iterdir()}
        target = root / node.asset.__name__
        spark.sql(node.recompute.format(**tables)).write.format("delta").mode("overwrite").save(str(target))


def sources(spark: SparkSession, factor: float) -> Path:
    """A directory with orders, lineitem and customer."""
    path = data.cache() / f"graph-{factor:g}"
    if not path.exists():
        with data.made(path) as scratch:
            frames = generated(spark, factor, 0, int(ORDERS * factor)) | {"customer": customer_rows(spark, factor)}
            for name, frame in frames.items():
                frame.write.format("delta").options(**data.PROPERTIES).save(str(scratch / name))
    return path


def refresh(spark: SparkSession, root: Path, factor: float, count: int, turn: int) -> None:
    """0.1 % of the orders come, 0.1 % go."""
    part = max(1, count // 1_000)
    for name, frame in generated(spark, factor, count + turn * part, part).items():
        frame.coalesce(1).write.format("delta").mode("append").save(str(root / name))
        gone = f"orderkey >= {turn * part} AND orderkey < {(turn + 1) * part}"
        spark.sql(f"DELETE FROM {data.name(root / name)} WHERE {gone}").collect()
