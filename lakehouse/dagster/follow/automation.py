"""An automation condition whose truth is a state: a table has changes to read.

Dagster's own conditions go by events, which are lost if a run fails or a source moved before the first tick. What is
unread is found in the logs (`lakehouse.dagster.follow.watch`), in the same way as for the sensor.
"""

import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, cast

import dagster as dg
from dagster import AutomationContext, AutomationResult

from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.follow.followed import LeftOut, can_follow
from lakehouse.dagster.follow.watch import Behind, Look, Looks, Pauses, Watch
from lakehouse.dagster.one_driver import SILENT, silence
from lakehouse.dagster.remake import with_parts
from lakehouse.errors import DefinitionError

SENSOR_NAME = "lakehouse_automation"
"""The sensor that evaluates the conditions, in the code server; off until it is switched on."""


def automation() -> dg.AutomationCondition[Any]:
    """A condition that requests a run of a table with unread changes, together with the tables that follow it.

    It is true while a source holds changes that the table has not read, and no run of the table is in progress; a run
    without an event for an hour counts as dead, and is not waited for. Commits that changed no row request nothing,
    unless log cleanup could otherwise reach a position.
    After a failed run it requests another after a pause of one minute, then two, up to an hour. For a partitioned asset
    it requests the partitions whose rows changed; each has a pause of its own.

    `validate` gives the condition its tables, and adds a sensor that evaluates it in the code server.
    """
    return ~(dg.AutomationCondition.in_progress() & RunAlive()) & ChangesUnread()


class RunAlive(dg.AutomationCondition[dg.AssetKey]):
    """True unless the last run that was to materialize a table, or a partition, is dead: not ended, and silent."""

    @property
    def name(self) -> str:
        return "run_alive"

    @property
    def description(self) -> str:
        return "The run in progress has been heard of within the last hour."

    def evaluate(self, context: AutomationContext[dg.AssetKey]) -> AutomationResult[dg.AssetKey]:
        candidates: Any = context.candidate_subset
        view: Any = context.asset_graph_view
        now = context.evaluation_time.timestamp()
        if candidates.is_empty:
            return AutomationResult(context, candidates)
        if context.partitions_def is None:
            dead = _is_dead(view.instance, context.key, None, now)
            return AutomationResult(context, context.get_empty_subset() if dead else candidates)
        keys = candidates.expensively_compute_partition_keys()
        alive = {key for key in keys if not _is_dead(view.instance, context.key, key, now)}
        return AutomationResult(context, candidates.compute_intersection_with_partition_keys(alive))


def _is_dead(instance: Any, key: dg.AssetKey, partition: str | None, now: float) -> bool:
    """Whether the last run that was to materialize a table, or a partition of it, has gone silent without an end."""
    planned = instance.get_latest_planned_materialization_info(key, partition)
    record = None if planned is None else instance.get_run_record_by_id(planned.run_id)
    return record is not None and not record.dagster_run.is_finished and silence(instance, record, now) > SILENT


@dataclass
class Glances:
    """Looks at the tables of a code location, once for each evaluation of all conditions."""

    watch: Watch
    _at: float = field(init=False, default=-1.0)
    _looks: Looks | None = field(init=False, default=None)

    def at(self, tick: float, instance: dg.DagsterInstance) -> Mapping[dg.AssetKey, Look]:
        """What each table has not read, the same for all conditions in one tick (its time in seconds)."""
        if self._looks is None or tick != self._at:
            self._at, self._looks = tick, self.watch.look(instance)
        return self._looks.tables


class ChangesUnread(dg.AutomationCondition[dg.AssetKey]):
    """True while the table has changes to read; `glances` is None until the definitions are complete."""

    def __init__(self, glances: Glances | None = None) -> None:
        self.glances = glances

    @property
    def name(self) -> str:
        return "changes_unread"

    @property
    def description(self) -> str:
        return "A source holds changes that the table has not read."

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChangesUnread) and other.glances is self.glances

    def __hash__(self) -> int:
        return hash((ChangesUnread, id(self.glances)))

    def evaluate(self, context: AutomationContext[dg.AssetKey]) -> AutomationResult[dg.AssetKey]:
        now, nothing = context.evaluation_time.timestamp(), context.get_empty_subset()
        pauses = _Memory.from_json(context.cursor).pauses_after(_requested_in_last_tick(context))
        if self.glances is None:
            raise DefinitionError(
                f"The condition automation() of '{context.key.to_user_string()}' does not know where its tables are. "
                f"Pass the definitions through validate(...)."
            )
        if context.candidate_subset.is_empty:
            return AutomationResult(context, nothing, cursor=_Memory(pauses).to_json())
        table = self.glances.watch.tables.get(context.key)
        view: Any = context.asset_graph_view
        look = self.glances.at(now, view.instance).get(context.key)
        if table is None or look is None:
            why = self.glances.watch.left_out.get(context.key, "it reads no changes")
            context.log.warning(f"{context.key.to_user_string()} is left out: {why}.")
            return AutomationResult(context, nothing, cursor=_Memory(pauses).to_json())
        states = look.states if isinstance(look, Behind) else dict[str, str]()
        allowed, sources = pauses.allow(states, now), _sources_in_this_tick(context, table.source_keys)
        if context.partitions_def is not None:
            wanted = _subset(context, allowed)
            allowed = wanted.expensively_compute_partition_keys()
        elif sources and can_follow(look, sources):
            wanted, allowed = context.candidate_subset, ()  # if a source fails, a run of this table alone comes next
        else:
            wanted = context.candidate_subset if allowed else nothing
        if isinstance(look, LeftOut) and wanted.is_empty:
            context.log.warning(f"{context.key.to_user_string()} is left out: {look.reason.rstrip('.')}.")
        memory = _Memory(pauses.again(states, (), now), states, tuple(allowed), now)
        return AutomationResult(context, wanted, cursor=memory.to_json())


@dataclass(frozen=True, slots=True)
class _Memory:
    """What the condition remembers of a table from tick to tick.

    Another condition next to `automation()` may keep it from requesting a run. So a pause begins in the tick after.

    Args:
        pauses: The pauses, without those that the last tick may have begun.
        states: What was unread in the last tick, for each partition.
        offered: The partitions for which the condition was true then.
        at: When that was, in seconds since the epoch.
    """

    pauses: Pauses
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    offered: tuple[str, ...] = ()
    at: float = 0.0

    @classmethod
    def from_json(cls, text: str | None) -> "_Memory":
        """The memory in a cursor; none of what other versions of the library have written there."""
        memory: Any = json.loads(text or "{}")
        if memory.keys() != {"pauses", "states", "offered", "at"}:
            return cls(Pauses())
        return cls(Pauses.from_json(memory["pauses"]), memory["states"], tuple(memory["offered"]), memory["at"])

    def to_json(self) -> str:
        memory = {"pauses": self.pauses.to_json(), "states": self.states, "offered": self.offered, "at": self.at}
        return json.dumps(memory)

    def pauses_after(self, is_requested: Callable[[str], bool]) -> Pauses:
        """The pauses, with those of the partitions for which the last tick requested a run."""
        requested = list(filter(is_requested, self.offered))
        return self.pauses.again(self.states, requested, self.at) if requested else self.pauses


def _requested_in_last_tick(context: AutomationContext[dg.AssetKey]) -> Callable[[str], bool]:
    """Whether the whole condition of a table, with what stands next to `automation()`, requested a partition last."""
    requested = context.get_previous_requested_subset(context.key)
    if requested is None or requested.is_empty:
        return lambda _: False
    if context.partitions_def is None:
        return lambda _: True
    return requested.expensively_compute_partition_keys().__contains__


def _subset(context: AutomationContext[dg.AssetKey], partitions: Collection[str]) -> Any:
    """Those of some partitions that are candidates: a partition whose run is in progress is not one."""
    view: Any = context.asset_graph_view
    wanted = view.get_subset_from_partition_keys(context.key, context.partitions_def, set(partitions))
    return context.candidate_subset.compute_intersection(wanted)


def _sources_in_this_tick(
    context: AutomationContext[dg.AssetKey], sources: Collection[dg.AssetKey]
) -> frozenset[dg.AssetKey]:
    """The sources that this tick requests a run of: the table then reads, in the same run, what they wrote."""
    subsets = cast("Any", context).request_subsets_by_key
    each = {key: subsets[key] for key in sources if key in subsets}
    return frozenset(key for key, subset in each.items() if not subset.is_empty and subset.partitions_def is None)


def automate(definitions: dg.Definitions, code_location: CodeLocation) -> dg.Definitions:
    """The same definitions, whose conditions `automation()` know the tables, and with a sensor that evaluates them.

    No sensor is added if the definitions have an `AutomationConditionSensorDefinition` of their own.

    Raises:
        DefinitionError: A table that reads no changes has the condition `automation()`.
    """
    assets = list(definitions.assets or [])
    targets = [asset.key for asset in filter(_is_automated, assets)]
    if not targets:
        return definitions
    for asset in filter(_is_automated, assets):
        _refuse_without_changes(asset, code_location)
    glances = Glances(Watch(code_location))
    sensors = list(definitions.sensors or [])
    if not any(isinstance(sensor, dg.AutomationConditionSensorDefinition) for sensor in sensors):
        sensors.append(_sensor(targets))
    bound = [_bound(asset, glances) if _is_automated(asset) else asset for asset in assets]
    return with_parts(definitions, assets=bound, sensors=sensors)


def _refuse_without_changes(asset: dg.AssetsDefinition, code_location: CodeLocation) -> None:
    """Refuses `automation()` on a table that reads no changes, because no log shows when its run is due."""
    for spec in asset.specs:
        name, condition = spec.key.to_user_string(), cast("Any", spec).automation_condition
        if condition is not None and not code_location[spec.key].changes and _holds(condition):
            raise DefinitionError(
                f"Asset '{name}' has the condition automation(), and reads no input as Changes, so no log says when "
                f"a run of it is due. Give it a schedule, or dg.AutomationCondition.on_cron('@hourly') alone."
            )


def _is_automated(asset: Any) -> TypeGuard[dg.AssetsDefinition]:
    return isinstance(asset, dg.AssetsDefinition) and any(
        map(_holds, cast("Any", asset).automation_conditions_by_key.values())
    )


def _holds(condition: Any) -> bool:
    return isinstance(condition, ChangesUnread) or any(map(_holds, condition.children))


def _bound(asset: dg.AssetsDefinition, glances: Glances) -> dg.AssetsDefinition:
    def bound(spec: dg.AssetSpec) -> dg.AssetSpec:
        condition = cast("Any", spec).automation_condition
        if condition is None or not _holds(condition):
            return spec
        return spec.replace_attributes(automation_condition=condition.replace(ChangesUnread(), ChangesUnread(glances)))

    return asset.map_asset_specs(bound)


def _sensor(targets: Sequence[dg.AssetKey]) -> dg.AutomationConditionSensorDefinition:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # evaluation in the code server is beta; nothing else can
        return dg.AutomationConditionSensorDefinition(
            SENSOR_NAME,
            target=dg.AssetSelection.assets(*targets),
            description="Requests runs of the tables whose automation condition is true.",
            use_user_code_server=True,
        )
