"""Tables on S3 through Dagster: right after each step, each change once, the shortcuts of local tables, the sensor."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from benchmarks.harness.gateway import BUCKET, Store
from lakehouse import Changes, DeltaIOManager, Merge, Table, change_sensor
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.spark import table_version
from lakehouse.spark.table_version import TableRef
from tests.support.dagster_house import Running, metadata
from tests.support.interleave import after, before, raises
from tests.support.orders_graph import FIRST, GRAPH, NAMES, wrong
from tests.support.ticks import tick

pytestmark = pytest.mark.stores


@dataclass
class Shop:
    """A source that another program writes, and tables that follow it, below a root of their own on S3."""

    spark: SparkSession
    store: Store
    root: Location
    instance: dg.DagsterInstance

    @property
    def manager(self) -> DeltaIOManager:
        return DeltaIOManager(
            spark=Running(self.spark), root=self.root.address, storage_options=dict(self.root.options or {})
        )

    def run(self, *names: str, **options: Any) -> dg.ExecuteInProcessResult:
        return dg.materialize(
            GRAPH,
            selection=[dg.AssetKey(name) for name in names or NAMES],
            resources={"io_manager": self.manager},
            instance=self.instance,
            **options,
        )

    def sql(self, statement: str) -> list[Row]:
        return self.spark.sql(statement.format(orders=self.ref("orders").identifier)).collect()

    def ref(self, name: str) -> TableRef:
        return TableRef.at(name, self.root.below(name))

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.read.format("delta").load(self.ref(name).location).collect())

    def version(self, name: str) -> int:
        head = FileLog(self.root.below(name), name).head()
        assert head is not None
        return head.version

    def assert_right(self) -> None:
        assert wrong(self.rows) == []


@pytest.fixture
def shop(spark: SparkSession, store: Store, instance: dg.DagsterInstance) -> Shop:
    made = Shop(spark, store, store.at(f"shop-{uuid4().hex[:8]}"), instance)
    made.sql(FIRST)
    return made


def test_each_step_is_right_and_takes_the_short_ways_of_local_tables(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs are read without Spark: no `DESCRIBE` is sent."""

    def refused(*_: Any) -> None:
        pytest.fail("a log was read through Spark")

    # `TableRef.log` makes one only if the log cannot be read without Spark.
    monkeypatch.setattr(table_version, "SparkLog", refused)
    shop.run()
    shop.assert_right()
    shop.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    shop.sql("DELETE FROM {orders} WHERE id = 2")
    shop.sql("INSERT INTO {orders} VALUES (4, 'c', 40)")
    result = shop.run()
    shop.assert_right()
    assert {name: metadata(result, "kept")[name] for name in ("inserted", "updated", "deleted")} == {
        "inserted": 1,
        "updated": 1,
        "deleted": 1,
    }
    assert len(shop.rows("log")) == 3 + 2 + 1 + 1
    versions = [shop.version(name) for name in ("kept", "sums", "log")]
    shop.run()
    assert [shop.version(name) for name in ("kept", "sums", "log")] == versions


def test_a_commit_whose_answer_was_lost_is_found_and_not_made_again(shop: Shop) -> None:
    shop.run("log")
    shop.sql("INSERT INTO {orders} VALUES (4, 'c', 40)")
    with after("execute", raises(ConnectionResetError("no answer"))):
        result = shop.run("log")
    assert "its answer was lost" in str(metadata(result, "log"))
    assert len(shop.rows("log")) == 4


def test_two_runs_that_read_the_same_changes_add_them_once(shop: Shop) -> None:
    """The second run commits while the first, which has read from the same position, is about to commit."""
    shop.run("log")
    shop.sql("INSERT INTO {orders} VALUES (4, 'c', 40)")
    with before("execute", lambda: shop.run("log")):
        shop.run("log")
    assert len(shop.rows("log")) == 4
    assert shop.version("log") == 1


def test_the_sensor_follows_tables_on_s3(shop: Shop) -> None:
    """The tables are below a second root, and are read with the options of their manager."""
    sensor = change_sensor("carry_on", GRAPH, resources={"io_manager": shop.manager})
    assert isinstance(tick(sensor, shop.instance), dg.RunRequest)
    shop.run()
    assert isinstance(tick(sensor, shop.instance), dg.SkipReason)
    shop.sql("OPTIMIZE {orders}")
    assert isinstance(tick(sensor, shop.instance), dg.SkipReason)
    shop.sql("UPDATE {orders} SET v = 200 WHERE id = 3")
    request = tick(sensor, shop.instance)
    assert isinstance(request, dg.RunRequest)
    assert request.asset_selection == [dg.AssetKey("kept"), dg.AssetKey("log"), dg.AssetKey("sums")]
    shop.run()
    shop.assert_right()
    assert isinstance(tick(sensor, shop.instance), dg.SkipReason)


def test_without_options_and_credentials_the_sensor_says_what_it_lacks(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    sensor = change_sensor("carry_on", GRAPH, root=shop.root.address)
    skipped = tick(sensor, shop.instance)
    assert isinstance(skipped, dg.SkipReason)
    assert "give DeltaIOManager(storage_options=...)" in str(skipped.skip_message)


def test_a_table_anywhere_is_read_where_it_is(shop: Shop, tmp_path: Any) -> None:
    """The source is on S3, given by its address, and the asset's table is on this machine."""
    source = dg.AssetSpec(
        "bought", metadata=Table(key="id", path=f"s3a://{BUCKET}/{shop.root.address.split('/')[-1]}/orders")
    )

    @dg.asset(metadata=Table(key="id"))
    def copied(bought: Changes) -> Merge:
        touched = bought.touched("id")
        return Merge(touched.rows.select("id", (F.col("v") + 1).alias("v")), touched)

    manager = DeltaIOManager(spark=Running(shop.spark), root=str(tmp_path), storage_options=shop.store.options)
    dg.materialize([source, copied], selection=["copied"], resources={"io_manager": manager}, instance=shop.instance)
    assert shop.spark.read.format("delta").load(str(tmp_path / "copied")).count() == 3
