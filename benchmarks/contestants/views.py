"""A query as a view, as an asset written by hand with `touched`, and computed anew each time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants.ours import Lake
from benchmarks.harness import data
from lakehouse import Changes, Merge, Policy, Table, View


@dataclass(frozen=True, slots=True)
class Query:
    """A query over tables, and an asset that keeps its result.

    Args:
        name: Its name.
        sql: The query, with `{name}` for a table.
        key: The key of its result.
        by_hand: The asset that an expert writes for it with `touched`; None if there is no such asset.
    """

    name: str
    sql: str
    key: str | tuple[str, ...]
    by_hand: Callable[..., Any] | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the query names."""
        return tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(self.sql) if name))

    def over(self, root: Path) -> str:
        """The query over the tables below a directory."""
        return self.sql.format(**{name: data.name(root / name) for name in self.tables})

    def as_view(self, name: str | None = None) -> Callable[..., View]:
        """An asset that returns the query as a view."""
        text = self.sql.format(**{table: table for table in self.tables})

        def asset(**_: Changes) -> View:
            return View(text)

        asset.__name__ = name or self.name
        asset.__annotations__ = {**dict.fromkeys(self.tables, Changes), "return": View}
        return asset


@dataclass
class Kept:
    """The result of a query, kept by an asset of this library in the table `target` below a root."""

    name: str
    spark: SparkSession
    asset: Callable[..., Any]
    key: str | tuple[str, ...]
    policy: Policy = Policy()
    keys: dict[str, str | tuple[str, ...]] = field(default_factory=dict[str, str | tuple[str, ...]])

    def step(self, root: Path) -> None:
        table = Table(key=self.key, properties=data.PROPERTIES, policy=self.policy)
        Lake(self.spark, root, self.keys, trust_key=True).materialize(self.asset, table, target="target")


@dataclass
class Recomputed:
    """The result of a query, computed anew."""

    spark: SparkSession
    query: Query
    name: str = "R3 recompute"

    def step(self, root: Path) -> None:
        frame: DataFrame = self.spark.sql(self.query.over(root))
        frame.write.format("delta").options(**data.PROPERTIES).mode("overwrite").save(str(root / "target"))


def filtered(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.where("status <> 'done'").selectExpr("id", "customer", "value * 2 AS twice"), touched)


def largest(orders: Changes) -> Merge:
    touched = orders.touched("customer")
    return Merge(touched.rows.groupBy("customer").agg({"value": "max"}).toDF("customer", "largest"), touched)


def named(orders: Changes, customers: Changes) -> Merge:
    touched = orders.touched("id") | customers.touched("customer").via(orders.source, "id")
    theirs = orders.touched("customer") | customers.touched("customer")
    joined = touched.of(orders.source).join(theirs.of(customers.source), "customer")
    return Merge(joined.select("id", "customer", "value", "city"), touched)


def newest(orders: Changes) -> Merge:
    touched = orders.touched("customer")
    ranked = "*", "row_number() OVER (PARTITION BY customer ORDER BY value DESC, id) AS place"
    return Merge(touched.rows.selectExpr(*ranked).where("place = 1").select("customer", "id", "value"), touched)


QUERIES = (
    Query("filter", "SELECT id, customer, value * 2 AS twice FROM {orders} WHERE status <> 'done'", "id", filtered),
    Query("aggregate", "SELECT customer, max(value) AS largest FROM {orders} GROUP BY customer", "customer", largest),
    Query(
        "sums",
        "SELECT status, CAST(at AS DATE) AS day, count(*) AS n, coalesce(sum(value), 0) AS value FROM {orders} "
        "GROUP BY status, CAST(at AS DATE)",
        ("status", "day"),
    ),
    Query(
        "join",
        "SELECT id, customer, value, city FROM {orders} JOIN {customers} USING (customer)",
        "id",
        named,
    ),
    Query(
        "window",
        "SELECT customer, id, value FROM (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY value DESC, id) "
        "AS place FROM {orders}) WHERE place = 1",
        "customer",
        newest,
    ),
)
