"""A run is killed at a named point and repeated; afterwards the files show that every change was applied once.

`make crash` and `make crash-jvm` run every case, a plain run of this file only the most telling ones. The table of the
cases is in docs/reliability.md.
"""

import os
import shutil
from collections.abc import Generator

import pytest
from pyspark.sql import SparkSession

from tests.reliability.cases import TELLING, Case, all_cases
from tests.reliability.crash import Crash, Spares, Start
from tests.reliability.pipeline import STEPS, create, edit
from tests.reliability.victim import PHASES, platform
from tests.support.lake import Lake

pytestmark = [pytest.mark.timeout(900), pytest.mark.kill]  # the first case also waits for the lake that all start from
CASES = list(all_cases()) if os.environ.get("LAKEHOUSE_CRASHES") == "all" else list(TELLING)


@pytest.fixture(scope="module")
def spares(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Generator[Spares]:
    found = Spares(spark, lambda: tmp_path_factory.mktemp("victim"))
    found.wanted = sum(case.kill != "Python" for case in CASES)
    found.prepare()
    yield found
    found.end()


@pytest.fixture(scope="module")
def start(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Start:
    root = tmp_path_factory.mktemp("start")
    (root / "behind").mkdir()
    made = Crash(Lake(spark, root / "behind"), CASES[0], None)
    create(made.lake)
    for number in range(3):
        for name in STEPS if number < 2 else ():
            made.materialize(name)
        edit(made.lake, number)
    shutil.copytree(root / "behind", root / "ahead")
    acks = list(made.acks)
    ahead = Crash(Lake(spark, root / "ahead"), CASES[0], None, made.acks)
    ahead.materialize("current")
    return Start(root / "behind", root / "ahead", acks, made.acks)


def lands(case: Case) -> bool:
    """Whether the commit of the run that is killed must get into the log in this case."""
    if case.of_quarantine:
        return False
    if case.point in ("entry durable", "before the hooks", "answered"):
        return True
    if case.kill != "Python" or case.point not in (*PHASES, "data partly written") or case.point == "back-off":
        return False
    defeated = case.rival == "OPTIMIZE first" and case.step != "archive"  # an OPTIMIZE does not defeat a blind append
    return case.again != "before the zombie" and not defeated


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_crash_loses_nothing_and_doubles_nothing(lake: Lake, start: Start, spares: Spares, case: Case) -> None:
    victim = spares.take(case)
    crash = Crash(lake, case, victim)
    crash.prepare(start)
    with platform(lake.spark, only_writes=case.only_writes):
        crash.crash()
        assert crash.landed() == lands(case), "the kill did not hit its point"
        crash.settle()
    assert crash.violations() == []
