"""`dagster dev` with a history and a lakehouse of its own, asked over HTTP."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from lakehouse.server import lifecycle
from resources.environments import PROJECT

STARTS, RUNS = 240, 420  # seconds, for a busy machine
FINISHED = {"SUCCESS", "FAILURE", "CANCELED"}
DIRECT = build_opener(ProxyHandler({}))  # straight to loopback, whatever proxy this shell is set up for

_LOCATION = """{ workspaceOrError { __typename ... on Workspace { locationEntries {
  name loadStatus locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
_LAUNCH = """mutation ($run: ExecutionParams!) { launchRun(executionParams: $run) { __typename
  ... on LaunchRunSuccess { run { runId } }
  ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
_START_SENSOR = """mutation ($of: SensorSelector!) { startSensor(sensorSelector: $of) { __typename
  ... on PythonError { message } } }"""
_RUN = "query ($id: ID!) { runOrError(runId: $id) { __typename ... on Run { status } } }"
_RUNS = "{ runsOrError { __typename ... on Runs { results { runId status } } } }"


@dataclass(frozen=True)
class Server:
    url: str
    process: subprocess.Popen[bytes]
    log: Path
    root: Path

    def ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with DIRECT.open(request, timeout=30) as answer:
            document = json.load(answer)
        assert "errors" not in document, document["errors"]
        return document["data"]

    def wait(self, what: str, seconds: float, find: Callable[[], Any]) -> Any:
        """The first result of `find` that is not None; also waits for a server that does not answer yet."""
        deadline = monotonic() + seconds
        while monotonic() < deadline and self.process.poll() is None:
            try:
                if (value := find()) is not None:
                    return value
            except (URLError, ConnectionError, TimeoutError):
                pass
            sleep(0.5)
        pytest.fail(f"No {what} after {seconds} s, or dagster dev has ended. Its output:\n{self.output()}")

    def output(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def location(self) -> str:
        """The name of the code location, once it has loaded."""
        return self.wait("code location", STARTS, self._location)

    def _location(self) -> str | None:
        entries = self.ask(_LOCATION)["workspaceOrError"]["locationEntries"]
        if not entries or entries[0]["loadStatus"] != "LOADED":
            return None
        loaded = entries[0]["locationOrLoadError"]
        assert loaded["__typename"] == "RepositoryLocation", loaded
        return entries[0]["name"]

    def launched(self, location: str, *path: str) -> str:
        """Launches a run of one asset and waits for its success; the id of the run."""
        selector = {
            "repositoryLocationName": location,
            "repositoryName": "__repository__",
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": list(path)}],
            "assetCheckSelection": [],
        }
        answer = self.ask(_LAUNCH, run={"selector": selector, "mode": "default", "runConfigData": {}})["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        run = answer["run"]["runId"]
        assert self.wait("end of the run", RUNS, lambda: self._ended(run)) == "SUCCESS", self.output()
        return run

    def started(self, sensor: str) -> None:
        """Switches a sensor of the one code location on."""
        of = {"repositoryName": "__repository__", "repositoryLocationName": self.location(), "sensorName": sensor}
        answer = self.ask(_START_SENSOR, of=of)["startSensor"]
        assert answer["__typename"] == "Sensor", answer

    def settled(self, what: str, is_reached: Callable[[], bool]) -> int:
        """Waits until something is reached and no run is under way; how many runs there have been."""

        def done() -> int | None:
            runs = self.runs()
            assert "FAILURE" not in runs.values(), self.output()
            return len(runs) if set(runs.values()) <= FINISHED and is_reached() else None

        return self.wait(what, RUNS, done)

    def _ended(self, run: str) -> str | None:
        now = self.ask(_RUN, id=run)["runOrError"]["status"]
        return now if now in FINISHED else None

    def runs(self) -> dict[str, str]:
        """The status of every run."""
        return {run["runId"]: run["status"] for run in self.ask(_RUNS)["runsOrError"]["results"]}


@contextmanager
def dagster_dev(
    directory: Path, root: Path, target: Sequence[str], variables: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """`dagster dev` on a code location.

    Args:
        directory: Where it runs and keeps its history. In a checkout the project's .env would override the variables.
        root: The root of the tables, whose Spark server ends with it.
        target: The arguments that name the code location.
        variables: Variables of its environment.
    """
    home, log = directory / "home", directory / "log"
    home.mkdir()
    shutil.copy(PROJECT / ".dagster" / "dagster.yaml", home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEHOUSE_", "DAGSTER_", "SPARK_"))}
    own = {"DAGSTER_HOME": str(home), "LAKEHOUSE_ROOT": str(root), "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port), *target]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=directory,
            env=inherited | own | dict(variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Server(f"http://127.0.0.1:{port}", process, log, root)
        finally:
            stop(process)
            lifecycle.stop(root, now=True)  # Spark's server outlives all of them


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the server as Ctrl-C does, then whatever is left of its process group, including a run and its JVM."""
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGINT)
        process.wait(15)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
