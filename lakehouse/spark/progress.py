"""What a long step is doing, and what its phases took.

The progress of classic Spark's jobs is here too: the one place that asks for a Spark context.
"""

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast
from uuid import uuid4

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

Lap: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Opened around a phase, by its name."""
_LAP: ContextVar[Lap | None] = ContextVar("lap", default=None)


@contextmanager
def measured_by(lap: Lap) -> Generator[None]:
    """While it is open, `lap` is opened around each phase of this context."""
    token = _LAP.set(lap)
    try:
        yield
    finally:
        _LAP.reset(token)


@contextmanager
def phase(name: str) -> Generator[None]:
    """A phase of the step; as a decorator, a call of the function is one."""
    lap = _LAP.get()
    if lap is None:
        yield
        return
    with lap(name):
        yield


def adding_to(seconds: dict[str, float]) -> Lap:
    """A lap that adds what each phase takes to its seconds."""

    @contextmanager
    def lap(name: str) -> Generator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.monotonic() - began

    return lap


if TYPE_CHECKING:  # a client of Spark Connect has no such thing
    from pyspark import SparkContext, StatusTracker

INTERVAL = 1.0
"""Seconds between two questions."""
_GROUP = "spark.jobGroup.id"


@dataclass(frozen=True, slots=True)
class JobStage:
    """One stage of a job, under the names that Spark Connect's client uses; its bytes are not known."""

    num_tasks: int
    num_completed_tasks: int
    num_bytes_read: int = 0


Report = Callable[[list[JobStage], int, str, bool], None]
"""Takes the stages so far, how many tasks are running, whose they are, and whether it is over."""


@contextmanager
def polling(spark: SparkSession, report: Report) -> Generator[None]:
    """While it is open, the jobs of this thread are reported, unless Spark cannot be asked.

    Args:
        spark: A classic session.
        report: Called from a thread of its own.
    """
    context = _context(spark)
    if context is None:
        yield
        return
    given = context.getLocalProperty(_GROUP)
    group, over = given or f"lakehouse-{uuid4().hex}", Event()
    thread = Thread(target=_ask, args=(context, group, report, over), name="lakehouse-progress", daemon=True)
    context.setLocalProperty(_GROUP, group)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        report([], 0, group, True)
        with suppress(Exception):  # a context that has ended has no properties, and why is still to be seen
            context.setLocalProperty(_GROUP, given)  # pyright: ignore[reportArgumentType]  (None unsets it)


def _context(spark: SparkSession) -> "SparkContext | None":
    try:
        return spark.sparkContext
    except Exception:
        return None


def _ask(context: "SparkContext", group: str, report: Report, over: Event) -> None:
    with suppress(Exception):
        tracker = context.statusTracker()
        before = frozenset(tracker.getJobIdsForGroup(group))
        while not over.wait(INTERVAL):
            active = frozenset(tracker.getActiveJobsIds())
            jobs = frozenset(tracker.getJobIdsForGroup(group)) - before
            if jobs & active:
                report(*_stages(tracker, jobs, active), group, False)


def _stages(tracker: "StatusTracker", jobs: frozenset[int], active: frozenset[int]) -> tuple[list[JobStage], int]:
    """The stages of all jobs, without those that a finished job skipped; and how many tasks are running."""
    progress, running = dict[int, JobStage](), 0
    for job in sorted(jobs):
        info = tracker.getJobInfo(job)
        stages = cast("Iterable[int]", info.stageIds) if info is not None else ()
        for stage in stages:
            state = tracker.getStageInfo(stage)
            if state is not None and (job in active or state.numCompletedTasks == state.numTasks):
                progress[stage] = JobStage(state.numTasks, state.numCompletedTasks)
                running += state.numActiveTasks
    return list(progress.values()), running


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
        with _registering(spark, handler) if _is_registered(spark, handler) else polling(spark, handler):
            yield
    finally:
        _HEARD.reset(token)


@contextmanager
def _registering(spark: Any, handler: Progress) -> Generator[None]:
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
