"""A process that materializes one asset and stops at a named point, to be killed there.

It is forked from a server that has imported everything, so a kill costs only a fork, not a start of Python. Its Spark
is the caller's JVM, which outlives it and carries on with the statement (a zombie), or a JVM of its own.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.commit import attempt as module
from lakehouse.difference.statements import Insert, Statement
from lakehouse.materialization import Materialization
from lakehouse.server.settings import local_settings
from lakehouse.spark.abilities import Abilities
from lakehouse.spark.abilities import _refusals as refusals
from tests.reliability.park import Parked, park
from tests.reliability.pipeline import STEPS
from tests.reliability.upkeep_victim import UpkeepOrder
from tests.support.lake import NO_WAIT, Lake

Point: TypeAlias = Literal[
    "before the cursor is read",
    "range pinned",
    "comparison computed",
    "data partly written",
    "data written",
    "before the log entry",
    "entry durable",
    "before the hooks",
    "answered",
    "back-off",
]
PHASES: dict[str, str] = {
    "data written": "prepare",
    "before the log entry": "commit",
    "entry durable": "backfill",
    "before the hooks": "postCommit",
    "back-off": "commit",  # a rival overtakes it there
}
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class Order:
    """What a victim is to do.

    Args:
        root: The lake's directory.
        step: The asset's name.
        point: Where it stops.
        run: The id of its run.
        of_quarantine: Whether the point is in the commit of its quarantine, which is the first of its two commits.
        only_writes: Whether its session is known to refuse `MERGE` and `DELETE`.
    """

    root: Path
    step: str
    point: Point
    run: str
    of_quarantine: bool = False
    only_writes: bool = False

    @property
    def table(self) -> str:
        return f"{self.step}_quarantine" if self.of_quarantine else self.step


@dataclass
class Victim:
    """The process, seen from outside.

    Args:
        process: The process.
        pipe: Its messages.
        jvm: The process id of its own JVM; None if it uses the caller's.
    """

    process: Any
    pipe: Connection
    jvm: int | None = None

    def begin(self, order: Order | UpkeepOrder) -> None:
        self.pipe.send(order)

    def reached(self, seconds: float = 240) -> None:
        """Waits until the process has reached its point."""
        said = self._said(seconds)
        assert said == ("reached",), said

    def _said(self, seconds: float) -> tuple[Any, ...]:
        assert self.pipe.poll(seconds), "the victim is silent"
        return self.pipe.recv()

    def verdict(self, seconds: float = 240) -> tuple[Any, ...]:
        """The outcome of its run, if the process lives on."""
        return self._said(seconds)

    def kill_python(self) -> None:
        self.process.kill()
        self.process.join()

    def kill_jvm(self) -> None:
        assert self.jvm is not None
        os.kill(self.jvm, signal.SIGKILL)
        self.jvm_gone()

    def jvm_gone(self, seconds: float = 60) -> None:
        """Waits until its JVM has ended; a JVM ends by itself once its Python is gone."""
        until = time.monotonic() + seconds
        while self.jvm is not None and _runs(self.jvm):
            assert time.monotonic() < until, "the JVM does not end"
            time.sleep(0.02)


def in_our_jvm(spark: SparkSession) -> Victim:
    """A victim that uses this process's JVM."""
    return fork(spark, _live, {})


def fork(spark: SparkSession, live: Callable[..., None], environment: dict[str, str]) -> Victim:
    """A process that can join this process's JVM.

    Args:
        spark: The session whose JVM it is.
        live: The function that it calls, with its pipe and its environment variables.
        environment: Further environment variables.
    """
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    ours, theirs = _FORKS.Pipe()
    jvm = {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
    process = _FORKS.Process(target=live, args=(theirs, jvm | environment), daemon=True)
    process.start()
    return Victim(process, ours)


def in_own_jvm(scratch: Path) -> Victim:
    """A victim with a JVM of its own; `started` waits for it."""
    ours, theirs = _FORKS.Pipe()
    process = _FORKS.Process(target=_live, args=(theirs, {}, scratch), daemon=True)
    process.start()
    return Victim(process, ours)


def started(victim: Victim) -> Victim:
    """The victim once its own JVM is up."""
    victim.jvm = victim.verdict()[1]
    return victim


def _live(pipe: Connection, environment: dict[str, str], scratch: Path | None = None) -> None:
    os.environ.update(environment)
    if scratch is None:
        spark = joined()
    else:
        spark = _own(scratch)
        pipe.send(("started", _jvm_pid(spark)))
    order: Order | UpkeepOrder = pipe.recv()
    try:
        if isinstance(order, UpkeepOrder):
            outcome: Any = order.carry_out(spark, lambda: stop(pipe))
        else:
            outcome = _run(spark, order, lambda: stop(pipe))
    except Exception as error:
        pipe.send(("failed", type(error).__name__, str(error)))
    else:
        pipe.send((type(outcome).__name__, outcome))


def joined() -> SparkSession:
    """The session of a JVM that another process has started."""
    gateway = launch_gateway()
    jvm: Any = gateway.jvm
    context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(
        jvm.org.apache.spark.SparkContext.getOrCreate()
    )
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf())))


def _own(scratch: Path) -> SparkSession:
    """A session like that of an in-process run, warmed up, so that a case waits only for its own statement."""
    settings = local_settings(scratch)
    java = "spark.driver.extraJavaOptions"
    settings[java] = f"{settings.get(java, '')} {LIGHT}".strip()
    settings["spark.driver.memory"] = "1g"
    os.environ |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    lake = Lake(spark, scratch)
    lake.create("warm", [(1, "a")], "id int, k string")
    lake.frame("warm").collect()
    return spark


def _jvm_pid(spark: SparkSession) -> int:
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def stop(pipe: Connection) -> None:
    """Reports that the point is reached, and waits for the kill."""
    pipe.send(("reached",))
    signal.pause()


def _run(spark: SparkSession, order: Order, stop: Callable[[], None]) -> Any:
    lake = Lake(spark, order.root)
    step = STEPS[order.step]
    if order.point == "before the cursor is read":
        stop()
    run: Materialization = lake.begin(step.asset, step.table, run=order.run)
    write = step.asset(**lake.read(run, step.asset))
    if order.point == "range pinned":
        stop()
    clock = replace(NO_WAIT, sleep=lambda _: stop()) if order.point == "back-off" else NO_WAIT
    with _armed(spark, order, stop), platform(spark, only_writes=order.only_writes):
        return run.commit(write, lake.retry, clock)


@contextmanager
def platform(spark: SparkSession, *, only_writes: bool) -> Generator[None]:
    """Records for the session, within the block, whether its platform refuses statements with a transaction."""
    if only_writes:
        refusals[spark] = Abilities(statements="refused by the platform")
    yield
    refusals.pop(spark, None)


@contextmanager
def _armed(spark: SparkSession, order: Order, stop: Callable[[], None]) -> Generator[None]:
    """Lets the first execution of the run's statement for the table of the order stop at the point."""
    execute: Any = module.execute

    def armed(session: SparkSession, statement: Statement, *rest: Any) -> None:
        if rest[0].name != order.table:
            execute(session, statement, *rest)
            return
        module.execute = execute
        match order.point:
            case "comparison computed":
                stop()
            case "data partly written":
                assert isinstance(statement, Insert)
                execute(session, replace(statement, rows=_held(statement.rows, order.root)), *rest)
            case "answered":
                execute(session, statement, *rest)
                stop()
            case _:
                with park(spark, PHASES[order.point]) as parked:
                    threading.Thread(target=_tell, args=(parked, order, stop), daemon=True).start()
                    execute(session, statement, *rest)

    module.execute = armed
    yield
    module.execute = execute


def _tell(parked: Parked, order: Order, stop: Callable[[], None]) -> None:
    parked.reached()
    stop()


GATE = "gate"


def _held(rows: DataFrame, root: Path) -> DataFrame:
    """The same rows in two tasks, one of which waits for the gate: half of the data files are there before it opens."""
    gate = str(root.parent / GATE)

    @F.udf("boolean")
    def opened(_: str) -> bool:
        while not Path(gate).exists():
            time.sleep(0.02)
        return True

    last = rows.agg(F.max("token")).collect()[0][0]
    return rows.where(F.col("token") != last).union(rows.where(F.col("token") == last).where(opened("token")))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
