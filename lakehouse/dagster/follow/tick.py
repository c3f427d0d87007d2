"""One tick of the sensor: the tables that are behind, and the runs that they need."""

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster import RunsFilter
from dagster._core.execution.stats import StepEventStatus

from lakehouse.dagster.follow.followed import LeftOut, can_follow
from lakehouse.dagster.follow.requests import Request, Started, ending, for_cursor, from_cursor, short_digest
from lakehouse.dagster.follow.watch import Behind, Look, UpToDate, Watch
from lakehouse.dagster.one_driver import SILENT, UNDER_WAY, silence
from lakehouse.dagster.run_tags import SENSOR, UNREAD
from lakehouse.dagster.table_facts import version_reports
from lakehouse.delta.commit_info import count_of

_SHOWN = 10


def names(keys: Collection[dg.AssetKey]) -> list[str]:
    return sorted(key.to_user_string() for key in keys)


def key_list(keys: Collection[dg.AssetKey]) -> str:
    return some(names(keys))


def some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def waiting(reasons: Mapping[dg.AssetKey, str]) -> list[str]:
    """A sentence for each reason, because many tables may have one."""
    by_reason = dict[str, list[dg.AssetKey]]()
    for key, why in sorted(reasons.items()):
        by_reason.setdefault(why, []).append(key)
    return [f"{key_list(keys)} {'waits' if len(keys) == 1 else 'wait'}: {why}." for why, keys in by_reason.items()]


def left_out(reasons: Mapping[dg.AssetKey, str]) -> list[str]:
    """A sentence for each table that is left out, up to so many; a tick's text is for people."""
    sentences = [f"Left out: {key.to_user_string()} ({why.rstrip('.')})." for key, why in sorted(reasons.items())]
    return sentences[:_SHOWN] + ([f"And {len(sentences) - _SHOWN} more."] if len(sentences) > _SHOWN else [])


@dataclass(frozen=True, slots=True)
class Pace:
    """When a sensor asks for runs.

    Args:
        debounce: Seconds for which the sources of a table must have been still; a table whose oldest unread change is
            ten times as old is asked for anyway.
        max_runs: How many of the sensor's runs may be under way before it asks for another.
        max_partitions: How many partitions of a table it asks for in one tick, each a run of its own.
        silent: Seconds without an event after which a run counts as dead, and is not waited for.

    Raises:
        ValueError: A number that would never let a run start.
    """

    debounce: float = 0
    max_runs: int = 1
    max_partitions: int = 20
    silent: float = SILENT

    def __post_init__(self) -> None:
        if self.debounce < 0:
            raise ValueError(f"debounce is a number of seconds from 0, not {self.debounce}.")
        for name in ("max_runs", "max_partitions", "silent"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is above 0, not {getattr(self, name)}.")

    def is_early(self, unread: Behind, now: float) -> bool:
        """Whether more changes may be on their way, and the first may still wait for them."""
        if unread.newest is None or unread.oldest is None:
            return False
        still, waited = now - unread.newest / 1000, now - unread.oldest / 1000
        return still < self.debounce and waited < 10 * self.debounce


class Tick:
    """One look at the tables, and what is made of it."""

    def __init__(
        self,
        context: dg.SensorEvaluationContext,
        watch: Watch,
        name: str,
        pace: Pace,
        requested: Collection[dg.AssetKey],
    ) -> None:
        self._context, self._instance, self._watch = context, context.instance, watch
        self._name, self._pace, self._requested = name, pace, requested
        self._now = time.time()
        self._dead = list[str]()
        self._waits = dict[dg.AssetKey, str]()
        cursor: dict[str, Any] = json.loads(context.cursor or "{}")
        self._before = from_cursor(cursor.get("asked", {}))
        self._started = Started(self._instance, name)

    def result(self) -> dg.SensorResult:
        """The runs that are asked for, or why none is, and the new versions of tables that others write."""
        runs = self._under_way()
        looked = self._watch.look(self._instance)
        looks = looked.tables
        requests: list[dg.RunRequest] = []
        if len(runs) < self._pace.max_runs:
            requests = self._requests(looks, runs)
        sentence = self._sentence(looks, runs, requests)
        self._context.log.info(sentence)
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else sentence,
            asset_events=version_reports(self._instance, looked.data_versions),
            cursor=self._cursor(looks),
        )

    def _cursor(self, looks: Mapping[dg.AssetKey, Look]) -> str:
        """For which state each table that is not up to date was asked for last."""
        before = {
            key: each for key, each in self._before.items() if not isinstance(looks.get(key, UpToDate()), UpToDate)
        }
        return json.dumps({"asked": for_cursor(before)})

    def _sentence(
        self,
        looks: Mapping[dg.AssetKey, Look],
        runs: Sequence[dg.DagsterRun],
        requests: Sequence[dg.RunRequest],
    ) -> str:
        """What was looked at, what was asked for, and what was left out and why."""
        unread = {key: look for key, look in looks.items() if isinstance(look, Behind)}
        out = {key: look.reason for key, look in looks.items() if isinstance(look, LeftOut)} | self._watch.left_out
        parts = [f"Looked at {count_of(len(looks), 'table')}."] if looks else ["This sensor can look at no table."]
        if unread:
            parts.append(f"Unread changes: {key_list(unread)}.")
        elif looks and len(out) < len(looks) + len(self._watch.left_out):
            parts.append("Every table that could be looked at has read every change of its sources.")
        if runs and len(runs) >= self._pace.max_runs:
            ids = ", ".join(run.run_id[:8] for run in runs)
            parts.append(
                f"A run that this sensor asked for is still under way: {ids}. Until then it asks for no other."
            )
        elif requests:
            parts.append(f"Asks for {count_of(len(requests), 'run')}.")
        conditions = sorted(key for key in unread if key not in self._requested)
        if conditions:
            parts.append(f"Left to their automation conditions: {key_list(conditions)}.")
        parts += waiting(self._waits)
        parts += self._dead
        parts += sorted({look.note for look in unread.values() if look.note})
        parts += left_out(out)
        return " ".join(parts)

    def _under_way(self) -> list[dg.DagsterRun]:
        """The sensor's runs that are under way; those without a sign of life are only named.

        A run of other tables alone is of a sensor that has the same name in another code location.
        """
        alive: list[dg.DagsterRun] = []
        for record in self._instance.get_run_records(RunsFilter(tags={SENSOR: self._name}, statuses=UNDER_WAY)):
            run, seconds = record.dagster_run, silence(self._instance, record, self._now)
            if run.asset_selection and self._watch.tables.keys().isdisjoint(run.asset_selection):
                continue
            if seconds > self._pace.silent:
                hours = seconds / 3600
                self._dead.append(
                    f"Run {run.run_id[:8]} has not been heard of for {hours:.1f} h and is not waited for: terminate it."
                )
            else:
                alive.append(run)
        return alive

    def _requests(self, looks: Mapping[dg.AssetKey, Look], runs: Sequence[dg.DagsterRun]) -> list[dg.RunRequest]:
        """A run of every table without partitions that is behind and all that follow, and one of each partition."""
        taken = {key for run in runs for key in run.asset_selection or self._watch.tables}
        ready = dict[dg.AssetKey, Behind]()
        for key, look in looks.items():
            if not isinstance(look, Behind) or key not in self._requested:
                continue
            if key in taken:
                self._waits[key] = "a run of it is under way"
            elif self._pace.is_early(look, self._now):
                self._waits[key] = f"its sources have not been still for {self._pace.debounce:g} s"
            else:
                ready[key] = look
        whole = {  # a materialization without a run is a report of the table's version, and no reason to ask again
            key: short_digest(look.state, self._last_run(key) or None)
            for key, look in ready.items()
            if not look.partitions
        }
        requests = self._of_tables(whole, looks, taken)
        for key, look in ready.items():
            requests += self._of_partitions(key, look.partitions)
        return requests

    def _of_tables(
        self,
        states: Mapping[dg.AssetKey, str],
        looks: Mapping[dg.AssetKey, Look],
        taken: Collection[dg.AssetKey],
    ) -> list[dg.RunRequest]:
        """One run of all tables of which none was started for the state that they are in, and of all that follow."""
        before = {key: self._before[key].run_key for key, state in states.items() if self._was_asked(key, state)}
        started = {run_key: self._started.run(run_key) for run_key in set(before.values())}
        runs = {
            key: run
            for key, run_key in before.items()
            if (run := started[run_key]) is not None and self._came_to(key, run)
        }
        self._waits |= {key: ending(run) for key, run in runs.items()}
        wanted = {key: state for key, state in states.items() if key not in runs}
        if not wanted:
            return []
        run_key = short_digest(self._name, *sorted(wanted.items()))
        self._before |= {key: Request(state, run_key) for key, state in wanted.items()}
        run = self._started.run(run_key)  # of a sensor that has lost its cursor
        if run is not None:
            self._waits |= dict.fromkeys(wanted, ending(run))
            return []
        return [self._request(run_key, wanted, self._downstream(wanted, looks, taken))]

    def _came_to(self, key: dg.AssetKey, run: dg.DagsterRun) -> bool:
        """Whether a run tried a table, unless it failed at the table of another step, which its own step waited for."""
        asset = self._watch.tables[key].asset
        if run.status is not dg.DagsterRunStatus.FAILURE:
            return True
        steps = {step.step_key: step.status for step in self._instance.get_run_step_stats(run.run_id)}
        own = steps.pop(asset.op.name, None)
        return own not in (None, StepEventStatus.SKIPPED) or StepEventStatus.FAILURE not in steps.values()

    def _was_asked(self, key: dg.AssetKey, state: str) -> bool:
        before = self._before.get(key)
        return before is not None and before.state == state

    def _of_partitions(self, key: dg.AssetKey, states: Mapping[str, str]) -> list[dg.RunRequest]:
        """A run of each partition of which none was started for the state that it is in; at most so many."""
        if not states:
            return []
        after, started = self._last_materializations(key), self._started.keys(key)
        keys = {
            partition: self._started.key(key, partition, f"{state} after {after.get(partition)}")
            for partition, state in states.items()
        }
        wanted = [partition for partition, run_key in keys.items() if run_key not in started]
        before = [partition for partition, run_key in keys.items() if run_key in started]
        now = wanted[: self._pace.max_partitions]
        whys = [f"{len(wanted) - len(now)} of its partitions are left to the next tick"] if wanted[len(now) :] else []
        whys += [f"some of its partitions were asked for before, and not read since: {some(before)}"] if before else []
        if whys:
            self._waits[key] = ", and ".join(whys)
        return [self._request(keys[partition], [key], [key], partition) for partition in now]

    def _request(
        self,
        run_key: str,
        unread: Collection[dg.AssetKey],
        selection: Sequence[dg.AssetKey],
        partition: str | None = None,
    ) -> dg.RunRequest:
        return dg.RunRequest(
            run_key=run_key,
            asset_selection=list(selection),
            partition_key=partition,
            # A full recompute after every step is not what incremental means; a check that blocks is a gate.
            asset_check_keys=sorted(self._blocking_checks(selection)),
            tags={SENSOR: self._name, UNREAD: ", ".join(names(unread))[:200]},
        )

    def _blocking_checks(self, selection: Sequence[dg.AssetKey]) -> Iterator[dg.AssetCheckKey]:
        """The checks of some tables that are to keep the tables downstream from running."""
        repository = self._context.repository_def
        if repository is not None:
            graph = repository.asset_graph
            yield from (key for key in graph.get_check_keys_for_assets({*selection}) if graph.get(key).blocking)

    def _downstream(
        self, unread: Collection[dg.AssetKey], looks: Mapping[dg.AssetKey, Look], taken: Collection[dg.AssetKey]
    ) -> list[dg.AssetKey]:
        """The tables and all that read them, directly or not, and can run: nothing of them is missing or unclear."""
        selected = set(unread)
        able = {
            key: table
            for key, table in self._watch.tables.items()
            if key in self._requested and key not in taken and table.asset.partitions_def is None
        }
        while True:
            more = {
                key
                for key, table in able.items()
                if key not in selected
                and not selected.isdisjoint(table.source_keys)
                and can_follow(looks[key], selected)
            }
            if not more:
                return sorted(selected)
            selected |= more

    def _last_run(self, key: dg.AssetKey) -> str | None:
        """The run that last materialized the table; None if that run wrote to another location than the sensor watches.

        The run is part of a request's key, so that a request is made again after a rollback undid the run.
        """
        event = self._instance.get_latest_materialization_event(key)
        if event is None or event.asset_materialization is None:
            return None
        written = event.asset_materialization.metadata.get("dagster/uri")
        here = self._watch.tables[key].ref
        return event.run_id if written is None or written.value in (here.location, here.identifier) else None

    def _last_materializations(self, key: dg.AssetKey) -> Mapping[str, int]:
        """For each partition, the storage id of its last materialization; empty if the runs write elsewhere."""
        if self._last_run(key) is None:
            return {}
        return self._instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
