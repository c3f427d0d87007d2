"""The processes of one soak: Dagster's daemon with its code server and runs, Spark's server, the sources."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from resources.environments import PROJECT

LOCATION = "tests.endurance.location"
_ROLES = {
    "tests.endurance.sources": "source",
    "lakehouse.server.supervisor": "supervisor",
    "spawn_main": "run",
    "api grpc": "code server",
    "dagster._daemon": "daemon",
    "org.apache.spark": "Spark server",
}


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the soak, and its purpose."""

    pid: int
    role: str

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    @property
    def memory(self) -> int:
        """Its resident bytes; 0 if it has ended."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    @property
    def open_files(self) -> int:
        try:
            return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
        except OSError:
            return 0


@dataclass
class Processes:
    """Starts and finds the processes of a soak.

    Args:
        directory: The directory of Dagster's history and of the processes' logs.
        root: The root of the tables.
        port: The port of the code server.
    """

    directory: Path
    root: Path
    sources: dict[str, subprocess.Popen[str]] = field(default_factory=dict[str, "subprocess.Popen[str]"])
    daemon: subprocess.Popen[bytes] | None = None
    port: int = 0

    @property
    def home(self) -> Path:
        return self.directory / "dagster"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEHOUSE_", "DAGSTER_", "SPARK_"))}
        return inherited | {
            "DAGSTER_HOME": str(self.home),
            "LAKEHOUSE_ROOT": str(self.root),
            "PYTHONPATH": str(PROJECT),
        }

    def start_source(self, name: str, seed: str) -> None:
        command = [sys.executable, "-m", "tests.endurance.sources", name, str(self.root), seed]
        with (self.directory / f"{name}.log").open("a") as log:
            self.sources[name] = subprocess.Popen(
                [*command, str(self.directory / f"{name}.jsonl")],
                **self._given(log),
                stdin=subprocess.PIPE,
                text=True,
            )

    def ask(self, name: str, act: str) -> None:
        """Gives a source an order; the log of a source that has died shows why."""
        pipe = self.sources[name].stdin
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.write(f"{act}\n")
            pipe.flush()

    def start_dagster(self) -> None:
        """Creates the history, which two processes cannot do at once; starts code server, sensors and daemon."""
        self.home.mkdir(parents=True)
        shutil.copy(PROJECT / ".dagster" / "dagster.yaml", self.home)
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            instance.all_instigator_state()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        server = {"host": "localhost", "port": self.port, "location_name": "soak"}
        self._workspace.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))
        self._switch_on(self.start_code_server())
        self.start_daemon()

    def start_code_server(self) -> subprocess.Popen[bytes]:
        """Starts `dagster api grpc`, as a container of its own would."""
        start = ["-m", "dagster", "api", "grpc", "-m", LOCATION, "--host", "127.0.0.1", "--port", str(self.port)]
        with (self.directory / "code_server.log").open("a") as log:
            return subprocess.Popen([sys.executable, *start], **self._given(log), stdin=subprocess.DEVNULL)

    def _switch_on(self, code_server: subprocess.Popen[bytes]) -> None:
        """Starts each sensor as soon as the code server answers, as its switch in Dagster's UI does."""
        command = [sys.executable, "-m", "dagster", "sensor", "start", "--start-all", "-w", str(self._workspace)]
        with (self.directory / "sensor.log").open("a") as log:
            while subprocess.run(command, **self._given(log), check=False).returncode != 0:
                if code_server.poll() is not None:
                    raise RuntimeError((self.directory / "code_server.log").read_text()[-3000:])
                time.sleep(1)

    @property
    def _workspace(self) -> Path:
        return self.directory / "workspace.yaml"

    def start_daemon(self) -> None:
        """Starts `dagster-daemon run`, as a service would."""
        command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(self._workspace)]
        with (self.directory / "daemon.log").open("a") as log:
            self.daemon = subprocess.Popen(command, **self._given(log), stdin=subprocess.DEVNULL)

    def kill_daemon(self) -> None:
        """Kills the daemon alone: its code server and the runs go on."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()

    def _given(self, log: Any) -> dict[str, Any]:
        """The options of each process; its directory is not a checkout, because there the project's .env would win."""
        return {"cwd": self.directory, "env": self.environment, "stdout": log, "stderr": subprocess.STDOUT}

    def found(self) -> list[Process]:
        return list(_found(f"LAKEHOUSE_ROOT={self.root}".encode()))

    def of(self, role: str) -> list[Process]:
        return [process for process in self.found() if process.role == role]

    def end(self) -> None:
        """Ends all processes that have the root in their environment."""
        for process in self.found():
            process.kill()


def _found(variable: bytes) -> Iterator[Process]:
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal() or int(directory.name) == os.getpid():
            continue
        try:
            if variable not in (directory / "environ").read_bytes().split(b"\0"):
                continue
            line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended, or is another user's
            continue
        role = next((role for sign, role in _ROLES.items() if sign in line), "other")
        yield Process(int(directory.name), role)
