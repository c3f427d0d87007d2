"""A statement's own session is like the session that it comes from, and leaves nothing behind."""

import gc
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.spark.abilities import handed_over
from lakehouse.spark.driver_rows import is_empty
from lakehouse.spark.session import prepare, session_of_its_own, settings_of_rows
from lakehouse.spark.table_version import TableRef

pytestmark = pytest.mark.anywhere

SETTING = "spark.hadoop.lakehouse.test"


@pytest.fixture
def set_up(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(SETTING, "a key")
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    spark.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
    spark.catalog.setCurrentDatabase("elsewhere")
    yield spark
    spark.catalog.setCurrentDatabase("default")
    spark.sql("DROP DATABASE elsewhere")
    spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    spark.conf.unset(SETTING)


def test_what_was_set_since_the_session_began_holds_in_the_statements_own(set_up: SparkSession) -> None:
    with handed_over(set_up.range(1), "app", 1, "mark") as (own, view):
        assert own.conf.get(SETTING) == "a key"
        assert own.conf.get("spark.sql.ansi.doubleQuotedIdentifiers") == "true"
        assert own.sql("SELECT current_database()").collect()[0][0] == "elsewhere"
        assert own.sql(f"SELECT * FROM {view}").count() == 1


def test_an_error_of_a_plan_is_raised_and_not_written_to_the_terminal_as_well(spark: SparkSession) -> None:
    loggers = [PySparkLogger.getLogger(name) for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger")]
    for prepares in (False, True):
        for logger in loggers:
            logger.disabled = False
        if prepares:
            prepare(spark)
        with listening(loggers) as written:
            for fails in (lambda: spark.range(1).select(F.expr("nobody")), lambda: spark.sql("SELECT nobody")):
                with pytest.raises(AnalysisException, match="nobody"):
                    _ = fails().schema
        assert written.empty() is prepares


@contextmanager
def listening(loggers: list[PySparkLogger]) -> Iterator[SimpleQueue[object]]:
    """The records of these loggers, whose own handlers write to the stream of the test that first created them."""
    written: SimpleQueue[object] = SimpleQueue()
    handler = QueueHandler(written)
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield written
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


OTHER = "spark.sql.catalog.other"
CURRENT = "SELECT current_catalog(), current_schema()"


def test_a_catalog_of_the_users_is_the_statements_own_too(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(OTHER, "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    spark.conf.set(f"{OTHER}.url", f"jdbc:derby:{tmp_path / 'other'};create=true")
    spark.conf.set(f"{OTHER}.driver", "org.apache.derby.iapi.jdbc.AutoloadedDriver")
    try:
        spark.catalog.setCurrentCatalog("other")
        spark.sql("CREATE NAMESPACE other.`my-schema`").collect()
        for namespace in ("", "SYS", "`my-schema`"):
            if namespace:
                spark.sql(f"USE other.{namespace}").collect()
            with handed_over(spark.range(1), "app", 1, "mark") as (own, _):
                mine, theirs = (session.sql(CURRENT).collect() for session in (own, spark))
            assert mine == theirs and tuple(mine[0]) == ("other", namespace)
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
        spark.catalog.setCurrentDatabase("default")


def test_the_statements_own_settings_stay_in_it(set_up: SparkSession) -> None:
    before = set_up.conf.getAll
    with handed_over(set_up.range(1), "app", 1, "mark") as (_, view):
        pass
    assert set_up.conf.getAll == before
    assert not set_up.catalog.tableExists(view)


def test_a_table_that_is_created_carries_its_transaction(set_up: SparkSession, tmp_path: Path) -> None:
    """Delta's catalog takes the transaction from the session that was active when the catalog was loaded."""
    with handed_over(set_up.range(1), "app", 7, "mark") as (own, view):
        own.sql(f"CREATE TABLE delta.`{tmp_path / 'table'}` USING delta AS SELECT * FROM {view}").collect()
    log = TableRef.at_path("table", str(tmp_path / "table")).log(lambda: set_up)
    assert log.epoch("app", 0) == 7


def test_the_end_of_a_statements_session_is_not_that_of_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With this variable, which `spark.api.mode=connect` sets, PySpark's `stop()` ends the server and unsets it."""
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "local")
    with handed_over(spark.range(1), "app", 1, "mark") as (own, view):
        assert own.sql(f"SELECT * FROM {view}").count() == 1
    assert os.environ["SPARK_LOCAL_REMOTE"] == "local"


def test_a_frame_that_was_asked_whether_it_is_empty_is_let_go(spark: SparkSession) -> None:
    frame = spark.range(1)
    assert not is_empty(frame) and is_empty(frame.where("id > 1"))
    held = weakref.ref(frame)
    del frame
    gc.collect()
    assert held() is None


def test_the_zone_of_a_session_is_one_word_for_each_name_of_utc(spark: SparkSession) -> None:
    with session_of_its_own(spark) as own:
        for zone, word in (("UTC", "UTC"), ("Etc/UTC", "UTC"), ("Europe/Berlin", "Europe/Berlin")):
            own.conf.set("spark.sql.session.timeZone", zone)
            assert settings_of_rows(own)["spark.sql.session.timeZone"] == word
