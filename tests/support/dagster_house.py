"""A lakehouse inside Dagster for tests: definitions, an instance, and runs through Dagster's own path."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse import DeltaIOManager, Policy, Retry
from tests.support.lake import Lake


@dataclass(frozen=True)
class Running:
    """Any object with a `spark_session` serves as the IO manager's `spark`."""

    spark_session: SparkSession


@dataclass
class House:
    lake: Lake
    assets: Sequence[Any]
    instance: dg.DagsterInstance
    retry: Retry = Retry(attempts=3, wait_initial=0, wait_max=0)
    policy: Policy = Policy()

    @property
    def root(self) -> Path:
        return self.lake.root

    @property
    def io_manager(self) -> DeltaIOManager:
        return DeltaIOManager(
            spark=Running(self.lake.spark), root=str(self.root), conflicts=self.retry, policy=self.policy
        )

    def run(self, *names: str, raise_on_error: bool = True, **options: Any) -> dg.ExecuteInProcessResult:
        selection = [dg.AssetKey(name.split("/")) for name in names]
        return dg.materialize(
            list(self.assets),
            selection=selection,
            resources={"io_manager": self.io_manager},
            instance=self.instance,
            raise_on_error=raise_on_error,
            **options,
        )


def metadata(result: dg.ExecuteInProcessResult, name: str) -> Mapping[str, Any]:
    """The metadata of the last materialization of an asset, as plain values."""
    events = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(name.split("/"))]
    found = events[-1].materialization.metadata
    return {
        key: [record.data for record in value.records] if isinstance(value, dg.TableMetadataValue) else value.value
        for key, value in found.items()
    }


def failure(result: dg.ExecuteInProcessResult) -> str:
    """The message of the one step that failed."""
    (event,) = [event for event in result.all_events if event.is_step_failure]
    error = event.step_failure_data.error
    described = event.step_failure_data.user_failure_data
    return described.description if described and described.description else str(error)
