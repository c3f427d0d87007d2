"""A graph derived from TPC-H: two joins and three aggregates over orders and their lines, refreshed.

A refresh adds 0.1 % new orders, dated after all others, and deletes the oldest 0.1 %, in both cases with their lines.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.ours import Lake
from benchmarks.contestants.views import Query
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


SUMS = (
    "count(*) AS lines, coalesce(sum(quantity), 0) AS quantity, coalesce(sum(price), 0) AS revenue "
    "FROM {order_lines} GROUP BY"
)
GRAPH = (
    Query(
        "customer_orders",
        "SELECT custkey, orderkey, orderdate, priority, nation FROM {orders} LEFT JOIN {customer} USING (custkey)",
        "orderkey",
        customer_orders,
    ),
    Query(
        "order_lines",
        "SELECT linekey, orderkey, partkey, quantity, price, custkey, orderdate FROM {lineitem} LEFT JOIN {orders} "
        "USING (orderkey)",
        "linekey",
        order_lines,
    ),
    Query("revenue_by_day", f"SELECT orderdate, {SUMS} orderdate", "orderdate", revenue_by_day),
    Query("revenue_by_customer", f"SELECT custkey, {SUMS} custkey", "custkey", revenue_by_customer),
    Query("demand_by_part", f"SELECT partkey, {SUMS} partkey", "partkey", demand_by_part),
)
"""Each table, its query, and the asset that an expert writes for it."""
BY_HAND, VIEWS, RECOMPUTE = "ours, by hand", "ours, as views", "R3 recompute"
AIMS = {0.1: 0.9, 1.0: 2.0, 3.0: 5.0}
"""By scale factor, how many times the CPU of this library's views a recompute should take at least."""


def run(lab: Lab) -> Result:
    rows, goals, ratios = [], [], {}
    for factor in LARGE if lab.large else FACTORS:
        costs = refreshed(lab, factor * lab.scale)
        rows += [(f"SF {factor:g}: {name}", *report.figures(cost)) for name, cost in costs.items()]
        ratios[factor] = costs[RECOMPUTE].cpu / costs[BY_HAND].cpu
        of_views, aim = costs[RECOMPUTE].cpu / costs[VIEWS].cpu, AIMS[factor]
        what, has_goal = f"CPU of R3 against ours by hand, SF {factor:g}", factor == 1
        text = f"{what}: at least 3x" if has_goal else what
        goals += [
            Goal(text, f"{ratios[factor]:.2f}x", ratios[factor] >= 3 if has_goal else None),
            Goal(f"CPU of R3 against views, SF {factor:g}: at least {aim:g}x", f"{of_views:.2f}x", of_views >= aim),
        ]
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
        "Ours twice: written by hand with `touched` and `Aggregate`, and as views of the queries that R3 computes. "
        f"After the last refresh every table equals the recompute. Medians of {lab.rounds} refreshes. Own generator: "
        "no TPC-H result.",
        report.COLUMNS[:-1],
        rows,
        goals,
    )


def refreshed(lab: Lab, factor: float) -> dict[str, Cost]:
    """The cost of a refresh of the whole graph, by this library and by recomputing, side by side."""
    count = int(ORDERS * factor)
    with lab.room() as room:
        sessions = {name: lab.ours() for name in (BY_HAND, VIEWS, RECOMPUTE)}
        roots = {name: room / str(place) for place, name in enumerate(sessions)}
        for root in roots.values():
            data.clone(sources(sessions[RECOMPUTE], factor), root)
        steps: dict[str, Callable[[], None]] = {
            BY_HAND: lambda: materialize(Lake(sessions[BY_HAND], roots[BY_HAND], KEYS), as_views=False),
            VIEWS: lambda: materialize(Lake(sessions[VIEWS], roots[VIEWS], KEYS), as_views=True),
            RECOMPUTE: lambda: recompute(sessions[RECOMPUTE], roots[RECOMPUTE]),
        }
        for step in steps.values():
            step()
        costs: dict[str, list[Cost]] = {name: [] for name in steps}
        for turn in range(race.WARM + lab.rounds):
            for name in steps:
                refresh(sessions[name], roots[name], factor, count, turn)
            for name, step in race.rotated(list(steps.items()), turn):
                costs[name].append(lab.meter.measure(name, step)[1].cost)
        for name in (BY_HAND, VIEWS):
            checked(lab.spark, roots[name], roots[RECOMPUTE])
    return {name: medians(of[race.WARM :]) for name, of in costs.items()}


def checked(spark: SparkSession, ours: Path, rival: Path) -> None:
    """Ends the run if a table differs from its recompute."""
    for query in GRAPH:
        columns = ", ".join(sorted(spark.read.table(data.name(rival / query.name)).columns))
        for one, other in ((ours, rival), (rival, ours)):
            rows = (f"SELECT {columns} FROM {data.name(root / query.name)}" for root in (one, other))
            assert spark.sql(" EXCEPT ALL ".join(rows)).isEmpty(), f"{query.name} differs from its recompute"


def materialize(lake: Lake, *, as_views: bool) -> None:
    """One run of all assets."""
    lake = replace(lake, feeds=Feeds())
    for query in GRAPH:
        asset = query.as_view() if as_views else query.by_hand
        assert asset is not None
        lake.materialize(asset, Table(key=query.key, properties=data.PROPERTIES))


def recompute(spark: SparkSession, root: Path) -> None:
    """R3: computes every table anew from the current tables."""
    for query in GRAPH:
        target = root / query.name
        spark.sql(query.over(root)).write.format("delta").mode("overwrite").save(str(target))


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
    """Inserts 0.1 % new orders and deletes the oldest 0.1 %."""
    part = max(1, count // 1_000)
    for name, frame in generated(spark, factor, count + turn * part, part).items():
        frame.coalesce(1).write.format("delta").mode("append").save(str(root / name))
        gone = f"orderkey >= {turn * part} AND orderkey < {(turn + 1) * part}"
        spark.sql(f"DELETE FROM {data.name(root / name)} WHERE {gone}").collect()
