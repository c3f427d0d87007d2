"""The cost of a branch of fifteen tables, and of its first run compared with the same run in production."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from benchmarks.harness import report
from benchmarks.harness.data import change, clone, neighbours, same
from benchmarks.harness.jvm import forget_logs
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.race import rotated
from benchmarks.harness.report import Result, at_most
from benchmarks.suites.agree import SOURCE, copied
from benchmarks.suites.orchestration import Running
from lakehouse import DeltaIOManager
from lakehouse.dagster.branches import drop_branch, make_branch, on_branch

ROWS, LARGE, TABLES = 5_000_000, 50_000_000, 15
"""The rows of all tables together, in the usual and in the large size; how many tables there are, with the source."""
NAMES = ["source", *(f"table{n}" for n in range(1, TABLES))]
ASSETS = [copied(NAMES[n], NAMES[(n - 1) // 2]) for n in range(1, TABLES)]
"""A tree of four levels: each table has the rows of the one above."""
MADE, WARM = "a branch is made", "a run in production, its logs in memory"
PRODUCTION, BRANCH = "a run in production, in a Spark that has not read its logs", "the first run on the branch"
NAME, LIMIT = "try", timedelta(days=7)


def run(lab: Lab) -> Result:
    spark, rows = lab.ours(), (LARGE if lab.large else ROWS) // TABLES
    costs: dict[str, list[Cost]] = {MADE: [], WARM: [], PRODUCTION: [], BRANCH: []}
    with lab.room() as room, dg.instance_for_test(temp_dir=str(room)) as instance:
        lake = room / "lake"
        clone(lab.table(rows, 6), lake / "source")
        defs = definitions(spark, lake)
        materialize(defs, instance)
        for turn in range(lab.rounds + 1):
            measured = {MADE: cost_of(lab, MADE, partial(make_branch, defs, NAME, (), LIMIT))}
            branch = room / "lake_branches" / NAME
            places = rotated([(PRODUCTION, None, lake), (BRANCH, NAME, branch)], turn)
            for what, name, root in [(WARM, None, lake), *places]:  # cloning the tables has read their logs
                change(spark, root / "source", neighbours(turn))
                if what != WARM:
                    forget_logs(lab.spark)
                with on_branch(name):
                    measured[what] = cost_of(lab, what, partial(materialize, defs, instance))
            assert all(same(spark, root / "source", root / NAMES[-1]) for root in (lake, branch))
            drop_branch(defs, NAME)
            for what, cost in measured.items() if turn else ():
                costs[what].append(cost)
    made, _, production, first = (medians(each) for each in costs.values())
    return Result(
        "branch_large" if lab.large else "branch",
        "A branch of fifteen tables",
        f"{TABLES} tables of {lab.rows(rows):,} rows each, in four levels. A branch is made; then all tables run "
        "after one changed row of the source, on the branch and in production, which take turns to begin. The logs "
        "of a branch are new to Spark, so its first run stands beside one in production whose logs Spark has to read.",
        report.COLUMNS[:-1],
        [(what, *report.figures(medians(each))) for what, each in costs.items()],
        [
            at_most("made in at most 10 s", made.wall, 10),
            at_most("wall of its first run: at most 1.2x", first.wall / production.wall, 1.2),
            at_most("CPU of its first run: at most 1.2x", first.cpu / production.cpu, 1.2),
        ],
    )


def definitions(spark: SparkSession, lake: Path) -> dg.Definitions:
    manager = DeltaIOManager(spark=Running(spark), root=str(lake))
    return dg.Definitions([SOURCE, *ASSETS], resources={"io_manager": manager}, executor=dg.in_process_executor)


def cost_of(lab: Lab, what: str, step: Callable[[], object]) -> Cost:
    return lab.meter.measure(what, step)[1].cost


def materialize(defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    quietly = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    job = defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(run_config=quietly, instance=instance).success
