"""What a long step is doing, reported now and then while Spark computes.

Spark Connect reports to its client how far a query's stages are; classic Spark is asked (`driver`).
"""

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lakehouse.spark.classic_progress import polled

PAUSE = 10.0
"""Seconds without a word at the beginning, and between two sentences."""


class Stage(Protocol):
    """One stage of a query, as Spark Connect's client describes it."""

    @property
    def num_tasks(self) -> int: ...

    @property
    def num_completed_tasks(self) -> int: ...

    @property
    def num_bytes_read(self) -> int:
        """0 where Spark does not say."""
        ...


@dataclass
class Progress:
    """Turns Spark's reports, a few seconds apart or several a second, into a sentence every `PAUSE` seconds.

    Args:
        tell: Takes a sentence.
        now: The time in seconds.
        doing: What the step is at.
    """

    tell: Callable[[str], None]
    now: Callable[[], float] = time.monotonic
    doing: str = "computing"
    _queries: dict[str, float] = field(default_factory=dict[str, float])
    _last_report: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_report = self.now()

    def __call__(
        self,
        stages: Iterable[Stage] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,  # noqa: FBT001
    ) -> None:
        """One report; the signature is Spark Connect's `ProgressHandler`."""
        query, now = str(operation_id), self.now()
        if done:
            self._queries.pop(query, None)
            return
        began = self._queries.setdefault(query, now)
        if now - self._last_report < PAUSE or now - began < PAUSE:
            return
        self._last_report = now
        self.tell(sentence(self.doing, list(stages or ()), inflight_tasks, now - began))


def sentence(doing: str, stages: list[Stage], running: int, seconds: float) -> str:
    """How far a query is.

    Args:
        doing: What it is for.
        stages: Its stages so far; Spark plans later ones while it computes the first.
        running: Tasks that are running.
        seconds: How long it has been computing.
    """
    tasks, completed = sum(s.num_tasks for s in stages), sum(s.num_completed_tasks for s in stages)
    finished = sum(s.num_completed_tasks >= s.num_tasks for s in stages)
    read = sum(s.num_bytes_read for s in stages)
    bytes_ = f", {read / 1e6:,.0f} MB read" if read else ""
    rest = f", about {seconds * (tasks - completed) / completed:.0f} s left of these" if 0 < completed < tasks else ""
    return (
        f"Spark has been {doing} for {seconds:.0f} s: {finished} of {len(stages)} stages, {completed} of {tasks} tasks "
        f"done, {running} running{bytes_}{rest}."
    )


_HEARS: ContextVar["Progress | None"] = ContextVar("progress", default=None)
_HEARD: ContextVar[tuple[SparkSession, ...]] = ContextVar("heard", default=())
"""The sessions whose queries are reported; Spark Connect registers a handler once, however often it is asked."""


@contextmanager
def telling(tell: Callable[[str], None]) -> Generator[None]:
    """While it is open, `tell` receives the progress of queries inside `heard`."""
    token = _HEARS.set(Progress(tell))
    try:
        yield
    finally:
        _HEARS.reset(token)


def doing(what: str) -> None:
    """Sets what the step is doing for later reports, for example "comparing orders"."""
    if (handler := _HEARS.get()) is not None:
        handler.doing = what


@contextmanager
def heard(spark: SparkSession) -> Generator[None]:
    """Reports the session's queries to the listener of this step, if there is one; within itself it does nothing."""
    handler, sessions = _HEARS.get(), _HEARD.get()
    if handler is None or any(session is spark for session in sessions):
        yield
        return
    token = _HEARD.set((*sessions, spark))
    try:
        with _registered(spark, handler) if _is_registered(spark, handler) else polled(spark, handler):
            yield
    finally:
        _HEARD.reset(token)


@contextmanager
def _registered(spark: Any, handler: Progress) -> Generator[None]:
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


def _is_registered(spark: Any, handler: Progress) -> bool:
    try:
        spark.registerProgressHandler(handler)
    except PySparkRuntimeError:  # classic Spark has the method, and says that it is Spark Connect's
        return False
    return True
