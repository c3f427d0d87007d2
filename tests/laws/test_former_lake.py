"""A lakehouse that an earlier commit left goes on: each table reads only what changed since, and ends up right."""

import shutil

import dagster as dg
import pytest

from tests.laws.former_lake import ARCHIVE, ASSETS, FOLLOWING, MONDAY, TUESDAY, run_all
from tests.support.dagster_house import House, metadata
from tests.support.lake import Lake

pytestmark = [pytest.mark.core, pytest.mark.served]


def test_each_kind_of_table_goes_on_from_the_mark_of_an_earlier_commit(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    shutil.unpack_archive(ARCHIVE, lake.root)
    lake.sql("UPDATE {orders} SET amount = 40, day = DATE'2024-01-02' WHERE id = 1")
    lake.sql("UPDATE {orders} SET amount = 5 WHERE id = 4")
    lake.sql("DELETE FROM {orders} WHERE id = 2")
    lake.sql("UPDATE {customers} SET city = 'Ulm' WHERE customer = 8")
    before = {name: lake.version(name) for name in ("log", "past")}
    result = run_all(House(lake, ASSETS, instance), 3)
    ways = {
        (asset.key.to_user_string(), read["how"])
        for asset in FOLLOWING
        for read in metadata(result, asset.key.to_user_string())["read"]
    }
    assert {how for _, how in ways} == {"change feed"}, ways
    orders = [(1, 7, TUESDAY, 40), (3, 8, MONDAY, 30), (4, 9, TUESDAY, 5)]
    assert lake.rows("merged") == lake.rows("judged") == lake.rows("daily") == lake.rows("whole") == orders
    assert lake.rows("judged_quarantine") == []
    assert lake.rows("by_city") == [("?", 5), ("Ulm", 40)]
    assert lake.rows("by_day") == [(MONDAY, 1, 30), (TUESDAY, 2, 45)]
    assert lake.rows("sums") == [(7, 1, 40), (8, 1, 30), (9, 1, 5)]
    assert lake.rows("extracts") == lake.rows("customers") == [(7, "Ulm"), (8, "Ulm")]
    cities = lake.sql("SELECT city FROM {past} WHERE customer = 8 ORDER BY __START_AT")
    assert [row.city for row in cities] == ["Rom", "Bonn", "Ulm"]
    assert len(lake.rows("log")) == 4 + 2 + 5
    assert {name: lake.version(name) - version for name, version in before.items()} == {"log": 1, "past": 1}
