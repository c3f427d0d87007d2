"""A sensor that carries changes on: it reads logs, never rows, and needs no Spark."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from lakehouse.cursor.find import Known, find_cursor
from lakehouse.dagster.code_location import changes_of, is_function, table_ref, tables_of, writes_nothing
from lakehouse.declare.table import Table
from lakehouse.errors import LakehouseError
from lakehouse.log.location import Location
from lakehouse.log.log import commits_between
from lakehouse.spark.snapshot import TableRef

SENSOR = "lakehouse/change_sensor"
_GOING = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.SUSPENDED,
    DagsterRunStatus.CANCELING,
]


def change_sensor(
    name: str,
    assets: Iterable[Any],
    *,
    root: str,
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """A sensor that asks for one run of every table with unread changes, and of the tables downstream of them.

    It compares the position in each table's own commits with the newest change of its sources, so it needs no
    cursor of its own and forgets nothing when Dagster's storage is lost. Commits that changed no row wake nobody.
    While a run it asked for is under way it waits; after a failed one it waits for the tables to move.

    Args:
        name: The sensor's name.
        assets: The asset definitions, and the specs of tables that no asset makes.
        root: The root of the `DeltaIOManager`. Tables that have, or read one that has, a catalog name cannot be looked
            at without Spark; they are left to schedules, as partitioned assets are.
        minimum_interval_seconds: Seconds between two looks.
        default_status: Whether it runs as soon as the location is loaded.
    """
    graph = _Graph(list(assets), root)

    @dg.sensor(
        name=name,
        asset_selection=dg.AssetSelection.assets(*graph.incremental),
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description="Requests a run of every table whose sources hold changes that it has not read.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if context.instance.get_runs(RunsFilter(tags={SENSOR: name}, statuses=_GOING), limit=1):
            return dg.SkipReason("A run that this sensor asked for is still under way.")
        unread, unclear = _looked(context, graph)
        if not unread:
            return dg.SkipReason(" ".join(unclear.values()) or "Every table has read every change of its sources.")
        selection = graph.downstream(list(unread), without=unclear)
        state = ";".join(f"{key.to_user_string()}:{found}" for key, found in sorted(unread.items()))
        return dg.RunRequest(
            run_key=hashlib.sha256(state.encode()).hexdigest()[:16],
            asset_selection=selection,
            asset_check_keys=[],  # a full recompute after every step is not what incremental means
            tags={SENSOR: name, "lakehouse/unread": ", ".join(sorted(k.to_user_string() for k in unread))[:200]},
        )

    return look


class _Graph:
    """Which tables read the changes of which, and where they are."""

    def __init__(self, assets: Sequence[Any], root: str) -> None:
        self._refs = {key: table_ref(Location(root), key, table) for key, table in tables_of(assets).items()}
        self._root = Location(root)
        self._sources: dict[dg.AssetKey, list[dg.AssetKey]] = {}
        for asset in assets:
            if is_function(asset) and asset.partitions_def is None and not writes_nothing(asset):
                sources = [asset.keys_by_input_name[name] for name in changes_of(asset)]
                if sources and all(self._ref(key).why_only_spark() is None for key in [asset.key, *sources]):
                    self._sources[asset.key] = sources

    @property
    def incremental(self) -> list[dg.AssetKey]:
        return list(self._sources)

    def location(self, key: dg.AssetKey) -> str:
        return self._ref(key).location

    def unread(self, key: dg.AssetKey) -> str | None:
        """What the table has not read, as a text that changes when that does; None where it has read everything.

        It names the tables by their ids, for one that was replaced may stand at the same version.
        """
        ref = self._ref(key)
        log = ref.log(_no_spark)
        own = log.head()
        cursor = find_cursor(log, own, ref.name)
        again = isinstance(cursor, Known) and cursor.compare_again
        found: list[str] = []
        for source in self._sources[key]:
            source_ref = self._ref(source)
            source_log = source_ref.log(_no_spark)
            head = source_log.head()
            if head is None:
                return None
            position = cursor.reads.get(source_ref.name) if isinstance(cursor, Known) else None
            followed = position is not None and not position.lookup and position.table == head.table_id
            if position is None or not followed or position.version > head.version or again:
                found.append(f"{source_ref.name} {head.table_id}@{head.version}")
                continue
            commits = commits_between(source_log, source_ref.name, position.version, head.version)
            loud = [commit.version for commit in commits or () if not commit.is_quiet]
            if loud or commits is None:
                last = loud[-1] if loud else head.version
                found.append(f"{source_ref.name} {head.table_id}@{position.version}-{last}")
        at = "none" if own is None else f"{own.table_id}@{own.version}"
        return f"{','.join(found)} by {at}" if found else None

    def downstream(self, keys: Sequence[dg.AssetKey], without: Collection[dg.AssetKey] = ()) -> list[dg.AssetKey]:
        """The tables and every incremental table that reads them, directly or not, and can: its sources are there.

        Args:
            keys: The tables.
            without: Tables of which nothing can be told, so that a run of them would fail.
        """
        selected = set(keys)
        while True:
            more = {
                key
                for key, sources in self._sources.items()
                if key not in selected
                and key not in without
                and not selected.isdisjoint(sources)
                and all(source in selected or self._is_there(source) for source in sources)
            }
            if not more:
                return sorted(selected)
            selected |= more

    def _is_there(self, key: dg.AssetKey) -> bool:
        try:
            return self._ref(key).log(_no_spark).head() is not None
        except LakehouseError:
            return False

    def _ref(self, key: dg.AssetKey) -> TableRef:
        return self._refs.get(key) or table_ref(self._root, key, Table())


def _looked(
    context: dg.SensorEvaluationContext, graph: _Graph
) -> tuple[dict[dg.AssetKey, str], dict[dg.AssetKey, str]]:
    """What each table has not read, and what is wrong with those that cannot be told about; the others go on."""
    unread, unclear = dict[dg.AssetKey, str](), dict[dg.AssetKey, str]()
    for key in graph.incremental:
        try:
            found = graph.unread(key)
        except LakehouseError as error:
            unclear[key] = str(error)
            context.log.exception(f"What {key.to_user_string()} has not read cannot be told.")
            continue
        if found is not None:
            unread[key] = f"{found} after {_last_run(context.instance, key, graph.location(key))}"
    return unread, unclear


def _last_run(instance: dg.DagsterInstance, key: dg.AssetKey, location: str) -> str | None:
    """The run that last materialized the table: what it did may be undone since, and is then to be asked for again.

    Not where it did so in another place than the sensor looks at, whose state it leaves as it was.
    """
    event = instance.get_latest_materialization_event(key)
    if event is None or event.asset_materialization is None:
        return None
    written = event.asset_materialization.metadata.get("dagster/uri")
    return event.run_id if written is None or written.value == location else None


def _no_spark() -> Any:
    raise RuntimeError("A sensor reads local logs only.")
