"""Tables to copy, made once."""

import pytest
from pyspark.sql import SparkSession

from tests.lake import Lake


@pytest.fixture(scope="package")
def forms(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A table of each form in tests/upstream/acts.py, made when it is first asked for."""
    return Lake(spark, tmp_path_factory.mktemp("forms"))
