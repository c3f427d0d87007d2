"""What a platform refuses, one wall at a time and all together: the tables come out the same, in one commit a run."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from lakehouse.cli.scratch import try_out
from lakehouse.commit import commit as loop
from lakehouse.commit.attempt import Writing
from lakehouse.dagster.resources import LocalSpark
from lakehouse.delta.limits import MEASURED, Limits, in_force
from lakehouse.delta.log import Head
from lakehouse.difference.statements import Planned
from lakehouse.server.connect import leave_all
from lakehouse.spark.abilities import abilities
from tests.support.for_each import for_each
from tests.support.governed import Wall, governed
from tests.support.lake import Lake
from tests.support.ready_runs import KEYED, committed, copy

pytestmark = [pytest.mark.governed, pytest.mark.timeout(1500)]

OF_STATEMENTS = {Wall.GLOBAL_VIEWS, Wall.SETTINGS, Wall.CLONES}
TOGETHER = ",".join(wall.value for wall in Wall)
EDITS = {
    "few rows": "UPDATE {src} SET v = 7 WHERE id < 5",
    "one row": "DELETE FROM {src} WHERE id = 3",
    "many of each kind": (
        "MERGE INTO {src} t USING (SELECT CAST(id + 100 AS int) AS id, 'n' AS g, 1 AS v FROM range(2000)) s "
        "ON t.id = s.id WHEN MATCHED AND s.id % 7 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 9 "
        "WHEN NOT MATCHED THEN INSERT *"
    ),
    "many deletions": "DELETE FROM {src} WHERE id % 2 = 1",
}
"""Each statement that a comparison can become."""
LIMITS = {"rows at the driver": MEASURED, "rows in Spark": Limits(driver_rows=0, tried_keys=0)}


@contextmanager
def behind(walls: str, spark: LocalSpark, lake: Lake) -> Generator[Lake]:
    """A lake whose session is a new one, behind walls."""
    leave_all()
    with governed([Wall(name) for name in walls.split(",")]):
        session = spark.spark_session
        yield Lake(session, lake.root)
        leave_all()
    lake.spark = spark.spark_session


def create(lake: Lake) -> None:
    source = lake.ref("src").identifier
    lake.spark.sql(
        f"CREATE TABLE {source} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
        "AS SELECT CAST(id AS int) AS id, 'a' AS g, CAST(id AS int) AS v FROM range(1500)"
    ).collect()


@for_each("walls, rows", [*((wall.value, "rows in Spark") for wall in Wall), (TOGETHER, "rows at the driver")])
def test_a_table_follows_its_source_over_walls(local_spark: LocalSpark, lake: Lake, walls: str, rows: str) -> None:
    root = lake.root / walls
    root.mkdir()
    with behind(walls, local_spark, Lake(lake.spark, root)) as behind_walls, in_force(LIMITS[rows]):
        create(behind_walls)
        committed(behind_walls.materialize(copy, KEYED))
        for edit in EDITS.values():
            behind_walls.sql(edit)
            assert committed(behind_walls.materialize(copy, KEYED)).lost == ()
            assert behind_walls.rows("copy") == behind_walls.rows("src"), edit
        assert len(behind_walls.commits("copy")) == 1 + len(EDITS)
        refuses = any(wall.value in walls for wall in OF_STATEMENTS)
        assert (abilities(behind_walls.spark).statements is not None) is refuses


def test_a_row_that_a_rival_adds_between_plan_and_write_stays(
    local_spark: LocalSpark, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows beside those that differ are read in the transaction that writes them, not when they were compared."""
    plan = loop.plan_attempt

    def plan_late(writing: Writing, head: Head | None) -> Planned:
        planned = plan(writing, head)
        if head is not None and head.version == 1:
            behind_walls.insert("copy", [(9999, "rival", 1)])
        return planned

    with behind(TOGETHER, local_spark, lake) as behind_walls, in_force(LIMITS["rows in Spark"]):
        create(behind_walls)
        behind_walls.materialize(copy, KEYED)
        behind_walls.sql(EDITS["few rows"])
        behind_walls.materialize(copy, KEYED)
        monkeypatch.setattr(loop, "plan_attempt", plan_late)
        behind_walls.sql(EDITS["many of each kind"])
        behind_walls.materialize(copy, KEYED)
        assert behind_walls.rows("copy") == sorted([*behind_walls.rows("src"), (9999, "rival", 1)], key=repr)


def test_what_a_session_can_is_tried_out_on_a_table_that_is_gone_afterwards(
    local_spark: LocalSpark, lake: Lake
) -> None:
    with behind(TOGETHER, local_spark, lake) as behind_walls:
        trials = {trial.about: trial for trial in try_out(behind_walls.spark, "default.doctors_scratch")}
        assert [trial for trial in trials.values() if trial.is_needed and trial.problem is not None] == []
        merge = trials["MERGE, repeated with its transaction"]
        assert merge.problem is not None and "refused, so rows are replaced instead: [" in merge.problem
        assert not behind_walls.spark.catalog.tableExists("default.doctors_scratch")
