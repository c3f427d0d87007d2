"""An S3 server for the tests of this folder, and a Spark that reads and writes there."""

from collections.abc import Iterator

import pytest

from benchmarks.harness import gateway
from benchmarks.harness.gateway import KEYS, Store
from lakehouse.dagster.resources import LocalSpark, Where
from lakehouse.server.settings import local_settings


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    program = gateway.program()
    if program is None:
        pytest.fail("These tests need an S3 server. Run: make s3")
    with gateway.served(program, tmp_path_factory.mktemp("s3")) as served:
        yield served


@pytest.fixture(scope="session")
def local_spark(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSpark]:
    """Spark of this process, as local tables have it, with S3's jars and this server as its endpoint."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in KEYS.items():
            environment.setenv(name, value)
        root = tmp_path_factory.mktemp("spark")
        settings = local_settings(root) | store.spark_settings
        yield LocalSpark(spark_config=settings, root=str(root), where=Where.PROCESS)
