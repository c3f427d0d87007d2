"""A local root that a session of the user's own writes: its JVM takes the root's lock, or the write is refused.

The one file that reaches into the JVM of a classic session: a lock of Python's would end before that JVM does.
"""

import os
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from lakehouse.server.errors import ServerError
from lakehouse.server.rendezvous import Lock, Rendezvous
from lakehouse.spark.session import is_connect

_locks_here: dict[Path, Any] = {}
"""The locks that the JVM of this process's classic session holds until that JVM ends.

They are referenced here, because Java may release a lock that nothing refers to.
"""


def guard(session: SparkSession, root: Path) -> None:
    """Takes care that no other JVM writes below a root while a session does.

    Args:
        session: The session that is about to write, this library's or the user's.
        root: The directory of the tables.

    Raises:
        ServerError: Another JVM has the root, or the session's JVM is out of reach, so that it cannot take the lock.
    """
    if any(root.is_relative_to(locked) for locked in _locked_by(session)):
        return
    if is_connect(session):
        raise ServerError(
            root,
            "this Spark Connect session is not one of the server of that root, and no lock keeps other JVMs from "
            "overwriting what it commits there. Nothing was written. Use LocalSpark(root=...) with this root or one "
            "above it, or give the tables a root on storage that is safe for several writers (s3a://..., hdfs://...).",
        )
    for above in (root, *root.parents):
        if Rendezvous(above).jvm().is_held():
            raise ServerError(root, _has_it(Rendezvous(above).jvm()))
    _take(session, root)


def _locked_by(session: SparkSession) -> list[Path]:
    """The roots whose locks the JVM of a session has."""
    if is_connect(session):
        from lakehouse.server.connect import roots_of

        return roots_of(session)
    from lakehouse.server.in_process import roots_here

    return [*_locks_here, *roots_here()]


def _take(session: SparkSession, root: Path) -> None:
    rendezvous = Rendezvous(root)
    lock = rendezvous.jvm()
    if not lock.take(1):  # while this process holds the lock, no other process looks for Java's lock, or takes that
        raise ServerError(root, _has_it(lock))
    try:
        jvm = cast("Any", session.sparkContext)._jvm  # noqa: SLF001
        taken = jvm.java.io.RandomAccessFile(str(rendezvous.java_lock), "rw").getChannel().tryLock()
        if taken is None:
            raise ServerError(root, _has_it(lock))
        _locks_here[root] = taken
        lock.sign(f"process {os.getpid()}")
    finally:
        lock.let_go()


def _has_it(lock: Lock) -> str:
    return (
        f"{lock.holder() or 'another process'} has the root, and only one JVM may write to it. Nothing was written. "
        f"End that process first, or write through LocalSpark, whose server all processes share."
    )
