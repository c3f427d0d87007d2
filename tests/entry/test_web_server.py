"""The way a person takes: `dagster dev`, one asset launched over HTTP, a run in a process of its own, a table."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from deltalake import DeltaTable

from lakehouse.cursor.mark import Mark
from lakehouse.server import lifecycle
from lakehouse.server.rendezvous import Rendezvous
from resources.environments import PROJECT
from tests.reliability.delta_files import History

pytestmark = pytest.mark.timeout(420)  # above both deadlines, so that a failure quotes the server's output

STARTS, RUNS = 120, 240  # seconds, for a busy machine
FINISHED = {"SUCCESS", "FAILURE", "CANCELED"}
DIRECT = build_opener(ProxyHandler({}))  # loopback, whatever proxy this shell is set up for

LOCATION = """{ workspaceOrError { __typename ... on Workspace { locationEntries {
  name loadStatus locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
LAUNCH = """mutation ($run: ExecutionParams!) { launchRun(executionParams: $run) { __typename
  ... on LaunchRunSuccess { run { runId } }
  ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
RUN = "query ($id: ID!) { runOrError(runId: $id) { __typename ... on Run { status } } }"


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
            said = json.load(answer)
        assert "errors" not in said, said["errors"]
        return said["data"]

    def wait(self, what: str, seconds: float, found: Callable[[], Any]) -> Any:
        """What `found` gives as soon as it is not None; a server that does not answer yet is waited for."""
        deadline = monotonic() + seconds
        while monotonic() < deadline and self.process.poll() is None:
            try:
                if (value := found()) is not None:
                    return value
            except (URLError, ConnectionError, TimeoutError):
                pass
            sleep(0.5)
        pytest.fail(f"No {what} after {seconds} s, or dagster dev has ended. Its output:\n{self.output()}")

    def output(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """`dagster dev` on this project, with a history and a lakehouse of its own."""
    home, root, log = tmp_path / "home", tmp_path / "lake", tmp_path / "log"
    home.mkdir()
    shutil.copy(PROJECT / ".dagster" / "dagster.yaml", home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEHOUSE_", "DAGSTER_", "SPARK_"))}
    own = {"DAGSTER_HOME": str(home), "LAKEHOUSE_ROOT": str(root), "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)]
    command += ["-w", str(PROJECT / "workspace.yaml")]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=tmp_path,  # in the project its .env would win over the DAGSTER_HOME given here
            env=inherited | own,
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
    """Ends the server as Ctrl-C does; then whatever is left of its process group, a run with its JVM included."""
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGINT)
        process.wait(15)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def location(server: Server) -> str | None:
    entries = server.ask(LOCATION)["workspaceOrError"]["locationEntries"]
    if not entries or entries[0]["loadStatus"] != "LOADED":
        return None
    loaded = entries[0]["locationOrLoadError"]
    assert loaded["__typename"] == "RepositoryLocation", loaded
    return entries[0]["name"]


def status(server: Server, run: str) -> str | None:
    now = server.ask(RUN, id=run)["runOrError"]["status"]
    return now if now in FINISHED else None


def launched(server: Server, name: str, table: str) -> str:
    """A run of one asset, to its end."""
    selector = {
        "repositoryLocationName": name,
        "repositoryName": "__repository__",
        "pipelineName": "__ASSET_JOB",
        "assetSelection": [{"path": ["reference", table]}],
        "assetCheckSelection": [],
    }
    answer = server.ask(LAUNCH, run={"selector": selector, "mode": "default", "runConfigData": {}})["launchRun"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    run = answer["run"]["runId"]
    assert server.wait("end of the run", RUNS, lambda: status(server, run)) == "SUCCESS", server.output()
    return run


@pytest.mark.slow
def test_an_asset_launched_over_http_is_a_table_with_its_mark(server: Server):
    name = server.wait("code location", STARTS, lambda: location(server))
    run = launched(server, name, "airlines")

    table = DeltaTable(str(server.root / "reference" / "airlines"))
    (commit,) = table.history()
    mark = Mark.from_json(commit["userMetadata"])
    assert mark is not None
    assert (mark.asset, mark.run, mark.epoch, mark.base) == ("reference/airlines", run, 1, -1)
    assert len(History(server.root / "reference" / "airlines").rows(0)) == 16

    first = Rendezvous(server.root).state()
    launched(server, name, "airports")
    assert first is not None
    assert Rendezvous(server.root).state() == first, "the second run found the server of the first"
