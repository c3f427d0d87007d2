"""An S3 server for the tests of this folder, and a Spark that reads and writes there."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakehouse.dagster.resources import LocalSpark, Where
from lakehouse.log.location import Location
from lakehouse.server.jars import JARS, S3_JARS, class_path
from lakehouse.server.settings import local_settings

KEYS = {"AWS_ACCESS_KEY_ID": "lake", "AWS_SECRET_ACCESS_KEY": "lake-secret", "AWS_REGION": "us-east-1"}
BUCKET = "lake"


@dataclass(frozen=True)
class Store:
    """A running S3 server whose objects are files.

    Args:
        port: Its port on loopback.
        directory: Where its buckets are.
        requests: The log of its requests.
    """

    port: int
    directory: Path
    requests: Path

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """What `deltalake` needs to open it."""
        return KEYS | {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true"}

    @property
    def spark_settings(self) -> dict[str, str]:
        """What Spark needs to open it; the keys are in the environment."""
        return {
            "spark.driver.extraClassPath": class_path(jars=(*JARS, *S3_JARS)),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": KEYS["AWS_REGION"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    def at(self, name: str) -> Location:
        return Location(f"s3a://{BUCKET}/{name}", self.options)

    def copy(self, name: str) -> Location:
        """The same files without the server."""
        return Location(str(self.directory / BUCKET / name))


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    program = os.environ.get("LAKEHOUSE_S3")
    if not program:
        pytest.fail("These tests need an S3 server. Run: make s3")
    directory, sidecar = tmp_path_factory.mktemp("buckets"), tmp_path_factory.mktemp("sidecar")
    (directory / BUCKET).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    served = Store(port, directory, tmp_path_factory.mktemp("log") / "requests")
    keys = {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
    command = [program, "--port", f"127.0.0.1:{port}", "posix", "--sidecar", str(sidecar), str(directory)]
    with served.requests.open("w") as log:
        gateway = subprocess.Popen(command, env=os.environ | keys, stdout=log, stderr=log)
    try:
        _await(served)
        yield served
    finally:
        gateway.terminate()
        gateway.wait(10)


def _await(served: Store) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", served.port), 1):
            return
        time.sleep(0.1)
    pytest.fail(f"The S3 server does not answer:\n{served.requests.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def local_spark(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSpark]:
    """Spark of this process, as local tables have it, with S3's jars and this server as its endpoint."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in KEYS.items():
            environment.setenv(name, value)
        root = tmp_path_factory.mktemp("spark")
        settings = local_settings(root) | store.spark_settings
        yield LocalSpark(spark_config=settings, root=str(root), where=Where.PROCESS)
