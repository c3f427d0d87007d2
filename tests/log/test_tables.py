"""Which tables this process may look at itself."""

import pytest

from lakehouse.spark.snapshot import TableRef


@pytest.mark.parametrize("path", ["/lake/x", "lake/x", "file:/lake/x", "file:///lake/x", "/lake/a:b", "./a:b"])
def test_a_path_without_a_scheme_names_files(path: str):
    assert TableRef.at_path("x", path).is_local


@pytest.mark.parametrize(
    "path", ["dbfs:/lake/x", "hdfs:/lake/x", "hdfs://host:9000/x", "s3a://lake/x", "abfss://a@b/x"]
)
def test_another_scheme_is_left_to_spark(path: str):
    assert not TableRef.at_path("x", path).is_local


def test_a_name_in_a_catalog_is_left_to_spark():
    assert not TableRef.in_catalog("x", "main.lake.x").is_local
