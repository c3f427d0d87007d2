"""How many requests a tick of the sensor sends to a store."""

import pytest

from benchmarks.harness.gateway import Store
from benchmarks.suites.stores import AWAKE, COMMITS, awake, lay_out, sensor_of, tick

pytestmark = pytest.mark.stores
REQUESTS = 3 + 2 * COMMITS
"""For each table: its head (two requests, and two for each commit since its checkpoint), its last commit (one)."""
MORE = 8
"""Further requests for each source that has moved on."""


@pytest.mark.parametrize("tables", [10, 40])
def test_a_tick_asks_a_store_a_few_times_for_each_table_however_many_there_are(store: Store, tables: int) -> None:
    name = f"many{tables}"
    lay_out(store.bucket / name, tables)
    sensor = sensor_of(store.at(name), tables)
    before = store.count()
    assert awake(tick(sensor)) == AWAKE
    assert store.count() - before <= 2 * tables * REQUESTS + AWAKE * MORE
