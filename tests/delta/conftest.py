"""A lake to copy, made once."""

import shutil

import pytest
from pyspark.sql import SparkSession

from tests.delta.contended import KEYED, SRC, copy
from tests.lake import Lake


@pytest.fixture(scope="package")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A copy of a source in two files, and a source that has moved on: row 1 was updated and row 2 deleted."""
    made = Lake(spark, tmp_path_factory.mktemp("made"))
    made.create("src", [(1, "a", 10), (2, "b", 20), (3, "a", 30)], SRC)
    made.materialize(copy, KEYED)
    made.insert("src", [(4, "c", 40)])
    made.materialize(copy, KEYED)
    made.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    made.sql("DELETE FROM {src} WHERE id = 2")
    return made


@pytest.fixture
def behind(made: Lake, lake: Lake) -> Lake:
    shutil.copytree(made.root, lake.root, dirs_exist_ok=True)
    return lake
