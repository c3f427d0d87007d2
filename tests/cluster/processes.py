"""Programs that a test starts, each in a session of its own; at the end of the test all that they started ends too."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from lakehouse.server.jvm import java, module_options, spark_home


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def java_command(main: str, *arguments: str, memory: str, jars: Sequence[Path] = ()) -> list[str]:
    """The command that runs a class from pyspark's jars or from other jars."""
    program = java()
    assert program is not None
    path = ":".join(map(str, [*jars, spark_home() / "jars" / "*"]))
    return [program, f"-Xmx{memory}", *module_options(version("pyspark")), "-cp", path, main, *arguments]


@contextmanager
def running(
    command: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> Generator["subprocess.Popen[str]"]:
    """Runs a program in this directory; its output is in the file `log` there."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "log").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill(process.pid)
        process.communicate()


def kill(group: int) -> None:
    """Kills a program and all that it started, without warning."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def until(what: str, is_so: Callable[[], bool], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)
