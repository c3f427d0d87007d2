"""The real server, killed while processes use it, and out of memory."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakehouse.server.lifecycle import stop
from lakehouse.server.rendezvous import Rendezvous
from tests.support.server_house import House, programs

__all__ = ["programs"]  # a fixture
pytestmark = [pytest.mark.timeout(900), pytest.mark.fault]


@pytest.fixture
def house(tmp_path: Path, programs: Path) -> Iterator[House]:
    """A house whose table holds the sums of two keys, after a run that has ended."""
    house = House(tmp_path, programs)
    house.write("source", key=[1, 2], value=[10, 20])
    assert not house.run("copy", "straight")["said"]["recovered"]
    yield house
    stop(tmp_path, now=True)


def until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Waits until the condition holds, as long as the process lives."""
    while not holds():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)


def test_killed_before_the_commit_nothing_is_written_and_the_next_run_is_exact(house: House):
    house.write("source", key=[2, 3], value=[1, 30])
    run, before = house.start("copy", "hold"), house.version("totals")
    until((house.root / "reached").exists, run)
    os.kill(house.jvm, signal.SIGKILL)
    error = run.communicate(timeout=300)[1]
    assert run.returncode == 1
    assert "SessionError: The Spark server of" in error
    assert "ended while it was used: The server has ended: signal 9 killed it." in error
    assert "Run this again: a new server starts by itself." in error
    assert house.version("totals") == before
    assert house.run("copy", "straight")["said"]["rows"] == [[1, 10], [2, 21], [3, 30]]
    assert house.version("totals") == before + 1


def test_killed_between_the_inputs_and_the_result_the_run_may_be_tried_again(house: House):
    house.write("source", key=[2, 3], value=[1, 30])
    run, before = house.start("outlive"), house.version("totals")
    error = run.communicate(timeout=300)[1]
    assert run.returncode == 1
    assert "SessionError: The Spark session in which the inputs of 'totals' were read has ended" in error
    assert "Run it again: the next run reads them in a new session." in error
    assert house.version("totals") == before
    assert house.run("copy", "straight")["said"]["rows"] == [[1, 10], [2, 21], [3, 30]]


def test_a_process_ends_although_its_server_hangs_and_leaves_it_to_others(house: House):
    run = house.start("freeze")
    try:
        _, said = run.communicate(timeout=60)
        assert run.returncode == 0, said
        used = Rendezvous(house.root).lock_of_users()
        assert used.take(1), "the process that has ended still has the server"
        used.let_go()
    finally:
        run.kill()
        os.kill(house.jvm, signal.SIGCONT)


def test_killed_when_the_commit_is_in_the_log_it_is_found_there_and_not_made_twice(house: House):
    house.write("source", key=[2, 3], value=[1, 30])
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
    assert again["rows"] == [[1, 10], [2, 21], [3, 30]]
    assert house.version("totals") == version


def test_out_of_memory_is_said(tmp_path: Path, programs: Path):
    run = House(tmp_path, programs).start("exhaust")
    try:
        error = run.communicate(timeout=600)[1]
        assert run.returncode == 1
        assert "SessionError" in error
        assert "it ran out of memory" in error
        assert "spark.driver.memory" in error
    finally:
        stop(tmp_path, now=True)
