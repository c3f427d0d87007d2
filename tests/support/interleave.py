"""Writers of one table in one exact order: a rival commits at a chosen step of another write.

Delta calls an observer of the thread at each step of a transaction, and waits for its answer. The observer here is
written in Python and lets the rival run to its end on another thread meanwhile. So nothing sleeps, polls or depends on
luck. It needs classic Spark, because Delta's observer is a JVM object. `before` and `after` work on any Spark.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from lakehouse.spark.progress import Notice, Phase, PhaseBegan, PhaseEnded, listening

Step = Literal["snapshot", "commit"]
Act = Callable[[], Any]


class _Observer:
    """Delta's `TransactionExecutionObserver`; the methods keep the names that Delta calls."""

    class Java:
        implements = ("org.apache.spark.sql.delta.TransactionExecutionObserver",)

    def __init__(self, before: Callable[[Step], None]) -> None:
        self._before = before

    def startingTransaction(self, begin: Any) -> Any:  # noqa: N802
        self._before("snapshot")
        return begin.apply()

    def preparingCommit(self, prepare: Any) -> Any:  # noqa: N802
        return prepare.apply()

    def beginDoCommit(self) -> None:  # noqa: N802
        self._before("commit")

    def beginBackfill(self) -> None: ...  # noqa: N802
    def beginPostCommit(self) -> None: ...  # noqa: N802
    def transactionCommitted(self) -> None: ...  # noqa: N802
    def transactionAborted(self) -> None: ...  # noqa: N802

    def createChild(self) -> "_Observer":  # noqa: N802
        return self


@contextmanager
def rivals(spark: SparkSession, *acts: Act, before: Step = "commit") -> Generator[list[Future[Any]]]:
    """While the block runs, this thread's n-th transaction stops at a step until the n-th rival is done.

    Args:
        spark: A classic session.
        acts: The rivals, in order; transactions beyond their number are not stopped.
        before: The step: "commit", when everything is written but the log, or "snapshot", when nothing is read yet.

    Yields:
        The rivals that ran so far.

    Raises:
        Exception: What a rival raised, at the end of the block.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        pytest.skip("Delta's observer is an object of a JVM of one's own; this is Spark Connect.")
    ensure_callback_server_started(spark._sc._gateway)
    registry = jvm.org.apache.spark.sql.delta.TransactionExecutionObserver
    waiting, ran = list(acts), list[Future[Any]]()
    with ThreadPoolExecutor(1) as thread:

        def act(step: Step) -> None:
            if step == before and waiting:
                ran.append(thread.submit(waiting.pop(0)))
                ran[-1].exception()

        # A thread without an active session takes a path for a table that is not there (tests/commit/test_twins.py).
        thread.submit(lambda: jvm.SparkSession.setActiveSession(spark._jsparkSession)).result()

        former = registry.getObserver()
        registry.setObserver(_Observer(act))
        try:
            yield ran
        finally:
            registry.setObserver(former)
    for rival in ran:
        rival.result()


def before(phase: Phase, *acts: Act) -> AbstractContextManager[None]:
    """While the context is open, the n-th act happens when a phase of this thread begins for the n-th time.

    The act runs inside the phase: what it raises is raised by the function of that phase. Before "execute" the rows
    have been compared and no transaction has begun.

    Args:
        phase: The phase.
        acts: What happens; later phases beyond their number pass undisturbed.
    """
    return _at(PhaseBegan, phase, acts)


def after(phase: Phase, *acts: Act) -> AbstractContextManager[None]:
    """The same when a phase ends: after "execute" the statement has ended, and the log is not yet searched for it."""
    return _at(PhaseEnded, phase, acts)


def _at(kind: type[PhaseBegan | PhaseEnded], phase: Phase, acts: Sequence[Act]) -> AbstractContextManager[None]:
    waiting = list(acts)

    def listen(notice: Notice) -> None:
        if isinstance(notice, kind) and notice.phase == phase and waiting:
            waiting.pop(0)()

    return listening(listen)


def raises(error: BaseException) -> Act:
    """An act that fails: the rest of the step does not happen, or its answer is lost."""

    def act() -> None:
        raise error

    return act
