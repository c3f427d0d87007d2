"""What each kind of write makes of a table, one sentence at a time, on real Delta."""

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Append, Changes, Merge, Overwrite, Policy, Table
from lakehouse.commit.outcome import Committed, Unchanged
from lakehouse.cursor.mark import Mark
from lakehouse.delta.log import Head
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.difference.statements import Insert, MarkOnly, MergeRows, Replace, ReplaceRows
from tests.support.assets import kept, members
from tests.support.lake import Lake
from tests.support.model import SRC
from tests.support.slow import slow

pytestmark = [pytest.mark.core, pytest.mark.anywhere]

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def test_the_first_commit_makes_the_table_with_its_rows_properties_and_mark(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    table = Table(
        key="id",
        cluster_by="id",
        columns={"v": "the value"},
        properties={"delta.logRetentionDuration": "interval 60 days"},
    )
    lake.materialize(kept, table)
    (created,) = lake.commits("kept")
    mark = Mark.from_json(created.user_metadata)
    assert mark is not None and (mark.asset, mark.epoch, mark.base) == ("kept", 1, -1)
    assert mark.reads["src"].version == 0
    head = lake.ref("kept").log(lambda: lake.spark).head()
    assert head is not None and head.keeps_feed and head.properties["delta.logRetentionDuration"] == "interval 60 days"
    assert lake.frame("kept").schema["v"].metadata == {"comment": "the value"}
    assert lake.sql("DESCRIBE DETAIL {kept}")[0]["clusteringColumns"] == ["id"]


@pytest.mark.parametrize(
    ("statement", "kind", "images"),
    [("auto", ReplaceRows, ("delete", "insert")), slow("merge", MergeRows, ("update_preimage", "update_postimage"))],
)
def test_rows_that_did_not_change_are_not_in_the_tables_own_feed(
    lake: Lake, statement: Any, kind: type, images: tuple[str, str]
) -> None:
    lake.create("src", ROWS, SRC)
    table = Table(key=["k", "id"], policy=Policy(statement=statement))
    lake.materialize(members, table)
    lake.sql("UPDATE {src} SET v = 31 WHERE id = 3")
    outcome = lake.materialize(members, table)
    assert isinstance(outcome, Committed) and isinstance(outcome.statement, kind)
    feed = lake.source("members").at.feed(1, 1).select("id", "v", "_change_type").collect()
    assert sorted(map(tuple, feed)) == [(3, 30, images[0]), (3, 31, images[1])]


@pytest.mark.slow
def test_new_keys_only_are_appended(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(kept, Table(key="id"))
    lake.insert("src", [(4, "c", 1)])
    outcome = lake.materialize(kept, Table(key="id"))
    assert isinstance(outcome, Committed) and isinstance(outcome.statement, Insert)
    assert lake.commits("kept")[-1].operation == "WRITE"


def test_a_change_without_effect_moves_the_position_and_upkeep_of_the_source_is_no_change(lake: Lake) -> None:
    lake.create("src", [*ROWS, (9, "z", 90)], SRC)
    lake.materialize(kept, Table(key="id"))
    lake.sql("UPDATE {src} SET v = 91 WHERE id = 9")
    outcome = lake.materialize(kept, Table(key="id"))
    assert isinstance(outcome, Committed) and isinstance(outcome.statement, MarkOnly)
    assert outcome.commit.is_quiet, "it wakes nobody"
    before = lake.version("kept")
    for upkeep in ("OPTIMIZE {src}", "ALTER TABLE {src} SET TBLPROPERTIES ('a' = 'b')"):
        lake.sql(upkeep)
        assert isinstance(lake.materialize(kept, Table(key="id")), Unchanged)
    assert lake.version("kept") == before


def by_total(src: DataFrame) -> Overwrite:
    return Overwrite(src.groupBy("k").agg(F.sum("v").alias("total")))


@pytest.mark.parametrize("key", [slow(None), "k"])
def test_an_overwrite_commits_what_differs_and_keeps_the_tables_id_and_history(lake: Lake, key: str | None) -> None:
    def head() -> Head:
        found = lake.ref("by_total").log(lambda: lake.spark).head()
        assert found is not None
        return found

    lake.create("src", ROWS, SRC)
    lake.materialize(by_total, Table(key=key))
    first = head()
    lake.sql("UPDATE {src} SET v = v + 1 - 1")
    assert lake.materialize(by_total, Table(key=key)) == Unchanged(0)
    assert lake.rows("by_total") == [("a", 40), ("b", 20)]
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 2")
    outcome = lake.materialize(by_total, Table(key=key))
    assert isinstance(outcome, Committed) and isinstance(outcome.statement, Replace) is (key is None)
    if key is not None:
        rows = outcome.commit.rows
        assert (rows.inserted, rows.updated, rows.deleted) == (1, 0, 1), "only the row that differs"
    assert (head().version, head().table_id) == (1, first.table_id)
    assert lake.rows("by_total") == [("a", 40), ("b", 0)]


@pytest.mark.slow
def test_net_changes_are_one_row_a_key(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    step = lake.begin(kept, Table(key="id"))
    lake.materialize(kept, Table(key="id"))
    for statement in (
        "UPDATE {src} SET v = 11 WHERE id = 1",
        "DELETE FROM {src} WHERE id = 2",
        "INSERT INTO {src} VALUES (4, 'c', 1), (5, 'c', 1)",
        "DELETE FROM {src} WHERE id = 5",
        "UPDATE {src} SET id = 6 WHERE id = 3",
    ):
        lake.sql(statement)
    step = lake.begin(kept, Table(key="id"))
    changes = lake.read(step, kept)["src"]
    assert isinstance(changes, Changes)
    net = {row.id: (row["_change_type"], row.v) for row in changes.net("id").collect()}
    assert net == {
        1: ("update", 11),
        2: ("delete", 20),
        3: ("delete", 30),
        4: ("insert", 1),
        5: ("delete", 1),
        6: ("insert", 30),
    }


def test_columns_with_hostile_names_are_only_names(lake: Lake) -> None:
    lake.create("src", [(1, "x"), (2, None)], "`a-b` int, `c``.d'` string")

    def odd(src: Changes) -> Merge:
        touched = src.touched("a-b")
        return Merge(touched.rows, touched)

    table = Table(key="a-b")
    lake.materialize(odd, table)
    assert lake.rows("odd") == [(1, "x"), (2, None)]
    lake.insert("src", [(3, "z")])
    lake.materialize(odd, table)
    assert lake.rows("odd") == [(1, "x"), (2, None), (3, "z")]


@pytest.mark.slow
def test_rows_without_a_key_are_compared_whatever_their_columns_are_called(lake: Lake) -> None:
    def odd(src: DataFrame) -> Overwrite:
        return Overwrite(src)

    def added(src: DataFrame) -> Append:
        return Append(src)

    lake.create("src", [("p", "x"), ("p", None)], "`g.h` string, `c``.d'` string")
    part = Slice((PartitionKey("p", {"g.h": "p"}, {}),))
    for _ in range(2):
        lake.materialize(odd)
        lake.materialize(added, Table(partition_by="g.h"), slice=part)
    assert (lake.version("odd"), lake.rows("odd")) == (0, [("p", "x"), ("p", None)])
    lake.insert("src", [("p", "z")])
    lake.materialize(odd)
    lake.materialize(added, Table(partition_by="g.h"), slice=part)
    assert lake.rows("odd") == lake.rows("added") == [("p", "x"), ("p", "z"), ("p", None)]


def placed(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["auto", slow("merge")])
def test_a_write_names_the_partitions_that_its_rows_come_from_and_go_to(lake: Lake, statement: Any) -> None:
    """As literals: otherwise Delta would not let writers of other partitions commit."""
    lake.create("src", [*ROWS, (4, "d", 40)], SRC)
    table = Table(key="id", partition_by="k", policy=Policy(statement=statement))
    lake.materialize(placed, table)
    lake.sql("UPDATE {src} SET k = 'b' WHERE id = 3")
    lake.sql("UPDATE {src} SET v = 21 WHERE id = 2")
    outcome = lake.materialize(placed, table)
    assert isinstance(outcome, Committed)
    match outcome.statement:
        case ReplaceRows(where=where) | MergeRows(within=where):
            assert where is not None and "'a'" in where and "'b'" in where and "'d'" not in where
        case other:
            pytest.fail(f"{other}")
    assert lake.rows("placed") == [(1, "a", 10), (2, "b", 21), (3, "b", 30), (4, "d", 40)]
    assert lake.source("placed").at.feed(1, 1).where("k = 'd'").isEmpty()


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["auto", slow("merge")])
def test_every_copy_of_a_key_is_found_in_whatever_partition_it_is(lake: Lake, statement: Any) -> None:
    lake.create("src", [*ROWS, (4, "d", 40)], SRC)
    table = Table(key="id", partition_by="k", policy=Policy(statement=statement))
    lake.materialize(placed, table)
    lake.insert("placed", [(2, "e", 20), (2, "f", 20), (4, "g", 40)])  # by another program
    lake.sql("UPDATE {src} SET v = 21 WHERE id = 2")
    lake.sql("DELETE FROM {src} WHERE id = 4")
    lake.materialize(placed, table)
    assert lake.rows("placed") == [(1, "a", 10), (2, "b", 21), (3, "a", 30)]


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["auto", slow("merge")])
def test_a_key_that_the_table_holds_twice_is_there_once_when_it_is_next_touched(lake: Lake, statement: Any) -> None:
    lake.create("src", ROWS, SRC)
    table = Table(key="id", policy=Policy(statement=statement))
    lake.materialize(kept, table)
    lake.insert("kept", [(2, "b", 20), (3, "z", 99)])  # by another program
    lake.sql("UPDATE {src} SET k = 'c' WHERE id = 2")
    lake.materialize(kept, table)
    assert lake.rows("kept") == [(1, "a", 10), (2, "c", 20), (3, "a", 30), (3, "z", 99)]
    lake.materialize(kept, table, compare="asked for")
    assert lake.rows("kept") == [(1, "a", 10), (2, "c", 20), (3, "a", 30)]
