"""The progress of classic Spark's jobs: the one place that asks for a Spark context.

Spark reports progress to listeners inside the JVM. Python can ask for the status through a public interface, which only
the process of the driver has.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from pyspark.sql import SparkSession

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
def polled(spark: SparkSession, report: Report) -> Generator[None]:
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
