"""Upkeep of a table on S3: its log shows what is due, and past files, and only these, are gone from the bucket."""

import time
from pathlib import Path
from urllib.parse import unquote

import pytest

from benchmarks.harness.gateway import BUCKET, Store
from lakehouse.delta.file_log import FileLog
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import TableUpkeep, UpkeepWork, steps_of, upkeep_of
from lakehouse.upkeep.readers import readers_of
from tests.stores.test_tables import Shop, shop
from tests.support.orders_graph import NAMES
from tests.upkeep.by_hand import EAGER

__all__ = ["shop"]
pytestmark = pytest.mark.stores
DAY = 86_400_000
KEPT = "'delta.deletedFileRetentionDuration' = 'interval 30 days', 'lakehouse.timeTravel' = 'interval 7 days'"


def look(shop: Shop, days: int) -> TableUpkeep:
    """The upkeep that the source needs in this many days."""
    logs = {name: FileLog(shop.root.below(name), name) for name in ("orders", *NAMES)}
    readers = readers_of("orders", logs, int(time.time() * 1000) + days * DAY)
    assert readers is not None
    needed = upkeep_of(logs["orders"], readers, EAGER)
    assert needed is not None
    return needed


def objects(shop: Shop, store: Store) -> set[str]:
    root = Path(store.directory) / BUCKET / shop.root.address.split(f"{BUCKET}/")[1] / "orders"
    files = {file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()}
    return {file for file in files if not file.startswith("_delta_log/")}


def test_upkeep_compacts_a_table_and_removes_the_past_files_that_nobody_needs(shop: Shop, store: Store) -> None:
    shop.sql(f"ALTER TABLE {{orders}} SET TBLPROPERTIES ({KEPT})")
    for value in range(3):
        shop.sql(f"UPDATE {{orders}} SET v = v + 1 WHERE id = {value % 2 + 1}")
    shop.run()
    rows, worker = shop.rows("orders"), Worker(shop.spark, shop.ref("orders"), "upkeep")
    needed = look(shop, 0)
    assert UpkeepWork.FREE not in {task.work for task in needed.tasks}, "everybody is promised them"
    assert worker.carry_out(needed, steps_of(needed.tasks).now) == ()
    needed, before = look(shop, 8), objects(shop, store)
    assert UpkeepWork.FREE in {task.work for task in needed.tasks} and needed.by_inventory
    assert worker.carry_out(needed, steps_of(needed.tasks).now) == ()
    gone = before - objects(shop, store)
    assert gone == {unquote(file.path) for file in needed.unneeded} != set()
    assert shop.rows("orders") == rows
    shop.sql("UPDATE {orders} SET v = 50 WHERE id = 3")
    shop.run()
    shop.assert_right()
