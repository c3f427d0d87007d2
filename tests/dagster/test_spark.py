"""One session per process, with the declared settings, which no run takes away from another."""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster_pyspark import LazyPySparkResource, PySparkResource
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import Changes, DeltaIOManager, Merge, Table
from lakehouse.cli.spark import at_hand
from lakehouse.dagster.resources import LocalSpark, refuse_unfit, version_of_delta
from lakehouse.server.settings import EVERYWHERE, local_settings
from tests.support.lake import Lake
from tests.support.raises import raises_code


class Nested(dg.ConfigurableResource[Any]):
    spark: dg.ResourceDependency[Any]


def test_the_settings_are_in_force(spark: SparkSession, tmp_path: Path):
    # These refer to the directory of this test run, or to any free port.
    own = {"spark.driver.extraJavaOptions", "spark.sql.warehouse.dir", "spark.connect.grpc.binding.port"}
    settings = {key: value for key, value in local_settings(tmp_path).items() if key not in own}
    assert {key: spark.conf.get(key) for key in settings} == settings
    assert settings.items() > EVERYWHERE.items()


def test_a_resource_at_two_places_is_one_session_that_outlives_the_run(local_spark: LocalSpark, spark: SparkSession):
    seen: list[SparkSession] = []

    @dg.asset
    def table(spark: LocalSpark, nested: Nested) -> None:
        seen.extend((spark.spark_session, nested.spark.spark_session))

    for _ in range(2):
        resources = {"spark": local_spark, "nested": Nested(spark=local_spark)}
        assert dg.materialize([table], resources=resources).success
    assert all(session is spark for session in seen)
    assert spark.range(3).count() == 3


@pytest.mark.skipif(
    os.environ["LAKEHOUSE_SPARK"] == "server", reason="of classic Spark: the builder knows no other session"
)
@pytest.mark.parametrize("kind", [PySparkResource, LazyPySparkResource])
def test_both_resources_of_dagster_pyspark_are_sessions_of_one_s_own(
    kind: Any, lake: Lake, instance: dg.DagsterInstance
):
    """Used by the IO manager and by an asset; Dagster sets up one before the run, the other starts on demand."""
    lake.create("numbers", [(1, "a"), (2, "b")], "id int, name string")
    numbers = dg.AssetSpec("numbers", metadata=Table(key="id"))

    @dg.asset(metadata=Table(key="id"))
    def named(spark: kind, numbers: Changes) -> Merge:
        assert spark.spark_session is lake.spark
        touched = numbers.touched("id")
        return Merge(touched.rows, touched)

    own = kind(spark_config={})
    resources = {"io_manager": DeltaIOManager(spark=own, root=str(lake.root)), "spark": own}
    assert dg.materialize([numbers, named], resources=resources, instance=instance).success
    assert lake.rows("named") == lake.rows("numbers")


def test_a_session_says_which_delta_it_has(spark: SparkSession):
    refuse_unfit(spark)
    assert version_of_delta(spark) == version("delta-spark")


def test_a_vendor_s_build_needs_no_jars_that_this_library_has_pinned(spark: SparkSession):
    """A real session that describes itself as one on EMR does."""

    path = {"spark.driver.extraClassPath": "/usr/lib/hadoop/*"}
    of_a_vendor: Any = SimpleNamespace(
        version="4.3.0-amzn-0", conf=SimpleNamespace(getAll=path), newSession=spark.newSession, sql=spark.sql
    )
    (build,) = refuse_unfit(of_a_vendor)
    assert build.startswith("Spark 4.3.0-amzn-0 (tested: ")


def test_the_names_of_the_shell_are_tables_and_their_history(lake: Lake):
    lake.create("gold/totals", [(1, "a")], "id int, name string")
    lake.sql(f"DELETE FROM {lake.ref('gold/totals').identifier}")
    names = at_hand(lake.spark, str(lake.root))
    assert names["table"]("gold/totals").count() == 0
    assert [row.version for row in names["history"]("gold/totals").collect()] == [1, 0]
    assert names["spark"] is lake.spark
    assert names["tables"]() == ["gold/totals"]
    with pytest.raises(LookupError, match=r"no table 'gold/total' below .*There are: gold/totals\."):
        names["table"]("gold/total")


def test_a_session_of_the_user_s_own_is_refused_if_rows_could_be_lost_under_its_settings(lake: Lake):
    own = lake.spark.newSession()
    own.conf.set("spark.databricks.delta.stalenessLimit", "5m")
    manager = DeltaIOManager(spark=SimpleNamespace(spark_session=own), root=str(lake.root))
    with raises_code("UNSAFE_SETTING", match="stalenessLimit = 5m is refused"):
        manager.session()
    own.conf.unset("spark.databricks.delta.stalenessLimit")
    assert manager.session() is own


def test_python_functions_run_on_this_python_and_see_the_project(spark: SparkSession):
    @F.udf("string")
    def where(_):
        import lakehouse.delta.text

        return f"{sys.executable} {lakehouse.delta.text.__file__}"

    import lakehouse.delta.text

    (row,) = spark.range(1).select(where("id")).collect()
    assert row[0] == f"{sys.executable} {lakehouse.delta.text.__file__}"
