"""The two ways to execute a run: in the queue of Dagster's instance, or in this process."""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import dagster as dg
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from dagster._core.definitions.job_base import InMemoryJob

from lakehouse.cli.command import DAGSTER_HOME, Target, UsageError
from lakehouse.cli.runs.run_result import RunLog, RunRequest, follow

# Dagster's own command `dagster job launch` puts runs into the queue, and cannot name assets. This module does the
# same with the functions of that command; Dagster exports none of them.

_ALIVE = 90.0
"""Seconds for which a daemon counts as alive after a sign of life; it gives one every half minute."""
_DAEMON = "QUEUED_RUN_COORDINATOR"
"""Dagster's name of the daemon that takes runs from the queue."""


@contextmanager
def instance_here() -> Generator[dg.DagsterInstance]:
    """The instance that DAGSTER_HOME names; without the variable, a temporary one that ends with the command.

    Raises:
        UsageError: The variable names no directory.
    """
    home = os.environ.get(DAGSTER_HOME)
    if home and not Path(home).is_dir():
        raise UsageError(f"{DAGSTER_HOME} names {home}, which is not a directory. Make it, or name another one.")
    instance = dg.DagsterInstance.get() if home else dg.DagsterInstance.local_temp()
    with instance:
        yield instance


def has_daemon(instance: dg.DagsterInstance, now: float) -> bool:
    """Whether a daemon takes runs from the queue of an instance."""
    from dagster._core.run_coordinator import QueuedRunCoordinator

    heartbeat = instance.get_daemon_heartbeats().get(_DAEMON)
    is_queued = isinstance(instance.run_coordinator, QueuedRunCoordinator)
    return is_queued and heartbeat is not None and now - heartbeat.timestamp < _ALIVE


def enqueue(
    instance: dg.DagsterInstance, source: Target, request: RunRequest, tags: Mapping[str, str], config: Any
) -> str:
    """Puts a run into the queue, as the code location of this directory defines it; returns the run's id.

    Raises:
        UsageError: Dagster cannot load the code location, or several are configured here.
    """
    from click import UsageError as ClickError
    from dagster._cli.workspace.cli_target import (
        get_code_location_from_workspace,
        get_remote_repository_from_code_location,
        get_workspace_from_cli_opts,
    )
    from dagster._core.definitions.selector import JobSubsetSelector

    keys = [*map(dg.AssetKey.from_user_string, request.assets)]
    with get_workspace_from_cli_opts(instance, dg.__version__, _options(source), log_level="ERROR") as workspace:
        try:
            location = get_code_location_from_workspace(workspace, None)
            repository = get_remote_repository_from_code_location(location, None)
        except ClickError as error:
            raise UsageError(f"Dagster cannot load the code location: {error.message}") from error
        job = location.get_job(
            JobSubsetSelector(location.name, repository.name, IMPLICIT_ASSET_JOB_NAME, None, asset_selection=keys)
        )
        plan = location.get_execution_plan(job, config, None, None, instance)
        run = instance.create_run(
            job_name=job.name,
            run_id=None,
            run_config=config,
            status=dg.DagsterRunStatus.NOT_STARTED,
            tags={**job.tags, **tags},
            root_run_id=None,
            parent_run_id=None,
            step_keys_to_execute=None,
            execution_plan_snapshot=plan.execution_plan_snapshot,
            job_snapshot=job.job_snapshot,
            parent_job_snapshot=job.parent_job_snapshot,
            asset_selection=frozenset(keys),
            asset_check_selection=None,
            resolved_op_selection=None,
            op_selection=None,
            remote_job_origin=job.get_remote_origin(),
            job_code_origin=job.get_python_origin(),
            asset_graph=repository.asset_graph,
        )
        return instance.submit_run(run.run_id, workspace).run_id


def _options(source: Target) -> Any:
    """What the command line named, as Dagster's commands take it; empty if the directory is configured for it."""
    from dagster_shared.cli import WorkspaceOpts

    if source.is_file:
        return WorkspaceOpts(python_file=[source.name])
    if not source.is_named:
        return WorkspaceOpts()
    module, _, attribute = source.name.partition(":")
    return WorkspaceOpts(module_name=[module], attribute=attribute or None)


def wait_for(instance: dg.DagsterInstance, run: str, log: RunLog, look: Callable[[str], None]) -> bool:
    """Follows a queued run to its end; returns whether it succeeded."""

    def is_over() -> bool:
        stored = instance.get_run_by_id(run)
        if stored is not None:
            look(stored.status.value)
        return stored is None or stored.is_finished

    follow(instance, run, log, is_over)
    stored = instance.get_run_by_id(run)
    return stored is not None and stored.is_success


class _JobOfLocation(InMemoryJob):
    """A job in this process that knows all assets of its code location, siblings too, as a queued one does."""

    def __init__(self, job: dg.JobDefinition, location: dg.RepositoryDefinition) -> None:
        super().__init__(job)
        self._location = location

    def get_repository_definition(self) -> dg.RepositoryDefinition:
        return self._location


def execute_here(
    instance: dg.DagsterInstance,
    defs: dg.Definitions,
    request: RunRequest,
    tags: Mapping[str, str],
    config: Any,
    log: RunLog,
    look: Callable[[str], None],
) -> tuple[str, bool]:
    """Executes a run in this process; returns its id, and whether it succeeded."""
    from dagster._core.execution.execute_in_process import core_execute_in_process

    keys, run, ended = [*map(dg.AssetKey.from_user_string, request.assets)], str(uuid4()), Event()
    job = defs.resolve_implicit_global_asset_job_def().as_ephemeral_job({}, {}, asset_selection=keys)

    def is_over() -> bool:
        look("STARTED")
        return ended.is_set()

    # The run needs the main thread, because Python delivers a user's interrupt there.
    thread = Thread(target=follow, args=(instance, run, log, is_over), daemon=True)
    thread.start()
    try:
        result = core_execute_in_process(
            _quiet(defs, config),
            _JobOfLocation(job, defs.get_repository_def()),
            instance,
            output_capturing_enabled=False,
            raise_on_error=False,
            run_tags=tags,
            run_id=run,
            asset_selection=frozenset(keys),
        )
    finally:
        ended.set()
        thread.join(timeout=5)
    return run, result.success


def _quiet(defs: dg.Definitions, config: Any) -> dict[str, Any]:
    """The config that silences Dagster's console, because the command reports the run itself; a user's loggers stay."""
    if defs.loggers or "loggers" in config:
        return dict(config)
    return {**config, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def tags_of_request(instance: dg.DagsterInstance, defs: dg.Definitions, request: RunRequest) -> dict[str, str]:
    """The tags of a run: those that its options stand for, and those by which Dagster knows its partition.

    Raises:
        UsageError: There is no such partition.
    """
    from dagster._core.definitions.partitions.context import partition_loading_context

    if request.partition is None:
        return request.tags
    keys = [*map(dg.AssetKey.from_user_string, request.assets)]
    job = defs.resolve_implicit_global_asset_job_def()
    with partition_loading_context(dynamic_partitions_store=instance) as context:
        try:
            job.validate_partition_key(request.partition, selected_asset_keys=keys, context=context)
        except dg.DagsterUnknownPartitionError as error:
            raise UsageError(f"There is no partition {request.partition}: {error}") from error
        return request.tags | dict(job.get_tags_for_partition_key(request.partition, selected_asset_keys=keys))
