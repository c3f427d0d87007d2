"""One process whose Connect server, on a port of its own, is restarted and killed during its runs.

The tables are on a file system that only Spark reaches: Hadoop's view of a directory.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
from deltalake import DeltaTable

from lakehouse import Changes, ClusterSpark, DeltaIOManager, Merge, Table
from lakehouse.server.jvm import java, server_command
from lakehouse.server.settings import spark_settings
from tests.support.plain_tables import rows

DIRECTORY, PORT = Path(sys.argv[1]), int(os.environ["SPARK_REMOTE"].rpartition(":")[2])
ROOT = "viewfs://lake/data"
orders = dg.AssetSpec("orders", metadata=Table(key="id"))
before_the_commit = list[str]()


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    if before_the_commit:
        before_the_commit.clear()
        SERVER.kill()
        SERVER.start()
    return Merge(touched.rows, touched)


class Server:
    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        own = {
            "spark.master": "local[1]",
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": str(DIRECTORY / "warehouse"),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(PORT),
            "spark.hadoop.fs.viewfs.mounttable.lake.link./data": f"file:{DIRECTORY}/lake",
        }
        program = java()
        assert program is not None
        with (DIRECTORY / "server.log").open("ab") as log:
            command = server_command(program, spark_settings() | own)
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=DIRECTORY)
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (DIRECTORY / "server.log").read_text()[-2000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                    return
            time.sleep(0.5)
        raise AssertionError("the server does not listen")

    def end(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)


SERVER = Server()
INSTANCE = dg.DagsterInstance.ephemeral()


def run() -> str:
    """One run with resources of its own, as each run of Dagster has; the message with which its step failed, or ""."""
    manager = DeltaIOManager(spark=ClusterSpark(), root=ROOT)
    result = dg.materialize(
        [orders, copies], resources={"io_manager": manager}, instance=INSTANCE, raise_on_error=False
    )
    failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    return "; ".join(str(of.user_failure_data.description if of.user_failure_data else of.error) for of in failures)


def write(statement: str) -> None:
    ClusterSpark().spark_session.sql(statement.format(orders=f"delta.`{ROOT}/orders`")).collect()


def equal() -> bool:
    lake = DIRECTORY / "lake"
    return sorted(rows(lake / "copies") or []) == sorted(rows(lake / "orders") or [None])


def main() -> None:
    (DIRECTORY / "lake").mkdir()
    said = dict[str, object]()
    SERVER.start()
    try:
        write(
            "CREATE TABLE {orders} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true',"
            " 'delta.enableDeletionVectors' = 'false') AS SELECT CAST(id AS int) AS id, 1 AS v FROM range(3)"
        )
        said["on a port of its own"] = run()
        write("UPDATE {orders} SET v = 2 WHERE id = 1")
        SERVER.end()
        SERVER.start()
        said["after a restart"] = run()
        said["equal after a restart"] = equal()
        write("UPDATE {orders} SET v = 3 WHERE id = 2")
        before_the_commit.append("kill")
        said["killed under a run"] = run()
        version = DeltaTable(str(DIRECTORY / "lake" / "copies")).version()
        said["run again"] = run()
        said["equal in the end"] = equal()
        said["one commit"] = DeltaTable(str(DIRECTORY / "lake" / "copies")).version() - version
    finally:
        SERVER.kill()
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    os._exit(0)  # at exit PySpark would wait ten minutes for the servers of its sessions, which are gone


main()
