"""The tables that `lakehouse adopt` makes from a dbt project hold what dbt gives, and follow their sources."""

from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse import incremental, views_from
from lakehouse.cli.main import main
from tests.support import dbt_shop
from tests.support.dagster_house import House, metadata
from tests.support.lake import Lake


@pytest.mark.slow
def test_the_adopted_tables_hold_what_dbt_gives_and_follow_their_sources(
    lake: Lake, instance: dg.DagsterInstance, tmp_path: Path
):
    shop = dbt_shop.write(tmp_path / "shop")
    assert main(["adopt", str(shop), "--dialect", "duckdb", "--to", str(tmp_path / "new")]) == 0
    rows = {"raw/orders": dbt_shop.ORDERS, "raw/customers": dbt_shop.CUSTOMERS, "raw/lines": dbt_shop.LINES}
    for name, columns in dbt_shop.SOURCES.items():
        lake.create(name, rows[name], columns)
    given = dg.Definitions(
        assets=[*views_from(tmp_path / "new/views"), *(dg.AssetSpec(name.split("/")) for name in rows)],
        resources={"io_manager": House(lake, [], instance).io_manager},
    )
    house = House(lake, list(incremental(given).assets or []), instance)
    order = ["stg_orders", "stg_lines", "stg_customers", "orders", "customers", "cities", "large_orders", "top"]
    files = (file.relative_to(tmp_path / "new/views") for file in (tmp_path / "new").rglob("*.sql"))
    tables = {file.stem: file.with_suffix("").as_posix() for file in files}
    assert tables.keys() == {*order} - {"stg_lines"}

    def rows_apart() -> dict[str, tuple[Any, ...]]:
        ours = {name: Counter(lake.rows(table)) for name, table in tables.items()}
        theirs = {name: Counter(each) for name, each in dbt_shop.tables_of_dbt(rows, order).items()}
        return {name: (each - theirs[name], theirs[name] - each) for name, each in ours.items() if each != theirs[name]}

    house.run(*tables.values())
    assert rows_apart() == {}
    lake.sql(f"UPDATE {lake.ref('raw/orders').identifier} SET status = 'paid', customer = 2 WHERE id = 4")
    lake.sql(f"DELETE FROM {lake.ref('raw/customers').identifier} WHERE id = 3")
    lake.insert("raw/lines", [(4, "p1", 70_000, 2), (14, "p1", 1, 1)])
    rows["raw/orders"] = [(4, 2, "paid", row[3]) if row[0] == 4 else row for row in dbt_shop.ORDERS]
    rows["raw/customers"] = dbt_shop.CUSTOMERS[:2]
    rows["raw/lines"] = [*dbt_shop.LINES, (4, "p1", 70_000, 2), (14, "p1", 1, 1)]
    second = house.run(*tables.values())
    assert rows_apart() == {}
    assert metadata(second, "marts/orders")["updated"] == 1
