"""Runs that are repeated: by Dagster, where inputs are stale or a policy asks for it, or by a user who repeats one."""

import re
from collections.abc import Generator
from contextlib import contextmanager

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Read, Table
from lakehouse.dagster.failures import STALE_RETRIES
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import CommitError, StaleInputsError, UnsettledError
from tests.support.dagster_house import House, failure, metadata
from tests.support.interleave import after, before, raises
from tests.support.lake import NO_WAIT, Lake
from tests.support.slow import slow
from tests.support.tables import ASSETS, DAY_1, EVENTS, carried, orders

pytestmark = pytest.mark.served


def test_a_retry_policy_does_not_repeat_what_would_only_be_said_again(lake: Lake, instance: dg.DagsterInstance) -> None:
    calls: list[int] = []

    @dg.asset(metadata=Table(key="id"), retry_policy=dg.RetryPolicy(max_retries=3))
    def doubled(orders: Changes) -> Merge:
        calls.append(1)
        touched = orders.touched("id")
        return Merge(touched.rows.union(touched.rows), touched)

    lake.create("orders", [(1, DAY_1, 10)], EVENTS)
    result = House(lake, [orders, doubled], instance).run("doubled", raise_on_error=False)
    assert "more than one row with the key id=1" in failure(result)
    assert len(calls) == 1


def test_an_asset_that_writes_no_table_is_told_of_our_errors_as_the_others_are(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    @dg.asset(key_prefix="told", retry_policy=dg.RetryPolicy(max_retries=3))
    def nobody(orders: DataFrame) -> None:
        """Reads a table, and writes none."""

    result = House(lake, [orders, nobody], instance).run("told/nobody", raise_on_error=False)
    assert "'told/nobody' reads 'orders', but there is no Delta table at" in failure(result)
    assert not [event for event in result.all_events if event.event_type_value == "STEP_RESTARTED"]


@pytest.mark.slow
def test_a_column_that_the_table_lacks_is_filled_by_another_try_that_compares_everything(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_1, 20)], EVENTS)
    house = House(lake, ASSETS, instance)
    house.run("copies")
    lake.sql("ALTER TABLE {orders} ADD COLUMN w INT")
    lake.sql("UPDATE {orders} SET w = id")
    lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    result = house.run("copies")
    how = metadata(result, "copies")["read"][0]["how"]
    assert how.startswith("everything: its result has the column w, which the table lacked")
    assert lake.rows("copies") == lake.rows("orders")


@contextmanager
def gone_while_writing(lake: Lake) -> Generator[None]:
    """The changes are too many for the driver, and by the time that Spark reads them they are gone."""
    for file in (lake.root / "orders" / "_change_data").glob("*.parquet"):
        file.unlink()
    with in_force(Limits(driver_rows=10)):
        yield


@pytest.mark.slow
def test_changes_found_unreadable_while_writing_are_compared_instead(lake: Lake, instance: dg.DagsterInstance) -> None:
    """The change files vanish between the plan and the write: the step runs again and compares everything."""
    lake.create("orders", [(n, DAY_1, n) for n in range(100)], EVENTS)
    house = House(lake, ASSETS, instance)
    house.run("copies")
    lake.sql("UPDATE {orders} SET v = v + 1 WHERE id < 50")
    with gone_while_writing(lake):
        result = house.run("copies")
    assert metadata(result, "copies")["read"][0]["how"].startswith("everything: ")
    assert lake.rows("copies") == lake.rows("orders")


@pytest.mark.slow
def test_a_table_that_may_not_be_compared_is_not_compared_for_a_late_gap_either(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata=Table(key="id", on_gap="fail"))
    def careful(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    lake.create("orders", [(n, DAY_1, n) for n in range(100)], EVENTS)
    house = House(lake, [orders, careful], instance)
    house.run("careful")
    lake.sql("UPDATE {orders} SET v = v + 1 WHERE id < 50")
    with gone_while_writing(lake):
        result = house.run("careful", raise_on_error=False)
    assert "cannot read its changes (0, 1]" in failure(result)
    assert lake.version("careful") == 0


@pytest.mark.slow
def test_an_archive_answers_for_a_late_gap(lake: Lake, instance: dg.DagsterInstance) -> None:
    @dg.asset
    def kept(orders: Changes) -> Append:
        return Append(orders.log())

    @dg.asset(ins={"orders": dg.AssetIn(metadata=Read(archive="kept"))})
    def again(orders: Changes) -> Append:
        return Append(orders.log())

    lake.create("orders", [(n, DAY_1, n) for n in range(100)], EVENTS)
    house = House(lake, [orders, kept, again], instance)
    house.run("kept", "again")
    lake.sql("UPDATE {orders} SET v = v + 1 WHERE id < 50")
    house.run("kept")
    with gone_while_writing(lake):
        assert metadata(house.run("again"), "again")["read"][0]["how"] == "the archive"
    assert lake.frame("again").count() == 100 + 50 + 50


def executed(house: House, definitions: dg.Definitions, *names: str, repeats: str | None = None) -> dg.DagsterRun:
    """A run of assets, which may repeat an earlier one; Dagster has no public way to start such a run from here."""
    job = definitions.resolve_implicit_global_asset_job_def()
    selection = frozenset(dg.AssetKey(name) for name in names)
    run = house.instance.create_run_for_job(
        job.get_subset(asset_selection=selection), parent_run_id=repeats, root_run_id=repeats, asset_selection=selection
    )
    execute_run(InMemoryJob(job.get_subset(asset_selection=selection)), run, house.instance)
    ended = house.instance.get_run_by_id(run.run_id)
    assert ended is not None
    return ended


def test_a_run_that_repeats_one_that_repeats_one_knows_its_commit(lake: Lake, instance: dg.DagsterInstance) -> None:
    """The first run died between its commit and Dagster's event, the second before it wrote anything."""
    fails: list[bool] = [False, True, False]

    @dg.asset
    def added(orders: DataFrame) -> Append:
        if fails.pop(0):
            raise RuntimeError("before anything is written")
        return Append(orders)

    lake.create("orders", [(1, DAY_1, 10)], EVENTS)
    house = House(lake, [orders, added], instance)
    defined = dg.Definitions(
        assets=[orders, added], resources={"io_manager": house.io_manager}, executor=dg.in_process_executor
    )
    with after("find in the log", raises(RuntimeError("between the commit and the event"))):
        first = executed(house, defined, "added")
    second = executed(house, defined, "added", repeats=first.run_id)
    third = executed(house, defined, "added", repeats=second.run_id)
    assert [run.is_success for run in (first, second, third)] == [False, False, True]
    assert lake.rows("added") == [(1, DAY_1, 10)]


@pytest.mark.slow
def test_a_step_that_a_twin_overtook_is_run_again_with_new_inputs(house: House) -> None:
    """The twin has read less than this run, so this run still has work to do, but must not write what it computed."""
    twin = house.lake.begin(carried, Table(key="id"), name="copied")
    less = carried(**house.lake.read(twin, carried))  # up to version 0
    house.lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")  # the run reads up to 1
    seen: list[int] = []

    @dg.asset(metadata=Table(key="id"))
    def copied(orders: Changes) -> Merge:
        seen.append(orders.range.after)
        if len(seen) == 1:
            twin.commit(less, house.retry, NO_WAIT)
        return carried(orders)

    house.assets = [orders, copied]
    assert house.run("copied").success
    assert seen == [-1, 0]
    assert house.lake.rows("copied") == house.lake.rows("orders")


@pytest.mark.parametrize(
    "error",
    [StaleInputsError.overtaken("copied", "3f2a", 118), StaleInputsError.rolled_back("copied", 3)],
    ids=lambda error: type(error).__name__,
)
def test_a_step_whose_inputs_are_always_stale_is_not_run_for_ever(house: House, error: Exception) -> None:
    calls: list[int] = []

    @dg.asset(metadata=Table(key="id"))
    def copied(orders: Changes) -> Merge:
        calls.append(1)
        assert len(calls) <= 1 + STALE_RETRIES, "this would go on for ever"
        return carried(orders)

    house.assets = [orders, copied]
    with before("plan", *[raises(error)] * 9):
        result = house.run("copied", raise_on_error=False)
    assert not result.success
    assert len(calls) == 1 + STALE_RETRIES
    assert str(error) in failure(result)


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False], ids=["a first read", "a later one"])
def test_a_source_that_is_not_whole_any_more_ends_the_run(
    lake: Lake, instance: dg.DagsterInstance, *, first: bool
) -> None:
    """One try with the feed and one without it; if the second fails as well, there is no third."""
    tries: list[int] = []

    @dg.asset(metadata=Table(key="id"))
    def copied(orders: Changes) -> Merge:
        tries.append(1)
        assert len(tries) <= 5, "this would go on for ever"
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    lake.create("orders", [(n, DAY_1, n) for n in range(10)], EVENTS)
    house = House(lake, [orders, copied], instance)
    if not first:
        house.run("copied")
        lake.sql("UPDATE {orders} SET v = v + 1 WHERE id = 1")
        tries.clear()
    for name in ("orders", "copied"):
        for file in (lake.root / name).rglob("*.parquet"):
            file.unlink()
    said = failure(house.run("copied", raise_on_error=False))
    assert "The result of 'copied' needs a file that does not exist" in said
    assert re.search(r"(orders|copied)/part-", said)
    assert len(tries) <= (1 if first else 2)


@pytest.mark.parametrize(
    "error",
    [
        SparkRuntimeException("Job aborted due to stage failure: ExecutorLostFailure (executor 12 exited)"),
        slow(CommitError.conflict("copied", 8, 42.0, "a MERGE", "its inputs are as they were", "Run it again.")),
        slow(CommitError.unknown_outcome("copied", "a7", "the storage does not answer")),
        slow(UnsettledError("copied", 3, 8, "the same rows")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_retry_policy_repeats_what_may_pass(lake: Lake, instance: dg.DagsterInstance, error: Exception) -> None:
    calls = list[int]()

    @dg.asset(metadata=Table(key="id"), retry_policy=dg.RetryPolicy(max_retries=2))
    def copied(orders: Changes) -> Merge:
        calls.append(1)
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    lake.create("orders", [(1, DAY_1, 10)], EVENTS)
    with before("plan", raises(error)):
        assert House(lake, [orders, copied], instance).run("copied").success
    assert len(calls) == 2
