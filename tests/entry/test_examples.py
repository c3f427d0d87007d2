"""Each project in examples/ runs, follows an edit of its files, and writes nothing where nothing changed."""

import datetime as dt
import json
import shutil
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from lakehouse import DeltaIOManager
from tests.support.lake import Lake

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.filterwarnings("ignore:.* is currently in beta")


class Example:
    """A copy of an example with its tables below its folder."""

    def __init__(self, name: str, lake: Lake, instance: dg.DagsterInstance) -> None:
        self.folder, self.lake, self.instance = lake.root / name, lake, instance
        shutil.copytree(EXAMPLES / name, self.folder)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(self, config: Any = None, selection: str = "*") -> Counter[str]:
        """How many rows the run changed, by table."""
        file = self.folder / "definitions.py"
        names: dict[str, Any] = {"__name__": "example", "__file__": str(file)}
        exec(compile(file.read_text(), str(file), "exec"), names)
        spark = SimpleNamespace(spark_session=self.lake.spark)
        result = dg.materialize(
            [asset for asset in names["defs"].assets if isinstance(asset, dg.AssetsDefinition)],
            selection=selection,
            resources={"spark": spark, "io_manager": DeltaIOManager(spark=spark, root=str(self.folder / "lake"))},
            run_config=config,
            instance=self.instance,
        )
        changed = Counter[str]()
        for event in result.get_asset_materialization_events():
            shown = event.materialization.metadata
            changed[event.materialization.asset_key.to_user_string()] += sum(
                int(shown[name].value)
                for name in ("inserted", "updated", "deleted")
                if name in shown  # type: ignore[arg-type]
            )
        return +changed

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        frame = self.lake.spark.read.format("delta").load(str(self.folder / "lake" / table))
        return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)


def replayed(data: Path) -> list[tuple[Any, ...]]:
    """The table that a database has after its log, replayed in plain Python."""
    events = [
        json.loads(line, parse_float=Decimal) for file in data.iterdir() for line in file.read_text().splitlines()
    ]
    rows: dict[int, Any] = {}
    for event in sorted(events, key=lambda event: event["lsn"]):
        image = event["after"] or event["before"]
        rows[image["order_id"]] = event["after"]
    return sorted((r["order_id"], r["customer_id"], r["amount"]) for r in rows.values() if r is not None)


def test_the_log_of_a_database_becomes_its_table(lake: Lake, instance: dg.DagsterInstance):
    example = Example("cdc", lake, instance)
    before = {"order_id": 3, "customer_id": 8, "amount": 4.0}
    late = [
        {"lsn": 6, "op": "d", "before": {**before, "amount": 5.0}, "after": None},
        {"lsn": 5, "op": "u", "before": before, "after": {**before, "amount": 5.0}},
        {"lsn": 7, "op": "c", "before": None, "after": {"order_id": 4, "customer_id": 9, "amount": 1.5}},
    ]
    assert example.run()["orders"] == 3
    for event in late:  # the deletion first
        (example.data / f"2026-01-02-{event['lsn']}.json").write_text(json.dumps(event))
        example.run()
        orders = replayed(example.data)
        assert example.rows("orders", "order_id", "customer_id", "amount") == orders
        totals: dict[int, list[Decimal]] = defaultdict(list)
        for _, customer, amount in orders:
            totals[customer].append(amount)
        expected = sorted((customer, len(amounts), sum(amounts)) for customer, amounts in totals.items())
        assert example.rows("customer_totals", "customer_id", "orders", "amount") == expected
    assert example.run() == {}


@pytest.mark.slow
def test_a_medallion_of_views_follows_its_files(lake: Lake, instance: dg.DagsterInstance):
    example, day = Example("medallion", lake, instance), dt.date(2026, 1, 1)
    example.run()
    assert example.rows("silver/sales_quarantine", "sale_id") == [(4,)]
    assert example.rows("gold/best_product", "city", "product") == [("Bonn", "tea"), ("Lyon", "rum")]
    assert example.rows("gold/revenue_by_city", "city", "day", "sales", "revenue") == [
        ("Bonn", day, 3, Decimal("40.00")),
        ("Lyon", day + dt.timedelta(1), 1, Decimal("36.00")),
    ]
    sales, shops = example.data / "sales.csv", example.data / "shops.csv"
    sales.write_text(sales.read_text().replace("4,b,tea,0", "4,b,rum,1"))
    shops.write_text(shops.read_text().replace("b,Bonn", "b,Lyon"))
    changed = example.run()
    assert changed["silver/sales"] == 2  # the corrected sale enters, and the shop's other sale changes
    assert example.rows("silver/sales_quarantine", "sale_id") == []
    assert example.rows("gold/best_product", "city", "product") == [("Bonn", "rum"), ("Lyon", "rum")]
    assert example.rows("gold/revenue_by_city", "city", "day", "sales", "revenue") == [
        ("Bonn", day, 2, Decimal("26.00")),
        ("Lyon", day, 1, Decimal("14.00")),
        ("Lyon", day + dt.timedelta(1), 2, Decimal("39.50")),
    ]
    assert example.run() == {}


@pytest.mark.slow
def test_orders_keep_the_city_of_their_day(lake: Lake, instance: dg.DagsterInstance):
    example = Example("dimension", lake, instance)
    for day in ("2026-01-01", "2026-02-01"):
        example.run(dg.RunConfig(ops={"customers_history": {"config": {"day": day}}}))
    first, second = dt.date(2026, 1, 1), dt.date(2026, 2, 1)
    assert example.rows("customers_history", "customer_id", "city", "status", "__START_AT", "__END_AT") == [
        (1, "Bonn", "new", first, second),
        (1, "Nice", "new", second, None),
        (2, "Lyon", "gold", second, None),
        (2, "Lyon", "new", first, second),
    ]
    assert example.rows("orders_as_placed", "order_id", "city") == [(1, "Bonn"), (2, "Nice"), (3, "Lyon")]
    orders = example.data / "orders.csv"
    orders.write_text(orders.read_text() + "4,1,2026-01-31,5\n")
    assert example.run(selection="orders*") == {"orders": 1, "orders_as_placed": 1}
    assert example.rows("orders_as_placed", "order_id", "city")[-1] == (4, "Bonn")
