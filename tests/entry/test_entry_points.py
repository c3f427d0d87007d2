"""Whatever command opens Dagster here, it loads the same code location and keeps its history in the same place."""

import shutil
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import CodeLocationOrigin, ManagedGrpcPythonEnvCodeLocationOrigin
from dagster._core.workspace.load_target import PyProjectFileTarget, WorkspaceFileTarget
from dagster_dg_cli.cli.utils import create_temp_workspace_file
from dagster_dg_core.config import DgRawCliConfig
from dagster_dg_core.context import DgContext
from dotenv import dotenv_values

from resources.environments import PROJECT
from tests.support.for_each import for_each


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("PWD", str(PROJECT))


def dagster_dev() -> list[CodeLocationOrigin]:
    return list(PyProjectFileTarget("pyproject.toml").create_origins())


def dagster_dev_with_the_workspace() -> list[CodeLocationOrigin]:
    return list(WorkspaceFileTarget(["workspace.yaml"]).create_origins())


def dg_dev() -> list[CodeLocationOrigin]:
    with create_temp_workspace_file(DgContext.for_project_environment(PROJECT, DgRawCliConfig())) as made:
        return list(WorkspaceFileTarget([made]).create_origins())


@for_each("command", [dagster_dev, dagster_dev_with_the_workspace, dg_dev])
def test_every_command_loads_the_same_location(command: Callable[[], list[CodeLocationOrigin]]):
    (origin,) = command()
    assert isinstance(origin, ManagedGrpcPythonEnvCodeLocationOrigin)
    loaded = origin.loadable_target_origin
    assert origin.location_name == "lakehouse"
    assert loaded.module_name == "assets.definitions"
    assert loaded.attribute is None
    assert Path(str(loaded.working_directory)).resolve() == PROJECT


def test_the_location_loads():
    from assets.definitions import defs

    dg.Definitions.validate_loadable(defs)


def test_history_is_kept_beside_the_project():
    assert dotenv_values(PROJECT / ".env")["DAGSTER_HOME"] == f"{PROJECT}/.dagster"


def test_the_instance_needs_nothing_but_its_committed_file(tmp_path: Path):
    shutil.copy(PROJECT / ".dagster" / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        concurrency = instance.get_concurrency_config()
        assert concurrency.run_queue_config is not None
        assert concurrency.run_queue_config.max_concurrent_runs == 2
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        assert instance.is_persistent
