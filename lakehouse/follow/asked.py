"""What a sensor has asked for before. A request counts once Dagster has made a run of it and tried to start that run.

The cursor of the sensor says for which state each table was asked for last; the tags of the runs say which requests
became runs. A lost cursor and lost runs repeat a run at worst.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from lakehouse.dagster.run_tags import SENSOR

_RUN_KEY = "dagster/run_key"
_ENDINGS = {
    DagsterRunStatus.FAILURE: "failed",
    DagsterRunStatus.CANCELED: "was canceled",
    DagsterRunStatus.SUCCESS: "left the changes unread",
}


def digest_of(*parts: object) -> str:
    """A text that stands for others."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Request:
    """What a run was asked for.

    Args:
        state: The state of the table, in short.
        run_key: The run key of the request.
    """

    state: str
    run_key: str


@dataclass(frozen=True)
class Started:
    """The runs that became of a sensor's requests, by their run keys.

    Args:
        instance: Has the runs.
        sensor: The sensor's name.
    """

    instance: dg.DagsterInstance
    sensor: str

    def run(self, run_key: str) -> dg.DagsterRun | None:
        """The run of a request; None if none was started."""
        tags = {_RUN_KEY: run_key, SENSOR: self.sensor}
        runs = self.instance.get_runs(RunsFilter(tags=tags))
        return next((run for run in runs if run.status is not DagsterRunStatus.NOT_STARTED), None)

    def keys(self, table: dg.AssetKey) -> frozenset[str]:
        """The run keys of all runs of a table's partitions, by one query however many they are."""
        tags = dict(self.instance.get_run_tags([_RUN_KEY], value_prefix=self._prefix(table)))
        return frozenset(tags.get(_RUN_KEY, ())) - self._not_started

    def key(self, table: dg.AssetKey, partition: str, state: str) -> str:
        """The run key of a request of one partition."""
        return self._prefix(table) + digest_of(partition, state)

    def _prefix(self, table: dg.AssetKey) -> str:
        return digest_of(self.sensor, table.to_user_string())[:8] + "-"

    @cached_property
    def _not_started(self) -> frozenset[str]:
        """Of runs that Dagster made and did not start: asked for again, it starts them."""
        made = RunsFilter(tags={SENSOR: self.sensor}, statuses=[DagsterRunStatus.NOT_STARTED])
        return frozenset(run.tags[_RUN_KEY] for run in self.instance.get_runs(made) if _RUN_KEY in run.tags)


def ending(run: dg.DagsterRun) -> str:
    """Why a table waits that a run was asked for: what became of that run, as a clause."""
    what = _ENDINGS.get(run.status, "has not ended")
    return f"run {run.run_id[:8]} {what}, and neither a source nor the table has moved since"


def from_cursor(requests: Mapping[str, tuple[str, str]]) -> dict[dg.AssetKey, Request]:
    """The last request of each table, as the sensor's cursor has them."""
    return {dg.AssetKey.from_user_string(name): Request(*each) for name, each in requests.items()}


def for_cursor(requests: Mapping[dg.AssetKey, Request]) -> dict[str, tuple[str, str]]:
    return {key.to_user_string(): (each.state, each.run_key) for key, each in sorted(requests.items())}
