"""What something costs: wall time, CPU seconds, bytes, and what Spark did for it."""

import os
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import TypeVar

from pyspark.sql import SparkSession

from benchmarks.harness.jvm import Counters, Job

TICKS = os.sysconf("SC_CLK_TCK")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """One measurement.

    Args:
        wall: Seconds that passed.
        jvm_cpu, python_cpu: CPU seconds of the two processes, their compilers and collectors included.
        read, written: Bytes through the two processes' system calls: files, whether cached or not, and sockets.
        jobs, stages, tasks: What Spark ran.
        input_bytes, input_rows: What Spark's scans read.
        shuffled: Bytes that Spark's stages handed to each other.
    """

    wall: float = 0
    jvm_cpu: float = 0
    python_cpu: float = 0
    read: float = 0
    written: float = 0
    jobs: float = 0
    stages: float = 0
    tasks: float = 0
    input_bytes: float = 0
    input_rows: float = 0
    shuffled: float = 0

    @property
    def cpu(self) -> float:
        return self.jvm_cpu + self.python_cpu

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)})


def medians(costs: Iterable[Cost]) -> Cost:
    """The median of each figure by itself."""
    listed = list(costs)
    return Cost(**{f.name: median(getattr(cost, f.name) for cost in listed) for f in fields(Cost)})


@dataclass(frozen=True, slots=True)
class Mark:
    """A reading of the clocks and counters."""

    wall: float
    jvm_cpu: float
    python_cpu: float
    read: int
    written: int
    next_job: int


@dataclass
class Lap:
    """A named stretch between two marks; its cost is known once it is over."""

    name: str
    began: Mark
    ended: Mark | None = None
    jobs: tuple[Job, ...] = ()

    @property
    def cost(self) -> Cost:
        assert self.ended is not None, "still running"
        a, b = self.began, self.ended
        return Cost(
            wall=b.wall - a.wall,
            jvm_cpu=b.jvm_cpu - a.jvm_cpu,
            python_cpu=b.python_cpu - a.python_cpu,
            read=b.read - a.read,
            written=b.written - a.written,
            jobs=len(self.jobs),
            stages=sum(job.stages for job in self.jobs),
            tasks=sum(job.tasks for job in self.jobs),
            input_bytes=sum(job.input_bytes for job in self.jobs),
            input_rows=sum(job.input_rows for job in self.jobs),
            shuffled=sum(job.shuffled for job in self.jobs),
        )


@dataclass
class Meter:
    """Measures this process and the JVM of a classic session."""

    spark: SparkSession
    laps: list[Lap] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counters = Counters(self.spark)

    def mark(self) -> Mark:
        jvm, own = self._counters.pid, os.getpid()
        read, written = (sum(each) for each in zip(transferred(jvm), transferred(own), strict=True))
        return Mark(time.monotonic(), cpu_seconds(jvm), cpu_seconds(own), read, written, self._counters.next_job())

    @contextmanager
    def lap(self, name: str) -> Generator[Lap]:
        """Measures a stretch; stretches may be nested."""
        lap = Lap(name, self.mark())
        try:
            yield lap
        finally:
            lap.ended = self.mark()
            self.laps.append(lap)

    def settle(self) -> list[Lap]:
        """The laps since the last call, with Spark's own counters, which arrive late and are read only here."""
        laps, self.laps = self.laps, []
        first = min((lap.began.next_job for lap in laps), default=0)
        jobs = self._counters.jobs(first, max((lap.ended.next_job for lap in laps if lap.ended), default=first))
        for lap in laps:
            assert lap.ended is not None
            lap.jobs = tuple(job for job in jobs if lap.began.next_job <= job.id < lap.ended.next_job)
        return laps

    def measure(self, name: str, action: Callable[[], T]) -> tuple[T, Lap]:
        with self.lap(name):
            result = action()
        return result, self.settle()[-1]


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process since it began, including those of its children that have ended."""
    behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(value) for value in behind_name[11:15]) / TICKS


def transferred(pid: int) -> tuple[int, int]:
    """Bytes read and written by a process so far."""
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(lines["rchar"]), int(lines["wchar"])
