"""Every changed row of a partitioned source arrives through the sensor and real runs, whoever has written the source.

LAKEHOUSE_HISTORIES sets how many there are of each kind of partitions; test_partitions.py has many more without Spark.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse import Changes, Merge, Table, change_sensor
from lakehouse.errors import WriteError
from tests.laws.test_partitions import Carried
from tests.support.dagster_house import House
from tests.support.lake import Lake
from tests.support.partitioned import (
    SHOPS,
    Definition,
    Sales,
    of_dynamic_names,
    of_fixed_names,
    of_several,
    of_time,
    sales,
)
from tests.support.ticks import ticked

HISTORIES = int(os.environ.get("LAKEHOUSE_HISTORIES", "1"))
TOLD = list[Counter[str]]()
"""What was counted in each run of the test."""


def copied(sales: Changes) -> Merge:
    touched = sales.touched("id")
    return Merge(touched.rows, touched)


def carry(house: House, name: str, sensor: dg.SensorDefinition) -> int:
    """Ticks, and runs what each tick requests, until a tick requests nothing."""
    runs, cursor = 0, None
    for _ in range(10):
        result = ticked(sensor, house.instance, cursor)
        if not result.run_requests:
            return runs
        cursor = result.cursor
        for request in result.run_requests:
            house.run(name, partition_key=request.partition_key, tags=dict(request.tags), raise_on_error=False)
            runs += 1
    raise AssertionError("there are still requests")


def by_spark(lake: Lake, of: Sales, values: list[tuple[Any, ...]]) -> None:
    rows = of.added(values)
    schema = ", ".join(["id int", *(f"{name} {kind}" for name, kind in of.types.items())])
    writer = lake.values([tuple(row.values()) for row in rows], schema).write.format("delta").mode("append")
    writer = writer.option("delta.enableChangeDataFeed", "true").partitionBy(*of.columns)
    writer.save(str(lake.root / "sales"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Class `MultiToSingleDimensionPartitionMapping`")  # in beta
@pytest.mark.parametrize("kind", [of_time, of_fixed_names, of_dynamic_names, of_several])
def test_every_changed_row_of_a_partitioned_source_arrives_by_real_runs(
    spark: SparkSession, tmp_path: Path, kind: Callable[[], st.SearchStrategy[Definition]]
) -> None:
    seen = Counter[str]()

    @settings(
        max_examples=HISTORIES,
        phases=[Phase.explicit, Phase.generate],
        deadline=None,
        derandomize="LAKEHOUSE_HISTORIES" not in os.environ,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.data())
    def histories(data: st.DataObject) -> None:
        root = tmp_path / uuid4().hex
        root.mkdir()
        with dg.DagsterInstance.ephemeral() as instance:
            instance.add_dynamic_partitions(SHOPS, ["01", "2026-01-02", "b c"])
            with dg.partition_loading_context(dynamic_partitions_store=instance):
                seen.update(history(data, data.draw(sales(kind())), Lake(spark, root), instance))

    histories()
    assert seen["histories"] >= HISTORIES
    assert seen["rows that arrived"] >= seen["histories"]
    TOLD.append(seen)


def history(data: st.DataObject, of: Sales, lake: Lake, instance: dg.DagsterInstance) -> Counter[str]:
    note(str(of))
    asset = dg.asset(name="carried", partitions_def=of.own, metadata=Table(key="id", partition_by=of.own_columns))(
        copied
    )
    house = House(lake, [of.spec, asset], instance)
    sensor = change_sensor("carry_on", house.assets, root=str(lake.root), max_partitions=100)
    expected, seen = Carried(lake.root, of, instance), Counter({"histories": 1, f"of {type(of.own).__name__}": 1})
    for rows, spark_writes in zip((2, 1), data.draw(st.permutations([True, False])), strict=True):
        values = [data.draw(of.within()) for _ in range(rows)]
        if spark_writes:
            by_spark(lake, of, values)
        else:
            of.append(lake.root, values)
        seen["runs"] += carry(house, "carried", sensor)
        ids = set[int]()
        for partition in of.own.get_partition_keys():
            try:
                ids.update(expected.rows_of(partition))
            except WriteError:
                seen["refused partitions"] += 1
        held = {row[0] for row in lake.rows("carried")} if lake.exists("carried") else set[int]()
        assert held == ids
        seen["rows that arrived"] += len(ids)
    return seen
