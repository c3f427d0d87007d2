"""Exact points inside a Delta transaction: the observer that Delta's own tests use, in its public jar.

The transaction of a thread waits at the entry of a phase until it is released. Any process that shares the JVM can find
and release the parked transaction. Classic Spark only; not part of Delta's public interface.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

_PHASES = ("analysis", "initial", "prepare", "commit", "backfill", "postCommit")
_NAME = "tests.parked"


@dataclass(frozen=True)
class Parked:
    """A transaction that waits at a phase, or is on its way there.

    Args:
        observer: Delta's observer.
        phase: The phase that it may not enter.
    """

    observer: Any
    phase: str

    def reached(self, seconds: float = 240) -> None:
        """Waits until the transaction has reached the phase."""
        _until(lambda: bool(self._lock(self.phase).hasReached()), f"nothing reached {self.phase}", seconds)

    def release(self) -> None:
        """Lets the transaction go on to its end."""
        for phase in _PHASES[_PHASES.index(self.phase) :]:
            self._lock(phase).entryBarrier().unblock()

    def ended(self, seconds: float = 240) -> None:
        """Waits until the transaction has committed or given up."""
        _until(lambda: bool(self.observer.allPhasesHavePassed()), "the transaction does not end", seconds)

    def _lock(self, phase: str) -> Any:
        return getattr(self.observer.phases(), f"{phase}Phase")()


@contextmanager
def park(spark: SparkSession, phase: str, name: str = _NAME) -> Generator[Parked]:
    """Lets the next transaction of this thread wait at the entry of a phase.

    Args:
        spark: A classic session; this thread keeps its Java thread.
        phase: "prepare" (its data is written), "commit" (before the log entry), "backfill" (the entry is durable,
            the caller is not told), "postCommit" (before Delta's hooks).
        name: The name by which `parked` finds it, in any process that shares the JVM.
    """
    jvm: Any = spark.sparkContext._jvm
    fuzzer = jvm.org.apache.spark.sql.delta.fuzzer
    observer = fuzzer.PhaseLockingTransactionExecutionObserver(fuzzer.OptimisticTransactionPhases.forName(name))
    waits = Parked(observer, phase)
    for earlier in _PHASES[: _PHASES.index(phase)]:
        waits._lock(earlier).entryBarrier().unblock()
    observers = jvm.org.apache.spark.sql.delta.TransactionExecutionObserver
    none = observers.getObserver()
    jvm.java.lang.System.getProperties().put(name, observer)
    observers.setObserver(observer)
    try:
        yield waits
    finally:
        observers.setObserver(none)


def parked(spark: SparkSession, phase: str, name: str = _NAME) -> Parked:
    """The transaction that another process of this JVM has parked."""
    jvm: Any = spark.sparkContext._jvm
    return Parked(jvm.java.lang.System.getProperties().get(name), phase)


def _until(holds: Callable[[], bool], problem: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, problem
        time.sleep(0.02)
