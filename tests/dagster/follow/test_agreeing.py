"""A table whose inputs agree is asked for when a newer cut is there, and not when it would only find that it waits."""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse import DeltaIOManager, Policy
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
