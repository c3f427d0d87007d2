"""An S3 server for the tests of this folder, and a Spark that reads and writes there."""

from collections.abc import Iterator

import pytest

from benchmarks.harness import gateway
from benchmarks.harness.gateway import KEYS, Store
from lakehouse.dagster.resources import LocalSpark, Where
from lakehouse.server.settings import local_settings
from tests.stores.lying import Liar, lying

IMPATIENT = {
    "spark.hadoop.fs.s3a.bucket.lying.attempts.maximum": "2",
    "spark.hadoop.fs.s3a.bucket.lying.retry.limit": "2",
    "spark.hadoop.fs.s3a.bucket.lying.retry.interval": "50ms",
    "spark.hadoop.fs.s3a.bucket.lying.retry.throttle.limit": "2",
    "spark.hadoop.fs.s3a.bucket.lying.retry.throttle.interval": "50ms",
    "spark.hadoop.fs.s3a.bucket.lying.multipart.size": "5M",
    "spark.hadoop.fs.s3a.bucket.lying.multipart.threshold": "5M",
}
"""By default S3A tries a request for minutes before it gives up, and uploads in parts only from 128 MB on."""


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    program = gateway.program()
    if program is None:
        pytest.fail("These tests need an S3 server. Run: make s3")
    with gateway.served(program, tmp_path_factory.mktemp("s3")) as served:
        yield served


@pytest.fixture(scope="session")
def proxied(store: Store) -> Iterator[tuple[Store, Liar]]:
    with lying(store) as both:
        yield both


@pytest.fixture(scope="session")
def lying_store(proxied: tuple[Store, Liar]) -> Store:
    """The store behind the liar. Spark reaches the bucket `lying` through the liar, and other buckets directly."""
    return proxied[0]


@pytest.fixture(scope="session")
def liar(proxied: tuple[Store, Liar]) -> Liar:
    return proxied[1]


@pytest.fixture(scope="session")
def local_spark(store: Store, lying_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSpark]:
    """The Spark of this process, as for local tables, with S3's jars and this server as its endpoint."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in KEYS.items():
            environment.setenv(name, value)
        root = tmp_path_factory.mktemp("spark")
        settings = local_settings(root) | store.spark_settings | IMPATIENT
        settings |= {"spark.hadoop.fs.s3a.bucket.lying.endpoint": lying_store.endpoint}
        yield LocalSpark(spark_config=settings, root=str(root), where=Where.PROCESS)
