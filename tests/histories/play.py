"""Carries a history out, and compares each table with its query after every run."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from lakehouse import Policy, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import LakehouseError
from lakehouse.read.feed_reader import Feeds
from tests.histories.forms import INDEXED, History
from tests.histories.kinds import KINDS, Kind
from tests.support.lake import Lake

SOONER = "spark.databricks.delta.retentionDurationCheck.enabled"
SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""PySpark has no texts for some errors of Delta."""
Columns = dict[str, str]


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
        WrongTableError: A table does not hold the rows of its query, a run that failed changed it, or a run was refused
            although its query can be computed.
    """
    played = Counter[str]()
    lake = Lake(spark, root, keys={"src": ("id",)} if history.trusted else {}, trust_key=history.trusted)
    lake.sql(history.source, src=lake.ref("src").identifier)
    made, versions = dict[str, Columns](), [0, 0]
    small = Limits() if history.refresh == "auto" else Limits(whole_rows=0)
    with soon(spark), in_force(small):
        for step in history.steps:
            for statement in step:
                of_tables = "{made}" in statement
                for tables in [each for name, each in made.items() if name != "archive"] if of_tables else [{}]:
                    played[act(lake, statement, versions, tables)] += 1
            versions, feeds = [versions[1], lake.version("src")], Feeds()
            for name in history.kinds:
                follow(lake, name, history, played, feeds)
                if lake.exists(name) and name not in made:
                    made[name] = columns_of(lake, name)
    return played


def act(lake: Lake, statement: str, versions: list[int], made: Columns) -> str:
    """Carries a statement out unless Delta refuses it; which of the two."""
    back = {"former": versions[0], "before": versions[1], "back": max(0, lake.version("src") - 1)}
    try:
        lake.sql(statement, **{name: str(version) for name, version in back.items()}, **made)
    except SPARK_ERRORS:
        return f"refused by Delta: {statement.partition('{')[0]}"
    return "statements"


def columns_of(lake: Lake, name: str) -> Columns:
    """The table, and its first and last column beside its key, as statements on `{made}` name them."""
    columns = [each for each in lake.frame(name).dtypes if each[0] not in KINDS[name].key and "__" not in each[0]]
    (first, first_type), (last, last_type) = columns[0], columns[-1]
    named = {"first": first, "first_type": first_type, "last": last, "last_type": last_type}
    return {"made": lake.ref(name).identifier} | named


def follow(lake: Lake, name: str, history: History, played: Counter[str], feeds: Feeds) -> None:
    """Runs a table; a refused run must not change the table, and is followed by one that a user asks for."""
    kind, policy = KINDS[name], Policy(refresh=history.refresh)
    # A history is clustered by the ends of its rows, and Delta refuses that without statistics.
    properties = {key: value for key, value in history.properties if name != "past" or key != INDEXED}
    table = Table(key=kind.key, properties=properties, policy=policy)
    before = lake.version(name) if lake.exists(name) else None
    try:
        lake.materialize(kind.asset, table, feeds=feeds)
    except (LakehouseError, PySparkException) as error:
        played[f"{name}: {code_of(error)}"] += 1
        if (lake.version(name) if lake.exists(name) else None) != before:
            raise WrongTableError(f"{name} was written by a run that failed: {error}") from error
        if rows_of(lake, kind.expected) is None:
            return
        asked = {"go_on_from": "now"} if name == "past" else {"compare": "a full refresh was asked for"}
        try:
            lake.materialize(kind.asset, table, **asked)
        except (LakehouseError, PySparkException) as again:
            played[f"{name}, asked for: {code_of(again)}"] += 1
            if name != "archive" and fits(lake, kind, name):
                raise WrongTableError(f"{name} was refused, and its query has its columns: {again}") from again
            return
    played["runs"] += 1
    if before is None or lake.version(name) != before or fits(lake, kind, name):  # else nothing was read since an edit
        compare(lake, name, kind)


def code_of(error: Exception) -> str:
    return error.code if isinstance(error, LakehouseError) else "its query cannot be computed"


def fits(lake: Lake, kind: Kind, name: str) -> bool:
    """Whether the columns of the query are those of the table, so that its rows can become the table."""
    if not lake.exists(name):
        return True
    names = {"src": lake.ref("src").identifier, "made": lake.ref(name).identifier}
    try:
        holds, expected = (lake.spark.sql(sql.format(**names)).dtypes for sql in (kind.holds, kind.expected))
    except PySparkException:  # the table lacks a column
        return False
    return {name.lower(): type_ for name, type_ in holds} == {name.lower(): type_ for name, type_ in expected}


def rows_of(lake: Lake, sql: str, **tables: str) -> Counter[str] | None:
    """How often each row is in the result of a query; None if the query cannot be computed."""
    try:
        rows = lake.sql(sql, **tables)
    except SPARK_ERRORS:
        return None
    return Counter(repr(plain(row)) for row in rows)


def plain(value: Any) -> Any:
    """A value without what a table need not take over from its query: the order of columns, the type of a number."""
    if isinstance(value, Row):
        return sorted((name.lower(), plain(each)) for name, each in value.asDict().items())
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value


def compare(lake: Lake, name: str, kind: Kind) -> None:
    expected = rows_of(lake, kind.expected)
    if expected is None:
        return
    holds = rows_of(lake, kind.holds, made=lake.ref(name).identifier)
    if holds is None or holds != expected:
        held = holds or Counter[str]()
        raise WrongTableError(f"{name} lacks {dict(expected - held)} and has {dict(held - expected)} beyond its query")
