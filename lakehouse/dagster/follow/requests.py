"""What the sensor requested before, and for which state of the sources: a run is requested once for each state."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from lakehouse.cursor.unread import DAY, Backlog, Unbegun
from lakehouse.cursor.walk import mark_of
from lakehouse.dagster.follow.followed import reads_on, recent
from lakehouse.dagster.run_tags import SENSOR
from lakehouse.delta.commit_info import UPKEEP, Commit
from lakehouse.delta.log import Head, Log
from lakehouse.errors import LakehouseError

_RUN_KEY = "dagster/run_key"
_ENDINGS = {
    DagsterRunStatus.FAILURE: "failed",
    DagsterRunStatus.CANCELED: "was canceled",
    DagsterRunStatus.SUCCESS: "left the changes unread",
}


def short_digest(*parts: object) -> str:
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
        return self._prefix(table) + short_digest(partition, state)

    def _prefix(self, table: dg.AssetKey) -> str:
        return short_digest(self.sensor, table.to_user_string())[:8] + "-"

    @cached_property
    def _not_started(self) -> frozenset[str]:
        """Of runs that Dagster made and did not start: asked for again, it starts them."""
        made = RunsFilter(tags={SENSOR: self.sensor}, statuses=[DagsterRunStatus.NOT_STARTED])
        return frozenset(run.tags[_RUN_KEY] for run in self.instance.get_runs(made) if _RUN_KEY in run.tags)


def ending(run: dg.DagsterRun) -> str:
    """Why a table for which a run was requested still waits: what became of the run, as a clause."""
    what = _ENDINGS.get(run.status, "has not ended")
    return f"run {run.run_id[:8]} {what}, and neither a source nor the table has moved since"


def from_cursor(requests: Mapping[str, tuple[str, str]]) -> dict[dg.AssetKey, Request]:
    """The last request of each table, as the sensor's cursor has them."""
    return {dg.AssetKey.from_user_string(name): Request(*each) for name, each in requests.items()}


def for_cursor(requests: Mapping[dg.AssetKey, Request]) -> dict[str, tuple[str, str]]:
    return {key.to_user_string(): (each.state, each.run_key) for key, each in sorted(requests.items())}


@dataclass(frozen=True, slots=True)
class Span:
    """What is unread of one source.

    Args:
        state: By the source's id and versions, as a text. A table that was replaced may stand at the same version.
        commits: The commits that are unread; of a whole source the newest.
    """

    state: str
    commits: tuple[Commit, ...] = ()

    @classmethod
    def of(cls, backlog: Backlog, newest: Commit | None, now: int) -> "Span":
        """The span of a backlog.

        Args:
            backlog: What is left of the source.
            newest: If all of the source is read: the last commit that makes another run worth while.
            now: Milliseconds since the epoch.
        """
        source = f"{backlog.source} {backlog.head.table_id}@"
        if reads_on(backlog):
            after = f"{source}{backlog.position.version}"
            if backlog.changes:
                return cls(f"{after}-{backlog.changes[-1].version}", backlog.changes)
            return cls(f"{after} day {now // DAY}", backlog.commits or ())
        position = "" if isinstance(backlog, Unbegun) else backlog.position.version
        whole = f"{source}{position} all"
        return cls(whole) if newest is None else cls(f"{whole} of {newest.version}", (newest,))


def state_of(spans: Sequence[Span], declaration: str, own: str) -> str:
    """The state of a table, or of a partition."""
    return f"{','.join(span.state for span in spans)} as {declaration} by {own}"


def own_state(log: Log, head: Head | None) -> str:
    """Where a table stands, as a text: its id, and its newest commit that is not of upkeep."""
    return _own_state(log, head, lambda _: True)


def own_state_of_partitions(log: Log, head: Head | None, asset: str) -> str:
    """Where a table stands for each of its partitions: neither what runs write to the others counts, nor upkeep."""
    return _own_state(log, head, lambda commit: not _is_of_a_run(commit, asset))


def _own_state(log: Log, head: Head | None, counts: Callable[[Commit], bool]) -> str:
    commits = () if head is None else recent(log, head)
    newest = next((commit for commit in commits if commit.operation not in UPKEEP and counts(commit)), None)
    return "none" if head is None or newest is None else f"{head.table_id}@{newest.version}"


def _is_of_a_run(commit: Commit, asset: str) -> bool:
    try:
        return mark_of(commit, asset) is not None
    except LakehouseError:  # damaged, and older than the marks that decide
        return True
