"""Dagster as on Kubernetes: several run processes share one Connect server, which is restarted while they run."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.server.jvm import java, server_command
from lakehouse.server.settings import spark_settings
from resources.environments import PROJECT
from tests.cluster.processes import free_port, running, until
from tests.server.test_other_spark import is_open
from tests.support.plain_tables import FEED, rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


@contextmanager
def server(directory: Path, port: int) -> Generator[None]:
    """A server whose tables are on a file system that only Spark reaches: Hadoop's view of a directory."""
    program = java()
    assert program is not None
    own = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.connect.grpc.binding.port": str(port),
        "spark.hadoop.fs.viewfs.mounttable.lake.link./data": f"file:{directory}/lake",
    }
    with running(server_command(program, spark_settings() | own), directory / "server", {}):
        until("the server listens", lambda: is_open(port), 600)
        yield


def start(directory: Path, port: int, table: str, *waits: str) -> "subprocess.Popen[str]":
    environment = {
        "SPARK_REMOTE": f"sc://127.0.0.1:{port}",
        "DAGSTER_HOME": str(directory / "home"),
    }
    command = [sys.executable, "-m", "tests.cluster.one_run", str(directory), table, *waits]
    return subprocess.Popen(
        command, cwd=PROJECT, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(run: "subprocess.Popen[str]") -> str:
    """The message with which the run failed; "" if it succeeded."""
    said, errors = run.communicate(timeout=600)
    assert run.returncode == 0, errors[-4000:]
    return said


def totals(orders: Path) -> list[tuple[int, int, int]]:
    counts, sums = Counter[int](), Counter[int]()
    for number, v in rows(orders) or []:
        counts[v] += 1
        sums[v] += number
    return sorted((v, counts[v], sums[v]) for v in counts)


def test_runs_of_their_own_processes_share_a_server_that_is_killed_under_them(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "lake").mkdir()
    orders, port, names = tmp_path / "lake" / "orders", free_port(), ("by_v", "by_v_again", "by_v")
    write_deltalake(str(orders), pa.table({"id": [1, 2, 3], "v": [1, 1, 2]}), configuration=FEED)

    def hold(table: str) -> bool:
        return sorted(rows(tmp_path / "lake" / table) or []) == totals(orders)

    with server(tmp_path, port):
        firsts = [start(tmp_path, port, name) for name in names]
        assert [said for said in map(ended, firsts) if said and "OVERTAKEN" not in said] == []
        DeltaTable(str(orders)).update(predicate="id = 2", updates={"v": "2"})
        for each in tmp_path.glob("reached-*"):
            each.unlink()
        held = [start(tmp_path, port, name, "waits") for name in names]
        until("each run has read", lambda: len(list(tmp_path.glob("reached-*"))) == len(names), 600)
    with server(tmp_path, port):
        (tmp_path / "go").touch()
        told = [ended(run) for run in held]
        assert all("has ended" in said and "Nothing was written. Run it again" in said for said in told), told
        assert not hold("by_v")
        lasts = [start(tmp_path, port, name) for name in names]
        assert [said for said in map(ended, lasts) if said and "OVERTAKEN" not in said] == []
    assert all(map(hold, names))
