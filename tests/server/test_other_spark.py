"""Parts of two real Sparks together: Delta's jars for another minor version, and a client and a server that differ.

LAKEHOUSE_OTHER names the Python of an environment with another PySpark; `make spark40` and `make spark41` each set it.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
import pytest

from lakehouse.server.jvm import java, server_command
from lakehouse.server.settings import spark_settings
from lakehouse.server.versions import minor
from tests.cluster.processes import free_port, running, until

OTHER = os.environ.get("LAKEHOUSE_OTHER", "")
HERE = re.escape(pyspark.__version__)
pytestmark = [
    pytest.mark.skipif(not OTHER or os.environ["LAKEHOUSE_SPARK"] == "server", reason="needs a second PySpark"),
    pytest.mark.timeout(900),
]
SESSION = """
import sys
from lakehouse import ClusterSpark, LakehouseError, spark_settings
given = spark_settings() | {"spark.driver.extraClassPath": sys.argv[1]} if len(sys.argv) > 1 else {}
try:
    print("started", ClusterSpark(spark_config=given).spark_session.version)
except LakehouseError as error:
    print(type(error).__name__, error)
sys.stdout.flush()
import os
os._exit(0)  # PySpark would wait for a server that it does not fit
"""
RUN = """
import sys, dagster as dg, pyarrow as pa
from dagster_pyspark import LazyPySparkResource
from deltalake import write_deltalake
from lakehouse import Changes, DeltaIOManager, Merge, Table, spark_settings
settings = {name: value for name, value in spark_settings().items() if name != "spark.driver.extraClassPath"}
manager = DeltaIOManager(spark=LazyPySparkResource(spark_config=settings), root=sys.argv[1])
orders = dg.AssetSpec("orders", metadata=Table(key="id"))
write_deltalake(sys.argv[1] + "/orders", pa.table({"id": [1, 2]}), configuration={"delta.enableChangeDataFeed": "true"})

@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)

run = dg.materialize([orders, copies], resources={"io_manager": manager}, raise_on_error=False)
(failed,) = (event.step_failure_data for event in run.all_events if event.is_step_failure)
print(failed.user_failure_data.description if failed.user_failure_data else failed.error)
"""


def told(python: str, code: str, *arguments: str, **environment: str) -> str:
    """The output of a process with this Python, without the settings of the Spark in this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "LAKEHOUSE"))}
    command = [python, "-c", code, *arguments]
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=kept | environment,
        timeout=800,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    return answer.stdout


@pytest.fixture(scope="module")
def other_jars() -> str:
    return told(OTHER, "from lakehouse.server.jars import class_path; print(class_path())").strip()


def test_delta_s_jars_for_another_spark_are_named_before_anything_is_read(other_jars: str) -> None:
    jar = rf"io\.delta:delta-spark_{re.escape(minor(pyspark.__version__))}_2\.13:4\.4\.0"
    said = told(sys.executable, SESSION, other_jars)
    assert re.match(rf"SetupError .*Delta's jars? .*for .*Spark.* is {HERE}\..*Give it {jar}\.$", said), said


def test_such_jars_that_no_setting_names_are_told_too(other_jars: str) -> None:
    # The session of other tests may hold the lock of the directory above every tmp_path.
    with tempfile.TemporaryDirectory() as root:
        said = told(sys.executable, RUN, root, SPARK_DIST_CLASSPATH=other_jars)
    assert re.search(
        r"Delta's jars on the class path are for another Spark|A jar on the class path of .* needs a class that is missing",
        said,
    ), said
    assert "Nothing was" in said
    assert "delta-spark_4." in said


def test_a_connect_server_of_another_minor_than_its_client_is_named(tmp_path: Path) -> None:
    program, port = java(), free_port()
    assert program is not None
    own = {"spark.master": "local[1]", "spark.driver.memory": "1g", "spark.connect.grpc.binding.port": str(port)}
    with running(server_command(program, spark_settings() | own), tmp_path, {}):
        until("the server listens", lambda: is_open(port), 600)
        remote = {"SPARK_REMOTE": f"sc://127.0.0.1:{port}", "SPARK_CONNECT_MODE_ENABLED": "1"}
        said = told(OTHER, SESSION, **remote)
    wanted = rf'SetupError PySpark [\d.]+ of this process .* is {HERE}\..*"pyspark\[connect\]=='
    assert re.match(wanted, said), said


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
