"""The process of a driver: it carries out the act in each line of its standard input, and answers with a line.

With `--meet` it begins each commit together with another such process; with `--checked` it has a further table, whose
rows go through a Python function on the executors.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import functions as F

import lakehouse.commit.attempt
from lakehouse import Changes, ClusterSpark, DeltaIOManager, Merge, Table
from lakehouse.cursor.mark import Mark
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.delta.location import Location
from tests.cluster.driver import Place
from tests.cluster.processes import until
from tests.support.orders_graph import GRAPH as SHOP
from tests.support.orders_graph import in_schema, wrong

GIVEN = json.loads(sys.argv[1])
PLACE = Place(**GIVEN["place"])
DIRECTORY = Path(PLACE.directory)
SPARK = ClusterSpark(spark_config=GIVEN["settings"])
INSTANCE = dg.DagsterInstance.local_temp(PLACE.directory)
GRAPH = list(SHOP if PLACE.schema is None else in_schema(PLACE.schema))


@dg.asset(metadata=Table(key="id"))
def checked(orders: Changes) -> Merge:
    """The orders, through a Python function; if `hold` exists, it becomes `held`, which names the waiting worker."""
    hold, held = DIRECTORY / "hold", DIRECTORY / "held"

    def held_up(v: int) -> int:
        try:
            hold.rename(held)
        except FileNotFoundError:
            return v
        held.write_text(f"{os.getsid(0)}\n")
        time.sleep(300)
        return v

    touched = orders.touched("id")
    return Merge(touched.rows.withColumn("v", F.udf(held_up, "int")("v")), touched)


def identifier(name: str) -> str:
    """The name of a table in SQL."""
    table = CodeLocation.of(GRAPH, lambda _: Location(PLACE.root))[dg.AssetKey(name)]
    return table.ref_below(Location(PLACE.root)).identifier


def rows(name: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in SPARK.spark_session.sql(f"SELECT * FROM {identifier(name)}").collect()]


def sql(statement: str) -> None:
    SPARK.spark_session.sql(statement.format(orders=identifier("orders"))).collect()


def run(*names: str) -> str:
    """A run with resources of its own, as each run of Dagster has; the messages with which its steps failed, or ""."""
    result = dg.materialize(
        GRAPH,
        selection=[dg.AssetKey(name) for name in names],
        resources={"io_manager": DeltaIOManager(spark=ClusterSpark(spark_config=GIVEN["settings"]), root=PLACE.root)},
        instance=INSTANCE,
        raise_on_error=False,
    )
    failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    return "; ".join(str(of.user_failure_data.description if of.user_failure_data else of.error) for of in failures)


def versions(*names: str) -> list[int]:
    history = "DESCRIBE HISTORY {} LIMIT 1"
    return [SPARK.spark_session.sql(history.format(identifier(name))).collect()[0]["version"] for name in names]


def is_equal(name: str, other: str) -> bool:
    return sorted(rows(name)) == sorted(rows(other))


ACTS = {"sql": sql, "run": run, "versions": versions, "wrong": lambda: wrong(rows), "is equal": is_equal}


def together(execute: Callable[..., None]) -> Callable[..., None]:
    """Wraps a commit: it begins once two processes are about to write on top of the same version of a table."""

    def when_both_are_here(spark: Any, statement: Any, run: Any, mark: Mark) -> None:
        meeting = DIRECTORY / "meetings" / mark.asset / str(mark.base)
        meeting.mkdir(parents=True, exist_ok=True)
        (meeting / str(os.getpid())).touch()
        until(f"another process commits {mark.asset}", lambda: len([*meeting.iterdir()]) > 1)
        execute(spark, statement, run, mark)

    return when_both_are_here


def main() -> None:
    if "--meet" in sys.argv:
        lakehouse.commit.attempt.execute = together(lakehouse.commit.attempt.execute)
    if "--checked" in sys.argv:
        GRAPH.append(checked)
    for line in sys.stdin:
        act, *given = json.loads(line)
        sys.stdout.write(json.dumps(ACTS[act](*given)) + "\n")
        sys.stdout.flush()


main()
