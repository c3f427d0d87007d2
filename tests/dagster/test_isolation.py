"""An isolation level that open-source Delta does not give is refused with a reason, before anything is written."""

import dagster as dg
import pytest
from pyspark.sql import DataFrame

from lakehouse import Overwrite, Table
from tests.support.dagster_house import House, failure
from tests.support.lake import Lake


@dg.asset(metadata=Table(key="id", properties={"delta.isolationLevel": "WriteSerializable"}))
def weak(orders: DataFrame) -> Overwrite:
    return Overwrite(orders)


@dg.asset(metadata=Table(key="id", properties={"delta.isolationLevel": "Serializable"}))
def strong(orders: DataFrame) -> Overwrite:
    return Overwrite(orders)


@pytest.mark.slow
def test_a_level_that_only_databricks_has_is_refused_and_the_other_one_is_kept(
    lake: Lake, instance: dg.DagsterInstance
):
    lake.create("orders", [(1, 10)], "id int, v int")
    house = House(lake, [dg.AssetSpec("orders"), weak, strong], instance)
    refused = house.run("weak", raise_on_error=False)
    assert "open-source Delta creates tables with Serializable only" in failure(refused)
    assert not (house.root / "weak" / "_delta_log").exists()
    assert house.run("strong").success
    (properties,) = lake.spark.sql(f"DESCRIBE DETAIL delta.`{house.root}/strong`").select("properties").collect()
    assert properties[0]["delta.isolationLevel"] == "Serializable"
