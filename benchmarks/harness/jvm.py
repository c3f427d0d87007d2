"""The only place that looks inside Spark's JVM: its process id, its scheduler's counters, Delta's cache of logs."""

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Job:
    """A Spark job that has ended."""

    id: int
    name: str
    description: str
    seconds: float
    stages: int
    tasks: int
    input_bytes: int
    input_rows: int
    shuffled: int


class Counters:
    """What the scheduler of a classic session counted.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
        self.pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001

    def next_job(self) -> int:
        return int(self._context.dagScheduler().numTotalJobs())

    def jobs(self, first: int, end: int) -> list[Job]:
        """The jobs `first` to `end`, exclusive."""
        self._context.listenerBus().waitUntilEmpty()
        return [self._job(number) for number in range(first, end)]

    def _job(self, number: int) -> Job:
        store = self._context.statusStore()
        job = store.job(number)
        ids = job.stageIds()
        ran = [stage for index in range(ids.size()) if (stage := self._ran(ids.apply(index))) is not None]
        if len(ran) != job.numCompletedStages() + job.numFailedStages():
            raise LookupError(f"Spark no longer knows all stages of job {number}: raise spark.ui.retainedStages")
        began, ended = job.submissionTime(), job.completionTime()
        return Job(
            id=number,
            name=job.name(),
            description=job.description().getOrElse(None) or "" if job.description().isDefined() else "",
            seconds=(ended.get().getTime() - began.get().getTime()) / 1000 if ended.isDefined() else 0,
            stages=len(ran),
            tasks=sum(stage.numCompleteTasks() for stage in ran),
            input_bytes=sum(stage.inputBytes() for stage in ran),
            input_rows=sum(stage.inputRecords() for stage in ran),
            shuffled=sum(stage.shuffleWriteBytes() for stage in ran),
        )

    def _ran(self, stage: int) -> Any | None:
        """The counters of a stage; None if it was skipped (these are the first that Spark forgets if it keeps few)."""
        try:
            attempt: Any = self._context.statusStore().lastStageAttempt(stage)
        except Py4JJavaError as error:
            if "NoSuchElementException" in str(error.java_exception.toString()):
                return None
            raise
        return None if attempt.status().toString() == "SKIPPED" else attempt


def forget_logs(spark: SparkSession) -> None:
    """Makes Delta forget every log that it has read, as in a JVM that has just started."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # noqa: SLF001  # pyright: ignore[reportOptionalMemberAccess]
