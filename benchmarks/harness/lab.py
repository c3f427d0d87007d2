"""What a benchmark gets: a session, a meter, room on the disk, and its size."""

import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from benchmarks.harness import data, sessions
from benchmarks.harness.meter import Meter


@dataclass
class Lab:
    """One run of some benchmarks.

    Args:
        scratch: A directory of its own.
        rounds: How often each step is measured.
        large: Whether the sizes are those of `make bench-large`.
        scale: The fraction of the rows to use, for trying out a benchmark.
        quick: Whether the JVM compiles less, which is for trying out too.
        settings: Settings of Spark in addition to those of the local environment.
    """

    scratch: Path
    rounds: int = 5
    large: bool = False
    scale: float = 1
    quick: bool = False
    settings: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def spark(self) -> SparkSession:
        return sessions.start(self.scratch, self.settings, quick=self.quick)

    @cached_property
    def meter(self) -> Meter:
        return Meter(self.spark)

    def ours(self) -> SparkSession:
        return sessions.ours(self.spark)

    def as_delivered(self) -> SparkSession:
        return sessions.as_delivered(self.spark)

    def rows(self, count: int) -> int:
        return max(1_000, int(count * self.scale))

    def times(self, count: int) -> int:
        return max(5, int(count * self.scale))

    def table(self, count: int, columns: int, **options: bool) -> Path:
        return data.built(self.spark, self.rows(count), columns, **options)

    @contextmanager
    def room(self) -> Generator[Path]:
        """A directory that is removed afterwards."""
        path = self.scratch / uuid4().hex[:8]
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
