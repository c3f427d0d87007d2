"""Column names that are more than a word: in a source that renames columns, and in tables created with such names."""

from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Read, Table
from lakehouse.commit.outcome import Committed, Unchanged
from tests.support.lake import Lake
from tests.support.slow import slow

pytestmark = pytest.mark.anywhere


def copy(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


@pytest.mark.parametrize(("old", "new"), [("k.x", "grp"), slow("k", "order.grp")])
def test_a_renamed_column_with_a_dot_in_its_name_keeps_its_values_in_the_feed(lake: Lake, old: str, new: str) -> None:
    lake.create(
        "src", [(1, "a", 10), (2, "b", 20)], f"id int, `{old}` string, v int", delta__columnMapping__mode="name"
    )
    start = lake.version("src")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.sql(f"ALTER TABLE {{src}} RENAME COLUMN `{old}` TO `{new}`")
    changes = lake.begin(copy, Table(key="id")).changes(lake.source("src"), Read(start=start), lake.ref)
    assert {row[0] for row in changes.touched(new).keys.collect()} == {"a"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "table",
    [
        Table(key="id"),
        slow(Table(key="id", partition_by="a name; with (all) of it")),
        slow(Table(key="id", cluster_by="id")),
    ],
)
def test_a_table_whose_columns_are_mapped_is_created_empty_and_then_written(lake: Lake, table: Table) -> None:
    named = "a name; with (all) of it"

    def mapped(src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.withColumnRenamed("v", named), touched)

    table = replace(table, properties={"delta.columnMapping.mode": "name"}, columns={"id": "whose it is"})
    lake.create("src", [(1, 10), (2, 20)], "id int, v int")
    (lake.root / "mapped").mkdir()
    (lake.root / "mapped" / "of-a-dead-writer.parquet").write_bytes(b"")
    first = lake.materialize(mapped, table)
    assert isinstance(first, Committed) and first.commit.version == 1
    assert lake.frame("mapped").schema["id"].metadata["comment"] == "whose it is"
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.materialize(mapped, table)
    assert sorted(map(tuple, lake.frame("mapped").select("id", F.col(f"`{named}`")).collect())) == [(1, 11), (2, 20)]
    assert isinstance(lake.materialize(mapped, table), Unchanged)
