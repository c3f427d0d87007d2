"""From a commit of the source to the refreshed gold table: three hops in a running `dagster dev`, the sensor on."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TypeVar

import dagster as dg
from deltalake import DeltaTable

from benchmarks.harness.lab import Lab
from benchmarks.harness.report import PROJECT, Result, at_most
from benchmarks.suites.cold import lay_out, update
from lakehouse.server.lifecycle import stop

HOPS = ("bronze", "silver", "gold")
PATIENCE = 300
T = TypeVar("T")


def run(lab: Lab) -> Result:
    with lab.room() as room:
        root, home = room / "lake", room / "dagster"
        home.mkdir()
        (home / "dagster.yaml").write_text((PROJECT / ".dagster" / "dagster.yaml").read_text())
        lay_out(root)
        try:
            with dagster_dev(root, home), dg.DagsterInstance.from_config(str(home)) as instance:
                until(lambda: committed(root, "gold", -1))
                settled(instance)
                turns = [measured(root, instance, turn) for turn in range(lab.rounds + 1)][1:]
        finally:
            stop(root, now=True)
    found = {what: median(turn[what] for turn in turns) for what in turns[0]}
    return Result(
        "live",
        "From source commit to gold",
        "100,000 rows; a row of the source changes, the sensor asks for a run of the three tables that follow it. The "
        "sensor looks every second (`minimum_interval_seconds=1`); by default it looks every 30.",
        ("", "wall s"),
        [(what, f"{seconds:.1f}") for what, seconds in found.items()],
        [at_most("source commit to refreshed gold: at most 15 s", found["in all"], 15)],
    )


def measured(root: Path, instance: dg.DagsterInstance, turn: int) -> dict[str, float]:
    """Seconds from a commit of the source to the commit of each hop, with the times of Dagster in between."""
    before = {hop: DeltaTable(str(root / hop)).version() for hop in HOPS}
    update(root, turn)
    began = time.time()
    commits = {hop: until(lambda hop=hop: committed(root, hop, before[hop])) for hop in HOPS}
    settled(instance)
    record = instance.get_run_records(limit=1)[0]
    started = record.start_time or began
    return {
        "until the sensor asked for the run": record.create_timestamp.timestamp() - began,
        "until the run's process had started": started - record.create_timestamp.timestamp(),
        "until bronze had committed": commits["bronze"] - started,
        "until silver had committed": commits["silver"] - commits["bronze"],
        "until gold had committed": commits["gold"] - commits["silver"],
        "in all": commits["gold"] - began,
    }


def committed(root: Path, table: str, after: int) -> float | None:
    """When the first commit after a version was made, in seconds since the epoch."""
    path = root / table / "_delta_log" / f"{after + 1:020}.json"
    return path.stat().st_mtime if path.exists() else None


def settled(instance: dg.DagsterInstance) -> None:
    until(lambda: (instance.get_runs_count() and not instance.get_runs_count(dg.RunsFilter(statuses=GOING))) or None)


GOING = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


def until(look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(0.05)
    raise TimeoutError(f"nothing within {PATIENCE} s")


@contextmanager
def dagster_dev(root: Path, home: Path) -> Generator[None]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = os.environ | {"DAGSTER_HOME": str(home), "LAKEHOUSE_ROOT": str(root)}
    program = str(Path(sys.executable).with_name("dagster"))
    command = [program, "dev", "-m", "benchmarks.contestants.live_location", "-h", "127.0.0.1", "-p", port]
    # A process that a shell starts in the background ignores SIGINT; `dagster dev` would inherit that and never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (home / "log").open("w") as log:
        # Not in the project's directory, whose .env would lead to the project's own history.
        process = subprocess.Popen(command, cwd=home, env=variables, stdout=log, stderr=log)  # noqa: S603
        try:
            yield
        except TimeoutError as error:
            raise RuntimeError((home / "log").read_text()[-3000:]) from error
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
