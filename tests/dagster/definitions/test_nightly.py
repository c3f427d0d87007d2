"""The nights: the schedule as Dagster evaluates it, and the job that it starts, executed; without Spark."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.utils import make_new_run_id
from deltalake import write_deltalake
from pyspark.sql import DataFrame

from lakehouse import (
    Append,
    Changes,
    DeltaIOManager,
    History,
    Merge,
    Nightly,
    Overwrite,
    Read,
    Snapshot,
    Table,
    checks,
    incremental,
)
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.definitions.checks import left_out
from lakehouse.dagster.definitions.night_schedule import NIGHTLY, missed_night
from lakehouse.dagster.definitions.past_checks import CHECK, LEFT_OUT, MadeCheck, last_made
from lakehouse.dagster.definitions.recompute import why_not_recomputed
from lakehouse.dagster.run_tags import NIGHT
from lakehouse.errors import DefinitionError
from tests.support.for_each import for_each

CRON = "0 3 * * *"
THREE = datetime(2026, 11, 25, 3, tzinfo=UTC)
DAYS = dg.DailyPartitionsDefinition("2026-01-01")
orders = dg.AssetSpec("orders", metadata=Table(key="id"))


def keyed(name: str) -> dg.AssetsDefinition:
    @dg.asset(name=name, metadata=Table(key="id"))
    def table(orders: Changes) -> Merge: ...

    return table


FIRST, SECOND, THIRD = (keyed(name) for name in ("first", "second", "third"))


def location(root: Path, *assets: Any, **parts: Any) -> dg.Definitions:
    """Definitions whose checks find no table, for which they need no Spark; others end with an error: there is none."""
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(root))
    return dg.Definitions(assets=assets, resources={"io_manager": manager}, **parts)


def schedule(defs: dg.Definitions) -> dg.ScheduleDefinition:
    (found,) = defs.schedules or []
    assert isinstance(found, dg.ScheduleDefinition)
    return found


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance on disk: Dagster does not evaluate a schedule with any other."""
    (home := tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as made:
        yield made


def night(defs: dg.Definitions, instance: dg.DagsterInstance, **options: Any) -> dg.ExecuteInProcessResult:
    return defs.resolve_job_def(NIGHTLY).execute_in_process(instance=instance, raise_on_error=False, **options)


def made(result: dg.ExecuteInProcessResult) -> list[str]:
    return [f"{e.asset_key.to_user_string()} {e.check_name}" for e in result.get_asset_check_evaluations()]


def messages(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    return "\n".join(entry.user_message for entry in instance.all_logs(result.run_id))


def report(instance: dg.DagsterInstance, asset: str, name: str, **parts: Any) -> None:
    instance.report_runless_asset_event(dg.AssetCheckEvaluation(dg.AssetKey(asset), name, **{"passed": True, **parts}))


def test_a_cron_schedule_is_the_consent_and_the_schedule_runs_from_the_start(
    tmp_path: Path, stored: dg.DagsterInstance
) -> None:
    assert not incremental(location(tmp_path, orders, FIRST)).schedules
    defs = incremental(location(tmp_path, orders, FIRST), nightly_checks=CRON)
    found = schedule(defs)
    assert (found.cron_schedule, found.default_status) == (CRON, dg.DefaultScheduleStatus.RUNNING)
    context = dg.build_schedule_context(instance=stored, scheduled_execution_time=THREE)
    (request,) = found.evaluate_tick(context).run_requests or []
    assert request.tags[NIGHT] == THREE.isoformat()
    assert found.job_name == NIGHTLY and night(defs, stored).success
    zoned = schedule(
        incremental(location(tmp_path, orders, FIRST), nightly_checks=Nightly(CRON, timezone="Asia/Tokyo"))
    )
    assert zoned.execution_timezone == "Asia/Tokyo"


def test_a_limit_that_lets_nothing_start_is_refused_and_so_is_one_of_bytes_that_checks_would_rewrite() -> None:
    for limit in ({"limit": timedelta()}, {"max_bytes": 0}):
        with pytest.raises(DefinitionError, match="is not positive"):
            Nightly(CRON, **limit)
    with pytest.raises(DefinitionError, match="is of upkeep"):
        incremental(dg.Definitions(), nightly_checks=Nightly(CRON, max_bytes=1))


def test_a_night_makes_the_library_s_checks_those_that_have_waited_longest_first(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """Checks that the definitions list are among them, with their own limits; a check of another author is not made."""

    @dg.asset_check(asset=FIRST)
    def other() -> dg.AssetCheckResult: ...

    own = checks([THIRD], "recompute", sample=5)
    defs = incremental(
        location(tmp_path, orders, FIRST, SECOND, THIRD, asset_checks=[other, *own]), nightly_checks=CRON
    )
    for asset in ("second", "first"):
        for name in (CHECK, "keys", "up_to_date", "schema"):
            report(instance, asset, name)
    report(instance, "orders", "keys")
    report(instance, "second", CHECK)
    first = made(night(defs, instance))
    assert set(first[:4]) == {f"third {name}" for name in (CHECK, "keys", "up_to_date", "schema")}
    assert {*first[2:4]} == {f"third {CHECK}", "third keys"}, "cheap ones before expensive ones that wait as long"
    waited = [f"second {name}" for name in ("keys", "up_to_date", "schema")]
    waited += [f"first {name}" for name in (CHECK, "keys", "up_to_date", "schema")]
    assert first[4:] == [*waited, "orders keys", f"second {CHECK}"]
    assert made(night(defs, instance)) == first, "each comes again after all others"


def test_a_check_that_was_left_out_since_it_was_made_waits_as_long(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    defs = incremental(location(tmp_path, orders, FIRST, SECOND), nightly_checks=CRON)
    night(defs, instance)
    before = last_made(instance, dg.AssetCheckKey(FIRST.key, CHECK))
    assert before is not None
    repeated = left_out("recompute", "first", before, "No night is to come.")
    assert repeated is not None
    report(instance, "first", CHECK, **repeated)
    again = last_made(instance, dg.AssetCheckKey(FIRST.key, CHECK))
    assert again is not None and again.at == before.at


def test_no_check_is_started_after_the_limit_and_none_looks_as_if_it_had_been(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """The limit counts from the start of the night, however long the run was in the queue."""
    defs = incremental(location(tmp_path, orders, FIRST), nightly_checks=CRON)
    late = night(defs, instance, tags={NIGHT: (datetime.now(UTC) - timedelta(hours=2, seconds=1)).isoformat()})
    assert late.success and made(late) == []
    assert "limit of 2 hours is reached: 5 checks were not started and come first in the next night" in messages(
        instance, late
    )
    assert last_made(instance, dg.AssetCheckKey(FIRST.key, CHECK)) is None
    in_time = night(defs, instance, tags={NIGHT: (datetime.now(UTC) - timedelta(hours=1)).isoformat()})
    assert len(made(in_time)) == 5


def test_a_night_does_not_begin_while_an_earlier_one_is_under_way(tmp_path: Path, stored: dg.DagsterInstance) -> None:
    defs = incremental(location(tmp_path, orders, FIRST), nightly_checks=CRON)
    found = schedule(defs)
    of_another = incremental(location(tmp_path, orders, SECOND), nightly_checks=CRON).resolve_job_def(NIGHTLY).tags
    stored.add_run(dg.DagsterRun(NIGHTLY, make_new_run_id(), status=dg.DagsterRunStatus.STARTED, tags=of_another))
    context = dg.build_schedule_context(instance=stored, scheduled_execution_time=THREE)
    assert found.evaluate_tick(context).run_requests, "that is another code location's"
    tags = defs.resolve_job_def(NIGHTLY).tags
    run = stored.add_run(dg.DagsterRun(NIGHTLY, make_new_run_id(), status=dg.DagsterRunStatus.STARTED, tags=tags))
    answer = found.evaluate_tick(dg.build_schedule_context(instance=stored, scheduled_execution_time=THREE))
    assert not answer.run_requests
    assert answer.skip_message == f"Run {run.run_id[:8]} of an earlier night is still under way."


def test_a_check_that_ends_with_an_error_keeps_no_other_from_being_made_and_is_told(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """The check fails here because there is no Spark to count the keys of the one table that exists."""
    write_deltalake(str(tmp_path / "orders"), pa.table({"id": [1]}))
    defs = incremental(location(tmp_path, orders, FIRST), nightly_checks=CRON)
    result = night(defs, instance)
    assert not result.success and len(made(result)) == 5
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert "These checks ended with an error: keys of orders." in str(failed.step_failure_data)
    told = {f"{e.asset_key.to_user_string()} {e.check_name}": e for e in result.get_asset_check_evaluations()}
    assert not told["orders keys"].passed and str(told["orders keys"].description).startswith(
        "This check ended with an"
    )


def evaluation(**parts: Any) -> MadeCheck:
    return MadeCheck(THREE.timestamp(), dg.AssetCheckEvaluation(FIRST.key, CHECK, **parts))


def test_a_run_that_leaves_a_check_out_says_that_it_never_was_made_or_that_it_failed_and_never_that_it_passed() -> None:
    why = "The night has not run."
    assert (
        left_out("recompute", "first", None, None) is left_out("keys", "first", evaluation(passed=True), None) is None
    )
    never, late = (left_out("recompute", "first", last, why) for last in (None, evaluation(passed=True)))
    for told, when in (
        (never, "never compared with a recompute"),
        (late, "last compared with a recompute at 2026-11-25T"),
    ):
        assert told is not None and not told["passed"] and told["severity"] is dg.AssetCheckSeverity.WARN
        assert told["description"].startswith(f"'first' was {when}") and told["description"].endswith(why)
    failed = left_out("keys", "first", evaluation(passed=False, description="2 keys differ."), None)
    assert failed is not None and not failed["passed"] and failed["severity"] is dg.AssetCheckSeverity.ERROR
    assert failed["description"] == "Not checked in this run. 2026-11-25T03:00:00+00:00: 2 keys differ."
    assert failed["metadata"][LEFT_OUT].value == THREE.timestamp()
    assert left_out("keys", "first", evaluation(**failed), why) == failed, "and the same the next time"


def test_a_night_without_a_run_that_went_well_is_missed_by_those_who_waited_for_it(stored: dg.DagsterInstance) -> None:
    now = time.time()
    for zone, hour in ((None, 3), ("Asia/Tokyo", 18)):
        night = Nightly(CRON, timezone=zone)
        begin = missed_night(night, stored, 0.0, now)
        assert begin is not None and begin.hour == hour and begin.tzinfo is UTC
        assert timedelta() < datetime.fromtimestamp(now, UTC) - begin < timedelta(days=1, hours=1)
        assert missed_night(night, stored, begin.timestamp(), now) is None, "the next one is still to come"
        assert missed_night(night, stored, 0.0, begin.timestamp() + 60) == begin - timedelta(days=1), "it may be late"
    stored.add_run(dg.DagsterRun(NIGHTLY, make_new_run_id(), status=dg.DagsterRunStatus.FAILURE))
    assert missed_night(night, stored, 0.0, now) == begin
    stored.add_run(dg.DagsterRun(NIGHTLY, make_new_run_id(), status=dg.DagsterRunStatus.STARTED))
    assert missed_night(night, stored, 0.0, now) is None


def assets() -> Iterator[tuple[dg.AssetsDefinition, str]]:
    @dg.asset
    def appended(orders: Changes) -> Append: ...

    @dg.asset(metadata=Table(key="id"))
    def taken(orders: DataFrame) -> Snapshot: ...

    @dg.asset
    def made_of_nothing() -> Overwrite: ...

    @dg.asset(metadata=Table(key="id"))
    def with_context(context: dg.AssetExecutionContext, orders: Changes) -> Merge: ...

    @dg.asset(metadata=Table(key="id"))
    def looks_up(orders: Changes, customers: DataFrame) -> Merge: ...

    @dg.asset(ins={"orders": dg.AssetIn(metadata=Read(start=3))}, metadata=Table(key="id"))
    def late(orders: Changes) -> Merge: ...

    @dg.asset(ins={"orders": dg.AssetIn(partition_mapping=dg.LastPartitionMapping())}, metadata=Table(key="id"))
    def of_the_last(orders: Changes) -> Merge: ...

    yield appended, "it appends: what was added stays"
    yield taken, "it takes extracts"
    yield made_of_nothing, "its function reads no table"
    yield with_context, "its function takes more than tables: context"
    yield looks_up, "'customers' is a snapshot input: rows that were written already do not follow"
    yield late, "its input 'orders' starts late or leaves commits out"
    yield of_the_last, "it reads only some partitions of 'orders'"


@for_each("asset, reason", [*assets()])
def test_the_page_of_a_table_that_no_recompute_gives_says_why(asset: dg.AssetsDefinition, reason: str) -> None:
    table = CodeLocation.of([asset], lambda _: None)[asset.key]
    assert str(why_not_recomputed(table)).startswith(reason)


def test_the_page_says_when_a_table_is_compared(tmp_path: Path) -> None:
    @dg.asset(metadata=Table(key="id"))
    def past(orders: Changes) -> History: ...

    @dg.asset
    def appended(orders: Changes) -> Append: ...

    @dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
    def daily(orders: Changes) -> Merge: ...

    def pages(**options: Any) -> dict[str, str]:
        defs = incremental(location(tmp_path, orders, FIRST, past, appended, daily), **options)
        assets = {
            each.key.to_user_string(): each for each in defs.assets or [] if isinstance(each, dg.AssetsDefinition)
        }
        return {name: str(each.specs_by_key[each.key].metadata["full_recompute"]) for name, each in assets.items()}

    never = f"Never compared with a recompute, unless somebody runs the check {CHECK}: the definitions name no schedule"
    assert pages()["first"].startswith(never)
    at_night = f"Compared with a recompute at night (0 3 * * *) by the check {CHECK}."
    assert pages(nightly_checks=CRON) == {
        "first": at_night,
        "past": f"{at_night} Its current rows are compared: its sources no longer have the past.",
        "appended": "Never compared with a recompute: it appends: what was added stays, whatever became of its sources "
        "since.",
        "daily": f"{at_night} Of its partitions one is compared each time.",
    }
