"""Spark's settings, as values."""

import os
from pathlib import Path

from lakehouse.server.jars import class_path
from lakehouse.server.rendezvous import SCRATCH
from lakehouse.server.safety import SECRET_KEYS, SECRET_VALUES
from lakehouse.spark.session import REQUIRED

# What the library relies on wherever Spark runs; all of it can be set on a running session.
EVERYWHERE = REQUIRED | {
    # A timestamp means the same instant, and a day the same hours, on every machine.
    "spark.sql.session.timeZone": "UTC",
    # A commit whose answer was lost is then found to be ours by Delta itself. Off by default in 4.4.
    "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
}
# What loads Delta into a Spark that has its jars.
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_GIB = 1 << 30


def spark_settings() -> dict[str, str]:
    """The settings for a classic Spark session of your own on this machine, with Delta and as fast as the local server.

    They name Delta's pinned jars, which `lakehouse spark install` fetches. Give them before the session starts:
    `LazyPySparkResource(spark_config=spark_settings())`.
    """
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    return EVERYWHERE | {
        **DELTA,
        "spark.app.name": "lakehouse",
        "spark.master": "local[*]",
        "spark.driver.memory": f"{driver_gib(_memory())}g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # spark.jars would copy the jars at every start and load them in a class loader of their own: slower.
        "spark.driver.extraClassPath": class_path(),
        # UTC, because in other zones Delta checks the whole state of a table at each commit, against a fault that it
        # once had there.
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dlog4j2.configurationFile={log4j}",
        "spark.sql.shuffle.partitions": str(max(4, os.cpu_count() or 1)),
        # Delta rebuilds a table's state in 50 tasks by default, and each generates its code again: with two of them
        # a small step takes a tenth more CPU.
        "spark.databricks.delta.snapshotPartitions": "1",
        # The tasks in which VACUUM lists a table's directory: 10,000 by default, a minute of both cores for any table.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(max(4, os.cpu_count() or 1)),
        # OPTIMIZE of a clustered table sorts what it writes: a key's rows are then a page of a file, not all of it.
        "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
        # The generated classes that are kept. A small step has more than the default of 100, so each compiled about
        # fifty of them again; now it is seven.
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.sql.debug.maxToStringFields": "100",
        "spark.redaction.regex": SECRET_KEYS,
        "spark.redaction.string.regex": SECRET_VALUES,
        "spark.ui.enabled": "false",
        # Kept for a UI that is not there: a thousand plans of each kind in a server that runs all day.
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.retainedJobs": "200",
        "spark.ui.retainedStages": "400",
        "spark.ui.retainedTasks": "4000",
        "spark.ui.showConsoleProgress": "false",
    }


def local_settings(root: Path) -> dict[str, str]:
    """Spark for the tables of one root, in a server or inside a process: it listens on loopback only.

    Args:
        root: Where the tables are; Spark's own files go below it too.
    """
    scratch, settings = root / SCRATCH, spark_settings()
    options = settings["spark.driver.extraJavaOptions"]
    return settings | {
        # Quoted, because a directory may have a space in its name.
        "spark.driver.extraJavaOptions": f'{options} "-Dderby.system.home={scratch}"',
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",  # any that is free, so none can be taken
        # A session is left when its process ends, and the server ends when it is idle. After an hour without a
        # question, Spark's own limit, a run that computes in Python or waits for its turn would find its inputs gone.
        "spark.connect.session.manager.defaultSessionTimeout": "7d",
    }


def driver_gib(memory: int) -> int:
    """A quarter of the memory in GiB, at least 1 and at most 4: a laptop runs more than this."""
    return min(4, max(1, memory // 4 // _GIB))


def _memory() -> int:
    """The bytes of memory this process may use: the machine's, or its container's where that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    container = limit.read_text().strip() if limit.is_file() else "max"
    return machine if container == "max" else min(machine, int(container))
