"""The feed of a table that was replaced in part: only rows that can have changed are read, and all that did change."""

import pytest

from lakehouse import Changes, Merge, Read, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.read.feed_reader import replaced_within
from tests.support.lake import Lake
from tests.support.slow import all_but

VECTORS = {"delta.enableDeletionVectors": "true"}
COPY = Table(key="id", properties=VECTORS)
KEYS = {
    "int": ["1", "2", "-3", "NULL", "40000", *map(str, range(100, 130))],
    "bigint": [str(1 - 2**63), str(2**63 - 1), "0", str(2**53 + 1), str(2**53)],
    "string": ["'a'", "''", "'it\\'s'", "'\\\\'", "'\\u0024{{spark.app.name}}'", "NULL", "'ü'", "'DATE'"],
    "date": ["DATE'2020-01-01'", "DATE'1500-02-28'", "DATE'0001-01-01'", "DATE'9999-12-31'", "NULL"],
    "decimal(5,2)": ["1.50", "-0.01", "0", "NULL"],
    "char(3)": ["'a  '", "'abc'", "'b  '"],
}


def copy(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.of(src.source), touched)


def since(lake: Lake, version: int) -> Changes:
    """The changes for a reader of the copy that has read it up to a version."""
    return lake.begin(copy, name="reader").changes(lake.source("copy"), Read(start=version), lake.ref)


def images(changes: Changes) -> list[str]:
    # As texts: Spark has dates that Python does not have.
    return sorted(str(row) for row in changes.feed.selectExpr("CAST(id AS STRING)", "v", "_change_type").collect())


@pytest.mark.slow
@pytest.mark.parametrize("kind", all_but(("string",), dict(zip(KEYS, KEYS, strict=True))))
def test_the_rows_that_were_replaced_are_all_found(lake: Lake, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql(
        f"CREATE TABLE {{src}} (id {kind}, v INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        src=lake.ref("src").identifier,
    )
    lake.sql("INSERT INTO {src} VALUES " + ", ".join(f"({key}, 0)" for key in KEYS[kind]))
    lake.materialize(copy, COPY)
    before = lake.version("copy")
    lake.sql(f"UPDATE {{src}} SET v = 1 WHERE id = {KEYS[kind][0]}")
    lake.sql(f"DELETE FROM {{src}} WHERE id = {KEYS[kind][1]}")
    lake.materialize(copy, COPY)
    lake.sql("UPDATE {src} SET v = 2")
    lake.materialize(copy, COPY)
    assert replaced_within(tuple(lake.commits("copy")[-2:])), "else this would test nothing"
    found = images(since(lake, before))
    with in_force(Limits(replaced_predicates=0)):
        assert found == images(since(lake, before))
    assert len(found) == 3 + 2 * (len(KEYS[kind]) - 1)


@pytest.mark.slow
def test_beside_the_asset_s_own_commits_what_somebody_else_changed_is_touched_too(lake: Lake) -> None:
    lake.create("src", [(n, 0) for n in range(5)], "id int, v int")
    lake.materialize(copy, COPY)
    before = lake.version("copy")
    lake.sql("UPDATE {src} SET v = 1 WHERE id = 1")
    lake.materialize(copy, COPY)
    lake.sql("DELETE FROM {copy} WHERE id = 3")
    assert {row.id for row in since(lake, before).touched("id").keys.collect()} == {1, 3}


@pytest.mark.slow
def test_a_predicate_is_not_asked_of_columns_that_were_renamed_since(lake: Lake) -> None:
    """The predicate of the commit names `id`, and no column has that name any more."""
    lake.create("src", [(n, 10 - n) for n in range(1, 5)], "id int, v int")
    lake.materialize(copy, COPY)
    lake.sql("ALTER TABLE {copy} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    before = lake.version("copy")
    lake.sql("UPDATE {src} SET v = 20 WHERE id = 1")
    lake.materialize(copy, COPY)
    assert replaced_within(tuple(lake.commits("copy")[-1:])), "else this would test nothing"
    lake.sql("ALTER TABLE {copy} RENAME COLUMN id TO number")
    assert [row.number for row in since(lake, before).touched("number").keys.collect()] == [1]
