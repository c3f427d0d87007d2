"""A separate process that uses the server of a root: `python -m tests.support.client ROOT ACTION ARGUMENTS`.

It prints the process id of its server's JVM and the result of the action, as JSON.
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import grpc
from pyspark.sql import functions as F

from lakehouse import Changes, LakehouseError, Merge, Table
from lakehouse.commit.outcome import Committed
from lakehouse.dagster.resources import ClusterSpark, LocalSpark
from lakehouse.server.rendezvous import Rendezvous
from lakehouse.server.settings import local_settings
from lakehouse.spark.abilities import handed_over
from resources.environments import declare_api
from tests.support.history import History
from tests.support.lake import Lake
from tests.support.writers import TABLES, Source, Writers

# With less compilation Java also reserves less room for code, 48 MB, and a server of many histories fills that.
LIGHT = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


def local_spark(root: Path, memory: str = "1g") -> LocalSpark:
    settings = local_settings(root) | {"spark.driver.memory": memory}
    settings["spark.driver.extraJavaOptions"] += f" {LIGHT}"
    return LocalSpark(spark_config=settings, root=str(root), idle=120)  # in case the tests are killed


def insert(lake: Lake, number: str) -> None:
    """Makes five commits of one row each through the server."""
    for count in range(5):
        lake.sql(f"INSERT INTO {{shared}} VALUES ({int(number)}, {count})")


def call(lake: Lake) -> str:
    """The result of a function in a module that a user is still editing."""
    import edited

    (row,) = lake.spark.range(1).select(F.udf(edited.function, "string")("id")).collect()
    return row[0]


def copy(lake: Lake, hold: str) -> dict[str, Any]:
    """Commits the sum of each key; with "hold" the rows wait until the file `released` is there."""
    root = str(lake.root)

    @F.udf("bigint")
    def held(value: int) -> int:
        Path(root, "reached").touch()
        while not Path(root, "released").exists():
            time.sleep(0.01)
        return value

    def totals(source: Changes) -> Merge:
        touched = source.touched("key")
        rows = touched.rows.groupBy("key").agg(F.sum("value").alias("total"))
        return Merge(rows.withColumn("total", held("total")) if hold == "hold" else rows, touched)

    outcome = lake.materialize(totals, Table(key="key"))
    recovered = isinstance(outcome, Committed) and outcome.recovered
    return {"outcome": type(outcome).__name__, "recovered": recovered, "rows": lake.rows("totals")}


def outlive(lake: Lake) -> None:
    """A step whose server is killed while its function computes; the next session it gets is of another server."""

    def totals(source: Changes) -> Merge:
        touched = source.touched("key")
        return Merge(touched.rows.groupBy("key").agg(F.sum("value").alias("total")), touched)

    step = lake.begin(totals, Table(key="key"))
    step.spark = lambda: local_spark(lake.root).spark_session
    write = totals(**lake.read(step, totals))  # type: ignore[arg-type]
    state = Rendezvous(lake.root).state()
    assert state is not None
    os.kill(state.jvm, signal.SIGKILL)
    while Rendezvous(lake.root).jvm().is_held():
        time.sleep(0.01)
    step.commit(write, lake.retry)


class Slow(grpc.UnaryUnaryClientInterceptor):
    """Delays each request to release a result on its way to the server."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        if "ReleaseExecute" in str(client_call_details.method):
            time.sleep(0.5)
        return continuation(client_call_details, request)


def end_sessions(lake: Lake) -> None:
    """Reads through a session of its own, which ends at once, and then ends the process's own session."""
    logging.getLogger("pyspark.sql.connect.logging").disabled = False  # as Dagster leaves it
    cast("Any", lake.spark).client._builder.add_interceptor(Slow())
    with handed_over(lake.spark.range(3), "app", 1, "{}") as (own, view):
        own.sql(f"SELECT * FROM {view}").collect()
    lake.spark.range(3).collect()


def look(lake: Lake) -> None:
    lake.spark.range(1).collect()


def freeze(lake: Lake) -> None:
    """Ends the process while its server hangs."""
    lake.spark.range(1).collect()
    state, client = Rendezvous(lake.root).state(), cast("Any", lake.spark).client
    assert state is not None
    # The server must have answered the requests to release the query's result, which PySpark sends from own threads.
    assert wait(client._release_futures, timeout=60).not_done == set()
    os.kill(state.jvm, signal.SIGSTOP)


def renew(lake: Lake) -> list[Any]:
    """The sessions of a cluster whose server has ended the first one, as it does after an idle hour."""
    state = Rendezvous(lake.root).state()
    assert state is not None
    lake.spark.stop()
    os.environ["SPARK_REMOTE"] = f"sc://localhost:{state.port}/;token={state.token}"
    cluster = ClusterSpark(spark_config={})
    first: Any = cluster.spark_session
    same = cluster.spark_session is first
    first.client.release_session()
    second = cluster.spark_session
    return [same, second is first, second.range(3).count()]


def beside(lake: Lake, name: str) -> Lake:
    """A lake in a directory of its own below the same root."""
    below = Lake(lake.spark, lake.root / name)
    below.root.mkdir(exist_ok=True)
    return below


def begin(lake: Lake, name: str, table: str, seed: str) -> list[dict[str, Any]]:
    """Creates the tables of a concurrent history; what their writers were told."""
    return [asdict(said) for said in Writers(beside(lake, name), TABLES[table]).begin(Source(int(seed)))]


def write(lake: Lake, name: str, table: str, writer: str, group: str) -> list[dict[str, Any]]:
    """One writer of a concurrent history, which waits for the file `go`; what it was told."""
    start = lake.root / f"{name}.start"
    start.mkdir(exist_ok=True)
    (start / str(os.getpid())).touch()
    while not (start / "go").exists():
        time.sleep(0.01)
    return [asdict(said) for said in getattr(Writers(beside(lake, name), TABLES[table]), writer)(group)]


def history(lake: Lake, name: str) -> dict[str, Any]:
    return asdict(History.of(beside(lake, name), "t"))


def exhaust(lake: Lake) -> None:
    lake.spark.range(10**8).select(F.collect_list("id").alias("all")).select(F.size("all")).collect()


ACTIONS: dict[str, Callable[..., Any]] = {
    action.__name__: action
    for action in (end_sessions, insert, call, copy, outlive, look, freeze, renew, begin, write, history, exhaust)
}


def main() -> None:
    root, action, *arguments = sys.argv[1:]
    declare_api()
    memory = "600m" if action == "exhaust" else "1g"
    try:
        lake = Lake(local_spark(Path(root), memory).spark_session, Path(root))
        state = Rendezvous(Path(root)).state()
        said = ACTIONS[action](lake, *arguments)
    except LakehouseError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    assert state is not None
    sys.stdout.write(json.dumps({"jvm": state.jvm, "said": said}))


if __name__ == "__main__":
    main()
