"""The recipes of docs/how-to/check-tables.md, run as they are written."""

from datetime import timedelta

import dagster as dg

from tests.entry.test_readme import code

PAGE = "docs/how-to/check-tables.md"


def test_each_failed_check_of_a_run_is_sent() -> None:
    @dg.asset_check(asset="copies")
    def right() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True, description="Fine.")

    @dg.asset_check(asset="copies")
    def late() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=False, description="Behind.")

    sent: list[str] = []
    recipes = code(PAGE)
    recipes["send"] = sent.append
    sensor = recipes["on_failed_check"]
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [right, late], selection=dg.AssetSelection.checks(right, late), instance=instance, raise_on_error=False
        )
        run = instance.get_run_by_id(result.run_id)
        assert run is not None
        (end,) = [e for e in result.all_events if e.event_type is dg.DagsterEventType.RUN_SUCCESS]
        sensor(dg.build_run_status_sensor_context("on_failed_check", end, instance, run))
    assert sent == ["copies, late: Behind."]


def test_freshness_is_given_by_the_first_part_of_a_key() -> None:
    source, asset = code(PAGE)["tables"]
    assert source.freshness_policy is None
    expected = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=36))
    assert asset.specs_by_key[asset.key].freshness_policy == expected


def test_the_nightly_schedule_is_on_and_of_every_check() -> None:
    made = code(PAGE)
    (schedule,) = made["defs"].schedules
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    names = {key.name for check in made["every_table"] for key in check.check_keys}
    assert names == {"equals_full_recompute", "up_to_date", "schema", "keys"}
