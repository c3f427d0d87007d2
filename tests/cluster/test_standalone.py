"""A cluster of a master and two workers: the graph runs on its executors, and one is killed along with its worker."""

import http.client
import json
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakehouse.server.jars import class_path
from lakehouse.server.jvm import spark_home
from resources.environments import PROJECT
from tests.cluster.driver import Place, driver
from tests.cluster.processes import free_port, java_command, kill, running, until
from tests.support.orders_graph import EDITS, FIRST, NAMES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]
DEPLOY = "org.apache.spark.deploy"
WORKERS = 2


@dataclass(frozen=True)
class Cluster:
    """A running master.

    Args:
        url: Its address for drivers and workers.
        page: The port of its web pages.
    """

    url: str
    page: int

    def workers(self) -> int:
        """How many workers are alive."""
        connection = http.client.HTTPConnection("127.0.0.1", self.page, timeout=10)
        try:
            connection.request("GET", "/json/")
            return int(json.load(connection.getresponse())["aliveworkers"])
        except (OSError, ValueError):  # the master serves other pages before this one
            return 0
        finally:
            connection.close()


@contextmanager
def cluster(directory: Path) -> Generator[Cluster]:
    port, page = free_port(), free_port()
    made = Cluster(f"spark://127.0.0.1:{port}", page)
    environment = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",  # Spark's start scripts set it, and a worker needs it
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(PROJECT),
    }
    place = ["--host", "127.0.0.1"]
    master = java_command(
        f"{DEPLOY}.master.Master", *place, "--port", str(port), "--webui-port", str(page), memory="256m"
    )
    one = [*place, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
    with ExitStack() as processes:
        processes.enter_context(running(master, directory / "master", environment))
        for number in range(WORKERS):
            own = directory / f"worker{number}"
            worker = java_command(f"{DEPLOY}.worker.Worker", *one, "--work-dir", str(own), made.url, memory="256m")
            processes.enter_context(running(worker, own, environment))
        until("two workers", lambda: made.workers() == WORKERS)
        yield made


def test_a_worker_that_is_killed_under_a_run_takes_nothing_with_it(tmp_path: Path) -> None:
    hold, held = tmp_path / "hold", tmp_path / "held"
    with cluster(tmp_path) as spark:
        settings = {
            "spark.master": spark.url,
            "spark.cores.max": str(WORKERS),
            "spark.executor.cores": "1",
            "spark.executor.memory": "700m",
            "spark.executor.extraClassPath": class_path(),
        }
        with driver(Place(str(tmp_path), str(tmp_path / "lake")), "driver", settings, "--checked") as shop:
            shop.ask("sql", FIRST)
            assert shop.ask("run", *NAMES, "checked") == ""
            assert shop.ask("wrong") == []
            for statement in EDITS:
                shop.ask("sql", statement)
            hold.touch()
            shop.tell("run", *NAMES, "checked")
            until("a task on an executor", lambda: held.exists() and held.read_text().endswith("\n"))
            kill(int(held.read_text()))  # a worker, its executor and the executor's Python
            assert shop.answer() == ""
            assert spark.workers() == WORKERS - 1
            assert shop.ask("wrong") == []
            assert shop.ask("is equal", "checked", "orders")
            versions = shop.ask("versions", *NAMES, "checked")
            assert shop.ask("run", *NAMES, "checked") == ""
            assert shop.ask("versions", *NAMES, "checked") == versions
