"""Small work without compiled code.

Spark generates Java code for each plan, even for Delta's own plans over a table's state. Each task generates the code
again, only to find that it has been compiled before. For a few rows that costs more than it saves (ADR 12).
"""

from collections.abc import Generator
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.limits import limits
from lakehouse.log.size import Size

FACTORY_MODE = "spark.sql.codegen.factoryMode"


@contextmanager
def interpreted(spark: SparkSession, size: Size | None) -> Generator[None]:
    """Makes Spark interpret what happens within, if the tables are small. A user's own setting in the session stays.

    Args:
        spark: The session.
        size: What the tables that are read or written hold together; None if that is not known.
    """
    little = Size(limits().interpreted_rows, limits().interpreted_bytes)
    if size is None or not size.fits(little) or not _begun(spark):
        yield
        return
    try:
        yield
    finally:
        with suppress(Exception):  # a session that is lost has no settings, and whose error it was is still to be seen
            spark.conf.unset(FACTORY_MODE)


def _begun(spark: SparkSession) -> bool:
    """Whether Spark interprets from now on; not against a user's own setting, nor in a session that has ended.

    What happens within has the error of an ended session explained; an error here would be Spark's own.
    """
    with suppress(PySparkException):
        if spark.conf.get(FACTORY_MODE, None) is None:
            spark.conf.set(FACTORY_MODE, "NO_CODEGEN")
            return True
    return False
