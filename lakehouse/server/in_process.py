"""Classic Spark in this process, or in a session of the user's own: its JVM takes the lock of a root."""

import os
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway  # pyright: ignore[reportUnknownVariableType]
from pyspark.sql import SparkSession

from lakehouse.errors import SetupError
from lakehouse.server.jars import fetch
from lakehouse.server.jvm import java_problem, spark_home
from lakehouse.server.rendezvous import Lock, Rendezvous
from lakehouse.spark.session import is_connect

_locks: dict[Path, Lock] = {}
"""The locks of the roots that this process holds until it ends."""


def session_in_process(root: Path, settings: Mapping[str, str]) -> SparkSession:
    """This process's classic session; started at the first call.

    Raises:
        SetupError (SERVER): Another JVM has the root.
        SetupError (NOT_INSTALLED): Java or Delta's jars are missing.
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


def _alone(root: Path) -> Lock:
    rendezvous = Rendezvous(root)
    lock = rendezvous.jvm()
    if not lock.take(1):
        raise SetupError.server(
            root,
            f"{lock.holder() or 'another process'} has the root, and only one JVM may write to it. End it first "
            f"(a server: lakehouse spark stop --root {root}).",
        )
    lock.sign(f"process {os.getpid()}")
    return lock


def _start(settings: Mapping[str, str], lock: Lock) -> None:
    """Starts the JVM, which inherits the lock. If this process is killed, the JVM keeps the lock while it lives."""
    for problem in (java_problem(), fetch()):
        if problem is not None:
            raise SetupError.not_installed(problem)
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


_locks_here: dict[Path, Any] = {}
"""The locks that the JVM of this process's classic session holds until that JVM ends.

They are referenced here, because Java may release a lock that nothing refers to.
"""


def guard(session: SparkSession, root: Path) -> None:
    """Takes care that no other JVM writes below a root while a session does.

    Raises:
        SetupError (SERVER): Another JVM has the root, or the session's JVM is out of reach, so that it cannot take the
            lock.
    """
    locked = [each for each in _locked_by(session) if root.is_relative_to(each)]
    if not locked and is_connect(session):
        raise SetupError.server(
            root,
            "this Spark Connect session is not one of the server of that root, and no lock keeps other JVMs from "
            "overwriting what it commits there. Nothing was written. Use LocalSpark(root=...) with this root or one "
            "above it, or give the tables a root on storage that is safe for several writers (abfss://..., hdfs://...).",
        )
    # The session's JVM may have a root above this one, and another JVM this one, or one between the two.
    for above in takewhile(lambda each: each not in locked, (root, *root.parents)):
        if Rendezvous(above).jvm().is_held():
            raise SetupError.server(root, _has_it(Rendezvous(above).jvm()))
    if not locked:
        _take(session, root)


def _locked_by(session: SparkSession) -> list[Path]:
    """The roots whose locks the JVM of a session has."""
    if is_connect(session):
        from lakehouse.server.connect import locked_roots

        return locked_roots(session)
    return [*_locks_here, *_locks]


def _take(session: SparkSession, root: Path) -> None:
    rendezvous = Rendezvous(root)
    lock = rendezvous.jvm()
    if not lock.take(1):  # while this process holds the lock, no other looks for Java's lock or takes it
        raise SetupError.server(root, _has_it(lock))
    try:
        jvm = cast("Any", session.sparkContext)._jvm  # noqa: SLF001
        taken = jvm.java.io.RandomAccessFile(str(rendezvous.java_lock), "rw").getChannel().tryLock()
        if taken is None:
            raise SetupError.server(root, _has_it(lock))
        _locks_here[root] = taken
        lock.sign(f"process {os.getpid()}")
    finally:
        lock.let_go()


def _has_it(lock: Lock) -> str:
    return (
        f"{lock.holder() or 'another process'} has the root, and only one JVM may write to it. Nothing was written. "
        f"End that process first, or write through LocalSpark, whose server all processes share."
    )
