"""A lakehouse with a table of each kind of write, as an earlier commit of this library left it on disk.

`former_lake.zip` was written at 043624fe by `python -m tests.laws.former_lake`. Its marks are in the form of that commit.
"""

import datetime as dt
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse import Aggregate, Append, Changes, Expect, History, LocalSpark, Merge, Overwrite, Snapshot, Table, View
from lakehouse.dagster.resources import Where
from tests.support.dagster_house import House
from tests.support.lake import Lake

ARCHIVE = Path(__file__).with_suffix(".zip")
DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-04")
ORDERS = "id int, customer int, day date, amount int"
CUSTOMERS = "customer int, city string"
MONDAY, TUESDAY = dt.date(2024, 1, 1), dt.date(2024, 1, 2)

orders = dg.AssetSpec("orders", metadata=Table(key="id"))
customers = dg.AssetSpec("customers", metadata=Table(key="customer"))


@dg.asset(metadata=Table(key="id"), code_version="1")
def merged(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="city"))
def by_city(orders: Changes, customers: Changes) -> View:
    return View("""SELECT coalesce(c.city, '?') AS city, max(o.amount) AS largest
                   FROM orders o LEFT JOIN customers c ON o.customer = c.customer GROUP BY coalesce(c.city, '?')""")


@dg.asset(metadata=Table(key="day"))
def by_day(orders: Changes) -> View:
    return View("SELECT day, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY day")


@dg.asset(metadata=Table(key="customer"))
def sums(orders: Changes) -> Aggregate:
    return Aggregate(orders, "customer", "orders", {"amount": "amount"})


@dg.asset(metadata=Table(key="customer"))
def past(customers: Changes) -> History:
    return History(customers, track="city")


@dg.asset
def log(orders: Changes) -> Append:
    return Append(orders.log())


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"), code_version="1")
def daily(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id"), code_version="1")
def whole(orders: DataFrame) -> Overwrite:
    return Overwrite(orders)


class Extract(dg.Config):
    version: int = 1


@dg.asset(metadata=Table(key="customer"), code_version="1")
def extracts(customers: DataFrame, config: Extract) -> Snapshot:
    return Snapshot(customers, version=config.version)


@dg.asset(
    metadata=Table(key="id", expect=Expect("amount >= 0", on_failure="quarantine", name="positive")), code_version="1"
)
def judged(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


FOLLOWING = (merged, by_city, by_day, sums, past, log, judged)
"""Assets that read changes of whole tables."""
ASSETS = (orders, customers, *FOLLOWING, daily, whole, extracts)
ORDER_ROWS = [(1, 7, MONDAY, 10), (2, 7, TUESDAY, 20), (3, 8, MONDAY, 30), (4, 9, TUESDAY, -5)]
CUSTOMER_ROWS = [(7, "Ulm"), (8, "Rom")]


def run_all(house: House, version: int) -> dg.ExecuteInProcessResult:
    """One run of each asset; the extract of the customers has this version."""
    config = dg.RunConfig(ops={"extracts": Extract(version=version)})
    result = house.run(*(asset.key.to_user_string() for asset in (*FOLLOWING, whole, extracts)), run_config=config)
    for day in DAYS.get_partition_keys()[:2]:
        house.run("daily", partition_key=day)
    return result


def main() -> None:
    with TemporaryDirectory() as folder, dg.DagsterInstance.ephemeral() as instance:
        root = Path(folder) / "lake"
        root.mkdir()
        lake = Lake(LocalSpark(root=str(root), where=Where("process")).spark_session, root)
        lake.create("orders", ORDER_ROWS, ORDERS)
        lake.create("customers", CUSTOMER_ROWS, CUSTOMERS)
        house = House(lake, ASSETS, instance)
        run_all(house, 1)
        lake.sql("UPDATE {orders} SET amount = 11 WHERE id = 1")
        lake.sql("UPDATE {customers} SET city = 'Bonn' WHERE customer = 8")
        run_all(house, 2)
        shutil.make_archive(str(ARCHIVE.with_suffix("")), "zip", root)


if __name__ == "__main__":
    main()
