"""A graph that follows orders written by another program, and what its tables must hold."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import dagster as dg

from lakehouse import Aggregate, Append, Changes, Merge, Table


@dg.asset(metadata=Table(key="id"))
def kept(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.where("v < 100"), touched)


@dg.asset(metadata=Table(key="k"))
def sums(kept: Changes) -> Aggregate:
    return Aggregate(kept, "k", "n", {"total": "v"})


@dg.asset
def log(orders: Changes) -> Append:
    return Append(orders.log())


GRAPH = (dg.AssetSpec("orders", metadata=Table(key="id")), kept, sums, log)
NAMES = ("kept", "sums", "log")
FIRST = (
    "CREATE TABLE {orders} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    " AS SELECT * FROM VALUES (1, 'a', 10), (2, 'b', 20), (3, 'a', 30) AS rows(id, k, v)"
)
"""The orders of the first day."""
EDITS = (
    "UPDATE {orders} SET v = v + 1 WHERE id <> 3",
    "DELETE FROM {orders} WHERE id = 2",
    "INSERT INTO {orders} VALUES (2, 'c', 40), (5, 'c', 500)",
    "DELETE FROM {orders} WHERE id = 5",
)
"""Edits of the orders, which can be repeated any number of times."""


def in_schema(schema: str) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """The same graph with tables that have a name in this schema of Spark's catalog."""

    def named(spec: dg.AssetSpec) -> dg.AssetSpec:
        name = spec.key.to_user_string()
        declared = Table.from_metadata(spec.metadata)
        return spec.merge_attributes(metadata=replace(declared, name=f"{schema}.{name}"))

    return [named(one) if isinstance(one, dg.AssetSpec) else one.map_asset_specs(named) for one in GRAPH]


def wrong(rows: Callable[[str], Iterable[tuple[Any, ...]]]) -> list[str]:
    """The tables that do not hold what the orders give, by plain Python.

    Args:
        rows: The rows of a table.
    """
    orders = [*rows("orders")]
    right = [row for row in orders if row[2] < 100]
    values = {k: [v for _, other, v in right if other == k] for _, k, _ in right}
    expected = {"kept": right, "sums": [(k, len(each), sum(each)) for k, each in values.items()], "log": orders}
    holds = {"kept": Counter(rows("kept")), "sums": Counter(rows("sums")), "log": replayed(rows("log"))}
    return [name for name in NAMES if holds[name] != Counter(expected[name])]


def replayed(changes: Iterable[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """The orders that result from a log of changes; a missing or repeated change gives other orders."""
    signs = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
    orders = Counter[tuple[Any, ...]]()
    for *row, change, _version, _timestamp in changes:
        orders[tuple(row)] += signs[change]
    return orders
