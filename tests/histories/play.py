"""Carries a history out, and compares each table with its query after every run."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse import Table
from lakehouse.errors import LakehouseError
from tests.histories.forms import History
from tests.histories.kinds import KINDS, Kind
from tests.support.lake import Lake

SOONER = "spark.databricks.delta.retentionDurationCheck.enabled"


class WrongTableError(AssertionError):
    """A table does not hold the rows of its query."""


@contextmanager
def soon(spark: SparkSession) -> Generator[None]:
    """Lets `VACUUM` remove files that were deleted a moment ago."""
    spark.conf.set(SOONER, "false")
    try:
        yield
    finally:
        spark.conf.unset(SOONER)


def play(spark: SparkSession, root: Path, history: History) -> Counter[str]:
    """Plays one history in an empty directory; counts what its statements and runs did.

    Raises:
        WrongTableError: A table does not hold the rows of its query, or a run that failed changed it.
    """
    played = Counter[str]()
    lake = Lake(spark, root, keys={"src": ("id",)} if history.trusted else {}, trust_key=history.trusted)
    lake.sql(history.source, src=lake.ref("src").identifier)
    with soon(spark):
        for step in history.steps:
            for statement in step:
                played[act(lake, statement)] += 1
            for name in history.kinds:
                follow(lake, name, history, played)
    return played


def act(lake: Lake, statement: str) -> str:
    """Carries a statement out unless Delta refuses it; which of the two."""
    try:
        lake.sql(statement.replace("{back}", str(max(0, lake.version("src") - 1))))
    except (PySparkException, Py4JJavaError):  # PySpark has no texts for some errors of Delta
        return f"refused by Delta: {statement.partition('{src}')[0]}"
    return "statements"


def follow(lake: Lake, name: str, history: History, played: Counter[str]) -> None:
    """Runs a table; a refused run must not change the table, and is followed by a full refresh."""
    kind, table = KINDS[name], Table(key=KINDS[name].key, properties=dict(history.properties))
    before = lake.version(name) if lake.exists(name) else None
    try:
        lake.materialize(kind.asset, table)
    except LakehouseError as error:
        played[f"{name}: {error.code}"] += 1
        if (lake.version(name) if lake.exists(name) else None) != before:
            raise WrongTableError(f"{name} was written by a run that failed: {error}") from error
        try:
            lake.materialize(kind.asset, table, compare="a full refresh was asked for")
        except LakehouseError as again:
            played[f"{name}, full refresh: {again.code}"] += 1
            return
    played["runs"] += 1
    compare(lake, name, kind)


def compare(lake: Lake, name: str, kind: Kind) -> None:
    holds, expected = (
        Counter(repr(tuple(row)) for row in lake.sql(sql, made=lake.ref(name).identifier))
        for sql in (kind.holds, kind.expected)
    )
    if holds != expected:
        raise WrongTableError(
            f"{name} lacks {dict(expected - holds)} and has {dict(holds - expected)} beyond its query"
        )
