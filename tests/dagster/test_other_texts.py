"""A source whose partition column has texts other than Dagster's keys: a run, `explain` and the sensor report it."""

from logging import WARNING
from pathlib import Path

import dagster as dg
import pyarrow as pa
from deltalake import write_deltalake

from lakehouse import Changes, DeltaIOManager, Merge, Table, change_sensor, explain
from tests.support.marked_tables import FEED
from tests.support.ticks import requests, ticked

DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-10")
WHY = (
    "no row of orders is in a partition that Dagster knows: its files have day = 20240101 to day = 20240102, and the "
    "keys are 2024-01-01 to 2024-01-09"
)

orders = dg.AssetSpec("orders", partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))


@dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
def daily(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


def insert(root: Path, *days: str) -> None:
    rows = pa.table({"id": pa.array(range(len(days)), pa.int32()), "day": days})
    write_deltalake(str(root / "orders"), rows, partition_by=["day"], mode="append", configuration=FEED)


def test_a_run_that_reads_nothing_says_that_no_partition_has_the_texts_of_its_source(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    manager = DeltaIOManager(spark=object(), root=str(tmp_path))
    defs = dg.Definitions([orders, daily], resources={"io_manager": manager})
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={daily.key})
    sensor = change_sensor("look", [orders, daily], resources={"io_manager": manager})

    def warnings() -> tuple[list[str], str]:
        """The warnings of a run before it asks for Spark, which this one does not have; and the reason in `explain`."""
        run = job.execute_in_process(instance=instance, partition_key="2024-01-01", raise_on_error=False)
        logged = [entry.user_message for entry in instance.all_logs(run.run_id) if entry.level == WARNING]
        return [text for text in logged if "no row" in text], explain(defs, daily, partition_key="2024-01-01").why

    insert(tmp_path, "20240101", "20240102")
    (logged,), forecast = warnings()
    assert logged.startswith(f"daily reads no row, because {WHY}.")
    assert forecast.endswith(logged)
    assert f"Left out: daily ({WHY})." in str(ticked(sensor, instance).skip_reason)
    insert(tmp_path, "2024-01-05")  # otherwise a day without rows is normal
    logged_none, forecast = warnings()
    assert (logged_none, "no row" in forecast) == ([], False)
    assert [request.partition_key for request in requests(sensor, instance)] == ["2024-01-05"]
