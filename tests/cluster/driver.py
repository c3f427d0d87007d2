"""A process with a Spark driver of its own, which acts on the shop as a test orders."""

import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from lakehouse.server.settings import spark_settings
from resources.environments import PROJECT
from tests.cluster.processes import running


@dataclass(frozen=True)
class Place:
    """Where a driver's tables are, and what it shares with other processes.

    Args:
        directory: The directory for Dagster's history and for the files by which processes wait for each other.
        root: The root of the tables.
        schema: The schema of the tables' catalog names, instead of a root.
    """

    directory: str
    root: str
    schema: str | None = None


@dataclass(frozen=True)
class Driver:
    """A running driver."""

    process: "Popen[str]"
    directory: Path

    def tell(self, act: str, *given: str) -> None:
        """Orders an act (`driver_process.py` lists the acts) without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([act, *given]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """The result of the oldest act that was not answered yet."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver has ended:\n{(self.directory / 'log').read_text()[-3000:]}"
        return json.loads(line)

    def ask(self, act: str, *given: str) -> Any:
        self.tell(act, *given)
        return self.answer()


@contextmanager
def driver(place: Place, name: str, settings: Mapping[str, str], *options: str) -> Generator[Driver]:
    """A classic driver with the settings of this machine and further settings.

    Args:
        place: Where its tables are.
        name: Its own name among the drivers of a test.
        settings: Further settings of Spark.
        options: The options of `driver_process.py`.
    """
    directory = Path(place.directory) / name
    own = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.app.name": name}
    told = json.dumps({"place": asdict(place), "settings": {**spark_settings(), **own, **settings}})
    environment = {"PYTHONPATH": str(PROJECT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.cluster.driver_process", told, *options]
    with running(command, directory, environment) as process:
        yield Driver(process, directory)
