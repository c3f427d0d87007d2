"""A store that lies to the sensor and to upkeep: a tick asks for the run or says why not, and no row is lost."""

from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from benchmarks.harness.gateway import Store
from lakehouse import change_sensor
from lakehouse.delta.location import Location
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import steps_of
from tests.reliability.checker import check_ledger
from tests.reliability.delta_files import Ledger
from tests.stores.lying import Fault, Liar, Lie
from tests.stores.test_tables import Shop
from tests.stores.test_upkeep import KEPT, look
from tests.support.for_each import for_each
from tests.support.orders_graph import FIRST, GRAPH, NAMES
from tests.support.ticks import tick

pytestmark = [pytest.mark.lies, pytest.mark.timeout(3600)]
READS = (Fault.STALE_LISTING, Fault.SLOW_READS, Fault.CUT_READS, Fault.THROTTLED, Fault.UNREADABLE)
WRITES = (
    Fault.ANSWER_LOST,
    Fault.ENTRY_LOST,
    Fault.CONFLICT,
    Fault.PRECONDITION,
    Fault.SERVER_ERROR,
    Fault.UNAVAILABLE,
)


@pytest.fixture
def open_shop(spark: SparkSession, lying_store: Store, instance: dg.DagsterInstance) -> Callable[[], Shop]:
    def opened() -> Shop:
        name = f"shop-{uuid4().hex[:8]}"
        (lying_store.directory / "lying" / name).mkdir(parents=True)
        made = Shop(spark, lying_store, Location(f"s3a://lying/{name}", lying_store.options), instance)
        made.sql(FIRST)
        made.run()
        return made

    return opened


@for_each("fault", READS)
def test_a_tick_asks_for_the_run_or_says_which_table_it_left_out(
    open_shop: Callable[[], Shop], liar: Liar, fault: Fault
) -> None:
    shop = open_shop()
    sensor = change_sensor("carry_on", GRAPH, resources={"io_manager": shop.manager})
    shop.sql("UPDATE {orders} SET v = v + 1 WHERE id <> 3")
    for lasts in (True, False):
        with liar.telling(Lie(fault, lasts)):
            answer = tick(sensor, shop.instance)
        # The next tick finds what a listing does not show yet.
        is_told = isinstance(answer, dg.RunRequest) or "Left out" in str(answer.skip_message)
        assert is_told or fault is Fault.STALE_LISTING, answer
    assert isinstance(tick(sensor, shop.instance), dg.RunRequest), "the store tells the truth"
    shop.run()
    shop.assert_right()


@for_each("fault", (*WRITES, *READS))
def test_upkeep_that_a_lie_cut_off_has_lost_no_row_and_comes_to_its_end_the_next_time(
    open_shop: Callable[[], Shop], liar: Liar, fault: Fault
) -> None:
    shop, ledger = open_shop(), Ledger()
    root = shop.store.directory / "lying" / shop.root.address.rsplit("/", 1)[1]
    shop.sql(f"ALTER TABLE {{orders}} SET TBLPROPERTIES ({KEPT})")
    for value in range(3):
        shop.sql(f"UPDATE {{orders}} SET v = v + 1 WHERE id = {value % 2 + 1}")
    shop.run()
    worker, rows = Worker(shop.spark, shop.ref("orders"), "upkeep"), shop.rows("orders")
    for lasts in (True, False):
        assert check_ledger(ledger, *(root / name for name in ("orders", *NAMES))) == []
        with liar.telling(Lie(fault, lasts)), suppress(Exception):  # whatever the error: only the table counts
            needed = look(shop, 8)
            worker.carry_out(needed, steps_of(needed.tasks).now)
        assert shop.rows("orders") == rows
    needed = look(shop, 8)
    assert worker.carry_out(needed, steps_of(needed.tasks).now) == ()
    assert shop.rows("orders") == rows
    assert check_ledger(ledger, *(root / name for name in ("orders", *NAMES))) == []
    assert liar.overwritten == []
    shop.sql("UPDATE {orders} SET v = 50 WHERE id = 3")
    shop.run()
    shop.assert_right()
