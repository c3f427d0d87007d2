"""Spark's settings, as values: those that the library gives, and those that it refuses.

Settings whose effect shows up much later, as missing rows, are refused at start; so are secrets that Dagster would
show.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import SetupError
from lakehouse.server.jars import class_path
from lakehouse.server.rendezvous import SCRATCH
from lakehouse.spark.session import REQUIRED

# What the library relies on wherever Spark runs; all of it can be set on a running session.
EVERYWHERE = REQUIRED | {
    # A timestamp means the same instant, and a day the same hours, on every machine.
    "spark.sql.session.timeZone": "UTC",
    # If the answer to a commit was lost, Delta itself then finds that the commit is ours. Off by default in 4.4.
    "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
}
# What loads Delta into a Spark that has its jars.
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_GIB = 1 << 30

# Spark's own patterns know neither Azure's account keys and SAS tokens nor the user in a JDBC address.
SECRET_KEYS = r"(?i)secret|password|passwd|token|credential|(access|account|private|api)[._-]?key|(^|[._-])sas([._-]|$)"
SECRET_VALUES = (
    r"(?i)://[^/\s:@]+:[^/\s@]+@"
    r"|(secret|password|passwd|pwd|token|sig|accountkey|sharedaccesskey|sharedaccesssignature)=[^;&\s,)]+"
)
# These name a class or a file that provides the credential; they are not credentials themselves.
_POINTERS = re.compile(r"(?i)(provider(\.path)?|providers|class|type|file|path|enabled|interval|expiration)$")
_OF_DELTA = "spark.databricks.delta."


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
        # Delta rebuilds a table's state in 50 tasks by default, and each generates its code again: even with two
        # tasks a small step takes a tenth more CPU.
        "spark.databricks.delta.snapshotPartitions": "1",
        # The tasks in which VACUUM lists a table's directory: 10,000 by default, a minute's work for two cores.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(max(4, os.cpu_count() or 1)),
        # OPTIMIZE of a clustered table sorts what it writes: a key's rows are then in one page of a file.
        "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
        # How many generated classes are kept. A small step has more than the default of 100, so each step compiled
        # about fifty of them again; now it compiles seven.
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.sql.debug.maxToStringFields": "100",
        "spark.redaction.regex": SECRET_KEYS,
        "spark.redaction.string.regex": SECRET_VALUES,
        "spark.ui.enabled": "false",
        # By default a server that runs all day keeps a thousand plans of each kind, for a UI that is off.
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
        "spark.connect.grpc.binding.port": "0",  # any free port, so it cannot be one that is taken
        # A session is released when its process ends, and the server ends when it is idle. With Spark's own limit, an
        # hour without a request, a run that computes in Python or waits for its turn would find its inputs gone.
        "spark.connect.session.manager.defaultSessionTimeout": "7d",
    }


def driver_gib(memory: int) -> int:
    """A quarter of the memory in GiB, at least 1 and at most 4, because a laptop also runs other programs."""
    return min(4, max(1, memory // 4 // _GIB))


def _memory() -> int:
    """The bytes of memory this process may use: the machine's, or its container's where that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    container = limit.read_text().strip() if limit.is_file() else "max"
    return machine if container == "max" else min(machine, int(container))


@dataclass(frozen=True, slots=True)
class Rule:
    """What one setting may be.

    Args:
        key: The setting.
        allowed: Its harmless values, in lower case; empty if it must not be set at all.
        because: What would happen otherwise.
    """

    key: str
    allowed: tuple[str, ...]
    because: str

    def problem(self, key: str, value: str) -> str | None:
        if key != self.key or value.strip().lower() in self.allowed:
            return None
        remedy = f"Remove it, or set it to {' or '.join(self.allowed)}." if self.allowed else "Remove it."
        return f"{key} = {value} is refused: {self.because}. {remedy}"


_TRAVELS = "on a shared session every later write of any table carries it, and is skipped or taken for another's"
OF_THIS_MACHINE = (
    Rule(
        "spark.connect.grpc.binding.address",
        ("127.0.0.1",),
        "whoever reaches a server from elsewhere and has its token runs any code on this machine",
    ),
    Rule("spark.connect.grpc.binding.port", ("0",), "another program may have that port; a free one is taken anyway"),
)
"""More rules for the server of local tables. A cluster's server listens where its clients find it."""
RULES = (
    Rule("spark.sql.files.ignoreMissingFiles", ("false",), "a lost data file would read as rows that never were"),
    Rule("spark.sql.files.ignoreCorruptFiles", ("false",), "a damaged data file would read as rows that never were"),
    Rule(
        f"{_OF_DELTA}retentionDurationCheck.enabled",
        ("true",),
        "VACUUM could then remove files that readers and the change feed still need",
    ),
    Rule(
        f"{_OF_DELTA}vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
        ("true",),
        "a version whose files may be vacuumed at any time could then be read",
    ),
    Rule(
        f"{_OF_DELTA}merge.materializeSource",
        ("auto", "all"),
        "MERGE reads its source twice, and a source that answers differently the second time loses rows",
    ),
    Rule(
        f"{_OF_DELTA}changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled",
        ("false",),
        "changes from before a renamed or dropped column would be read with the wrong columns",
    ),
    Rule(
        "spark.sql.parser.escapedStringLiterals",
        ("false",),
        "a key with a quote or a backslash would be looked for under another name, and its changes lost",
    ),
    Rule(f"{_OF_DELTA}stalenessLimit", ("0", "0s", "0ms"), "a run could read an old version of a table as its newest"),
    Rule(
        f"{_OF_DELTA}properties.defaults.setTransactionRetentionDuration",
        (),
        "new tables would forget which runs they hold, and apply their changes twice",
    ),
    Rule(f"{_OF_DELTA}write.txnAppId", (), _TRAVELS),
    Rule(f"{_OF_DELTA}write.txnVersion", (), _TRAVELS),
    Rule(f"{_OF_DELTA}write.txnVersion.autoReset.enabled", ("false",), "a run that tries a commit again would fail"),
    Rule(f"{_OF_DELTA}commitInfo.userMetadata", (), _TRAVELS),
)


def refuse_unsafe(settings: Mapping[str, str], rules: Sequence[Rule] = RULES) -> None:
    """Refuses settings that could lose rows unnoticed.

    Args:
        settings: The settings.
        rules: What they may be; `RULES + OF_THIS_MACHINE` for the server of local tables.

    Raises:
        SetupError (UNSAFE_SETTING): With one sentence for each setting that breaks a rule.
    """
    problems = [
        problem
        for key, value in settings.items()
        for rule in rules
        if (problem := rule.problem(key, value)) is not None
    ]
    if problems:
        raise SetupError.unsafe_setting(problems)


def refuse_secrets(settings: Mapping[str, str]) -> None:
    """Refuses secrets among settings that Dagster stores with every run and shows in its pages.

    Raises:
        SetupError (UNSAFE_SETTING): With one sentence, without the value, for each secret.
    """
    problems = [
        f"{key} looks like a secret, and settings given here are stored with every run and shown in Dagster. "
        f"Keep it in the cluster's own defaults, a Hadoop credential provider or an instance role."
        for key, value in settings.items()
        if (re.search(SECRET_KEYS, key) and not _POINTERS.search(key)) or re.search(SECRET_VALUES, value)
    ]
    if problems:
        raise SetupError.unsafe_setting(problems)
