"""A lakehouse with every kind of table, to branch from; what each table must hold, in plain Python; and its files."""

import hashlib
import os
import random
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from lakehouse import Aggregate, Append, Changes, Expect, History, Merge, Overwrite, Table, View
from lakehouse.dagster.branches import on_branch
from tests.support.dagster_house import House
from tests.support.lake import Lake

ROOT = "BRANCHED_ROOT"
CITIES = ["bonn", "kiel", "ulm"]
ORDERS = "id int, city string, v int"
shops = dg.StaticPartitionsDefinition(CITIES)
orders = dg.AssetSpec("orders", metadata=Table(key="id"))
cities = dg.AssetSpec("cities", metadata=Table(key="city"))


@dg.asset(metadata=Table(key="id", expect=Expect("v >= 0", on_failure="quarantine", name="not_negative")))
def clean(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id", properties={"delta.columnMapping.mode": "name"}))
def mapped(clean: Changes) -> Merge:
    touched = clean.touched("id")
    return Merge(touched.rows.withColumnRenamed("v", "the v"), touched)


@dg.asset(metadata=Table(key="city"))
def totals(clean: Changes) -> Aggregate:
    return Aggregate(clean, by="city", count="n", sums={"v": "v"})


@dg.asset(metadata=Table(key="id"))
def past(clean: Changes) -> History:
    return History(clean, track=("city", "v"))


@dg.asset
def archived(orders: Changes) -> Append:
    return Append(orders.log())


@dg.asset(metadata=Table(key="country"))
def revenue(clean: Changes, cities: Changes) -> View:
    return View("SELECT c.country, sum(o.v) AS v FROM clean o JOIN cities c ON o.city = c.city GROUP BY c.country")


@dg.asset(metadata=Table(key="id"))
def looked_up(orders: DataFrame) -> Overwrite:
    return Overwrite(orders.select("id", "v"))


@dg.asset(partitions_def=shops, metadata=Table(key="id", partition_by="city"))
def by_city(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


TABLES = [clean, mapped, totals, past, archived, revenue, looked_up]
NAMES = [table.key.to_user_string() for table in TABLES]


def house_of(lake: Lake, instance: dg.DagsterInstance) -> House:
    return House(lake, [orders, cities, *TABLES, by_city], instance)


def definitions(house: House) -> dg.Definitions:
    return dg.Definitions(house.assets, resources={"io_manager": house.io_manager})


@dg.definitions
def project() -> dg.Definitions:
    """The same definitions for the command line, below the root that an environment variable names."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    with dg.DagsterInstance.ephemeral() as instance:
        return definitions(house_of(Lake(spark, Path(os.environ[ROOT])), instance))


def begin(lake: Lake) -> None:
    lake.create("orders", [(i, CITIES[i % 3], i) for i in range(12)], ORDERS)
    lake.create(
        "cities", [(city, "north" if city == "kiel" else "south") for city in CITIES], "city string, country string"
    )


def edit(lake: Lake, chance: random.Random) -> str:
    """One commit by another program on a source."""
    row, city, value = chance.randrange(16), chance.choice(CITIES), chance.randrange(-4, 40)
    statement = chance.choice(
        [
            f"UPDATE {{orders}} SET v = {value} WHERE id = {row}",
            f"UPDATE {{orders}} SET city = '{city}', v = v + 1 WHERE id % 5 = {row % 5}",
            f"DELETE FROM {{orders}} WHERE id = {row}",
            f"INSERT INTO {{orders}} VALUES ({chance.randrange(100, 100_000)}, '{city}', {value})",
            f"UPDATE {{cities}} SET country = 'c{row % 3}' WHERE city = '{city}'",
        ]
    )
    lake.sql(statement)
    return statement


def run(house: House, *names: str, branch: str | None = None) -> dg.ExecuteInProcessResult:
    with on_branch(branch):
        return house.run(*(names or NAMES))


def run_shops(house: House, *keys: str, branch: str | None = None) -> list[dg.ExecuteInProcessResult]:
    with on_branch(branch):
        return [house.run("by_city", partition_key=key) for key in keys]


def rows_of(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table, read by Spark, because a clone uses files in another table's directory."""
    return sorted(map(tuple, lake.frame(name).collect()))


def wrong_tables(lake: Lake, *, shop: bool = True, archive: bool = True) -> dict[str, Any]:
    """The tables that do not hold what follows from their sources: the rows that they hold and the right ones."""
    rows, country = {row[0]: row for row in rows_of(lake, "orders")}, dict[Any, Any](rows_of(lake, "cities"))
    good = sorted(row for row in rows.values() if row[2] >= 0)
    values = {city: [value for _, of, value in good if of == city] for city in CITIES}
    revenue = defaultdict[str, int](int)
    for _, city, value in good:
        revenue[country[city]] += value
    log = sorted((v, kind, row) for *row, kind, v, _ in rows_of(lake, "archived"))
    folded = {row[0]: tuple(row) for _, kind, row in log if kind in ("insert", "update_postimage")}
    gone = {row[0]: v for v, kind, row in log if kind == "delete"}
    expected: dict[str, Any] = {
        "clean": good,
        "clean_quarantine": sorted(row for row in rows.values() if row[2] < 0),
        "mapped": good,
        "totals": sorted((city, len(of), sum(of)) for city, of in values.items() if of),
        "revenue": sorted(revenue.items()),
        "past": good,
        "archived": sorted(rows.values()),
        "looked_up": sorted((row[0], row[2]) for row in rows.values()),
    }
    held: dict[str, list[tuple[Any, ...]]] = {
        name: rows_of(lake, name) for name in ("clean", "mapped", "totals", "revenue", "looked_up")
    }
    quarantined = lake.frame("clean_quarantine").select("id", "city", "v").collect()
    held["clean_quarantine"] = sorted(map(tuple, quarantined))
    current = lake.frame("past").where("__END_AT IS NULL").select("id", "city", "v").collect()
    held["past"] = sorted(map(tuple, current))
    held["archived"] = sorted(row for key, row in folded.items() if key not in gone or key in rows)
    if shop:
        expected["by_city"], held["by_city"] = sorted(rows.values()), rows_of(lake, "by_city")
    wrong = {name: (held[name], rows) for name, rows in expected.items() if held[name] != rows}
    return wrong if archive else {name: pair for name, pair in wrong.items() if name != "archived"}


def files_of(root: Path) -> dict[str, str]:
    """Every file below a root, except Spark's own, with a digest of its bytes."""
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(root.rglob("*"))
        if file.is_file() and "_spark" not in file.parts
    }


@contextmanager
def untouched(root: Path) -> Generator[None]:
    """Checks that the block changes no file below a root."""
    before = files_of(root)
    yield
    assert files_of(root) == before
