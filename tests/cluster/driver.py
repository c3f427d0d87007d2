"""A process with a Spark driver of its own, which does to the shop what a test tells it to."""

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
        directory: For Dagster's history and the files by which processes wait for each other.
        root: Where the tables are.
        schema: Instead of that, the schema of their catalog names.
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
        """Has it do something (`driver_process.py` has the acts), without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([act, *given]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What came of the oldest act that was not answered yet."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver has ended:\n{(self.directory / 'log').read_text()[-3000:]}"
        return json.loads(line)

    def ask(self, act: str, *given: str) -> Any:
        self.tell(act, *given)
        return self.answer()


@contextmanager
def driver(place: Place, name: str, settings: Mapping[str, str], *options: str) -> Generator[Driver]:
    """A classic driver with the settings of this machine, and with others on top.

    Args:
        place: Where its tables are.
        name: Its own name among the drivers of a test.
        settings: Spark's.
        options: Of `driver_process.py`.
    """
    directory = Path(place.directory) / name
    own = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.app.name": name}
    told = json.dumps({"place": asdict(place), "settings": {**spark_settings(), **own, **settings}})
    environment = {"PYTHONPATH": str(PROJECT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.cluster.driver_process", told, *options]
    with running(command, directory, environment) as process:
        yield Driver(process, directory)
