"""Upkeep is killed in the middle of each of its statements: the table reads as before, and the next upkeep does the rest."""

from dataclasses import dataclass

import pytest

from benchmarks.harness.earlier import set_back
from lakehouse.cursor.mark import mark_in
from lakehouse.upkeep.due import UpkeepWork
from tests.reliability.checker import check
from tests.reliability.park import parked
from tests.reliability.pipeline import FIRST, SRC, STEPS, assets
from tests.reliability.upkeep_victim import UpkeepOrder, UpkeepPoint
from tests.reliability.victim import in_our_jvm, in_own_jvm, started
from tests.support.lake import Lake
from tests.upkeep.by_hand import carry_out, compares, look

pytestmark = [pytest.mark.timeout(900), pytest.mark.kill]
PROPERTIES = (
    "'delta.enableDeletionVectors' = 'true', 'delta.deletedFileRetentionDuration' = 'interval 30 days', "
    "'lakehouse.timeTravel' = 'interval 7 days'"
)


@dataclass(frozen=True, slots=True)
class Killed:
    """One crash.

    Args:
        work: The statement.
        point: Where upkeep is killed, with its JVM.
        days: How many days ago everything in the table happened.
    """

    work: UpkeepWork
    point: UpkeepPoint
    days: float = 0

    def __str__(self) -> str:
        return f"{self.work.name}, {self.point}, JVM killed"


CASES = (
    Killed(UpkeepWork.MARK, "before the log entry", 20),
    Killed(UpkeepWork.COMPACT, "data written"),
    Killed(UpkeepWork.COMPACT, "before the log entry"),
    Killed(UpkeepWork.COMPACT, "entry durable"),
    Killed(UpkeepWork.PURGE, "before the log entry"),
    Killed(UpkeepWork.FREE, "entry durable", 10),
    Killed(UpkeepWork.FREE, "some files gone", 10),
)


@pytest.fixture
def moved(lake: Lake) -> Lake:
    """`current` in several files, with deleted rows and past files, behind its source."""
    lake.create("src", FIRST, SRC)
    lake.materialize(STEPS["current"].asset, STEPS["current"].table)
    lake.sql("ALTER TABLE {current} SET TBLPROPERTIES (" + PROPERTIES + ")")
    for number in (1, 2):
        lake.sql(f"UPDATE {{src}} SET v = v + 1, token = 'edit-{number}' WHERE id = {number}")
        lake.insert("src", [(10 + number, "b", number, f"edit-{number}-a")])
        lake.materialize(STEPS["current"].asset, STEPS["current"].table)
    lake.sql("UPDATE {src} SET v = v + 1, token = 'edit-3' WHERE id = 3")
    return lake


def settle(lake: Lake) -> None:
    """Carries out upkeep until nothing is due, then the run that reads on."""
    rows = lake.rows("current")
    for _ in range(2):  # the result of one statement can make another one due
        carry_out(lake, look(lake, "current"))
    assert look(lake, "current").tasks == (), "nothing is due any more"
    assert lake.rows("current") == rows
    assert not compares(lake, STEPS["current"].asset, STEPS["current"].table), "it reads on"
    expected = [row for row in lake.rows("src") if row[2] < 50]
    assert lake.rows("current") == expected


def data(lake: Lake) -> set[str]:
    """Files of the table: data, changed rows, deletion vectors."""
    files = {file.relative_to(lake.root / "current") for file in (lake.root / "current").rglob("*") if file.is_file()}
    return {str(file) for file in files if file.suffix in (".parquet", ".bin") and file.parts[0] != "_delta_log"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_killed_upkeep_leaves_nothing_half_done(
    moved: Lake, tmp_path_factory: pytest.TempPathFactory, case: Killed
) -> None:
    if case.work is UpkeepWork.PURGE:  # one file, so that nothing is merged, from which a rival deletes a row
        moved.insert("current", [(90, "b", 1, "gone")])
    if case.work in (UpkeepWork.PURGE, UpkeepWork.FREE):
        moved.sql("OPTIMIZE {current}")
    if case.work is UpkeepWork.PURGE:
        moved.sql("DELETE FROM {current} WHERE id = 90")
    for table in ("src", "current"):
        set_back(moved.root / table, case.days)
    before, files = moved.rows("current"), data(moved)
    victim = started(in_own_jvm(tmp_path_factory.mktemp("victim")))
    victim.begin(UpkeepOrder(moved.root, "current", case.work, case.point))
    victim.reached()
    victim.kill_jvm()
    victim.kill_python()

    assert moved.rows("current") == before, "every row is there, and no row twice"
    assert (case.point == "some files gone") == bool(files - data(moved)), "the kill hit its point"
    settle(moved)
    if case.days == 0:  # the checker reads past versions, and upkeep has removed old ones
        own = [asset for asset in assets(moved.root) if asset.name == "current"]
        assert check(own, died=["victim", "upkeep", *_runs(moved)]) == []


def _runs(lake: Lake) -> list[str]:
    """The ids of all runs in the log, since the test keeps no record of its runs."""
    return [mark.run for commit in lake.commits("current") if (mark := mark_in(commit)) is not None]


def test_an_optimize_whose_python_was_killed_loses_to_the_next_upkeep(moved: Lake) -> None:
    """The server carries on with the statement of a client that is gone."""
    victim = in_our_jvm(moved.spark)
    victim.begin(UpkeepOrder(moved.root, "current", UpkeepWork.COMPACT, "before the log entry"))
    victim.reached()
    victim.kill_python()
    before = moved.rows("current")
    carry_out(moved, look(moved, "current"))
    zombie = parked(moved.spark, "commit")
    zombie.release()
    zombie.ended()
    assert moved.rows("current") == before
    settle(moved)
