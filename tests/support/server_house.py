"""A root, and separate processes that use it as if on a machine without Java."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.server.lifecycle import stop
from lakehouse.server.rendezvous import Rendezvous
from resources.environments import PROJECT

FEED = {"delta.enableChangeDataFeed": "true"}


class House:
    """A root, and processes that use it on a machine without Java."""

    def __init__(self, root: Path, programs: Path) -> None:
        self.root = root
        hidden = {"JAVA_HOME", "LAKEHOUSE_SPARK", "SPARK_CONNECT_MODE_ENABLED"}
        self.environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self.environment |= {"PATH": str(programs), "PYTHONPATH": str(root / "modules")}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.support.client", str(self.root), *arguments]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=self.environment, cwd=PROJECT, **pipes)

    def run(self, *arguments: str) -> dict[str, Any]:
        return answer(self.start(*arguments))

    def let_go(self, name: str, count: int) -> None:
        """Lets the writers of a history begin once `count` of them are ready."""
        start = self.root / f"{name}.start"
        deadline = time.monotonic() + 300
        while not start.exists() or len(list(start.iterdir())) < count:
            assert time.monotonic() < deadline, "the writers did not get ready"
            time.sleep(0.05)
        (start / "go").touch()

    def write(self, name: str, **columns: list[int]) -> None:
        """Appends rows in a commit by delta-rs."""
        write_deltalake(str(self.root / name), pa.table(columns), mode="append", configuration=FEED)

    def version(self, name: str) -> int:
        return DeltaTable(str(self.root / name)).version()

    @property
    def jvm(self) -> int:
        state = Rendezvous(self.root).state()
        assert state is not None
        return state.jvm


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error
    return json.loads(out)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every program of the PATH except Java."""
    directory = tmp_path_factory.mktemp("programs")
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).glob("*"):
            if program.name != "java" and not (directory / program.name).is_symlink():
                (directory / program.name).symlink_to(program)
    assert shutil.which("java", path=str(directory)) is None
    return directory


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[House]:
    root = tmp_path_factory.mktemp("house")
    (root / "modules").mkdir()
    yield House(root, programs)
    stop(root, now=True)
