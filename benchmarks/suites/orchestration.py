"""How much of the time of a materialization in process Dagster itself takes."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

import lakehouse.dagster.io_manager
from benchmarks.harness import report
from benchmarks.harness.data import KEY, Pair, change, clone, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Result, at_most
from lakehouse import Changes, DeltaIOManager, Merge, Table
from lakehouse.materialization import Materialization

ROWS = 100_000


@dg.asset(ins={"source": dg.AssetIn(["source"])}, metadata=Table(key=KEY))
def target(source: Changes) -> Merge:
    """The source's rows, by key."""
    with clock.running():
        touched = source.touched(KEY)
        return Merge(touched.rows, touched)


@dataclass
class Clock:
    """The seconds spent in the library, which Dagster calls."""

    seconds: float = 0

    @contextmanager
    def running(self) -> Generator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - began


clock = Clock()


class Timed(Materialization):
    """A materialization that records how long it took; the rest of the time is Dagster's."""

    def __post_init__(self) -> None:
        with clock.running():
            super().__post_init__()

    def changes(self, *arguments: Any, **options: Any) -> Changes:
        with clock.running():
            return super().changes(*arguments, **options)

    def commit(self, *arguments: Any, **options: Any) -> Any:
        with clock.running():
            return super().commit(*arguments, **options)


@dataclass(frozen=True)
class Running:
    """Any object with a `spark_session` serves as the IO manager's `spark`."""

    spark_session: SparkSession


def run(lab: Lab) -> Result:
    spark, shares, costs = lab.ours(), [], []
    with lab.room() as room, dg.instance_for_test(temp_dir=str(room)) as instance, timed():
        clone(lab.table(ROWS, 6), room / "lake" / "source")
        pair = Pair(room / "lake")
        manager = DeltaIOManager(spark=Running(spark), root=str(pair.root))
        for turn in range(lab.rounds + 2):
            change(spark, pair.source, neighbours(turn))
            clock.seconds = 0
            cost = lab.meter.measure("run", lambda: materialize(instance, manager))[1].cost
            if turn > 1:
                costs.append(cost)
                shares.append(Cost(wall=cost.wall - clock.seconds))
    share = medians(shares).wall
    return Result(
        "orchestration",
        "Dagster's share",
        "One changed row of 100,000, through `dg.materialize` with an instance on disk, against the time that the "
        "library spent in the same run on reading, computing and committing.",
        report.COLUMNS[:-1],
        [("materialization", *report.figures(medians(costs)))],
        [at_most("Dagster's share of the wall time: at most 0.4 s", share, 0.4)],
    )


def materialize(instance: dg.DagsterInstance, manager: DeltaIOManager) -> None:
    source = dg.AssetSpec("source", metadata=Table(key=KEY))
    quietly = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    dg.materialize(
        [source, target],
        instance=instance,
        resources={"io_manager": manager},
        selection=[target],
        run_config=quietly,
    )


@contextmanager
def timed() -> Generator[None]:
    module: Any = lakehouse.dagster.io_manager
    original = module.Materialization
    module.Materialization = Timed
    try:
        yield
    finally:
        module.Materialization = original
