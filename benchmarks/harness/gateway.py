"""An S3 server on this machine whose objects are files, and the options to read and write there."""

import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lakehouse.delta.location import Location
from lakehouse.server.jars import class_path, delta_jars, s3_jars

VARIABLE = "LAKEHOUSE_S3"
"""The environment variable that names the program of the server (versitygw)."""
KEYS = {"AWS_ACCESS_KEY_ID": "lake", "AWS_SECRET_ACCESS_KEY": "lake-secret", "AWS_REGION": "us-east-1"}
BUCKET = "lake"


@dataclass(frozen=True)
class Store:
    """A running S3 server.

    Args:
        port: Its port on loopback.
        room: The server's own directory.
    """

    port: int
    room: Path

    @property
    def directory(self) -> Path:
        """Where its buckets are."""
        return self.room / "buckets"

    @property
    def sidecar(self) -> Path:
        """The directory for metadata of objects that a file cannot hold."""
        return self.room / "sidecar"

    @property
    def requests(self) -> Path:
        """The log of its requests, with a line for each."""
        return self.room / "requests"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """The options with which `deltalake` opens it."""
        return KEYS | {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true"}

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings with which Spark opens it; the keys are in the environment."""
        return {
            "spark.driver.extraClassPath": class_path(jars=(*delta_jars(), *s3_jars())),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": KEYS["AWS_REGION"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    @property
    def bucket(self) -> Path:
        """The directory whose files are the objects of the bucket."""
        return self.directory / BUCKET

    def at(self, name: str) -> Location:
        return Location(f"s3a://{BUCKET}/{name}", self.options)

    def of(self, path: Path) -> Location:
        """The location of the objects whose files are below a directory of the bucket."""
        return self.at(str(path.relative_to(self.bucket)))

    def copy(self, name: str) -> Location:
        """The location of the same files on this disk, without the server."""
        return Location(str(self.bucket / name))

    def adopt(self, directory: Path) -> None:
        """Turns files that were written into the bucket without the server into objects: each gets an ETag for S3A."""
        for file in filter(Path.is_file, directory.rglob("*")):
            meta = self.sidecar / file.relative_to(self.directory) / "meta"
            meta.mkdir(parents=True, exist_ok=True)
            (meta / "etag").write_text(hashlib.sha256(str(file).encode()).hexdigest()[:32])

    def count(self) -> int:
        """How many requests it has answered."""
        return self.requests.read_bytes().count(b"\n")


def program() -> str | None:
    """The program of the server, if there is one."""
    return shutil.which(os.environ.get(VARIABLE, ""))


@contextmanager
def served(program: str, room: Path, environment: Mapping[str, str] = os.environ) -> Generator[Store]:
    """A server with one empty bucket.

    Args:
        program: The program of versitygw.
        room: The server's own directory.
        environment: The environment variables that it gets in addition to its keys.

    Raises:
        RuntimeError: It does not answer.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = Store(port, room)
    store.bucket.mkdir(parents=True)
    store.sidecar.mkdir()
    keys = {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
    command = [program, "--port", f"127.0.0.1:{port}", "posix", "--sidecar", str(store.sidecar), str(store.directory)]
    with store.requests.open("w") as log:
        gateway = subprocess.Popen(command, env={**environment, **keys}, stdout=log, stderr=log)  # noqa: S603
    try:
        _await(store)
        yield store
    finally:
        gateway.terminate()
        gateway.wait(10)


def _await(store: Store) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", store.port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"The S3 server does not answer:\n{store.requests.read_text()[-2000:]}")
