"""The cost of inputs that agree: a table without siblings, a diamond of ten tables, and a cut over a hundred."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.harness import report
from benchmarks.harness.data import KEY, change, clone, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.race import WARM, rotated
from benchmarks.harness.report import Goal, Result, at_most
from benchmarks.suites.cliffs import unmarked, write
from benchmarks.suites.orchestration import Running
from lakehouse import Changes, DeltaIOManager, Merge, Policy, Table, cut
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position
from lakehouse.materialization import Materialization

ROWS, TABLES, COMMITS, LAG = 100_000, 100, 1_000, 10
LAKE, INPUTS = "LAKEHOUSE_BENCHMARK_LAKE", "LAKEHOUSE_BENCHMARK_INPUTS"
"""Environment variables with the lake and the policy of the code location; each run loads it anew, as in Dagster."""


def copied(name: str, of: str) -> dg.AssetsDefinition:
    """A table with the rows of another."""

    @dg.asset(name=name, ins={"source": dg.AssetIn(of)}, metadata=Table(key=KEY))
    def table(source: Changes) -> Merge:
        touched = source.touched(KEY)
        return Merge(touched.rows, touched)

    return table


@dg.asset(metadata=Table(key=KEY))
def meeting(left4: Changes, right4: Changes) -> Merge:
    touched = left4.touched(KEY) | right4.touched(KEY)
    return Merge(touched.of(left4.source.join(right4.source.select(KEY), KEY)), touched)


SOURCE = dg.AssetSpec("source", metadata=Table(key=KEY))
ALONE = [copied("alone", "source")]
DIAMOND = [
    copied("top", "source"),
    *(copied(f"{side}{n}", f"{side}{n - 1}" if n > 1 else "top") for side in ("left", "right") for n in range(1, 5)),
    meeting,
]
WHOLE = {"a table without siblings": ALONE, "a diamond of ten tables": DIAMOND}


class Timed(DeltaIOManager):
    """A manager that records how long it took to settle how far the inputs of each table are read."""

    def _agree(self, execution: dg.AssetExecutionContext, step: Materialization) -> None:
        began = time.monotonic()
        super()._agree(execution, step)
        settled.append(time.monotonic() - began)


settled: list[float] = []


def repository() -> dg.RepositoryDefinition:
    spark: Any = Running(SparkSession.getActiveSession())  # type: ignore[arg-type]
    manager = Timed(spark=spark, root=os.environ[LAKE], policy=Policy(inputs=os.environ[INPUTS]))
    assets = [SOURCE, *ALONE, *DIAMOND]
    resources = {"io_manager": manager}
    return dg.Definitions(assets, resources=resources, executor=dg.in_process_executor).get_repository_def()


def run(lab: Lab) -> Result:
    spark, costs, spent = lab.ours(), dict[str, dict[str, Cost]](), dict[str, float]()
    with lab.room() as room, dg.instance_for_test(temp_dir=str(room)) as instance:
        lakes = {inputs: room / inputs for inputs in ("newest", "agree")}
        for lake in lakes.values():
            clone(lab.table(ROWS, 6), lake / "source")
        for what, assets in WHOLE.items():
            costs[what], spent[what] = steps(lab, spark, instance, lakes, assets)
        looked = cut_over(room / "cut", lab.times(TABLES), lab.times(COMMITS))
    alone, diamond = costs.values()
    return Result(
        "agree",
        "Inputs that agree",
        f"One changed row of {ROWS:,} in the source. The same tables with `inputs='newest'` and `'agree'` take turns, "
        f"in runs that load a code location. Then `lakehouse.cut` over {TABLES} tables of {COMMITS:,} commits each.",
        report.COLUMNS[:-1],
        [(f"{what}, {inputs}", *report.figures(cost)) for what, each in costs.items() for inputs, cost in each.items()],
        [
            at_most("CPU of a table without siblings: at most 1.02x", alone["agree"].cpu / alone["newest"].cpu, 1.02),
            milliseconds("each table of the diamond: at most 5 ms", spent["a diamond of ten tables"], 5),
            at_most("Spark jobs more, in the diamond: none", diamond["agree"].jobs - diamond["newest"].jobs, 0),
            milliseconds(f"a cut over {TABLES} tables, logs warm: at most one second", looked, 1_000),
        ],
    )


def milliseconds(what: str, seconds: float, limit: float) -> Goal:
    return Goal(what, f"{seconds * 1000:.1f} ms", seconds * 1000 <= limit)


def steps(
    lab: Lab,
    spark: SparkSession,
    instance: dg.DagsterInstance,
    lakes: Mapping[str, Path],
    assets: list[dg.AssetsDefinition],
) -> tuple[dict[str, Cost], float]:
    """What a run of some tables costs under each policy, and the seconds of it that settling takes for each table."""
    costs, spent = {inputs: list[Cost]() for inputs in lakes}, list[float]()
    for turn in range(WARM + lab.rounds):
        for inputs, lake in rotated(list(lakes.items()), turn):
            change(spark, lake / "source", neighbours(turn))
            settled.clear()
            step = partial(materialize, instance, lake, inputs, assets)
            cost = lab.meter.measure(inputs, step)[1].cost
            if turn >= WARM:
                costs[inputs].append(cost)
                spent += settled if inputs == "agree" else ()
    return {inputs: medians(each) for inputs, each in costs.items()}, median(spent)


def materialize(instance: dg.DagsterInstance, lake: Path, inputs: str, assets: list[dg.AssetsDefinition]) -> None:
    os.environ |= {LAKE: str(lake), INPUTS: inputs}
    job = ReconstructableRepository.for_module(__name__, "repository").get_reconstructable_job("__ASSET_JOB")
    quietly = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    keys = [asset.key for asset in assets]
    dg.execute_job(job, instance, run_config=quietly, asset_selection=keys, raise_on_error=True)


def cut_over(root: Path, tables: int, commits: int) -> float:
    """Seconds of a cut over tables that are at different versions; their logs have been looked at before."""
    names, now = [f"table{n}" for n in range(tables)], int(time.time() * 1000)
    write(root / "source", commits, unmarked, per_commit=1, began=now)
    for n, name in enumerate(names):
        write(root / name, commits - n % LAG, marks_of(name), per_commit=1, began=now)
    for name in ("source", *names):
        DeltaTable(str(root / name)).create_checkpoint()
    manager = DeltaIOManager(spark=object(), root=str(root))  # pyright: ignore[reportArgumentType]
    defs = dg.Definitions([SOURCE, *(copied(name, "source") for name in names)], resources={"io_manager": manager})
    lowest = commits - min(tables, LAG)

    def look() -> float:
        began = time.monotonic()
        assert cut(defs).stands_for == {"source": lowest}
        return time.monotonic() - began

    return median([look() for _ in range(4)][1:])


def marks_of(name: str) -> Callable[[int], str]:
    """The mark for each version of a table, as left by a run that has read the source up to the same version."""

    def mark(version: int) -> str:
        reads = {"source": Position("source", version)}
        run, attempt = f"run {version}", f"attempt {version}"
        return Mark(name, (), FIRST_GENERATION, 1, run, attempt, version - 1, reads=reads).to_json()

    return mark
