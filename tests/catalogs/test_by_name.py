"""Tables of a Hive metastore, managed and external, own and foreign, under the same laws as tables at a path."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse import Append, Changes, Expect, Merge, Table
from lakehouse.commit.outcome import Committed, Unchanged
from lakehouse.difference.statements import Create
from lakehouse.spark.table_version import TableRef
from tests.support.catalog_lake import Named, named
from tests.support.first_commit import Declared, declare
from tests.support.raises import raises_code

pytestmark = pytest.mark.catalogs

KEYED = Table(key="id")
FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
ROWS = "AS SELECT * FROM VALUES (1, 10), (2, 20), (3, 30) t(id, v)"
EDITS = (
    "UPDATE {src} SET v = v + 1 WHERE id < 3",
    "DELETE FROM {src} WHERE id = 2",
    "INSERT INTO {src} VALUES (2, 40), (5, 50)",
)


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def log(src: Changes) -> Append:
    return Append(src.log().select("id", "v", "change_type"))


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Named]:
    with named(spark, tmp_path) as lake:
        yield lake


def description(lake: Named, name: str) -> dict[str, str]:
    """The catalog's description of a table."""
    rows = lake.spark.sql(f"DESCRIBE TABLE EXTENDED {lake.ref(name).identifier}").collect()
    return {row["col_name"]: row["data_type"] for row in rows}


@pytest.fixture(params=["managed", "external"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def location(lake: Named, kind: str, name: str) -> str:
    return f"LOCATION 'file:{lake.root}/{name}'" if kind == "external" else ""


def test_a_table_of_somebody_else_is_followed(lake: Named, kind: str) -> None:
    lake.sql(f"CREATE TABLE {{src}} USING delta {location(lake, kind, 'src')} {FEED} {ROWS}")
    assert description(lake, "src")["Type"] == kind.upper()
    for edit in (None, *EDITS):
        if edit is not None:
            lake.sql(edit)
        assert isinstance(lake.materialize(kept, KEYED), Committed)
        lake.materialize(log)
        assert lake.rows("kept") == lake.rows("src")
        assert isinstance(lake.materialize(kept, KEYED), Unchanged)
    assert lake.version("kept") == lake.version("log") == len(EDITS)


def test_an_empty_table_that_somebody_has_made_is_filled_where_it_is(lake: Named, kind: str) -> None:
    lake.sql(f"CREATE TABLE {{src}} USING delta {FEED} {ROWS}")
    lake.sql(f"CREATE TABLE {{kept}} (id int, v int) USING delta {location(lake, kind, 'kept')}")
    for edit in (None, *EDITS):
        if edit is not None:
            lake.sql(edit)
        lake.materialize(kept, KEYED)
        assert lake.rows("kept") == lake.rows("src")
    assert description(lake, "kept")["Type"] == kind.upper()
    if kind == "external":
        assert any((lake.root / "kept").glob("*.parquet"))


def test_a_table_of_ours_is_managed_and_stands_where_its_schema_is(lake: Named) -> None:
    place = lake.root / "elsewhere"
    lake.elsewhere["kept"] = f"{lake.schema}_placed"
    lake.spark.sql(f"CREATE SCHEMA {lake.elsewhere['kept']} LOCATION 'file:{place}'")
    lake.sql(f"CREATE TABLE {{src}} USING delta {FEED} {ROWS}")
    try:
        assert isinstance(lake.materialize(kept, KEYED), Committed)
        assert description(lake, "kept")["Type"] == "MANAGED"
        assert any((place / "kept").glob("*.parquet"))
    finally:
        lake.spark.sql(f"DROP SCHEMA {lake.elsewhere['kept']} CASCADE")


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_a_table_of_ours_with_a_path_is_external_and_outlives_its_name(lake: Named, mapping: str) -> None:
    place, mapped = lake.root / "far" / "kept", {"delta.columnMapping.mode": mapping}
    table = Table("id", name=f"{lake.schema}.kept", path=f"{place}/", properties=mapped)
    lake.sql(f"CREATE TABLE {{src}} USING delta {FEED} {ROWS}")
    for edit in (None, *EDITS):
        if edit is not None:
            lake.sql(edit)
        assert isinstance(lake.materialize(kept, table), Committed)
        assert lake.rows("kept") == lake.rows("src")
    said = description(lake, "kept")
    assert (said["Type"], said["Location"]) == ("EXTERNAL", f"file:{place}")
    lake.sql("DROP TABLE {kept}")
    with raises_code("PLACE_TAKEN", match=f"USING delta LOCATION 'file:{place}'"):
        lake.materialize(kept, table)
    lake.sql(f"CREATE TABLE {{kept}} USING delta LOCATION 'file:{place}'")
    assert isinstance(lake.materialize(kept, table), Unchanged)
    assert lake.rows("kept") == lake.rows("src")


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_files_of_a_writer_that_died_are_replaced_or_refused(lake: Named, mapping: str) -> None:
    """A table with mapped columns is created without a transaction identifier, so a rival's commit could be lost."""
    place = lake.root / "far" / "kept"
    table = Table("id", name=f"{lake.schema}.kept", path=str(place), properties={"delta.columnMapping.mode": mapping})
    lake.sql(f"CREATE TABLE {{src}} USING delta {FEED} {ROWS}")
    place.mkdir(parents=True)
    (place / "part-00000-a0a0a0a0-1111-2222-3333-444444444444-c000.snappy.parquet").write_bytes(b"half a fi")
    if mapping == "name":
        with raises_code("PLACE_TAKEN", match=f"remove file:{place} and run"):
            lake.materialize(kept, table)
        shutil.rmtree(place)
    lake.materialize(kept, table)
    assert lake.rows("kept") == lake.rows("src")


def test_the_quarantine_of_an_external_table_is_external_beside_it(lake: Named) -> None:
    place = lake.root / "far" / "kept"
    table = Table("id", name=f"{lake.schema}.kept", path=str(place), expect=Expect("v < 25", "quarantine"))
    lake.sql(f"CREATE TABLE {{src}} USING delta {FEED} {ROWS}")
    lake.materialize(kept, table)
    assert lake.rows("kept") == [(1, 10), (2, 20)]
    assert [row[:2] for row in lake.rows("kept_quarantine")] == [(3, 30)]
    assert description(lake, "kept_quarantine")["Location"] == f"file:{place}_quarantine"


def test_a_table_that_was_dropped_is_made_anew_with_all_rows(lake: Named) -> None:
    lake.sql(f"CREATE TABLE {{src}} USING delta {FEED} {ROWS}")
    lake.materialize(kept, KEYED)
    lake.sql("DROP TABLE {kept}")
    lake.sql(EDITS[0])
    again = lake.materialize(kept, KEYED)
    assert isinstance(again, Committed) and isinstance(again.statement, Create)
    assert lake.rows("kept") == lake.rows("src")


def test_a_name_in_other_letters_or_with_its_catalog_is_the_same_table(lake: Named) -> None:
    lake.sql(f"CREATE TABLE {{src}} USING delta {FEED} {ROWS}")
    lake.materialize(kept, KEYED)
    head = lake.source("kept").head
    for name in (f"{lake.schema.upper()}.KEPT", f"spark_catalog.{lake.schema}.kept"):
        assert TableRef.in_catalog("kept", name).log(lambda: lake.spark).head() == head


def test_a_table_with_a_feature_that_only_spark_knows_is_followed_by_name(lake: Named) -> None:
    """`deltalake` cannot read a log with the feature, so by its path the table is refused."""
    lake.sql(f"CREATE TABLE {{src}} USING delta LOCATION 'file:{lake.root}/made' {FEED} {ROWS}")
    lake.sql("DROP TABLE {src}")
    shutil.copytree(lake.root / "made", lake.root / "geo")
    declare(lake.root / "geo", Declared(("geospatial",)))
    lake.sql(f"CREATE TABLE {{src}} USING delta LOCATION 'file:{lake.root}/geo'")
    with raises_code("UNKNOWN_FEATURE", match=r"geospatial.*With a catalog name, Table\(name="):
        TableRef.at_path("src", str(lake.root / "geo")).log(lambda: lake.spark).head()
    lake.materialize(kept, KEYED)
    for edit in EDITS:
        lake.sql(edit)
        lake.materialize(kept, KEYED)
        assert lake.rows("kept") == lake.rows("src")
