"""The IO manager: reads inputs by their annotations, writes results by their types, and reports to Dagster."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import dagster as dg
from dagster import ResourceDependency
from pydantic import PrivateAttr
from pyspark.sql import DataFrame, SparkSession

from lakehouse.commit.outcome import NothingToDo, Outcome
from lakehouse.cursor.standings import Standings
from lakehouse.dagster.code.digest import code_of, fields_of
from lakehouse.dagster.code_location import (
    CodeLocation,
    archive_ref,
    changes_of,
    function_of,
    input_kind,
    refuse_shared,
    result_annotation,
    table_ref,
    write_kind,
    write_of,
    writes_nothing,
)
from lakehouse.dagster.contexts import (
    POSTPONED,
    Postponed,
    asset_context,
    asset_graph,
    by_field,
    has_code_location,
    is_one_asset,
    keys_of_code_location,
    refuse_op,
    resources_of,
    run_start,
    source_of,
    step_key,
    to_log,
)
from lakehouse.dagster.expectation_checks import log_evaluations, report_quarantine
from lakehouse.dagster.failures import as_dagster_failures, as_our_errors
from lakehouse.dagster.metadata import KnownFacts, report, report_plan, report_standing, timing
from lakehouse.dagster.one_driver import refuse_second_driver
from lakehouse.dagster.resources import refuse_unfit, value_of
from lakehouse.dagster.run_tags import (
    COMPARE,
    GAP,
    found_by_earlier_try,
    refuse_unknown,
    request_by,
    tags_of,
    unacknowledged_runs,
    without_effect,
)
from lakehouse.dagster.slices import slice_of
from lakehouse.delta.location import Location, Storage
from lakehouse.delta.policy import Policy, Retry
from lakehouse.delta.table import Read, Table
from lakehouse.errors import ExpectationError
from lakehouse.materialization import Materialization, begin
from lakehouse.read.asset import Asset
from lakehouse.read.changes import Changes, read_of
from lakehouse.read.content import Everything
from lakehouse.read.feed_reader import Feeds
from lakehouse.server.in_process import guard
from lakehouse.server.settings import refuse_unsafe
from lakehouse.spark.progress import listening, phase
from lakehouse.spark.session import prepare, setting
from lakehouse.spark.table_version import TableRef
from lakehouse.writes.write import Write


# Not Dagster's `DbIOManager`: its `handle_output` deletes the slice and then writes, which on Delta is two commits.
# Between them, queries see no rows and a crash leaves none; and the feed has every row deleted and inserted. Not its
# `UPathIOManager` either: a partition of a Delta table is not a path, and a partition's key may be any text.
class DeltaIOManager(dg.ConfigurableIOManager):
    """Every asset is a Delta table. One materialization is one commit, and the commit records what it has read.

    If nothing changed, there is no commit. If a rival came between comparison and commit, a second commit corrects the
    rows (ADR 4).

    Args:
        spark: Any resource with a `spark_session`, including dagster-pyspark's own.
        root: Where the tables live: asset ["silver", "flights"] at `<root>/silver/flights`.
        storage_options: Options with which this process reads logs of an object store, as `deltalake` takes them; `{}`
            if the machine's own role is enough. Without options, credentials in the environment are used (AWS_*,
            AZURE_*, GOOGLE_*). Without either, logs are read through Spark. Rows are always read through Spark.
        conflicts: How often a commit that lost to a rival is tried again.
        policy: What a run may do, for each table that does not say otherwise.
    """

    spark: ResourceDependency[Any]
    root: str
    storage_options: dict[str, str] | None = None
    conflicts: ResourceDependency[Retry] = Retry()  # pyright: ignore[reportAssignmentType]  (Dagster takes the value)
    policy: ResourceDependency[Policy] = Policy()  # pyright: ignore[reportAssignmentType]  (Dagster takes the value)
    _steps: WeakKeyDictionary[Any, Materialization] = PrivateAttr(
        default_factory=WeakKeyDictionary[Any, Materialization]
    )
    """The materializations, by Dagster's context of the step, so that a step that failed leaves nothing behind."""
    _locations: WeakKeyDictionary[Any, CodeLocation] = PrivateAttr(default_factory=WeakKeyDictionary[Any, CodeLocation])
    """The code locations, by Dagster's graph of the assets."""
    _feeds: Feeds = PrivateAttr(default_factory=Feeds)
    _prepared: SparkSession | None = PrivateAttr(default=None)

    def load_input(self, context: dg.InputContext) -> Changes | DataFrame | Postponed:
        """The changes of the upstream table since this asset last read it, or the table at one pinned version."""
        refuse_op(context)
        execution = asset_context()
        if execution is None or not context.has_input_name:  # a loader asks: in a notebook, or within a function
            return source_of(context, self.location, self.session, "load_input").at.rows()
        if not is_one_asset(execution):  # it has no position in a table, so it reads all rows
            return source_of(context, self.location, self.session, context.op_def.name).at.rows()
        reader = execution.asset_key.to_user_string()
        with as_dagster_failures(execution), as_our_errors(reader):
            writer = writer_of(execution)
            if writer is None:
                return source_of(context, self.location, self.session, reader).at.rows()
            # Dagster calls the manager of the table that is read. The position is in the table that will be written.
            step = writer.step_of(execution)
            with listening(step.hear, to_log(execution.log)), phase("read"):
                source = source_of(context, self.location, writer.session, reader, step)
                if input_kind(step.asset.name, context.name, context.dagster_type.typing_type) is DataFrame:
                    step.pin(source)
                    return Postponed(source.at.rows) if context.dagster_type is POSTPONED else source.at.rows()
                read = Read.from_metadata(context.definition_metadata or {})
                changes = step.changes(source, read, writer.archive)
            content = read_of(changes).content
            if isinstance(content, Everything) and content.reason is not None:
                level, how = (logging.INFO, "reads") if content.for_cost else (logging.WARNING, "compares")
                execution.log.log(level, f"{step.asset.name} {how} all of {changes.name}: {content.reason}.")
            return changes

    def handle_output(self, context: dg.OutputContext, obj: Write | DataFrame | NothingToDo | None) -> None:
        """Writes the result as one Delta commit (see `commit`), and reports it as the materialization's metadata."""
        if obj is None and not context.has_asset_key:
            return  # an op that returns nothing leaves nothing to keep
        refuse_op(context)
        execution = cast("dg.AssetExecutionContext", asset_context())
        with as_dagster_failures(execution):
            step = self.step_of(execution)
            del self._steps[step_key(execution)]
            outcome = obj if isinstance(obj, NothingToDo) else self._written(context, execution, step, obj)
            run = step.run
            unused = without_effect(run)
            if unused is not None:
                context.log.warning(unused)
            report(context, execution, run, outcome, self.session)
            report_plan(context, execution, step, outcome)
            facts = KnownFacts(run.name, context.log.warning)
            context.add_output_metadata(
                facts.fetch("what the table stands for", lambda: self._report_standing(execution, step), {})
            )
            facts.fetch("its quarantine", lambda: report_quarantine(context, execution, step, self.session), None)
            context.add_output_metadata(timing(step.phases, time.monotonic() - step.began))

    def _written(
        self, context: dg.OutputContext, execution: dg.AssetExecutionContext, step: Materialization, result: Any
    ) -> Outcome | NothingToDo:
        write = write_of(result)
        nothing = step.nothing_to_write(write)
        if nothing is not None:
            return nothing
        refuse_second_driver(execution, step.asset.ref, self.driver)
        with listening(step.hear, to_log(context.log)):
            try:
                return step.commit(write, self.conflicts)
            except ExpectationError:
                log_evaluations(execution, step.evaluations, step.run.partitions, fails=True)
                raise

    @property
    def location(self) -> Location:
        """Where the tables of this manager are: below its root, or below that of the branch that the process is on."""
        root, options = value_of(self.root), self.storage_options
        if options is not None:
            options = {name: value_of(option) for name, option in options.items()}
        return Location.of_root(root, options)

    def session(self) -> SparkSession:
        """The Spark session of the tables that this manager writes, with the settings that every run needs.

        Raises:
            SetupError (VERSION): Its Spark, or its Delta, has not been tested with this library.
            SetupError (OTHER_SPARK): Its client, or Delta's jars, are for another version of Spark.
            SetupError (UNSAFE_SETTING): It has a setting under which rows could be lost.
        """
        session = cast("SparkSession", self.spark.spark_session)
        if session is not self._prepared:
            for build in refuse_unfit(session):
                dg.get_dagster_logger().warning(
                    f"{build} is a vendor's build, which was not tested with this library. Before you rely on it, let "
                    f"`lakehouse doctor --spark --scratch NAME` try out what is needed of it."
                )
            refuse_unsafe(session.conf.getAll)
            for setting in prepare(session):
                dg.get_dagster_logger().warning(
                    f"Spark refuses the setting {setting}, without which a Python function (F.udf) of an asset may "
                    f"wait forever (SPARK-58241). Set it where Spark is configured."
                )
            self._prepared = session
        return session

    def driver(self) -> str | None:
        """The id of the Spark application of its session; None if Spark does not say."""
        return setting(self.session(), "spark.app.id")

    def writing_session(self) -> SparkSession:
        """The session, once no other JVM can write below a root on this machine.

        Raises:
            SetupError (SERVER): Another JVM has the root.
        """
        session, location = self.session(), self.location
        if location.storage is Storage.FILES:
            guard(session, Path(location.path).absolute())
        return session

    def step_of(self, execution: dg.AssetExecutionContext) -> Materialization:
        """The materialization that this step's inputs and output share; begun by whichever comes first."""
        key = step_key(execution)
        if key not in self._steps:
            tables, tags = self._tables_beside(execution), tags_of(execution)
            asset = self.asset_of(execution.assets_def, execution.asset_key, tables)
            refuse_shared(asset.name, asset.table)
            for sentence in refuse_unknown(tags, keys_of_code_location(execution)):
                execution.log.warning(sentence)
            partitions_def = execution.assets_def.partitions_def
            self._steps[key] = begin(
                self.writing_session,
                asset,
                execution.run.run_id,
                slice=slice_of(asset.name, asset.table, partitions_def, execution.partition_keys)
                if partitions_def
                else None,
                config=by_field(execution.op_execution_context.op_config),
                resources=fields_of(resources_of(execution)),
                request=request_by(tags, asset),
                gap=found_by_earlier_try(tags, GAP + asset.name, execution.run.run_id),
                compare_because=found_by_earlier_try(tags, COMPARE + asset.name, execution.run.run_id),
                aliases=unacknowledged_runs(execution),
                feeds=self._feeds,
                moment=run_start(execution) if asset.table.owns is not None else None,
            )
            self._agree(execution, self._steps[key])
            if self._steps[key].run.new_code is not None:
                execution.log.warning(self._steps[key].run.new_code)
        return self._steps[key]

    def _agree(self, execution: dg.AssetExecutionContext, step: Materialization) -> None:
        """Has the step read its inputs only as far as they agree, if its policy asks for that."""
        if step.asset.policy.inputs != "agree":
            return
        step.standings = self._standings(execution, step.asset.name, self.writing_session)
        step.agree()
        for sentence in step.run.agreement.sentences:
            level = logging.INFO if step.run.agreement.newest is None else logging.WARNING
            execution.log.log(level, f"{step.asset.name} {sentence}.")

    def _standings(
        self, execution: dg.AssetExecutionContext, table: str, spark: Callable[[], SparkSession] | None
    ) -> Standings:
        """What a table's siblings and the tables that lead to it stand for; without a code location, by their marks."""
        tables = self._tables_beside(execution)
        ways, logs = tables.ways, tables.logs(spark)
        is_whole = has_code_location(execution.op_execution_context)
        return Standings(ways if is_whole else ways.with_marks(table, logs), logs)

    def _report_standing(self, execution: dg.AssetExecutionContext, step: Materialization) -> dict[str, Any]:
        """The metadata about what the table stands for; if its inputs need not agree, as far as no log needs Spark."""
        if step.asset.policy.inputs != "agree" and has_code_location(execution.op_execution_context):
            step.standings = self._standings(execution, step.asset.name, None)
        return report_standing(step)

    def _tables_beside(self, execution: dg.AssetExecutionContext) -> CodeLocation:
        """The tables of the code location of a step; those whose IO managers the step has are located."""
        op = execution.op_execution_context
        graph, resources = asset_graph(op), op.get_step_execution_context().resources
        if graph not in self._locations:
            self._locations[graph] = managed_tables(graph.assets_defs, cast("Any", resources)._asdict())
        return self._locations[graph]

    def asset_of(self, definition: dg.AssetsDefinition, key: dg.AssetKey, tables: CodeLocation | None = None) -> Asset:
        """What is defined about an asset that this manager writes; `tables` are those of its code location."""
        spec, name = definition.specs_by_key[key], key.to_user_string()
        table = Table.from_metadata(spec.metadata).under(self.policy)
        kind = write_kind(name, result_annotation(definition))
        sources = {name: source.to_user_string() for name, source in definition.keys_by_input_name.items()}
        nothings = {input_.name for input_ in definition.op.input_defs if input_.dagster_type.is_nothing}
        return Asset(
            name=name,
            table=table,
            ref=table_ref(self.location, key, table),
            past=kind.past,
            read_options={sources[name]: read for name, read in changes_of(definition).items()},
            inputs=sources,
            values=frozenset(source for name, source in sources.items() if name not in nothings),
            code_version=spec.code_version,
            code=None if spec.code_version is not None else code_of(function_of(definition)),
            policy=table.policy.within(self.policy),
            has_query=kind.has_query,
            follows_snapshot_inputs=kind.follows_snapshot_inputs,
            changes_are_kept=tables is not None and tables.keeps_changes_of(name),
        )

    def archive(self, asset: str) -> TableRef:
        """Where the table of an archive is."""
        return archive_ref(self.location, asset)


def managers_of(resources: Mapping[str, Any] | None) -> dict[str, DeltaIOManager]:
    """The IO managers of this library among the resources of definitions, by their keys."""
    return {key: resource for key, resource in (resources or {}).items() if isinstance(resource, DeltaIOManager)}


def roots_of(resources: Mapping[str, Any] | None) -> Callable[[str], Location | None]:
    """Gives the root of an IO manager by its key; None if the manager is not one of this library."""
    managers = managers_of(resources)
    return lambda name: managers[name].location if name in managers else None


def code_location_of(definitions: dg.Definitions) -> CodeLocation:
    """The tables of definitions, each at the place that its own manager gives it."""
    return managed_tables(definitions.assets or (), definitions.resources)


def managed_tables(assets: Iterable[Any], resources: Mapping[str, Any] | None) -> CodeLocation:
    """The tables of assets, each at the place that its own manager gives it, and under the policy of that manager."""
    managers = managers_of(resources)

    def policy_of(name: str) -> Policy:
        return managers[name].policy if name in managers else Policy()

    return CodeLocation.of(assets, roots_of(resources), policy_of)


def writer_of(execution: dg.AssetExecutionContext) -> DeltaIOManager | None:
    """The manager that writes the result of this step; None if the result goes to no manager or to another kind."""
    if writes_nothing(execution.assets_def):
        return None
    key = execution.assets_def.get_io_manager_key_for_asset_key(execution.asset_key)
    manager = getattr(execution.op_execution_context.get_step_execution_context().resources, key)
    return manager if isinstance(manager, DeltaIOManager) else None
