"""What a platform refuses, one wall at a time and all together: tables come out the same, in one commit per run."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from pyspark.sql.connect.client import core
from pyspark.sql.connect.client.retries import DefaultPolicy

from benchmarks.harness.earlier import set_back
from lakehouse import DeltaIOManager
from lakehouse.cli.doctor import Health, of_scratch, of_session
from lakehouse.commit import commit as loop
from lakehouse.commit.attempt import Writing
from lakehouse.dagster.resources import LocalSpark
from lakehouse.delta.limits import MEASURED, Limits, in_force
from lakehouse.delta.log import Head
from lakehouse.difference.statements import Planned
from lakehouse.server.connect import leave_all
from lakehouse.spark.abilities import abilities
from lakehouse.spark.progress import listening
from lakehouse.spark.scratch import try_out
from lakehouse.upkeep.due import UpkeepWork
from tests.support.for_each import for_each
from tests.support.governed import SETTABLE, Wall, governed
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import KEYED, committed, copy
from tests.upkeep.by_hand import carry_out, look
from tests.upkeep.test_upkeep_on_spark import ONLY_FREE, present

pytestmark = [pytest.mark.governed, pytest.mark.timeout(1500)]

OF_STATEMENTS = {Wall.GLOBAL_VIEWS, Wall.SETTINGS, Wall.CLONES}
OVERCOME = [wall for wall in Wall if wall is not Wall.MODIFY]
TOGETHER = ",".join(wall.value for wall in OVERCOME)
SCRATCH = "default.doctors_scratch"
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
"""Edits that together lead to each statement that a comparison can become."""
LIMITS = {"rows at the driver": MEASURED, "rows in Spark": Limits(driver_rows=0, tried_keys=0)}


@contextmanager
def behind(walls: str, spark: LocalSpark, lake: Lake, *rest: Any) -> Generator[Lake]:
    """A lake with a new session, behind walls."""
    leave_all()
    with governed([Wall(name) for name in walls.split(",") if name], *rest):
        try:
            yield Lake(spark.spark_session, lake.root)
        finally:
            leave_all()  # while the gateway still answers: otherwise PySpark 4.0 would try to reach it for ten minutes
    lake.spark = spark.spark_session


def requests_of_steps(walls: str, spark: LocalSpark, lake: Lake) -> dict[str, int]:
    """How many requests the step after each edit sends to the server, once the session knows what is allowed."""
    asked: dict[str, int] = {}
    root = lake.root / f"behind {walls}"
    root.mkdir()
    leave_all()
    with governed([Wall(name) for name in walls.split(",") if name]) as gateways, in_force(LIMITS["rows in Spark"]):
        behind_walls = Lake(spark.spark_session, root)
        create(behind_walls)
        behind_walls.materialize(copy, KEYED)
        (gateway,) = gateways.values()
        for name, edit in {"warm": "UPDATE {src} SET v = v + 1", **EDITS}.items():
            behind_walls.sql(edit)
            before = gateway.asked
            behind_walls.materialize(copy, KEYED)
            asked[name] = gateway.asked - before
        leave_all()
    lake.spark = spark.spark_session
    return asked


def test_a_step_over_walls_asks_the_server_as_often_as_one_without(local_spark: LocalSpark, lake: Lake) -> None:
    over, without = (requests_of_steps(walls, local_spark, lake) for walls in (TOGETHER, ""))
    for edit in EDITS:
        assert over[edit] <= 1.2 * without[edit], edit


def create(lake: Lake) -> None:
    source = lake.ref("src").identifier
    lake.spark.sql(
        f"CREATE TABLE {source} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
        "AS SELECT CAST(id AS int) AS id, 'a' AS g, CAST(id AS int) AS v FROM range(1500)"
    ).collect()


@for_each("walls, rows", [*((wall.value, "rows in Spark") for wall in OVERCOME), (TOGETHER, "rows at the driver")])
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
        # Spark 4.0 has no clones: a new session is begun there, so that wall does not matter.
        clones = set[Wall]() if hasattr(behind_walls.spark, "cloneSession") else {Wall.CLONES}
        refuses = any(wall.value in walls for wall in OF_STATEMENTS - clones)
        assert (abilities(behind_walls.spark).statements is not None) is refuses


def test_a_row_that_a_rival_adds_between_plan_and_write_stays(
    local_spark: LocalSpark, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other rows of rewritten files are read in the transaction that writes them, not when rows were compared."""
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
        session = of_session("io_manager", DeltaIOManager(spark=local_spark, root=str(lake.root)))
        assert session.health is Health.GOOD and "a Delta of the platform's own" in session.what
        trials = {trial.about: trial for trial in try_out(behind_walls.spark, SCRATCH)}
        assert [trial for trial in trials.values() if trial.is_needed and trial.problem is not None] == []
        merge = trials["MERGE, repeated with its transaction"]
        assert merge.problem is not None and "refused, so rows are replaced instead: " in merge.problem
        assert not behind_walls.spark.catalog.tableExists(SCRATCH)


@for_each("passing", range(3))
def test_a_setting_that_is_refused_after_others_passed_leaves_nothing_half_done(
    local_spark: LocalSpark, lake: Lake, passing: int
) -> None:
    delta = "spark.databricks.delta."
    of_a_transaction = [f"{delta}write.txnAppId", f"{delta}write.txnVersion", f"{delta}commitInfo.userMetadata"]
    lake.root.joinpath(str(passing)).mkdir()
    lake = Lake(lake.spark, lake.root / str(passing))
    settable = {*SETTABLE, *of_a_transaction[:passing]}
    with behind("settings", local_spark, lake, settable) as behind_walls, in_force(LIMITS["rows in Spark"]):
        create(behind_walls)
        behind_walls.materialize(copy, KEYED)
        for edit in EDITS.values():
            behind_walls.sql(edit)
            behind_walls.materialize(copy, KEYED)
        assert behind_walls.rows("copy") == behind_walls.rows("src")
        assert len(behind_walls.commits("copy")) == 1 + len(EDITS)
        refused = abilities(behind_walls.spark).statements
        assert refused is not None and of_a_transaction[passing] in refused
    kept = local_spark.spark_session.conf.getAll.keys() & set(of_a_transaction)
    assert not kept


@for_each("walls", ["modify", f"{TOGETHER},modify"])
def test_a_catalog_that_denies_modify_is_quoted_and_nothing_is_written(
    local_spark: LocalSpark, lake: Lake, walls: str
) -> None:
    lake.root.joinpath(walls).mkdir()
    lake = Lake(local_spark.spark_session, lake.root / walls)
    create(lake)
    lake.materialize(copy, KEYED)
    denied = raises_code("DELTA_REFUSED", match="INSUFFICIENT_PERMISSIONS.*not have MODIFY on.*Nothing was written")
    for edit in EDITS.values():
        lake.sql(edit)
        before = lake.rows("copy"), lake.commits("copy")
        with behind(walls, local_spark, lake) as behind_walls, in_force(LIMITS["rows in Spark"]), denied:
            behind_walls.materialize(copy, KEYED)
        assert (lake.rows("copy"), lake.commits("copy")) == before
        lake.materialize(copy, KEYED)
    with behind(walls, local_spark, lake) as behind_walls:
        trials = {trial.about.split(",")[0]: trial for trial in try_out(behind_walls.spark, SCRATCH)}
        for way in ("append", "replaceWhere", "replaceOn"):
            problem = trials[way].problem
            assert problem is not None and "have MODIFY on" in problem, way
    assert not lake.spark.catalog.tableExists(SCRATCH)


@pytest.mark.filterwarnings("ignore:.*RETRIES_EXCEEDED")
def test_a_server_that_goes_away_while_it_is_tried_is_one_finding_and_the_next_call_drops_the_table(
    local_spark: LocalSpark, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "DefaultPolicy", partial(DefaultPolicy, max_retries=0))  # otherwise ten minutes
    manager = DeltaIOManager(spark=local_spark, root=str(lake.root))
    left, was_left = 20, False
    while True:
        with behind("", local_spark, lake, SETTABLE, left):
            symptoms = list(of_scratch("io_manager", manager, SCRATCH))
        if len(symptoms) > 1:
            break
        assert symptoms[0].health is Health.WRONG
        assert "Spark went away" in symptoms[0].what and f"drops {SCRATCH} if it was left" in symptoms[0].what
        was_left |= lake.spark.catalog.tableExists(SCRATCH)
        left *= 2
    assert was_left
    assert [symptom.what for symptom in symptoms if symptom.health is not Health.GOOD] == []
    assert not lake.spark.catalog.tableExists(SCRATCH)


def test_upkeep_frees_files_where_no_session_for_vacuum_is_allowed(local_spark: LocalSpark, lake: Lake) -> None:
    lake.spark = local_spark.spark_session
    create(lake)
    lake.sql("DELETE FROM {src} WHERE id % 2 = 0")
    set_back(lake.root / "src", 30)
    with behind(TOGETHER, local_spark, lake) as behind_walls:
        lake.spark, needed = behind_walls.spark, look(lake, "src", ONLY_FREE)
        assert [task.work for task in needed.tasks] == [UpkeepWork.FREE]
        before = present(lake)
        with listening(lake.hear):
            carry_out(lake, needed)
        assert present(lake) == before - {file.path for file in needed.unneeded} != before
        assert any("Spark refuses the settings of VACUUM" in said for said in lake.told)
