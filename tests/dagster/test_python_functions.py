"""A Python function over a source's columns ends, whatever session the asset runs on.

With Spark 4.2.0 alone it waits for ever (SPARK-58241), so each test has a time limit of its own.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import dagster as dg
import pyspark
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StringType, StructField, StructType

from lakehouse import Changes, Merge, Table
from lakehouse.errors import UnreadableLogError
from lakehouse.server.versions import minor
from lakehouse.spark.session import REQUIRED, is_connect, prepare
from tests.support.dagster_house import House
from tests.support.lake import Lake
from tests.support.raises import raises_code

pytestmark = [pytest.mark.served, pytest.mark.timeout(120, func_only=True)]


def _doubled(orders: DataFrame) -> DataFrame:
    double = F.udf(lambda v: 2 * v, "int")
    return orders.select("id", double("v").alias("v"))


@dg.asset(metadata=Table(key="id"))
def doubled(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(_doubled(touched.rows), touched)


TEXTS = StructType([StructField("text", StringType()), StructField("by-name", MapType(StringType(), StringType()))])


def _texts(orders: DataFrame) -> DataFrame:
    """Texts from each kind of Python function, at the top of a row and nested in it, and from a cast to a type."""
    text = F.udf(lambda v: f"v{v}", StringType())
    nested = F.udf(lambda v: (f"v{v}", {"v": str(v)}), TEXTS)
    rows = orders.select("id", text("v").alias("text"), nested("v").alias("nested"))
    rows = rows.withColumn("cast", F.lit("a").cast(StringType())).withColumn("list", F.array("cast"))
    return rows.mapInPandas(lambda frames: frames, rows.schema)


@dg.asset(metadata=Table(key="id"))
def texts(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(_texts(touched.rows), touched)


@dg.asset(metadata=Table(key="id"), key="texts", code_version="2")
def more_texts(orders: Changes) -> Merge:
    touched = orders.touched("id")
    rows = _texts(touched.rows)
    return Merge(rows.withColumns({"more": F.col("cast").cast(StringType()), "lists": F.array("list")}), touched)


@pytest.fixture
def changed(spark: SparkSession) -> Iterator[None]:
    """A session of the user's own with the opposite of each required setting."""
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


@pytest.mark.slow
def test_texts_of_python_functions_have_a_type_that_every_reader_of_delta_knows(house: House) -> None:
    """On a Connect server their type is STRING COLLATE UTF8_BINARY, which Delta 4.4 writes into the log unchanged."""
    house.assets = [*house.assets, texts]
    house.run("texts")
    house.lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    house.run("texts")
    nested = Row(**{"text": "v11", "by-name": {"v": "11"}})
    assert house.lake.rows("texts")[0] == (1, "v11", nested, "a", ["a"])
    house.assets = [*house.assets[:-1], more_texts]
    house.run("texts")
    assert house.lake.rows("texts")[0] == (1, "v11", nested, "a", ["a"], "a", [["a"]])
    assert "collate" not in DeltaTable(str(house.lake.root / "texts")).schema().to_json()


def test_a_table_whose_texts_have_a_type_that_delta_does_not_know_is_refused(lake: Lake) -> None:
    if not is_connect(lake.spark):
        pytest.skip("a client of Spark Connect writes it")
    rows = lake.values([(1,)], "id INT").withColumn("text", F.lit("a").cast(StringType()))
    rows.write.format("delta").save(str(lake.root / "t"))
    (entry,) = (lake.root / "t" / "_delta_log").glob("*.json")
    if minor(pyspark.__version__) in ("4.0", "4.1") and "collate" not in entry.read_text().lower():
        pytest.skip("this Spark writes STRING")
    with pytest.raises(UnreadableLogError, match=r"'t' cannot be trusted.*CAST\(column AS STRING\)"):
        lake.ref("t").log(lambda: lake.spark).head()


def test_a_python_function_over_a_source_ends_on_the_librarys_own_session(house: House) -> None:
    rows = _doubled(house.lake.frame("orders")).collect()
    assert sorted(map(tuple, rows)) == [(1, 20), (2, 40), (3, 60)]


def test_a_module_that_sparks_python_cannot_import_is_named(lake: Lake, tmp_path: Path) -> None:
    """For example a project that is not installed, which Dagster finds and Spark does not."""
    (tmp_path / "only_here.py").write_text("def double(v):\n    return 2 * v\n")
    sys.path.insert(0, str(tmp_path))
    try:
        function = resolve_name("only_here:double")

        def doubled(src: Changes) -> Merge:
            touched = src.touched("id")
            return Merge(touched.rows.select("id", F.udf(function, "int")("v").alias("v")), touched)

        lake.create("src", [(1, 10)], "id int, v int")
        with raises_code("MODULE_MISSING", match="cannot import the module 'only_here'"):
            lake.materialize(doubled, Table(key="id"))
    finally:
        sys.path.remove(str(tmp_path))


def test_a_session_is_given_what_it_lacks_and_keeps_the_rest(spark: SparkSession, changed: None) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert prepare(spark) == ()
    assert {name: spark.conf.get(name) for name in REQUIRED} == REQUIRED
    assert spark.conf.get("spark.sql.session.timeZone") == zone
