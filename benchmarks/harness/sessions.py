"""The session in which everything runs, and the two ways in which a rival may be configured."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse.dagster.resources import LocalSpark, Where
from lakehouse.server.settings import local_settings

JAVA = "spark.driver.extraJavaOptions"
DEFAULTS = {
    "spark.sql.shuffle.partitions": "200",
    "spark.databricks.delta.snapshotPartitions": "50",
    "spark.databricks.delta.commit.idempotencyCheck.enabled": "false",
}
"""The defaults of Spark and Delta for the settings that the local environment changes."""


def start(root: Path, further: Mapping[str, str] = {}, *, quick: bool = False) -> SparkSession:
    """The session of the local environment, as `make demo` has it.

    Args:
        root: The directory for Spark's own files.
        further: Settings in addition to those.
        quick: Whether the JVM compiles less: it is warm sooner, but slower with much work. Not for figures.
    """
    settings = local_settings(root) | further
    # The counters are read from what the UI's store keeps of each stage.
    settings |= dict.fromkeys(("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.ui.retainedTasks"), "2000")
    if quick:
        settings[JAVA] = f"{settings.get(JAVA, '')} -XX:TieredStopAtLevel=1"
    return LocalSpark(spark_config=settings, root=str(root), where=Where.PROCESS).spark_session


def ours(spark: SparkSession) -> SparkSession:
    """A session of the same JVM with this project's settings."""
    return spark.newSession()


def as_delivered(spark: SparkSession) -> SparkSession:
    """A session of the same JVM with Spark's and Delta's own defaults."""
    session = spark.newSession()
    for key, value in DEFAULTS.items():
        session.conf.set(key, value)
    return session
