"""The project of `lakehouse new` runs unchanged: installed from the wheel, materialized, tested, opened."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakehouse.server.jars import REPOSITORY
from tests.entry.test_wheel import SERVED, UV, Shop, installed, programs, run, wheel
from tests.support.dev_server import Server, stop

__all__ = ["programs", "wheel"]  # fixtures
pytestmark = pytest.mark.timeout(2400)  # an environment, three runs, a test with a Spark of its own, a web server
ROWS = """
import json, sys, pyarrow
from deltalake import DeltaTable, QueryBuilder
rows = QueryBuilder().register("t", DeltaTable(sys.argv[1])).execute("SELECT customer_id, orders FROM t").read_all()
print(json.dumps(dict(zip(*pyarrow.table(rows).to_pydict().values()))))
"""
ASSETS = "{ assetNodes { assetKey { path } } }"


class Project:
    """A new project, and the environment that its README asks for."""

    def __init__(self, shop: Shop, programs: Path, directory: Path) -> None:
        self.bin, self.directory = shop.bin, directory / "shop"
        self.environment = {
            "PWD": str(self.directory),  # as a shell sets it, and as .env uses it for DAGSTER_HOME
            "PATH": os.pathsep.join([str(shop.bin), str(programs)]),
            "VIRTUAL_ENV": str(shop.bin.parent),
            REPOSITORY: (directory / "maven").as_uri(),
        }
        run([str(self.bin / "lakehouse"), "new", "shop"], directory, **self.environment)
        install = [UV, "pip", "install", "-q", "--python", str(self.bin / "python"), "-e", ".[dev]"]
        run([*install, "-c", str(directory / "constraints.txt")], self.directory)

    def run(self, *command: str) -> str:
        return run([str(self.bin / command[0]), *command[1:]], self.directory, **self.environment)

    def orders(self) -> dict[str, Any]:
        return json.loads(self.run("python", "-c", ROWS, str(self.directory / "lake/gold/orders_by_customer_id")))

    @contextmanager
    def opened(self) -> Iterator[Server]:
        """Runs `dg dev` on the project."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log = self.directory / "dev.log"
        command = [str(self.bin / "dg"), "dev", "--host", "127.0.0.1", "--port", str(port)]
        hidden = ("PYTHON", "LAKEHOUSE", "SPARK", "DAGSTER", "COV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        with (
            log.open("wb") as output,
            subprocess.Popen(
                command,
                cwd=self.directory,
                env=kept | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                yield Server(f"http://127.0.0.1:{port}", process, log, self.directory / "lake")
            finally:
                stop(process)


@pytest.fixture
def project(wheel: Path, programs: Path, tmp_path: Path) -> Iterator[Project]:
    made = Project(installed(wheel, programs, tmp_path, "local,dev", SERVED), programs, tmp_path)
    yield made
    made.run("lakehouse", "spark", "stop", "--now")


@pytest.mark.slow
def test_a_new_project_runs_as_it_was_written(project: Project):
    workflow = yaml.safe_load((project.directory / ".github/workflows/check.yml").read_text())
    commands = [step["run"].split() for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    pip, checks, test = commands[:2], commands[2:-1], commands[-1]
    assert [command[:2] for command in (*pip, *checks)] == [["pip", "install"]] * 2 + [
        ["dg", "check"],
        ["lakehouse", "check"],
    ]
    for command in (*checks, ["dg", "check", "toml"]):
        project.run(*command)
    assert "dagster_delta_lakehouse.SqlTables" in project.run("dg", "list", "components", "--json")
    project.run("dg", "launch", "--assets", "*")
    assert project.orders() == {"ann": 2, "bob": 1, "cid": 1, "dee": 1, "eve": 1}
    source = project.directory / "data/orders.csv"
    source.write_text(source.read_text().replace("3,bob,7", "3,ann,7"))
    project.run("dg", "launch", "--assets", "*")
    assert project.orders() == {"ann": 3, "cid": 1, "dee": 1, "eve": 1}
    assert (project.directory / ".dagster" / "history").is_dir()
    assert "2 passed" in project.run(*test)
    with project.opened() as server:
        server.location()
        assert {"/".join(node["assetKey"]["path"]) for node in server.ask(ASSETS)["assetNodes"]} == {
            "gold/orders_by_customer_id",
            "orders",
        }


@pytest.mark.slow
def test_a_scaffolded_component_is_part_of_the_project_at_once(project: Project):
    project.run(
        "dg", "scaffold", "defs", "dagster_delta_lakehouse.History", "past", "--source", "orders", "--key", "order_id"
    )
    project.run("dg", "check", "yaml")
    project.run("dg", "check", "defs")
    assert "past/history" in project.run("dg", "list", "defs", "--json")
