"""Two assets as a Dagster job that another process can run again: one reads changes, one reads nothing."""

from dataclasses import dataclass

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse import Append, Changes, DeltaIOManager, Merge, Retry, Table


@dataclass(frozen=True)
class Session:
    """The session of this process as the IO manager's `spark`."""

    @property
    def spark_session(self) -> SparkSession:
        return SparkSession.builder.getOrCreate()


src = dg.AssetSpec("src", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="id"))
def current(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.where("v < 50"), touched)


@dg.asset
def ingested() -> Append:
    return Append(SparkSession.builder.getOrCreate().sql("SELECT 1 AS id"))


def job(root: str, name: str) -> dg.JobDefinition:
    manager = DeltaIOManager(spark=Session(), root=root, conflicts=Retry(attempts=2, wait_initial=0))
    definitions = dg.Definitions(
        assets=[src, current, ingested],
        jobs=[
            dg.define_asset_job(asset, [asset], executor_def=dg.in_process_executor)
            for asset in ("current", "ingested")
        ],
        resources={"io_manager": manager},
    )
    return definitions.resolve_job_def(name)
