"""A store that cannot be read: one sentence in the run and in the tick, within seconds, and nothing is written."""

import time
from collections.abc import Mapping

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from benchmarks.harness.gateway import BUCKET, Store
from lakehouse import DeltaIOManager, change_sensor
from lakehouse.delta.location import Location
from tests.support.dagster_house import Running, failure
from tests.support.orders_graph import GRAPH
from tests.support.ticks import tick

pytestmark = pytest.mark.stores
SECONDS = 60
UNREADABLE = pytest.mark.parametrize(
    ("address", "options", "problem"),
    [
        ("s3a://no-such-bucket/lake", {}, "NoSuchBucket"),
        (f"s3a://{BUCKET}/denied", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "necessary privileges"),
        (f"s3a://{BUCKET}/away", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "onnect"),
    ],
    ids=["no bucket", "denied", "no server"],
)


def orders(location: Location) -> None:
    write_deltalake(
        f"{location.address}/orders",
        pa.table({"id": [1], "k": ["a"], "v": [10]}),
        storage_options=dict(location.options or {}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )


def run(spark: SparkSession, location: Location, instance: dg.DagsterInstance) -> str:
    """The message with which the only step of a run fails."""
    options = dict(location.options or {})
    manager = DeltaIOManager(spark=Running(spark), root=location.address, storage_options=options)
    began = time.monotonic()
    result = dg.materialize(
        GRAPH, selection=["kept"], resources={"io_manager": manager}, instance=instance, raise_on_error=False
    )
    assert time.monotonic() - began < SECONDS
    (event,) = [event for event in result.all_events if event.is_step_failure]
    error = event.step_failure_data.error
    raised = None if error is None else error.cause  # by the asset's function; Dagster wraps it in its own words
    return failure(result) if event.step_failure_data.user_failure_data or raised is None else raised.message.strip()


@UNREADABLE
def test_a_run_says_in_one_sentence_that_its_store_cannot_be_read(
    spark: SparkSession,
    store: Store,
    instance: dg.DagsterInstance,
    address: str,
    options: Mapping[str, str],
    problem: str,
) -> None:
    told = run(spark, Location(address, store.options | options), instance)
    assert problem in told and "Nothing was written" in told
    assert_plain(told)


@UNREADABLE
def test_a_tick_says_in_one_sentence_that_its_store_cannot_be_read(
    store: Store, instance: dg.DagsterInstance, address: str, options: Mapping[str, str], problem: str
) -> None:
    manager = DeltaIOManager(spark=None, root=address, storage_options=store.options | options)
    sensor = change_sensor("carry_on", GRAPH, resources={"io_manager": manager})
    began = time.monotonic()
    skipped = tick(sensor, instance)
    assert time.monotonic() - began < SECONDS
    assert isinstance(skipped, dg.SkipReason)
    told = str(skipped.skip_message)
    assert "Left out: kept" in told and problem in told
    assert_plain(told)


def test_a_run_whose_spark_may_not_read_the_store_says_so(
    spark: SparkSession, store: Store, instance: dg.DagsterInstance
) -> None:
    """The logs and the rows are read with different credentials."""
    (store.directory / "rows-denied").mkdir()
    location = Location("s3a://rows-denied/lake", store.options)
    orders(location)
    denied = spark.newSession()
    denied.conf.set("fs.s3a.bucket.rows-denied.access.key", "lake")
    denied.conf.set("fs.s3a.bucket.rows-denied.secret.key", "wrong")
    told = run(denied, location, instance)
    assert "Spark may not read 'orders' at version 0 in s3a://rows-denied/lake/orders" in told
    assert "Forbidden" in told and "Nothing was written" in told
    assert_plain(told)


def assert_plain(told: str) -> None:
    assert "\n" not in told and "\x1b" not in told and "lake-secret" not in told
