"""One Spark session for the whole run, one lakehouse directory for each test.

LAKEHOUSE_TEST_SPARK says where that session's JVM is: `process` (default; classic Spark) or `server` (Spark Connect).
"""

import os
from collections.abc import Iterator

os.environ["LAKEHOUSE_SPARK"] = os.environ.get("LAKEHOUSE_TEST_SPARK") or "process"  # before assets are imported

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.interpreted import FACTORY_MODE
from resources.lifecycle import stop
from resources.settings import local_settings
from resources.spark import LocalSpark, Where
from tests.lake import Lake

JAVA = "spark.driver.extraJavaOptions"


@pytest.fixture(scope="session")
def local_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSpark]:
    """Spark as the local environment has it, and the garbage collector with one thread: the tests have two JVMs."""
    root = tmp_path_factory.mktemp("spark")
    settings = local_settings(root)
    settings[JAVA] = f"{settings.get(JAVA, '')} -XX:+UseSerialGC".strip()
    where = Where(os.environ["LAKEHOUSE_SPARK"])
    if where is Where.SERVER:
        # Compiled, as where there are many rows; in this process few rows are interpreted.
        settings[FACTORY_MODE] = "FALLBACK"
    yield LocalSpark(spark_config=settings, root=str(root), where=where, idle=60)  # should this process be killed
    if where is Where.SERVER:
        from resources.connect import leave_all

        leave_all()
        assert stop(root, now=True)


@pytest.fixture(scope="session")
def spark(local_spark: LocalSpark) -> SparkSession:
    return local_spark.spark_session


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    root = tmp_path / "lake"
    root.mkdir()
    return Lake(spark, root)
