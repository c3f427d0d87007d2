"""How the rows of two versions differ, against a plain Python comparison of their rows."""

from typing import Any

import pytest

from lakehouse.delta.commit_info import Rows
from lakehouse.difference.between_versions import RowDiff, diff_versions
from lakehouse.spark.table_version import TableVersion
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.slow import slow

SCHEMA = "id int, g string, v int"


def at(lake: Lake, version: int) -> TableVersion:
    head = lake.ref("t").log(lambda: lake.spark).head()
    assert head is not None
    return TableVersion(lambda: lake.spark, lake.ref("t"), head.table_id, version)


def texts(row: tuple[Any, ...]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in zip(("g", "v"), row[1:], strict=True)}


@pytest.fixture
def changed(lake: Lake) -> Lake:
    """Version 0, and version 3 after an update, a delete and an insert."""
    lake.create("t", [(1, "a", 10), (2, "b", 20), (3, None, 30), (4, "d", 40)], SCHEMA)
    lake.sql("UPDATE {t} SET v = NULL WHERE id = 1")
    lake.sql("DELETE FROM {t} WHERE id = 2")
    lake.insert("t", [(5, "e", 50)])
    return lake


@pytest.mark.parametrize("by_feed", [pytest.param(True, id="keys of the feed"), slow(False, id="all rows")])
def test_each_key_says_what_became_of_its_row(changed: Lake, *, by_feed: bool) -> None:
    before, after = at(changed, 0), at(changed, 3)
    touched = after.feed(1, 3) if by_feed else None
    diff = diff_versions(before, after, ("id",), 10, touched)
    assert diff.counts == Rows(1, 1, 1)
    assert diff.rows == (
        RowDiff("update", {"id": "1"}, {"v": "10"}, {"v": None}),
        RowDiff("delete", {"id": "2"}, texts((2, "b", 20)), None),
        RowDiff("insert", {"id": "5"}, None, texts((5, "e", 50))),
    )
    some = diff_versions(before, after, ("id",), 1, touched)
    assert (some.counts, len(some.rows)) == (Rows(1, 1, 1), 1), "all are counted"


@pytest.mark.slow
def test_without_a_key_whole_rows_are_compared_with_their_repetitions(lake: Lake) -> None:
    lake.create("t", [(1, "a", 10), (1, "a", 10), (2, "b", 20)], SCHEMA)
    lake.sql("DELETE FROM {t} WHERE id = 1")
    diff = diff_versions(at(lake, 0), at(lake, 1), (), 10)
    row = {"id": "1", "g": "a", "v": "10"}
    assert diff.counts == Rows(0, 0, 2) and diff.rows == 2 * (RowDiff("delete", {}, row, None),)


@pytest.mark.slow
def test_a_column_that_only_one_version_has_is_null_in_the_other(lake: Lake) -> None:
    lake.create("t", [(1, "a", 10), (2, "b", 20)], SCHEMA)
    lake.sql("ALTER TABLE {t} ADD COLUMNS (w int)")
    lake.sql("UPDATE {t} SET w = 7 WHERE id = 2")
    diff = diff_versions(at(lake, 0), at(lake, 2), ("id",), 10)
    assert diff.added == ("w",) and diff.dropped == ()
    assert diff.rows == (RowDiff("update", {"id": "2"}, {"w": None}, {"w": "7"}),)


def test_rows_of_one_key_are_told_in_pairs_and_any_type_is_compared(lake: Lake) -> None:
    schema = "id int, m map<string, int>, x variant"
    lake.sql(f"CREATE TABLE {{t}} ({schema}) USING delta", t=lake.ref("t").identifier)
    row = "SELECT {}, map('a', {}, 'b', 1), parse_json('{}')"
    before = [(1, 1, 1), (1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 1, 1), (3, 1, 1)]
    after = [(1, 1, 1), (1, 1, 2), (2, 1, 1), (2, 1, 1), (3, 1, 1), (3, 1, 1)]
    for rows in (before, after):
        lake.sql("INSERT OVERWRITE {t} " + " UNION ALL ".join(row.format(*values) for values in rows))
    diff = diff_versions(at(lake, 1), at(lake, 2), ("id",), 10)
    assert diff.counts == Rows(1, 1, 1), "of key 1 one row is another, and one is gone; key 3 has one more"
    assert [(each.change, each.key) for each in diff.rows] == [
        ("update", {"id": "1"}),
        ("delete", {"id": "1"}),
        ("insert", {"id": "3"}),
    ]
    changed = diff.rows[0].before, diff.rows[0].after
    assert changed == ({"x": "1"}, {"x": "2"})
    assert diff_versions(at(lake, 1), at(lake, 2), (), 10).counts == Rows(2, 0, 2)


def test_a_key_that_is_not_there_is_refused(changed: Lake) -> None:
    with raises_code("READ", match="has no column nope in both versions"):
        diff_versions(at(changed, 0), at(changed, 3), ("nope",), 10)
