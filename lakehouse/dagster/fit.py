"""Whether the versions of a Spark session's parts are tested together, whoever started it."""

from collections.abc import Generator
from contextlib import contextmanager

import pyspark
from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.server.errors import OtherSparkError
from lakehouse.server.jars import class_path, delta_jars
from lakehouse.server.versions import give_jar, refuse_other_client, refuse_other_jars, refuse_untested
from lakehouse.spark.diagnosis import Meaning, diagnose
from lakehouse.spark.evidence import first_line
from lakehouse.spark.session import is_connect

_VERSION_OF_DELTA = "SELECT java_method('io.delta.package', 'VERSION')"


def refuse_unfit(session: SparkSession) -> None:
    """Does nothing where a session's Spark, its client and its Delta are tested together.

    Raises:
        VersionError: Its Spark, or its Delta, is another one than the tested.
        OtherSparkError: Its client, or Delta's jars, are for another minor version of Spark.
    """
    spark = session.version
    refuse_untested("Spark", spark)
    if is_connect(session):
        refuse_other_client(spark, pyspark.__version__)
    with as_other_jars(spark):
        settings = session.conf.getAll
        refuse_other_jars(spark, settings)
        if settings.get("spark.driver.extraClassPath", "").startswith(class_path(jars=delta_jars(spark))):
            return  # the pinned jars, checked when Spark was started
        delta = version_of_delta(session)
    if delta is not None:
        refuse_untested("Delta", delta)


@contextmanager
def as_other_jars(spark: str) -> Generator[None]:
    """What Spark says of jars that do not fit to it, as our own error: while a session starts or is asked.

    Args:
        spark: The version of that Spark.

    Raises:
        OtherSparkError: They do not fit.
    """
    try:
        yield
    except LakehouseError:
        raise
    except Exception as error:
        if Meaning.OTHER_JARS not in diagnose(error):
            raise
        part = f"Delta's jars on the class path are for another Spark ({first_line(error)})"
        raise OtherSparkError(part, spark, give_jar(spark)) from error


def version_of_delta(session: SparkSession) -> str | None:
    """The version of a session's Delta; None where Spark does not say, as on a platform with a Delta of its own."""
    try:
        (row,) = session.sql(_VERSION_OF_DELTA).collect()
    except Exception as error:
        if Meaning.OTHER_JARS in diagnose(error):
            raise
        return None
    return str(row[0])
