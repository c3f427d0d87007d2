"""`dagster dev` runs, another Spark writes to a source on S3, and gold follows through the sensor."""

import json
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.harness.gateway import KEYS, Store
from resources.environments import PROJECT
from tests.support.dev_server import dagster_dev

pytestmark = [pytest.mark.stores, pytest.mark.timeout(1800)]
QUIET = 40  # seconds: more than one tick


def test_gold_on_s3_follows_a_source_and_what_changes_nothing_starts_no_run(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    root = store.at("followed")
    orders = f"delta.`{root.address}/orders`"
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    rows = "SELECT * FROM VALUES (1, DATE'2013-01-01', 10), (2, DATE'2013-01-02', 20) AS t(id, day, v)"
    spark.sql(f"CREATE TABLE {orders} USING delta {feed} AS {rows}")
    variables = KEYS | {
        "FOLLOWED": "sensor",
        "SOURCE": f"{root.address}/orders",
        "TABLES": root.address,
        "STORE": json.dumps(store.options),
        "SPARK": json.dumps(store.spark_settings),
    }
    gold = root.below("gold/totals")

    def total() -> int | None:
        if not DeltaTable.is_deltatable(gold.address, dict(gold.store_options)):
            return None
        return spark.sql(f"SELECT sum(total) FROM delta.`{gold.address}`").collect()[0][0]

    target = ["-f", str(PROJECT / "tests" / "support" / "pipeline.py")]
    with dagster_dev(tmp_path, tmp_path / "own", target, variables) as server:
        server.location()
        server.started("carry_on")
        first = server.settled("total of 30", lambda: total() == 30)
        spark.sql(f"UPDATE {orders} SET v = 15 WHERE id = 1")
        second = server.settled("total of 35", lambda: total() == 35)
        assert second == first + 1, "one run for one change"
        spark.sql(f"OPTIMIZE {orders}")
        spark.sql(f"ALTER TABLE {orders} SET TBLPROPERTIES ('a.b' = 'c')")
        time.sleep(QUIET)
        assert server.settled("total of 35", lambda: total() == 35) == second
