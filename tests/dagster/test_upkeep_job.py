"""The nights of upkeep: the schedule as Dagster evaluates it, and the job, executed; real logs, without Spark.

The Spark resource here has no session, so that any use of it fails.
"""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest
from dagster._core.utils import make_new_run_id
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse import Append, Changes, DeltaIOManager, Expect, Merge, Nightly, Table, incremental
from lakehouse.dagster.definitions import keeping
from lakehouse.dagster.definitions.keeping import UPKEEP_JOB
from lakehouse.dagster.one_driver import refuse_second_driver
from lakehouse.dagster.run_tags import DRIVER, KEEPING, NIGHT
from lakehouse.spark.table_version import TableRef
from tests.support.interleave import rivals
from tests.support.marked_tables import append, run
from tests.support.raises import raises_code

CRON = "0 4 * * 0"
FOUR = datetime(2026, 11, 29, 4, tzinfo=UTC)
orders = dg.AssetSpec("orders", metadata=Table())


@dg.asset(metadata=Table())
def copies(orders: Changes) -> Append: ...


@dg.asset(metadata=Table())
def others(orders: Changes) -> Append: ...


def location(root: Path, upkeep: str | Nightly | None = CRON) -> dg.Definitions:
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(root))
    defs = dg.Definitions(assets=[orders, copies, others], resources={"io_manager": manager})
    return incremental(defs, upkeep=upkeep)


def commits(root: Path, table: str, count: int) -> None:
    append(root, "orders", count)
    for _ in range(count):
        run(root, table, "orders")


def night(root: Path, instance: dg.DagsterInstance, upkeep: str | Nightly = CRON, **tags: str) -> Any:
    job = location(root, upkeep).resolve_job_def(UPKEEP_JOB)
    return job.execute_in_process(instance=instance, raise_on_error=False, tags=tags)


def log_lines(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> list[str]:
    return [entry.user_message for entry in instance.all_logs(result.run_id) if entry.dagster_event is None]


def test_the_tables_that_a_night_opens_grow_with_the_tables_and_not_with_their_square(
    tmp_path: Path, instance: dg.DagsterInstance, log_work: Counter[str]
) -> None:
    def follower(place: int) -> dg.AssetsDefinition:
        @dg.asset(name=f"t{place}", metadata=Table())
        def follows(orders: Changes) -> Append: ...

        return follows

    append(tmp_path, "orders", 1)
    for place in range(30):
        run(tmp_path, f"t{place}", "orders")
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(tmp_path))
    defs = dg.Definitions(assets=[orders, *map(follower, range(30))], resources={"io_manager": manager})
    log_work.clear()
    result = incremental(defs, upkeep=CRON).resolve_job_def(UPKEEP_JOB).execute_in_process(instance=instance)
    assert result.success and log_lines(instance, result)[-1] == "30 tables, of which 0 needed upkeep."
    assert 30 <= log_work["opened"] <= 3 * 30, "for its own look, and not for that of each other table"


def failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_events if event.is_step_failure]
    return str(event.step_failure_data)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance on disk: Dagster evaluates a schedule with no other, and two runs at once lock one in memory."""
    (home := tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as made:
        yield made


def test_a_cron_schedule_is_the_consent_and_the_schedule_runs_from_the_start(
    tmp_path: Path, stored: dg.DagsterInstance
) -> None:
    assert not location(tmp_path, None).schedules and not location(tmp_path, None).jobs
    defs = location(tmp_path, Nightly(CRON, timezone="Asia/Tokyo"))
    (schedule,) = defs.schedules or []
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.cron_schedule, schedule.execution_timezone) == (CRON, "Asia/Tokyo")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    context = dg.build_schedule_context(instance=stored, scheduled_execution_time=FOUR)
    (request,) = schedule.evaluate_tick(context).run_requests or []
    assert request.tags[NIGHT] == FOUR.isoformat()
    tags = defs.resolve_job_def(UPKEEP_JOB).tags
    stored.add_run(dg.DagsterRun(UPKEEP_JOB, make_new_run_id(), status=dg.DagsterRunStatus.STARTED, tags=tags))
    again = schedule.evaluate_tick(dg.build_schedule_context(instance=stored, scheduled_execution_time=FOUR))
    assert not again.run_requests and "is still under way" in str(again.skip_message)


def test_tables_that_need_nothing_cost_a_look_at_their_logs_and_start_no_spark(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    commits(tmp_path, "copies", 15)
    result = night(tmp_path, instance)
    assert result.success
    assert log_lines(instance, result) == [
        "others: there is no table yet, or only Spark can list its files.",
        "2 tables, of which 0 needed upkeep.",
    ]


def test_a_night_waits_in_no_pool(tmp_path: Path) -> None:
    """With the granularity `run`, its run would occupy the pools of all tables for the whole night."""
    job = location(tmp_path).resolve_job_def(UPKEEP_JOB)
    assert [op.pool for op in job.graph.iterate_op_defs()] == [None]
    assert {op.pool for asset in (copies, others) for op in [asset.op]} == {None}


def test_a_table_that_a_run_is_writing_waits_for_the_end_of_that_run(
    tmp_path: Path, stored: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Spark its turn then ends with an error, which shows that its upkeep was carried out."""
    monkeypatch.setattr(keeping, "_LOOK_AGAIN", 0.2)
    commits(tmp_path, "copies", 20)
    with ThreadPoolExecutor(1) as pool:
        nights, seen = list[Future[dg.ExecuteInProcessResult]](), Event()

        @dg.asset(name="copies")
        def writing() -> None:
            nights.append(pool.submit(night, tmp_path, stored))
            until = time.monotonic() + 60
            while not any("is writing it" in line for line in lines_of_night(stored)):
                assert time.monotonic() < until
                time.sleep(0.05)
            seen.set()

        other = dg.materialize([writing], instance=stored)
        result = nights[0].result(60)
    assert seen.is_set()
    assert [line for line in log_lines(stored, result) if line.startswith("copies")] == [
        (
            "copies: due: OPTIMIZE: 20 of 20 files are small. Left for the next run: OPTIMIZE (0.0 MB). "
            f"Run {other.run_id[:8]} is writing it."
        )
    ], "said once, however often the night looks"
    assert "copies (" in failure(result), "its turn came"
    assert stored.get_run_by_id(result.run_id).tags[KEEPING] == "copies"  # pyright: ignore[reportOptionalMemberAccess]


def lines_of_night(instance: dg.DagsterInstance) -> list[str]:
    runs = instance.get_runs(dg.RunsFilter(job_name=UPKEEP_JOB))
    return [entry.user_message for run in runs for entry in instance.all_logs(run.run_id)]


def test_a_table_that_is_written_until_the_limit_is_left_to_the_next_night(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    commits(tmp_path, "copies", 20)
    results = list[dg.ExecuteInProcessResult]()

    @dg.asset(name="copies")
    def writing() -> None:
        results.append(night(tmp_path, instance, Nightly(CRON, limit=timedelta(seconds=2))))

    dg.materialize([writing], instance=instance)
    assert results[0].success, "and Spark was not started"
    assert log_lines(instance, results[0])[-1] == "2 tables, of which 1 needed upkeep."


def test_a_quarantine_is_kept_too_and_waits_for_the_runs_of_its_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata=Table(key="id", expect=Expect("id > 0", "quarantine")))
    def judged(orders: Changes) -> Merge: ...

    for _ in range(20):
        append(tmp_path, "judged_quarantine", 1)
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(tmp_path))
    assets = dg.Definitions(assets=[orders, judged], resources={"io_manager": manager})
    job = incremental(assets, upkeep=Nightly(CRON, limit=timedelta(seconds=2))).resolve_job_def(UPKEEP_JOB)
    assert "judged_quarantine (" in failure(job.execute_in_process(instance=instance, raise_on_error=False)), "no Spark"
    results = list[dg.ExecuteInProcessResult]()

    @dg.asset(name="judged")
    def writing() -> None:
        results.append(job.execute_in_process(instance=instance))

    other = dg.materialize([writing], instance=instance)
    (line,) = (line for line in log_lines(instance, results[0]) if line.startswith("judged_quarantine"))
    assert line.endswith(f"Run {other.run_id[:8]} is writing it.")


def test_a_run_on_another_driver_is_refused_a_table_on_s3_while_upkeep_works_on_it(
    instance: dg.DagsterInstance,
) -> None:
    """The step of the run that carries out the upkeep has another name."""

    @dg.asset
    def written(context: dg.AssetExecutionContext) -> None:
        refuse_second_driver(context, TableRef.at_path("written", "s3a://lake/written"), lambda: "app-2")

    @dg.op
    def keep(context: dg.OpExecutionContext) -> None:
        instance.add_run_tags(context.run_id, {KEEPING: "written", DRIVER: "app-1"})
        dg.materialize([written], instance=instance)

    @dg.job
    def upkeep() -> None:
        keep()

    with raises_code("SECOND_DRIVER"):
        upkeep.execute_in_process(instance=instance)


def test_no_statement_is_started_after_the_limit_of_the_night(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    commits(tmp_path, "copies", 20)
    began = datetime.now(UTC) - timedelta(hours=2, seconds=1)
    result = night(tmp_path, instance, **{NIGHT: began.isoformat()})
    assert result.success
    assert (
        "Left for the next run: OPTIMIZE (0.0 MB). The limit of the night is reached." in log_lines(instance, result)[1]
    )


def test_an_error_at_one_table_keeps_no_other_from_its_upkeep_and_is_told(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """The upkeep fails here because there is no Spark."""
    commits(tmp_path, "copies", 20)
    commits(tmp_path, "others", 20)
    (tmp_path / "others" / "_delta_log" / f"{3:020}.json").write_text("{")
    result = night(tmp_path, instance)
    assert not result.success
    assert "The upkeep of these tables ended with an error: others (" in failure(result)
    assert "copies (" in failure(result)


class Defeated:
    """A resource whose session first raises the error that Delta raises for a commit that lost to another writer."""

    def __init__(self, spark: SparkSession, error: Exception, times: int) -> None:
        self.spark, self.error, self.times = spark, error, times

    @property
    def spark_session(self) -> SparkSession:
        self.times -= 1
        if self.times >= 0:
            raise self.error
        return self.spark


@pytest.mark.parametrize("wins", [1, 9])
def test_a_commit_that_another_writer_defeats_is_tried_again_and_fails_no_night(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, wins: int
) -> None:
    monkeypatch.setattr(keeping, "_LOOK_AGAIN", 0.2)
    commits(tmp_path, "copies", 20)
    table = DeltaTable(str(tmp_path / "copies"))
    rival = rivals(spark, lambda: table.alter.set_table_properties({"delta.appendOnly": "false"}))
    with pytest.raises(Exception, match="METADATA") as defeat, rival:
        spark.sql(f"DELETE FROM delta.`{tmp_path}/copies` WHERE true")
    manager = DeltaIOManager(spark=Defeated(spark, defeat.value, wins), root=str(tmp_path))
    defs = incremental(dg.Definitions([orders, copies], resources={"io_manager": manager}), upkeep=CRON)
    result = defs.resolve_job_def(UPKEEP_JOB).execute_in_process(instance=instance, raise_on_error=False)
    lines = log_lines(instance, result)
    assert result.success
    assert lines.count("The upkeep of copies lost its commit to another writer.") == min(wins, 3)
    assert any("It has 1 file now, and had 20" in line for line in lines) == (wins == 1)
