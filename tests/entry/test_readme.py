"""The code in the documentation runs, its files and make targets exist."""

import datetime as dt
import re
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse import DeltaIOManager, Read, Table, checks, validate
from tests.support.lake import Lake

PROJECT = Path(__file__).parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
FLIGHTS = [("a", "N1", 5), ("b", "N1", 90), ("c", "N2", None), ("d", None, None)]


def code(page: str) -> dict[str, Any]:
    """What a page's Python code, all blocks of it in order, defines."""
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT / page).read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    exec("\n".join(blocks), found)
    return found


def plane_use(flights: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The README's asset in plain Python."""
    delays: dict[Any, list[Any]] = defaultdict(list)
    for _, tailnum, dep_delay in flights:
        delays[tailnum].append(dep_delay)
    worst = {tailnum: max((d for d in all_ if d is not None), default=None) for tailnum, all_ in delays.items()}
    return sorted(((tailnum, len(all_), worst[tailnum]) for tailnum, all_ in delays.items()), key=repr)


def materialization(assets: list[Any], lake: Lake) -> dict[str, Any]:
    manager = DeltaIOManager(spark=SimpleNamespace(spark_session=lake.spark), root=str(lake.root))
    result = dg.materialize(assets, resources={"io_manager": manager})
    assert all(check.passed for check in result.get_asset_check_evaluations())
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def test_the_readmes_asset_follows_the_changes_of_its_source(lake: Lake):
    asset = code("README.md")["plane_use"]
    source = dg.AssetSpec(["silver", "flights"])
    lake.create("silver/flights", FLIGHTS, "flight_id string, tailnum string, dep_delay int")
    first = materialization([asset, source], lake)
    assert lake.rows("gold/plane_use") == plane_use(FLIGHTS)
    assert first["write"] == "create"

    table = lake.ref("silver/flights").identifier
    lake.sql(f"UPDATE {table} SET tailnum = 'N2', dep_delay = 7 WHERE flight_id = 'b'")
    lake.sql(f"DELETE FROM {table} WHERE flight_id = 'd'")
    second = materialization([asset, source, *checks([asset])], lake)
    assert lake.rows("gold/plane_use") == plane_use([("a", "N1", 5), ("b", "N2", 7), ("c", "N2", None)])
    assert (second["inserted"], second["updated"], second["deleted"]) == (0, 2, 1)
    (read,) = (record.data for record in second["read"].records)
    assert (read["table"], read["after"], read["upto"]) == ("silver/flights", 0, 2)

    third = materialization([asset, source], lake)
    assert third["version"] == second["version"] == lake.version("gold/plane_use")


def test_the_guides_test_passes(spark: SparkSession, tmp_path: Path):
    code("docs/guide.md")["test_a_delivered_order_leaves_the_table"](tmp_path)


ORDERS = (
    "order_id int, customer_id int, status string, amount int, currency string, ordered_on date, "
    "price int, quantity int"
)
EDITS = [
    [
        "UPDATE {orders} SET customer_id = 2 WHERE order_id = 1",
        "UPDATE {customers} SET name = 'Ann' WHERE name = 'ann'",
        "UPDATE {rates} SET rate = 3",
    ],
    [
        "DELETE FROM {customers} WHERE customer_id = 2",
        "INSERT INTO {customers} VALUES (9, 'late')",
        "UPDATE {orders} SET status = 'cancelled', ordered_on = DATE'2024-02-20' WHERE order_id = 2",
        "DELETE FROM {orders} WHERE order_id = 3",
    ],
]


def of_customers(orders: list[tuple[Any, ...]], customers: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    names = dict(customers)
    joined = [(customer, order, *more, names.get(customer)) for order, customer, *more in orders]
    return sorted(joined, key=repr)


def months(orders: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for _, customer, status, _, _, ordered_on, price, quantity in orders:
        if status != "cancelled":
            groups[customer, ordered_on.replace(day=1)].append((price * quantity, status == "returned"))
    return sorted(
        ((*group, len(rows), sum(r for r, _ in rows), sum(b for _, b in rows)) for group, rows in groups.items()),
        key=repr,
    )


def test_the_guides_assets_follow_their_sources(lake: Lake):
    """A join of two that change, an `Aggregate`, a look-up; each beside the same in plain Python."""
    january, february = dt.date(2024, 1, 15), dt.date(2024, 2, 15)
    lake.create("customers", [(1, "ann"), (2, "bea")], "customer_id int, name string")
    lake.create("rates", [("USD", 2)], "currency string, rate int")
    lake.create(
        "orders",
        [
            (1, 1, "new", 100, "USD", january, 2, 3),
            (2, 1, "returned", 200, "USD", january, 3, 3),
            (3, 2, "new", 300, "USD", february, 7, 1),
            (4, 9, "new", 400, "USD", february, 4, 4),
        ],
        ORDERS,
    )
    guide, euro, former = code("docs/guide.md"), dict[int, int](), list[tuple[Any, ...]]()
    names = ("orders_with_many_customers", "customer_months", "orders_in_euro", "orders", "customers", "rates")
    assets = [guide[name] for name in names]
    manager = DeltaIOManager(spark=SimpleNamespace(spark_session=lake.spark), root=str(lake.root))
    for edits in [[], *EDITS]:
        for edit in edits:
            lake.sql(edit)
        assert dg.materialize(assets, resources={"io_manager": manager}).success
        orders, ((_, rate),) = lake.rows("orders"), lake.rows("rates")
        there = {row[0] for row in orders}
        euro |= {row[0]: row[3] * rate for row in orders if row not in former}
        former = orders
        assert lake.rows("orders_with_many_customers") == of_customers(orders, lake.rows("customers"))
        assert lake.rows("customer_months") == months(orders)
        assert lake.rows("orders_in_euro") == sorted((id_, value) for id_, value in euro.items() if id_ in there)


def test_the_upkeep_of_the_conflicts_page_changes_no_row(lake: Lake):
    lake.create("silver/flights", FLIGHTS, "flight_id string, tailnum string, dep_delay int")
    lake.sql(f"DELETE FROM {lake.ref('silver/flights').identifier} WHERE flight_id = 'd'")
    upkeep = code("docs/conflicts.md")["upkeep"]
    beside = SimpleNamespace(spark_session=lake.spark, root=str(lake.root))
    before = lake.rows("silver/flights")
    assert upkeep.execute_in_process(resources={"spark": beside}).success
    assert lake.rows("silver/flights") == before
    done = [commit.operation for commit in lake.commits("silver/flights")]
    assert {"REORG", "VACUUM END"} <= set(done)


def test_the_guides_definitions_load():
    found = code("docs/guide.md")
    defs = found["defs"]
    assert isinstance(defs, dg.Definitions)
    validate(defs).get_repository_def()
    assert all(name in found for name in ("Changes", "open_orders", "large_orders"))


@pytest.mark.parametrize("described", [Table, Read])
def test_the_guide_has_a_row_for_every_option(described: type[Table | Read]):
    guide = (PROJECT / "docs/guide.md").read_text()
    (table,) = re.findall(rf"^\| `{described.__name__}` \|.*\n((?:\|.*\n)+)", guide, re.MULTILINE)
    rows = {
        name for cell in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    assert rows == {name for name in described.__dataclass_fields__ if not name.startswith("_")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_what_a_page_points_at_is_there(page: Path):
    text = page.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), target
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`(?:[A-Z_]+=\S+ )?make\s+([a-z-]+)", text)) <= targets
    for file in re.findall(r"`((?:lakehouse|assets|resources|tests)/[a-z_/]+\.py)`", text):
        assert file == "assets/plane_use.py" or (PROJECT / file).exists(), file
