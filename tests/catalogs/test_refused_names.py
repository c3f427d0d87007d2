"""Names that do not lead to a table that a run may write: each gives a one-sentence error, and nothing is written."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse import Changes, Merge, Table
from lakehouse.commit.outcome import Committed
from lakehouse.spark.table_version import TableRef
from tests.support.catalog_lake import Named, named
from tests.support.first_commit import CATALOG_COMMITS, Declared, declare
from tests.support.raises import raises_code

pytestmark = pytest.mark.catalogs

KEYED = Table(key="id")
ROWS = "AS SELECT * FROM VALUES (1, 10), (2, 20) t(id, v)"


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Named]:
    with named(spark, tmp_path) as lake:
        lake.sql(f"CREATE TABLE {{src}} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') {ROWS}")
        yield lake


def names(lake: Named) -> set[str]:
    return {row["tableName"] for row in lake.spark.sql(f"SHOW TABLES IN {lake.schema}").collect()}


@pytest.mark.parametrize("name", ["kept", "src"])
def test_a_catalog_that_is_not_there_is_named(lake: Named, name: str) -> None:
    lake.elsewhere[name] = "nowhere.shop"
    with raises_code("NO_SCHEMA", match=rf"'{name}' has the catalog name `nowhere`\.`shop`.*spark\.sql\.catalog\."):
        lake.materialize(kept, KEYED)
    assert "kept" not in names(lake)


def test_a_source_in_a_schema_that_is_not_there_is_no_table(lake: Named) -> None:
    """The run fails with SOURCE_MISSING, which names the table."""
    assert TableRef.in_catalog("src", "nowhere.src").log(lambda: lake.spark).head() is None


def test_a_managed_table_whose_directory_is_gone_is_not_made_anew_before_somebody_drops_it(lake: Named) -> None:
    lake.materialize(kept, KEYED)
    shutil.rmtree(lake.directory("kept"))
    with raises_code("PLACE_TAKEN", match=r"whose directory is gone.*Nothing was written"):
        lake.materialize(kept, KEYED)
    assert not lake.directory("kept").exists()
    lake.sql("DROP TABLE {kept}")
    assert isinstance(lake.materialize(kept, KEYED), Committed)
    assert lake.rows("kept") == lake.rows("src")


def test_a_table_of_another_format_keeps_its_rows(lake: Named) -> None:
    lake.sql("CREATE TABLE {kept} USING parquet AS SELECT 7 AS id, 70 AS v")
    with raises_code("PLACE_TAKEN", match="or has another format"):
        lake.materialize(kept, KEYED)
    assert lake.rows("kept") == [(7, 70)]


def test_a_table_that_only_its_catalog_may_commit_to_is_refused(lake: Named) -> None:
    """Both by its name in a catalog that does not manage it, and by its path."""
    lake.sql(f"CREATE TABLE {{kept}} USING delta LOCATION 'file:{lake.root}/made' {ROWS}")
    lake.sql("DROP TABLE {kept}")
    shutil.copytree(lake.root / "made", lake.root / "managed")
    declare(lake.root / "managed", CATALOG_COMMITS["catalogManaged"])
    for ref in (
        TableRef.at_path("kept", str(lake.root / "managed")),
        TableRef("kept", f"delta.`{lake.root}/managed`", None),
    ):
        with raises_code("UNKNOWN_FEATURE", match="'kept' cannot be read: .* catalogManaged.*Nothing was written"):
            ref.log(lambda: lake.spark).head()


def test_a_feature_that_this_delta_does_not_know_is_named(lake: Named) -> None:
    lake.sql(f"CREATE TABLE {{kept}} USING delta LOCATION 'file:{lake.root}/made' {ROWS}")
    lake.sql("DROP TABLE {kept}")
    shutil.copytree(lake.root / "made", lake.root / "newer")
    declare(lake.root / "newer", Declared(("ofTomorrow",)))
    with raises_code("UNKNOWN_FEATURE", match="the feature ofTomorrow, which the Delta of this Spark"):
        TableRef("kept", f"delta.`{lake.root}/newer`", None).log(lambda: lake.spark).head()
