"""One Spark session for the whole run, one lakehouse directory for each test."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from resources.settings import local_settings
from resources.spark import LocalSpark
from tests.lake import Lake

JAVA = "spark.driver.extraJavaOptions"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The session of the local environment; the JVM compiles less, which pays for many small statements."""
    settings = local_settings(tmp_path_factory.mktemp("spark"))
    settings[JAVA] = f"{settings.get(JAVA, '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC".strip()
    return LocalSpark(spark_config=settings).spark_session


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    root = tmp_path / "lake"
    root.mkdir()
    return Lake(spark, root)
