"""A Python function over a source's columns ends, on whatever session the asset runs.

Spark 4.2.0 alone waits for ever (SPARK-58241), so each test has a limit of time of its own.
"""

from collections.abc import Iterator

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Table
from lakehouse.spark.required import REQUIRED
from lakehouse.spark.session import prepare
from tests.support.house import House

pytestmark = [pytest.mark.served, pytest.mark.timeout(120, func_only=True)]


def _doubled(orders: DataFrame) -> DataFrame:
    double = F.udf(lambda v: 2 * v, "int")
    return orders.select("id", double("v").alias("v"))


@dg.asset(metadata=Table(key="id"))
def doubled(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(_doubled(touched.rows), touched)


@pytest.fixture
def changed(spark: SparkSession) -> Iterator[None]:
    """A session of the user's own, which has the opposite of what is required."""
    before = {name: spark.conf.get(name, None) for name in REQUIRED}
    for name, value in REQUIRED.items():
        spark.conf.set(name, {"false": "true", "true": "false"}[value])
    yield
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def test_a_python_function_over_a_source_ends_on_a_session_of_the_users_own(house: House, changed: None) -> None:
    house.assets = [*house.assets, doubled]
    house.run("doubled")
    assert house.lake.rows("doubled") == [(1, 20), (2, 40), (3, 60)]
    house.lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    house.run("doubled")
    assert house.lake.rows("doubled") == [(1, 22), (2, 40), (3, 60)]


def test_a_python_function_over_a_source_ends_on_the_librarys_own_session(house: House) -> None:
    rows = _doubled(house.lake.frame("orders")).collect()
    assert sorted(map(tuple, rows)) == [(1, 20), (2, 40), (3, 60)]


def test_a_session_is_given_what_it_lacks_and_keeps_the_rest(spark: SparkSession, changed: None) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert prepare(spark) == ()
    assert {name: spark.conf.get(name) for name in REQUIRED} == REQUIRED
    assert spark.conf.get("spark.sql.session.timeZone") == zone
