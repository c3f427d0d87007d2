"""`lakehouse run`: the tags that its options stand for, and runs that this process executes; Spark is not started."""

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster._daemon.types import DaemonHeartbeat

from lakehouse.cli.command import UsageError, definitions
from lakehouse.cli.main import main
from lakehouse.cli.runs.launch import RUN, tags_of_options
from lakehouse.cli.runs.submit import has_daemon
from lakehouse.cursor.definition import definition
from lakehouse.dagster.io_manager import managers_of
from tests.support.marked_tables import append, run

SHOP = """
import dagster as dg
from lakehouse import Append, Changes, DeltaIOManager, History, Merge, Table, incremental

DAYS = dg.StaticPartitionsDefinition(["2013-01-02", "2013-01-03"])

@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge:
    return Merge(orders.touched("id").rows, orders.touched("id"))

@dg.asset(metadata=Table(key="id"))
def broken(orders: Changes) -> Merge:
    raise ZeroDivisionError("of the user's own")

@dg.asset(metadata=Table(key="id"))
def after_broken(broken: Changes) -> Merge:
    return Merge(broken.touched("id").rows, broken.touched("id"))

@dg.asset
def kept(orders: Changes) -> Append:
    return Append(orders.appended())

@dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
def daily(orders: Changes) -> Merge:
    return Merge(orders.touched("id").rows, orders.touched("id"))

@dg.asset
def mailed() -> None: ...

@dg.asset_check(asset=mailed)
def is_right() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False)

@dg.asset
def posted() -> None: ...

@dg.asset_check(asset=posted)
def is_fine() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN)

class OfDay(dg.Config):
    day: str

@dg.asset
def delivered(config: OfDay) -> None: ...

defs = incremental(dg.Definitions(
    [dg.AssetSpec("orders"), copies, broken, after_broken, kept, daily, mailed, posted, delivered],
    asset_checks=[is_right, is_fine],
    resources={{"io_manager": DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root={root!r})}},
))
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with definitions; its table `copies` has read everything."""
    root = tmp_path / "lake"
    append(root, "orders", 1, 2)
    (home := tmp_path / "home").mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "definitions.py").write_text(SHOP.format(root=str(root)))
    defs = definitions(Namespace(file="definitions.py", module=None))
    key = dg.AssetKey("copies")
    asset = managers_of(defs.resources)["io_manager"].asset_of(defs.resolve_assets_def(key), key)
    run(root, "copies", "orders", code=asset.code, **definition(asset.table, None, asset.read_options, {}, ()))
    return "definitions.py"


def answer(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> Any:
    capsys.readouterr()
    assert main(["run", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_an_option_is_the_run_tag_of_the_same_meaning() -> None:
    parser = ArgumentParser()
    RUN.add_arguments(parser)

    def tags(options: list[str], *assets: str) -> dict[str, str]:
        return tags_of_options(parser.parse_args(options), assets)

    assert tags(["--full-refresh", "--checks"], "a", "b") == {
        "lakehouse/full_refresh": "a,b",
        "lakehouse/checks": "true",
    }
    assert tags(["--go-on-from", "now"], "a/b") == {"lakehouse/go_on_from/a/b": "now"}
    assert tags(["--restate-from", "2026-01-31"], "a/b") == {"lakehouse/restate_from/a/b": "2026-01-31"}
    assert tags(["--thaw", "day < '2024-01-01'"], "a/b") == {"lakehouse/thaw/a/b": "day < '2024-01-01'"}
    both = ["--allow", "max_deleted", "--allow", "version", "--allow", "max_deleted"]
    assert tags(both, "a") == {"lakehouse/allow/a": "max_deleted,version"}
    with pytest.raises(UsageError, match="--allow is about one asset, and 2 are named"):
        tags(["--allow", "version"], "a", "b")


def test_a_run_here_says_what_became_of_each_asset(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "copies"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("✔ copies  version 0  no row changed") and "succeeded: 1 asset (1 unchanged)" in text
    document = answer(capsys, 0, "copies")
    assert document["is_here"] and document["succeeded"]
    (asset,) = document["assets"]
    assert (asset["asset"], asset["end"], asset["version"], asset["updated"]) == ("copies", "unchanged", 0, 0)
    with dg.DagsterInstance.get() as instance:
        stored = instance.get_run_by_id(document["run"])
        assert stored is not None and stored.is_success, "the history of the instance has the run"


def test_a_branch_that_does_not_exist_is_named_before_a_command_answers(
    shop: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_BRANCH", "nope")
    definitions(Namespace(file=shop, module=None))
    assert "the branch 'nope', which does not exist yet: `lakehouse branch nope` makes it" in capsys.readouterr().err


def test_a_run_that_is_interrupted_says_that_the_next_one_goes_on(
    shop: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(shop).open("a") as file:
        file.write(
            "\n@dg.asset\ndef interrupted() -> None:\n    import os, signal, time\n"
            "    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(9)\n\n"
            "defs = dg.Definitions([interrupted], resources=defs.resources)\n"
        )
    assert main(["run", "interrupted", "-f", shop]) != 0
    said = capsys.readouterr()
    assert "The next run finds out whether its commit was made" in said.out and "Traceback" not in said.err


def test_a_run_that_fails_says_why_once_and_where_once(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "broken", "after_broken"]) == 1
    said = capsys.readouterr()
    assert said.out.count("ZeroDivisionError: of the user's own") == 1
    assert said.err.count("in broken") == 1 and "definitions.py" in said.err
    assert "○ after_broken  not run" in said.out
    document = answer(capsys, 1, "broken")
    assert (document["succeeded"], document["assets"][0]["end"]) == (False, "failed")
    assert document["assets"][0]["problem"].startswith("ZeroDivisionError")


def test_why_an_asset_failed_is_shown_even_if_dagster_copies_nothing_of_what_it_captures(tmp_path: Path) -> None:
    """Dagster copies what it captures with `tail`, which it ends before `tail` has copied the last lines."""
    (tmp_path / "definitions.py").write_text(
        "import time\nimport dagster as dg\n\n@dg.asset\ndef broken(): raise ZeroDivisionError('of the user')\n\n"
        "@dg.asset\ndef later():\n    print('captured')\n    time.sleep(2)\n\ndefs = dg.Definitions([broken, later])"
    )
    (tmp_path / "tail").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "tail").chmod(0o755)
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DAGSTER_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "lakehouse", "run", "broken", "later"],
        check=False,
        cwd=tmp_path,
        env=os.environ | environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert ended.stdout.count("failed: ZeroDivisionError: of the user") == 1, ended.stderr
    assert "captured" not in ended.stdout


def test_a_check_that_fails_with_the_severity_of_an_error_ends_the_command_with_1(
    shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = answer(capsys, 1, "mailed")
    assert document["succeeded"] and [check["name"] for check in document["failed_checks"]] == ["is_right"]
    assert answer(capsys, 0, "posted")["failed_checks"][0]["is_error"] is False
    assert main(["run", "posted"]) == 0
    assert "! check is_fine of posted: not passed" in capsys.readouterr().out


def test_what_cannot_be_asked_is_refused_before_a_run(
    shop: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "There is no asset copy. Did you mean copies?" in refusal(capsys, "copy")
    assert "No function of these definitions makes orders, so there is no run of it." in refusal(capsys, "orders")
    assert "daily has partitions. Say which: --partition KEY." in refusal(capsys, "daily")
    assert "copies has no partitions. Leave --partition out." in refusal(capsys, "copies", "--partition", "x")
    assert "There is no partition 2013-01-09" in refusal(capsys, "daily", "--partition", "2013-01-09")
    assert 'does not fit: Missing required config entry "ops"' in refusal(capsys, "delivered")
    of_other_day = json.dumps({"ops": {"delivered": {"config": {"dya": "x"}}}})
    refused = refusal(capsys, "delivered", "--config", of_other_day)
    assert 'unexpected config entry "dya"' in refused and 'config entry "day"' in refused and "Traceback" not in refused
    assert main(["run", "copies", "--go-on-from", "3"]) == 1
    assert "is about an asset that is not an Append of Changes" in capsys.readouterr().err
    assert main(["run", "copies", "--allow", "max_deleted"]) == 1
    assert "is about an asset that takes no extracts" in capsys.readouterr().err
    with dg.DagsterInstance.get() as instance:
        assert instance.get_runs() == []
    monkeypatch.setenv("DAGSTER_HOME", f"{shop} nowhere")
    assert "which is not a directory" in refusal(capsys, "copies")


def test_a_daemon_is_alive_for_a_while_after_its_last_sign_of_life() -> None:
    with dg.instance_for_test() as instance:
        assert not has_daemon(instance, time.time())
        instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "QUEUED_RUN_COORDINATOR", "id", []))
        assert has_daemon(instance, time.time()) and not has_daemon(instance, time.time() + 600)


@pytest.mark.slow
def test_with_a_daemon_the_run_waits_in_the_queue_and_is_followed_to_its_end(
    shop: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "home" / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\nconcurrency: {pools: {default_limit: 1, granularity: run}}"
    )
    ended = Event()

    def take_runs() -> None:
        """What `dagster-daemon` does with the queue, until the test ends."""
        target = PythonFileTarget(shop, None, str(tmp_path), None)
        daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
        with dg.DagsterInstance.get() as instance, WorkspaceProcessContext(instance, target) as workspace:
            while not ended.wait(0.5):
                instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), daemon.daemon_type(), "id", []))
                list(daemon.run_iteration(workspace))

    with dg.DagsterInstance.get() as instance:  # it creates the databases, which two threads must not do at once
        instance.get_runs(limit=1)
    thread = Thread(target=take_runs)
    thread.start()
    try:
        with dg.DagsterInstance.get() as instance:
            while not has_daemon(instance, time.time()):
                time.sleep(0.2)
        document = answer(capsys, 0, "copies")
    finally:
        ended.set()
        thread.join()
    assert (document["is_here"], document["succeeded"]) == (False, True)
    (asset,) = document["assets"]
    assert (asset["asset"], asset["end"]) == ("copies", "unchanged")
    with dg.DagsterInstance.get() as instance:
        stored = instance.get_run_by_id(document["run"])
        assert stored is not None and stored.asset_selection == {dg.AssetKey("copies")}
        events = [entry.dagster_event for entry in instance.all_logs(document["run"])]
        kinds = {event.event_type_value for event in events if event is not None}
        assert {"PIPELINE_ENQUEUED", "PIPELINE_STARTING"} <= kinds
