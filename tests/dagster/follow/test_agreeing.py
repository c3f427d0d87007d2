"""A table whose inputs agree is asked for when a newer cut is there, and not when it would only find that it waits."""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse import DeltaIOManager, Policy
from lakehouse.dagster.follow.sensor import sensor_of
from lakehouse.dagster.follow.watch import Behind, Watch
from lakehouse.dagster.io_manager import managed_tables
from tests.support.agreeing_project import FORK
from tests.support.marked_tables import append, run


def behind(root: Path, inputs: str = "agree") -> set[str]:
    manager = DeltaIOManager(spark=object(), root=str(root), policy=Policy.of({"inputs": inputs}))
    with dg.DagsterInstance.ephemeral() as instance:
        looks = Watch(managed_tables(FORK, {"io_manager": manager})).look(instance).tables
    return {key.to_user_string() for key, look in looks.items() if isinstance(look, Behind)}


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


def test_one_run_is_asked_for_all_on_the_ways_to_a_table_that_waits_and_for_the_table(fork: Path) -> None:
    """A sibling that others have passed reads as far as these: so whoever has something to read is in that run."""
    append(fork, "src", 2)
    run(fork, "a", "src")
    append(fork, "src", 3)
    manager = DeltaIOManager(spark=object(), root=str(fork), policy=Policy(inputs="agree"))
    sensor = sensor_of(managed_tables(FORK, {"io_manager": manager}), "carry_changes")
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    asked = [{key.to_user_string() for key in each.asset_selection or ()} for each in result.run_requests or ()]
    assert asked == [{"a", "b", "m"}]
