"""A session that reads a text differently from its algebra is refused: it could silently follow other columns."""

from pyspark.sql import SparkSession

from lakehouse.views.on_spark.bound_text import READ_AS, refuse_other_dialect
from tests.support.for_each import for_each
from tests.support.raises import raises_code


@for_each("name", READ_AS)
def test_spark_has_the_setting_and_reads_texts_so_unless_somebody_sets_it(spark: SparkSession, name: str) -> None:
    assert spark.conf.get(name).lower() == READ_AS[name][0]


@for_each("name", READ_AS)
def test_another_value_is_refused(spark: SparkSession, name: str) -> None:
    wanted, otherwise = READ_AS[name]
    refuse_other_dialect(spark)
    spark.conf.set(name, {"true": "false", "false": "true"}.get(wanted, "LEGACY"))
    try:
        with raises_code("VIEW_SETTING", match=f"{name}=.*{otherwise[:20]}"):
            refuse_other_dialect(spark)
        spark.conf.set(name, wanted.upper())
        refuse_other_dialect(spark)
    finally:
        spark.conf.unset(name)
