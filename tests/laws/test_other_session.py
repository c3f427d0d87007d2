"""Rows that were computed under other settings of the Spark session are computed again, and a message says why."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from lakehouse import Append, Changes, Merge, Table
from lakehouse.spark.session import DECIDE_ROWS, setting
from lakehouse.views.on_spark.bound_text import READ_AS
from tests.support.lake import Lake

LATE = datetime(2024, 7, 1, 22, 30, tzinfo=UTC)
ZONE = "spark.sql.session.timeZone"
KEYED = Table(key="id")


def local_date(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.selectExpr("id", "date(at) AS day"), touched)


def kept(src: Changes) -> Append:
    return Append(src.appended().selectExpr("id", "date(at) AS day"))


@pytest.fixture
def berlin(spark: SparkSession):
    def move(zone: str) -> None:
        spark.conf.set(ZONE, zone)

    yield move
    spark.conf.set(ZONE, "UTC")


def days(lake: Lake, name: str) -> list[str]:
    return [row.day for row in lake.sql(f"SELECT CAST(day AS STRING) AS day FROM {{{name}}} ORDER BY id")]


def test_another_time_zone_has_everything_compared_once_and_a_table_that_keeps_rows_says_so(lake: Lake, berlin) -> None:
    lake.create("src", [(0, LATE), (1, LATE)], "id int, at timestamp")
    for asset, table in ((local_date, KEYED), (kept, Table())):
        lake.materialize(asset, table)
    lake.sql("INSERT INTO {src} VALUES (2, TIMESTAMP'2024-07-01 22:30:00Z')")
    berlin("Europe/Berlin")
    for asset, table in ((local_date, KEYED), (kept, Table())):
        lake.materialize(asset, table)
    assert days(lake, "local_date") == ["2024-07-02"] * 3
    assert days(lake, "kept") == ["2024-07-01", "2024-07-01", "2024-07-02"]
    said = f"{ZONE} was UTC in its Spark session, and is Europe/Berlin"
    assert [said in text for text in lake.told] == [True, True]
    lake.sql("INSERT INTO {src} VALUES (3, TIMESTAMP'2024-07-01 22:30:00Z')")
    lake.materialize(local_date, KEYED)
    assert len(lake.told) == 2


def test_a_listed_setting_is_one_of_spark_and_stands_at_its_default(spark: SparkSession) -> None:
    """A setting at its default is not in a mark; one that this Spark does not know has no value."""
    values = {name: setting(spark, name) for name in DECIDE_ROWS}
    assert {name: value for name, value in values.items() if value not in (None, DECIDE_ROWS[name])} == {}
    assert sum(value is not None for value in values.values()) > len(values) - 5
    assert READ_AS.keys() - {name for name in READ_AS if ".legacy." in name} <= DECIDE_ROWS.keys()
