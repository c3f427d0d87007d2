"""What a step reports to its listeners: its phases, what it computes, its messages, how far Spark is with queries.

The listeners are in one list, which belongs to the thread: a step and its queries run in one thread.

The progress of classic Spark's jobs is here too. Only this module and the Spark server ask for a Spark context.
"""

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from logging import INFO, WARNING
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast
from uuid import uuid4

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lakehouse.delta.commit_info import Rows
from lakehouse.delta.expect import Evaluation

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker


Phase: TypeAlias = Literal["read", "look at the cursor", "plan", "execute", "find in the log"]


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """A phase of the step begins, inside the function whose work the phase is."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """A phase of the step ended, with a result or with an error."""

    phase: Phase
    seconds: float


@dataclass(frozen=True, slots=True)
class Doing:
    """What the step computes from now on, for example "comparing orders"."""

    what: str


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence for the log of the run: `WARNING` for a lost attempt or unexpected work, `INFO` for a long query."""

    text: str
    level: int = WARNING


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A plan has evaluated what its table expects of the rows; a later plan of the same step replaces this."""

    evaluations: tuple[Evaluation, ...]


@dataclass(frozen=True, slots=True)
class AllOutside:
    """A plan leaves out every row of the result, because no row lies in a partition of the run."""


@dataclass(frozen=True, slots=True)
class QuarantineWritten:
    """The quarantine of the table has a new version, and these are the rows that it changed."""

    version: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class KeysLeftAlone:
    """Changes touched keys whose rows the table does not own, so that nothing is computed for these keys."""

    keys: int


@dataclass(frozen=True, slots=True)
class FrozenUnread:
    """Keys have frozen since the last commit, with changes that no run has read."""

    keys: int


Notice: TypeAlias = (
    PhaseBegan
    | PhaseEnded
    | Doing
    | Message
    | Evaluated
    | AllOutside
    | QuarantineWritten
    | KeysLeftAlone
    | FrozenUnread
)
Listener: TypeAlias = Callable[[Notice], None]


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who receives each notice, in order. An error of a listener is raised where the notice happened.

    Args:
        each: The listeners.
        pause: Seconds without a message about a query: at its beginning, and between two messages.
        interval: Seconds between two requests for the state of classic Spark's jobs.
    """

    each: tuple[Listener, ...] = ()
    pause: float = 10.0
    interval: float = 1.0


_LISTENERS: ContextVar[Listeners] = ContextVar("listeners", default=Listeners())  # noqa: B039  (it is frozen)


def listeners() -> Listeners:
    """The listeners of this thread."""
    return _LISTENERS.get()


def tell(notice: Notice) -> None:
    """Passes a notice to the listeners of this thread."""
    for listener in listeners().each:
        listener(notice)


@contextmanager
def listening(*more: Listener, **pace: float) -> Generator[None]:
    """While it is open, more listeners receive the notices of this thread."""
    before = listeners()
    token = _LISTENERS.set(replace(before, each=(*before.each, *more), **pace))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


@contextmanager
def phase(name: Phase) -> Generator[None]:
    """A phase of the step; as a decorator, a call of the function is one."""
    began = time.monotonic()
    tell(PhaseBegan(name))
    try:
        yield
    finally:
        tell(PhaseEnded(name, time.monotonic() - began))


_GROUP = "spark.jobGroup.id"


@dataclass(frozen=True, slots=True)
class JobStage:
    """One stage of a job, under the names that Spark Connect's client uses; its bytes are not known."""

    num_tasks: int
    num_completed_tasks: int
    num_bytes_read: int = 0


Report = Callable[[list[JobStage], int, str, bool], None]
"""Takes the stages so far, how many tasks are running, the group of their jobs, and whether the jobs are over."""


@contextmanager
def polling(spark: SparkSession, report: Report) -> Generator[None]:
    """While it is open, the jobs of this thread are reported, unless Spark cannot be asked."""
    context = _context(spark)
    if context is None:
        yield
        return
    given = context.getLocalProperty(_GROUP)
    group, over = given or f"lakehouse-{uuid4().hex}", Event()
    question = (_ask, context, group, report, over)
    thread = Thread(target=copy_context().run, args=question, name="lakehouse-progress", daemon=True)
    context.setLocalProperty(_GROUP, group)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        report([], 0, group, True)
        with suppress(Exception):  # an ended context has no properties, and its error must still be seen
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
        while not over.wait(listeners().interval):
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


class Stage(Protocol):
    """One stage of a query, as Spark Connect's client describes it."""

    @property
    def num_tasks(self) -> int: ...

    @property
    def num_completed_tasks(self) -> int: ...

    @property
    def num_bytes_read(self) -> int:
        """0 where Spark does not report it."""
        ...


@dataclass(eq=False)
class QueryWatch:
    """Turns Spark's reports, however frequent, into a message every `Listeners.pause` seconds."""

    spark: SparkSession
    doing: str = "computing"
    now: Callable[[], float] = time.monotonic
    _queries: dict[str, float] = field(default_factory=dict[str, float])
    _last_report: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_report = self.now()

    def __call__(self, notice: Notice) -> None:
        """Notes what the step is doing."""
        if isinstance(notice, Doing):
            self.doing = notice.what

    def report(
        self,
        stages: Iterable[Stage] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,  # noqa: FBT001
    ) -> None:
        """One report; the signature is Spark Connect's `ProgressHandler`."""
        query, now, pause = str(operation_id), self.now(), listeners().pause
        if done:
            self._queries.pop(query, None)
            return
        began = self._queries.setdefault(query, now)
        if now - self._last_report < pause or now - began < pause:
            return
        self._last_report = now
        tell(Message(sentence(self.doing, list(stages or ()), inflight_tasks, now - began), INFO))


def sentence(doing: str, stages: list[Stage], running: int, seconds: float) -> str:
    """How far a query is, as a sentence for the log."""
    tasks, completed = sum(s.num_tasks for s in stages), sum(s.num_completed_tasks for s in stages)
    finished = sum(s.num_completed_tasks >= s.num_tasks for s in stages)
    read = sum(s.num_bytes_read for s in stages)
    bytes_ = f", {read / 1e6:,.0f} MB read" if read else ""
    rest = f", about {seconds * (tasks - completed) / completed:.0f} s left of these" if 0 < completed < tasks else ""
    return (
        f"Spark has been {doing} for {seconds:.0f} s: {finished} of {len(stages)} stages, {completed} of {tasks} tasks "
        f"done, {running} running{bytes_}{rest}."
    )


@contextmanager
def watching(spark: SparkSession, what: str | None = None) -> Generator[None]:
    """While it is open, the listeners get messages about the session's long queries; a nested one adds nothing.

    Spark Connect registers the same handler only once, however often it is asked to.
    """
    if what is not None:
        tell(Doing(what))
    each = listeners().each
    watches = [listener for listener in each if isinstance(listener, QueryWatch)]
    if not each or any(watch.spark is spark for watch in watches):
        yield
        return
    watch, session = QueryWatch(spark, what or (watches[-1].doing if watches else "computing")), cast("Any", spark)
    with listening(watch), ExitStack() as reports:
        try:
            session.registerProgressHandler(watch.report)
            reports.callback(session.removeProgressHandler, watch.report)
        except PySparkRuntimeError:  # classic Spark has the method, which refuses because it is Spark Connect's
            reports.enter_context(polling(spark, watch.report))
        yield
