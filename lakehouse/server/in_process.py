"""Classic Spark: the JVM belongs to this process, which has the root to itself."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway  # pyright: ignore[reportUnknownVariableType]
from pyspark.sql import SparkSession

from lakehouse.server.errors import NotInstalledError, ServerError
from lakehouse.server.jars import fetch
from lakehouse.server.java import java_problem
from lakehouse.server.jvm import spark_home
from lakehouse.server.rendezvous import Lock, Rendezvous

_locks: dict[Path, Lock] = {}
"""The roots that this process has, until it ends."""


def session_in_process(root: Path, settings: Mapping[str, str]) -> SparkSession:
    """This process's classic session; started at the first call.

    Args:
        root: The directory of the tables.
        settings: Spark's, for a JVM that is not running yet.

    Raises:
        ServerError: Another JVM has the root.
        NotInstalledError: Java or Delta's jars are missing.
    """
    lock = _locks.get(root) or _alone(root)
    if SparkContext._active_spark_context is None:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        try:
            _start(settings, lock)
        except BaseException:
            _locks.pop(root, None)
            lock.let_go()
            raise
    _locks[root] = lock
    return SparkSession.builder.getOrCreate()


def roots_here() -> list[Path]:
    """The roots that the JVM of this process has."""
    return list(_locks)


def _alone(root: Path) -> Lock:
    rendezvous = Rendezvous(root)
    lock = rendezvous.jvm()
    if not lock.take(1):
        raise ServerError(
            root,
            f"{lock.holder() or 'another process'} has the root, and only one JVM may write to it. End it first "
            f"(a server: lakehouse spark stop --root {root}).",
        )
    lock.sign(f"process {os.getpid()}")
    return lock


def _start(settings: Mapping[str, str], lock: Lock) -> None:
    """Starts the JVM, which inherits the lock. If this process is killed, the JVM holds the root while it lives."""
    for problem in (java_problem(), fetch()):
        if problem is not None:
            raise NotInstalledError(problem)
    _stay_at_home()
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway: Any = launch_gateway(conf, {"pass_fds": [lock.fd]})
    SparkContext(conf=conf, gateway=gateway)


def _stay_at_home() -> None:
    """Makes Spark start from the installed packages, whatever other Spark this machine is set up for."""
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    for variable in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        os.environ.pop(variable, None)
