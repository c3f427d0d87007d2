"""A run dies after its commit, before Dagster hears of it; the next run finds the commit and reports it to Dagster."""

import os
from multiprocessing.connection import Connection
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.reconstruct import ReconstructableJob

from tests.reliability.checker import behind, check
from tests.reliability.delta_files import History
from tests.reliability.pipeline import STEPS, create, edit
from tests.reliability.victim import fork, joined, stop
from tests.support.lake import Lake

pytestmark = pytest.mark.kill

ROOT, NAME = "LAKEHOUSE_TEST_ROOT", "LAKEHOUSE_TEST_JOB"


def job(root: Path, name: str) -> ReconstructableJob:
    """The job with its arguments: Dagster caches a job that it has built, but each test has tables of its own."""
    return dg.build_reconstructable_job(
        "tests.reliability.dagster_job", "job", reconstructable_kwargs={"root": str(root), "name": name}
    )


def run_and_stop(pipe: Connection, environment: dict[str, str]) -> None:
    """A Dagster run in a process of its own, which stops between the commit and Dagster's event."""
    os.environ.update(environment)
    joined()
    from lakehouse.dagster import io_manager
    from tests.support.interleave import after

    # The JVM that this process has joined holds the root's lock, but the lock names the process that started the JVM.
    setattr(io_manager, "guard", lambda *_: None)  # noqa: B010
    with dg.DagsterInstance.get() as instance, after("find in the log", lambda: stop(pipe)):
        dg.execute_job(job(Path(os.environ[ROOT]), os.environ[NAME]), instance=instance)


def died(lake: Lake, home: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a run killed between its commit and Dagster's event, marked as failed as run monitoring does."""
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    victim = fork(lake.spark, run_and_stop, {"DAGSTER_HOME": str(home), ROOT: str(lake.root), NAME: name})
    victim.reached()
    victim.kill_python()
    with dg.DagsterInstance.get() as instance:
        (run,) = instance.get_runs()
        assert instance.get_latest_materialization_event(dg.AssetKey(name)) is None
        instance.report_run_failed(run)
        return run.run_id


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "dagster"
    directory.mkdir()
    (directory / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    return directory


@pytest.mark.parametrize("name", ["current", "ingested"])
@pytest.mark.parametrize("again", ["from failure", "a new run"])
def test_a_run_that_died_before_its_event_is_acknowledged_by_the_next(
    lake: Lake, home: Path, name: str, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(lake)
    if name == "current":
        lake.materialize(STEPS[name].asset, STEPS[name].table)
        edit(lake, 1)
    before = lake.version(name) if name == "current" else -1
    first = died(lake, home, name, monkeypatch)
    with dg.DagsterInstance.get() as instance:
        options = dg.ReexecutionOptions.from_failure(first, instance) if again == "from failure" else None
        with dg.execute_job(job(lake.root, name), instance=instance, reexecution_options=options) as result:
            assert result.success
        event = instance.get_latest_materialization_event(dg.AssetKey(name))
        assert event is not None and event.run_id == result.run_id and event.asset_materialization is not None
        metadata = {key: value.value for key, value in event.asset_materialization.metadata.items()}
    appended_twice = name == "ingested" and again == "a new run"  # a new run without inputs is a new event
    history = History(lake.root / name)
    assert history.newest == before + (2 if appended_twice else 1)
    if name == "ingested" and again == "from failure":
        assert f"already applied by run {first}" in str(metadata["write"])
    if name == "current":
        assert check([STEPS[name].at(lake.root)], [], [first]) == []
        assert behind([STEPS[name].at(lake.root)]) == []
