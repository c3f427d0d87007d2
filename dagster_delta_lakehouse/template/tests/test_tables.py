"""A table of this project is what its query gives, whatever becomes of the table that it reads."""

from collections import Counter

import dagster as dg
import pytest
from project_name.definitions import defs

from lakehouse import DeltaIOManager, LocalSpark

EDITS = [
    "INSERT INTO {orders} VALUES (7, 'bob', 12)",
    "UPDATE {orders} SET customer_id = 'bob' WHERE order_id = 1",
    "DELETE FROM {orders} WHERE customer_id = 'ann'",
]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> LocalSpark:
    """One Spark server for all tests. It ends after a minute without use."""
    return LocalSpark(root=str(tmp_path_factory.getbasetemp()), idle=60)


def test_the_definitions_load():
    assert defs().get_repository_def()


def test_orders_by_customer_equals_a_recompute_after_each_edit(spark, tmp_path):
    complete, table = defs(), dg.AssetKey(["gold", "orders_by_customer_id"])
    assets = [*(complete.assets or ()), *(complete.asset_checks or ())]
    resources = {"spark": spark, "io_manager": DeltaIOManager(spark=spark, root=str(tmp_path))}
    assert dg.materialize(assets, selection=["orders"], resources=resources).success
    for edit in ["SELECT 1", *EDITS]:
        spark.spark_session.sql(edit.format(orders=f"delta.`{tmp_path}/orders`"))
        result = dg.materialize(
            assets,
            selection=dg.AssetSelection.assets(table),
            resources=resources,
            tags={"lakehouse/checks": "true"},  # without the tag, a run that writes a table leaves this check out
        )
        checks = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
        assert checks["equals_full_recompute"]
    rows = spark.spark_session.read.format("delta").load(f"{tmp_path}/gold/orders_by_customer_id").collect()
    orders = spark.spark_session.read.format("delta").load(f"{tmp_path}/orders").collect()
    assert {row.customer_id: row.orders for row in rows} == Counter(order.customer_id for order in orders)
