"""A sensor that carries changes on: it reads logs, never rows, and needs no Spark."""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster import RunsFilter

from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.follow.followed import LeftOut, can_follow
from lakehouse.dagster.follow.watch import WHOLE, Behind, Look, Pauses, Watch
from lakehouse.dagster.io_manager import managed_tables
from lakehouse.dagster.one_driver import SILENT, UNDER_WAY, silence
from lakehouse.dagster.resources import value_of
from lakehouse.dagster.run_tags import SENSOR, UNREAD
from lakehouse.dagster.table_facts import version_reports
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.location import Location
from lakehouse.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Pace:
    """When a sensor asks for runs: the arguments of `change_sensor`.

    Raises:
        ValueError: A number that would never let a run start.
    """

    debounce: float = 0
    max_runs: int = 1
    max_partitions: int = 20

    def __post_init__(self) -> None:
        if self.debounce < 0 or self.max_runs <= 0 or self.max_partitions <= 0:
            raise ValueError(f"debounce is at least 0, max_runs and max_partitions are at least 1; given: {self}.")

    def is_early(self, unread: Behind, now: float) -> bool:
        """Whether more changes may be on their way, and the first may still wait for them."""
        if unread.newest is None or unread.oldest is None:
            return False
        still, waited = now - unread.newest / 1000, now - unread.oldest / 1000
        return still < self.debounce and waited < 10 * self.debounce


def change_sensor(
    name: str,
    assets: Iterable[Any],
    *,
    root: str | None = None,
    resources: Mapping[str, Any] | None = None,
    debounce: float = 0,
    max_runs: int = 1,
    max_partitions: int = 20,
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """A sensor that asks for a run of every table with unread changes, and of the tables downstream of them.

    It compares the position in each table's own commits with the newest change of its sources, so it forgets nothing
    when Dagster's storage is lost. Commits that changed no row lead to no run. For a partitioned asset it asks for the
    partitions whose rows changed. Tables of a run that is under way are left to that run. If a run left its changes
    unread, it asks for another after a pause of one minute, then two, up to an hour. Each tick reports what it looked
    at, what it left out and why.

    A table that has an automation condition is looked at, but no run of it is asked for: the condition does that. A new
    data version of a table that no asset makes is reported as a materialization without a run, so that Dagster knows
    which tables are stale.

    Args:
        name: The sensor's name.
        assets: The asset definitions, and the specs of tables that no asset makes.
        root: The root of the one `DeltaIOManager`, as that manager takes it.
        resources: Instead of `root`, the resources of the definitions: each table is where its own manager has it.
        debounce: Seconds for which the sources of a table must have been still. A table whose oldest unread change is
            ten times as old is asked for anyway, and a table that reads a source whole is asked for at once.
        max_runs: The sensor asks for another run only while fewer of its runs than this are under way.
        max_partitions: How many partitions of a table it asks for in one tick, each in a run of its own.
        minimum_interval_seconds: Seconds between two looks.
        default_status: Whether it runs as soon as the location is loaded.

    Raises:
        DefinitionError: Neither `root` nor `resources` is given, or both are.
        ValueError: A number that would never let a run start.
    """
    if (root is None) == (resources is None):
        raise DefinitionError(
            f"change_sensor '{name}' does not know where its tables are. Give either root=..., the root of the one "
            f"DeltaIOManager, or resources=..., those of the definitions."
        )
    if root is None:
        code_location = managed_tables(assets, resources)
    else:
        location = Location.of_root(value_of(root))
        code_location = CodeLocation.of(assets, lambda _: location)
    pace = Pace(debounce, max_runs, max_partitions)
    return sensor_of(code_location, name, pace, minimum_interval_seconds, default_status)


def sensor_of(
    code_location: CodeLocation,
    name: str,
    pace: Pace = Pace(),
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """The `change_sensor` of the tables of a code location."""
    watch = Watch(code_location)
    requested = {key for key, table in watch.tables.items() if not table.asset.automation_conditions_by_key.get(key)}

    @dg.sensor(
        name=name,
        asset_selection=dg.AssetSelection.assets(*requested),
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description="Requests a run of every table whose sources hold changes that it has not read.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        return Tick(context, watch, name, pace, requested).result()

    return look


_SHOWN = 10


def names(keys: Collection[dg.AssetKey]) -> list[str]:
    return sorted(key.to_user_string() for key in keys)


def key_list(keys: Collection[dg.AssetKey]) -> str:
    return some(names(keys))


def some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def waiting(reasons: Mapping[dg.AssetKey, str]) -> list[str]:
    """A sentence for each reason, because many tables may share one."""
    by_reason = dict[str, list[dg.AssetKey]]()
    for key, why in sorted(reasons.items()):
        by_reason.setdefault(why, []).append(key)
    return [f"{key_list(keys)} {'waits' if len(keys) == 1 else 'wait'}: {why}." for why, keys in by_reason.items()]


def left_out(reasons: Mapping[dg.AssetKey, str]) -> list[str]:
    """A sentence for each table that is left out, up to a limit, because a tick's text is for people."""
    sentences = [f"Left out: {key.to_user_string()} ({why.rstrip('.')})." for key, why in sorted(reasons.items())]
    return sentences[:_SHOWN] + ([f"And {len(sentences) - _SHOWN} more."] if len(sentences) > _SHOWN else [])


class Tick:
    """One look at the tables, and the requests and texts that follow from it."""

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
        remembered: dict[str, Any] = json.loads(context.cursor or "{}")
        self._pauses = {key: Pauses.from_json(remembered.get(key.to_user_string(), {})) for key in watch.tables}
        self._requests = dict[dg.AssetKey, Collection[str]]()

    def result(self) -> dg.SensorResult:
        """The runs that are asked for, or why none is, and the new versions of tables that others write."""
        runs = self._under_way()
        looked = self._watch.look(self._instance)
        looks = looked.tables
        requests: list[dg.RunRequest] = []
        if len(runs) < self._pace.max_runs:
            requests = self._make_requests(looks, runs)
        sentence = self._sentence(looks, runs, requests)
        self._context.log.info(sentence)
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else sentence,
            asset_events=version_reports(self._instance, looked.data_versions),
            cursor=self._cursor(looks),
        )

    def _cursor(self, looks: Mapping[dg.AssetKey, Look]) -> str:
        """The cursor: what was requested for each table that is behind."""
        pauses = {
            key.to_user_string(): self._pauses[key].again(look.states, self._requests.get(key, ()), self._now).to_json()
            for key, look in looks.items()
            if isinstance(look, Behind)
        }
        return json.dumps(pauses)

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
        """The sensor's runs that are under way; silent runs are left out, and only reported.

        A run of other tables only belongs to a sensor of the same name in another code location.
        """
        alive: list[dg.DagsterRun] = []
        for record in self._instance.get_run_records(RunsFilter(tags={SENSOR: self._name}, statuses=UNDER_WAY)):
            run, seconds = record.dagster_run, silence(self._instance, record, self._now)
            if run.asset_selection and self._watch.tables.keys().isdisjoint(run.asset_selection):
                continue
            if seconds > SILENT:
                hours = seconds / 3600
                self._dead.append(
                    f"Run {run.run_id[:8]} has not been heard of for {hours:.1f} h and is not waited for: terminate it."
                )
            else:
                alive.append(run)
        return alive

    def _make_requests(self, looks: Mapping[dg.AssetKey, Look], runs: Sequence[dg.DagsterRun]) -> list[dg.RunRequest]:
        """One run of the tables without partitions that are behind and all that follow; one run for each partition."""
        taken = {key for run in runs for key in run.asset_selection or self._watch.tables}
        ready, requests = dict[dg.AssetKey, Collection[str]](), list[dg.RunRequest]()
        for key, look in looks.items():
            if not isinstance(look, Behind) or key not in self._requested:
                continue
            if key in taken:
                self._waits[key] = "a run of it is under way"
            elif self._is_early(key, looks):
                self._waits[key] = f"its sources have not been still for {self._pace.debounce:g} s"
            elif self._watch.tables[key].is_partitioned:
                partitions = self._list_ready(key, look)[: self._pace.max_partitions]
                self._requests[key] = partitions
                requests += [self._request([key], [key], partition) for partition in partitions]
            elif allowed := self._list_ready(key, look):
                ready[key] = allowed
        if ready:
            selection = self._downstream(ready, looks, taken)
            requests.insert(0, self._request([*ready], selection))
            # A table whose source is in the run has no pause: if the source fails, a run of the table alone comes next.
            self._requests |= {
                key: whole for key, whole in ready.items() if self._watch.tables[key].source_keys.isdisjoint(selection)
            }
        return requests

    def _is_early(self, key: dg.AssetKey, looks: Mapping[dg.AssetKey, Look]) -> bool:
        """Whether a table waits for more changes; not if a sibling does not, because they meet if they run together."""
        together = [look for each in self._watch.siblings(key) if isinstance(look := looks[each], Behind)]
        return all(self._pace.is_early(look, self._now) for look in together)

    def _list_ready(self, key: dg.AssetKey, look: Behind) -> list[str]:
        """The partitions of a table, or `WHOLE`, that no pause delays; notes what waits, and why."""
        allowed = self._pauses[key].allow(look.states, self._now)
        paused = look.states.keys() - allowed
        more = len(allowed) - self._pace.max_partitions
        whys = [f"{more} of its partitions are left to the next tick"] if more > 0 else []
        if paused:
            end = datetime.fromtimestamp(self._pauses[key].end(paused), UTC)
            what = "the same changes" if WHOLE in paused else some(sorted(paused))
            whys.append(f"a run for {what} was requested before, the next is after {end:%H:%M:%S} UTC")
        if whys:
            self._waits[key] = ", and ".join(whys)
        return allowed

    def _request(
        self, unread: Collection[dg.AssetKey], selection: Sequence[dg.AssetKey], partition: str | None = None
    ) -> dg.RunRequest:
        return dg.RunRequest(
            asset_selection=list(selection),
            partition_key=partition,
            # Checks may recompute a whole table, so a run makes only those that block: they are gates.
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
        """The tables, and all that read them, directly or not, and can run: the run makes every missing source."""
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
