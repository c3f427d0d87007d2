"""On classic Spark the jobs of a step are reported, and no others."""

from collections.abc import Generator
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from lakehouse.spark.progress import JobStage, listening, polling

WAITING = "reflect('java.lang.Thread', 'sleep', CAST(2000 AS BIGINT)) IS NOT NULL"


@pytest.fixture
def classic(spark: SparkSession) -> Generator[SparkSession]:
    if not hasattr(spark, "sparkContext"):
        pytest.skip("Spark Connect reports by itself")
    with listening(interval=0.1):
        yield spark


def waited(spark: SparkSession, tasks: int) -> None:
    spark.range(0, tasks, 1, tasks).where(WAITING).collect()


@pytest.mark.slow
def test_jobs_of_another_thread_are_not_this_steps(classic: SparkSession) -> None:
    told: list[tuple[list[JobStage], int]] = []
    other = Thread(target=waited, args=(classic, 3))
    other.start()
    with polling(classic, lambda stages, running, _, done: None if done else told.append((stages, running))):
        waited(classic, 1)
    other.join()
    assert told
    assert all([stage.num_tasks for stage in stages] == [1] and running <= 1 for stages, running in told)


@pytest.mark.slow
def test_a_group_that_was_given_stays_and_its_earlier_jobs_do_not_count(classic: SparkSession) -> None:
    told: list[list[JobStage]] = []
    context = classic.sparkContext
    context.setLocalProperty("spark.jobGroup.id", "mine")
    try:
        waited(classic, 1)
        with polling(
            classic, lambda stages, _, group, done: told.append(stages) if group == "mine" and not done else None
        ):
            waited(classic, 2)
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert told
    assert all(sum(stage.num_tasks for stage in stages) == 2 for stages in told)


def test_afterwards_it_is_over_and_jobs_belong_to_no_group(classic: SparkSession) -> None:
    """A later query in a group that the caller had set is another query: its jobs do not count for this one."""
    told: list[tuple[str, bool]] = []
    with polling(classic, lambda _, __, group, done: told.append((group, done))):
        pass
    assert [done for _, done in told] == [True]
    assert classic.sparkContext.getLocalProperty("spark.jobGroup.id") is None
