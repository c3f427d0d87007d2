"""Whether a Spark keeps the guarantees that exactly-once needs, tried out on a table that is created and dropped."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession

from lakehouse.delta.text import name_parts, quote
from lakehouse.spark.abilities import RefusedStatementError, handed_over, is_lost, why_no_checkpoints
from lakehouse.spark.diagnosis import first_line, refusal

_APPLICATION = "lakehouse doctor"
_OURS = "lakehouse.scratch"
"""The property that marks a table as made here."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one trial.

    Args:
        about: What was tried.
        problem: What is wrong with it; None if nothing is.
        is_needed: Whether nothing can be written without it.
    """

    about: str
    problem: str | None = None
    is_needed: bool = True


def try_out(spark: SparkSession, name: str) -> list[Trial]:
    """Tries each way to write on a new table of this name in the catalog, each twice with one transaction.

    The table is dropped at the end or, if Spark goes away, by the next call. A table of this name that was not made
    here is left alone.

    Raises:
        Exception: Spark went away; the error is the one that Spark raises then.
    """
    table = ".".join(quote(part) for part in name_parts(name))
    _attempt("what an earlier call has left", lambda: _drop(spark, table))
    new = spark.range(3).writeTo(table).using("delta").tableProperty(_OURS, _APPLICATION)
    created = _attempt("a new table", new.tableProperty("delta.enableChangeDataFeed", "true").create)
    if created.problem is not None:
        return [created]
    return [
        created,
        *_of_writes(spark, table),
        _attempt("the change feed", lambda: _read_feed(spark, table)),
        Trial("computed rows are kept (localCheckpoint)", why_no_checkpoints(spark), is_needed=False),
        _attempt(f"{name} is dropped", lambda: spark.sql(f"DROP TABLE {table}").collect(), is_needed=False),
    ]


def _drop(spark: SparkSession, table: str) -> None:
    if spark.catalog.tableExists(table):
        properties = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
        if any(each["key"] == _OURS for each in properties):
            spark.sql(f"DROP TABLE {table}").collect()


def _of_writes(spark: SparkSession, table: str) -> Iterator[Trial]:
    row = spark.range(1)
    yield _apply_twice(spark, table, "append", 1, lambda at: _save(row, table, "append", at))
    replace_where = {"replaceWhere": "id = 0"}
    yield _apply_twice(spark, table, "replaceWhere", 2, lambda at: _save(row, table, "overwrite", at, **replace_where))
    replace_on = {"replaceOn": "t.id = s.id", "targetAlias": "t"}
    one = row.alias("s")
    yield _apply_twice(
        spark, table, "replaceOn", 3, lambda at: _save(one, table, "overwrite", at, **replace_on), is_needed=False
    )
    yield _apply_twice(spark, table, "MERGE", 4, lambda at: _merge(row, table, at), is_needed=False)


def _apply_twice(
    spark: SparkSession, table: str, about: str, at: int, write: Callable[[int], object], *, is_needed: bool = True
) -> Trial:
    """Whether a write is one commit with its mark, and is skipped the second time."""

    def attempt() -> None:
        before = int(_newest(spark, table)["version"])
        for _ in range(2):
            write(at)
        newest, others = _newest(spark, table), spark.read.table(table).where("id > 0").count()
        if int(newest["version"]) != before + 1:
            raise RuntimeError(f"the same transaction, given twice, is {int(newest['version']) - before} commits")
        if newest["userMetadata"] != _mark(at):
            raise RuntimeError(f"its commit has the metadata {newest['userMetadata']!r}")
        if others != 2:  # of the three rows of the new table
            raise RuntimeError("it changes rows that are not meant")

    return _attempt(f"{about}, repeated with its transaction", attempt, is_needed=is_needed)


def _newest(spark: SparkSession, table: str) -> Row:
    return spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]


def _mark(at: int) -> str:
    return f"{_APPLICATION} {at}"


def _save(rows: DataFrame, table: str, mode: str, at: int, **which: str) -> None:
    options = {"txnAppId": _APPLICATION, "txnVersion": str(at), "userMetadata": _mark(at), **which}
    rows.write.format("delta").mode(mode).options(**options).saveAsTable(table)


def _merge(rows: DataFrame, table: str, at: int) -> None:
    with handed_over(rows, _APPLICATION, at, _mark(at)) as (own, view):
        own.sql(f"MERGE INTO {table} t USING {view} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id").collect()


def _read_feed(spark: SparkSession, table: str) -> None:
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", "0").table(table)
    if not feed.where("_change_type = 'insert'").count():
        raise RuntimeError("it has no row")


def _attempt(about: str, attempt: Callable[[], object], *, is_needed: bool = True) -> Trial:
    try:
        attempt()
    except RefusedStatementError as error:
        return Trial(about, f"refused, so rows are replaced instead: {error}", is_needed=False)
    except Exception as error:  # whatever a platform says
        if is_lost(error):
            raise
        refused = refusal(error)
        problem = first_line(error) if refused is None else f"[{refused.condition}] {refused.sentence}"
        return Trial(about, problem, is_needed)
    return Trial(about, None, is_needed)
