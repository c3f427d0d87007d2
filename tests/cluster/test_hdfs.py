"""Tables on HDFS, with two drivers that write the same tables at the same time."""

import json
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dagster as dg
import pytest

from lakehouse import change_sensor
from lakehouse.server.jars import DIRECTORY
from tests.cluster.driver import Place, driver
from tests.cluster.jars import HDFS
from tests.cluster.processes import java_command, running, until
from tests.support.orders_graph import EDITS, FIRST, GRAPH, NAMES
from tests.support.ticks import tick

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]
ROUNDS = 2


@contextmanager
def hdfs(directory: Path) -> Generator[str]:
    """The address of an HDFS of one name node and one data node, on loopback."""
    details = directory / "details"
    given = [*("-D", f"hdfs.minidfs.basedir={directory}/blocks"), "-format", *("-writeDetails", str(details))]
    jars = [DIRECTORY / jar.file_name for jar in HDFS]
    command = java_command("org.apache.hadoop.test.MiniDFSClusterManager", *given, memory="512m", jars=jars)
    with running(command, directory, {}):
        until("HDFS", lambda: details.exists() and details.read_text().endswith("}"))
        yield f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"


def test_two_drivers_that_commit_the_same_changes_at_once_add_them_once(tmp_path: Path) -> None:
    one = {"spark.master": "local[1]"}
    with hdfs(tmp_path / "hdfs") as address:
        place = Place(str(tmp_path), f"{address}/lake")
        with ExitStack() as processes:
            shop = processes.enter_context(driver(place, "one", one, "--meet"))
            shop.ask("sql", FIRST)
            twin = processes.enter_context(driver(place, "other", one, "--meet"))
            for version in range(ROUNDS):
                for process in (shop, twin):
                    process.tell("run", *NAMES)
                assert [process.answer() for process in (shop, twin)] == ["", ""]
                assert shop.ask("wrong") == []
                assert shop.ask("versions", *NAMES) == [version] * len(NAMES)
                for statement in EDITS:
                    shop.ask("sql", statement)


def test_the_sensor_says_that_it_cannot_read_hdfs(instance: dg.DagsterInstance) -> None:
    skipped = tick(change_sensor("carry_on", GRAPH, root="hdfs://127.0.0.1:1/lake"), instance)
    assert isinstance(skipped, dg.SkipReason)
    assert "hdfs: is a file system that only Spark reaches" in str(skipped.skip_message)
