"""A table whose inputs agree is requested when there is a newer cut, and not when its run could only wait."""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse import Changes, DeltaIOManager, Merge, Policy, Table, automation, change_sensor, validate
from lakehouse.dagster.follow.watch import Behind, Watch
from lakehouse.dagster.io_manager import managed_tables
from tests.support.agreeing_project import FORK, a, b, m, src
from tests.support.marked_tables import append, committed, run
from tests.support.ticks import ticked


def manager_of(root: Path, inputs: str = "agree") -> DeltaIOManager:
    return DeltaIOManager(spark=object(), root=str(root), policy=Policy(inputs=inputs))


def behind(root: Path, inputs: str = "agree") -> set[str]:
    manager = manager_of(root, inputs)
    with dg.DagsterInstance.ephemeral() as instance:
        looks = Watch(managed_tables(FORK, {"io_manager": manager})).look(instance).tables
    return {key.to_user_string() for key, look in looks.items() if isinstance(look, Behind)}


AT_NIGHT = dg.AutomationCondition.on_cron("@daily")


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    append(tmp_path, "src", 1)
    for name in ("a", "b"):
        run(tmp_path, name, "src")
    run(tmp_path, "m", "a", also=("b",))
    return tmp_path


def test_a_table_that_would_wait_is_not_asked_for(fork: Path) -> None:
    append(fork, "src", 2)
    run(fork, "a", "src")

    assert behind(fork) == {"b"}
    assert behind(fork, "newest") == {"b", "m"}


def test_a_newer_cut_is_asked_for_also_if_no_row_of_the_last_input_changed(fork: Path) -> None:
    append(fork, "src", 2)
    run(fork, "a", "src")
    run(fork, "b", "src", rows=False)

    assert behind(fork) == {"m"}


@dg.asset(metadata=Table(key="id"))
def deep(a: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"))
def meeting(deep: Changes, b: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"))
def seen(m: Changes) -> Merge: ...


def asked(root: Path, *assets: object, debounce: float = 0) -> list[list[str]]:
    """The tables in each run that a tick requests."""
    sensor = change_sensor("carry", assets, resources={"io_manager": manager_of(root)}, debounce=debounce)
    with dg.DagsterInstance.ephemeral() as instance:
        requests = ticked(sensor, instance).run_requests or []
    return [[key.to_user_string() for key in request.asset_selection or ()] for request in requests]


def test_a_table_that_waits_is_asked_for_with_all_that_is_behind_on_its_ways_in_one_run(fork: Path) -> None:
    run(fork, "deep", "a")
    run(fork, "meeting", "deep", also=("b",))
    append(fork, "src", 2)
    run(fork, "a", "src")

    assert asked(fork, *FORK[:3], deep, meeting) == [["b", "deep", "meeting"]]


def test_a_table_does_not_follow_where_it_would_only_find_that_it_waits(fork: Path) -> None:
    append(fork, "src", 2)
    by_schedule = b.with_attributes(automation_condition=dg.AutomationCondition.on_cron("@daily"))
    run(fork, "seen", "m")

    assert asked(fork, src, a, b, m, seen) == [["a", "b", "m", "seen"]]
    run(fork, "a", "src")
    append(fork, "src", 3)
    assert asked(fork, src, a, by_schedule, m, seen) == [["a"]]


def test_the_condition_asks_for_siblings_in_one_run_and_not_for_a_table_that_would_wait(
    fork: Path, instance: dg.DagsterInstance
) -> None:
    def wanted(*followed: dg.AssetsDefinition) -> set[str]:
        """The tables that one evaluation of the conditions requests; tables that are not followed run by a schedule."""
        keys = [asset.key for asset in followed]
        by_schedule = [asset for asset in (a, b, m) if asset not in followed]
        conditions = {asset: automation() for asset in followed} | dict.fromkeys(by_schedule, AT_NIGHT)
        assets = [src, *(asset.with_attributes(automation_condition=each) for asset, each in conditions.items())]
        defs = validate(dg.Definitions(assets=assets, resources={"io_manager": manager_of(fork)}))
        result = dg.evaluate_automation_conditions(defs, instance, dg.AssetSelection.assets(*keys))
        return {key.to_user_string() for key in keys if result.get_requested_partitions(key)}

    append(fork, "src", 2)
    assert wanted(a, b, m) == {"a", "b", "m"}
    run(fork, "a", "src")
    assert wanted(a, b, m) == {"b", "m"}
    assert wanted(a, m) == set(), "m waits for b, which no run that is asked for makes"
    append(fork, "src", 3)
    assert wanted(a, m) == {"a"}


def test_siblings_run_together_although_the_sources_of_one_have_not_been_still_for_long(fork: Path) -> None:
    run(fork, "deep", "a")
    append(fork, "src", 2)
    committed(fork / "src", days_ago=1)
    run(fork, "a", "src")
    run(fork, "meeting", "deep", also=("b",))

    assert asked(fork, *FORK[:3], deep, debounce=60) == [["b"]]
    assert asked(fork, *FORK[:3], deep, meeting, debounce=60) == [["b", "deep", "meeting"]]
