"""A commit that tells other changes than its files hold is not believed; and no commit that is right is doubted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import Aggregate, Append, Changes, History, Merge, Read, Table
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.limits import MEASURED, in_force
from lakehouse.read.changes import read_of
from lakehouse.read.content import AFTER, BEFORE, DELETE, INSERT, Content, Feed
from lakehouse.read.feed_trust import Telling, find_contradiction, telling
from lakehouse.spark.driver_rows import Local
from tests.support.by_hand import Image, rewritten
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.slow import slow

SRC = "id int, g string, v int"
BY_G, BY_ID = Table(key="g"), Table(key="id")
ROWS = [(1, "A", 10), (2, "A", 5), (3, "A", 1)]
MOVED, GONE = [(1, "A", 10), (2, "B", 5), (3, "A", 1)], [(1, "A", 10), (3, "A", 1)]
Told = tuple[list[tuple[Any, ...]], list[Image]]
CONTRADICTIONS: dict[str, tuple[Told, str]] = {
    "an update without the row before it": (
        (MOVED, [("update_postimage", (2, "B", 5))]),
        "the feed of version 1 (MERGE) tells 0 rows before an update and 1 after it",
    ),
    "a delete told twice": (
        (GONE, 2 * [("delete", (2, "A", 5))]),
        "the feed of version 1 (MERGE) tells a growth of -2 rows, and its files say -1",
    ),
}


def merged(src: Changes) -> Merge:
    touched = src.touched("g")
    return Merge(touched.rows.groupBy("g").agg({"v": "sum"}).withColumnRenamed("sum(v)", "total"), touched)


def summed(src: Changes) -> Aggregate:
    return Aggregate(src, by="g", count="n", sums={"total": "v"})


def kept(src: Changes) -> History:
    return History(src)


def archive(src: Changes) -> Append:
    return Append(src.log())


WRITES = {
    "merged": (merged, BY_G, "g, total", "SELECT g, sum(v) FROM {src} GROUP BY g"),
    "summed": (summed, BY_G, "g, n, total", "SELECT g, count(*), sum(v) FROM {src} GROUP BY g"),
    "kept": (kept, BY_ID, "id, g, v", "SELECT * FROM {src}"),
}


def content(lake: Lake, after: int = 0, where: str | None = None) -> Content:
    """What a run reads of the source."""
    source = lake.source("src")
    source = replace(source, at=replace(source.at, where=where))
    return read_of(lake.begin(merged, BY_G).changes(source, Read(start=after), lake.ref)).content


UPDATED, DELETED = CONTRADICTIONS


@pytest.mark.parametrize(
    ("contradiction", "write"),
    [
        (UPDATED, "merged"),
        (UPDATED, "kept"),
        (DELETED, "summed"),
        *(slow(*each) for each in ((UPDATED, "summed"), (DELETED, "merged"), (DELETED, "kept"))),
    ],
)
def test_a_table_is_right_after_a_commit_that_contradicts_its_files(lake: Lake, contradiction: str, write: str) -> None:
    asset, table, columns, due = WRITES[write]
    (rows, told), _ = CONTRADICTIONS[contradiction]
    lake.create("src", ROWS, SRC)
    lake.materialize(asset, table)
    rewritten(lake.root / "src", rows, told)
    lake.materialize(asset, table)
    now = " WHERE __END_AT IS NULL" if write == "kept" else ""
    held = lake.sql(f"SELECT {columns} FROM {{{write}}}{now}")
    assert sorted(map(tuple, held)) == sorted(map(tuple, lake.sql(due)))


@pytest.mark.slow
@pytest.mark.parametrize("contradiction", [slow(UPDATED), DELETED])
def test_the_reason_names_the_commit_and_what_it_tells(lake: Lake, contradiction: str) -> None:
    """Whether the feed comes to the driver or not, and whether a run reads all of the source or a part."""
    (rows, told), reason = CONTRADICTIONS[contradiction]
    lake.create("src", ROWS, SRC)
    rewritten(lake.root / "src", rows, told)
    lake.insert("src", [(4, "C", 2)])
    for where in (None, "g = 'C'"):
        for limits in (MEASURED, replace(MEASURED, driver_rows=0)):
            with in_force(limits), raises_code("GAP") as refused:
                content(lake, where=where)
            assert reason in str(refused.value)
    with raises_code("GAP", match=r"tells"):
        lake.materialize(archive, reads={"src": Read(start=0)})


def test_an_honest_commit_by_hand_is_believed(lake: Lake) -> None:
    """Even by a run that reads a part of the source to which the row before the update does not belong."""
    lake.create("src", ROWS, SRC)
    rewritten(lake.root / "src", MOVED, [("update_preimage", (2, "A", 5)), ("update_postimage", (2, "B", 5))])
    rewritten(lake.root / "src", ROWS, [("delete", (2, "B", 5)), ("insert", (2, "A", 5))])
    for where, rows in ((None, 4), ("g = 'B'", 2)):
        found = content(lake, where=where)
        assert isinstance(found, Feed) and isinstance(found.rows, Local)
        assert found.rows.rows == rows
        with in_force(replace(MEASURED, driver_rows=0)):
            found = content(lake, where=where)
            assert isinstance(found, Feed) and not isinstance(found.rows, Local)
            assert found.frame.count() == rows


def test_updates_alone_are_weighed_where_no_statistics_say_how_many_rows_there_were(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    rewritten(lake.root / "src", GONE, 2 * [("delete", (2, "A", 5))], counted=False)
    found = content(lake)
    assert isinstance(found, Feed), "nobody can know"
    rewritten(lake.root / "src", GONE, [("update_preimage", (1, "A", 10))], counted=False)
    with raises_code("GAP", match=r"version 2 \(MERGE\) tells 1 row before an update and 0 after it"):
        content(lake)


@pytest.mark.slow
def test_the_past_of_a_history_begins_behind_a_commit_that_is_not_believed(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    rewritten(lake.root / "src", MOVED, [("update_postimage", (2, "B", 5))])
    lake.sql("DELETE FROM {src} WHERE id = 3")
    lake.materialize(kept, BY_ID)
    rows = lake.sql("SELECT id, g, __END_AT IS NULL FROM {kept} ORDER BY id")
    assert [tuple(row) for row in rows] == [(1, "A", True), (2, "B", True), (3, "A", False)]


ACTS = [
    "INSERT INTO {src} SELECT id, concat('a b%/', id % 2), id FROM range(20)",
    "UPDATE {src} SET v = 100 WHERE id < 3",
    "DELETE FROM {src} WHERE id = 4",
    "DELETE FROM {src} WHERE id % 2 = 1 OR id = 6",
    (
        "MERGE INTO {src} t USING (SELECT id, 'c' AS g, 7 AS v FROM range(10, 30)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 12 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ),
    "INSERT INTO {src} REPLACE WHERE g = 'c' SELECT 50, 'c', 1",
    "INSERT INTO {src} REPLACE WHERE v = 1 OR id = 50 SELECT 50, 'c', 1",
    "RESTORE TABLE {src} TO VERSION AS OF 3",
    "REORG TABLE {src} APPLY (PURGE)",
    "UPDATE {src} SET g = 'moved' WHERE id = 2",
    "OPTIMIZE {src}",
    "DELETE FROM {src} WHERE id = 2",
]
"""Delta's own statements; after them the table is overwritten by partitions."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vectors", "properties"),
    [
        pytest.param(False, "", id="files rewritten"),
        slow(True, "", id="deletion vectors"),
        slow(False, ", 'delta.dataSkippingNumIndexedCols' = '0'", id="no columns in statistics"),
    ],
)
def test_no_statement_of_delta_is_doubted(lake: Lake, *, vectors: bool, properties: str) -> None:
    settings = f"'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}'{properties}"
    table = lake.ref("src").identifier
    lake.spark.sql(f"CREATE TABLE {table} ({SRC}) USING delta PARTITIONED BY (g) TBLPROPERTIES ({settings})")
    for act in ACTS:
        lake.sql(act)
    overwrite = lake.values([(60, "c", 1)], SRC).write.format("delta").mode("overwrite")
    overwrite.option("partitionOverwriteMode", "dynamic").save(str(lake.root / "src"))
    log, commits = lake.source("src").log, lake.commits("src")
    weighed = telling(log, commits)
    assert all(each.growth is not None for each in weighed)
    told = {each.commit.operation for each in weighed}
    assert told >= ({"UPDATE", "MERGE"} if vectors else {"UPDATE", "MERGE", "DELETE", "WRITE"})
    assert isinstance(content(lake), Feed)


@pytest.mark.slow
def test_a_writer_without_statistics_is_not_doubted(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        lake.sql("UPDATE {src} SET v = 2 WHERE id = 1")
        lake.sql("DELETE FROM {src} WHERE id = 2")
    finally:
        lake.spark.conf.unset("spark.databricks.delta.stats.collect")
    log, commits = lake.source("src").log, lake.commits("src")
    assert [(each.commit.operation, each.growth) for each in telling(log, commits)] == [
        ("UPDATE", None),
        ("DELETE", None),
    ]
    assert isinstance(content(lake), Feed)


def commit(version: int, **more: Any) -> Commit:
    return Commit(version, 0, "MERGE", metrics={"numTargetRowsInserted": 1}, **more)


counts = st.integers(0, 4)


@given(counts, counts, counts, st.sampled_from([INSERT, BEFORE, AFTER, DELETE]), st.integers(-4, 4))
def test_whatever_one_type_of_image_tells_too_much_or_too_little_is_found(
    inserts: int, updates: int, deletes: int, type_: str, more: int
) -> None:
    honest = Counter({INSERT: inserts, BEFORE: updates, AFTER: updates, DELETE: deletes})
    told = Counter({**honest, type_: max(0, honest[type_] + more)})
    known, unknown = (Telling(commit(7), growth) for growth in (inserts - deletes, None))
    assert (known.why_contradicted(told) is None) == (told == honest)
    assert (unknown.why_contradicted(told) is None) == (told[BEFORE] == told[AFTER])


@given(st.dictionaries(st.integers(1, 6), st.tuples(counts, counts, counts), min_size=1), st.sets(st.integers(1, 6)))
def test_the_first_wrong_commit_is_named_and_right_ones_never_are(
    true: Mapping[int, tuple[int, int, int]], doubled: set[int]
) -> None:
    images, weighed, wrong = dict[int, Counter[str]](), list[Telling](), list[int]()
    for version, (inserts, updates, deletes) in sorted(true.items()):
        times = 2 if version in doubled else 1
        if (inserts, updates, deletes) != (0, 0, 0):
            images[version] = Counter({INSERT: inserts, BEFORE: updates, AFTER: updates, DELETE: times * deletes})
        weighed.append(Telling(commit(version), inserts - deletes))
        wrong += [version] if times * deletes != deletes else []
    found = find_contradiction(weighed, images)
    assert (found is None) == (not wrong)
    assert found is None or f"of version {wrong[0]} (MERGE)" in found


class Asked:
    """A log whose commits all tell their changes; it remembers which commits it was asked about."""

    def __init__(self) -> None:
        self.versions: list[int] = []

    def growths(self, versions: Mapping[int, Any]) -> dict[int, int | None]:
        self.versions += versions
        return dict.fromkeys(versions, 1)


def test_quiet_commits_and_our_own_are_not_weighed() -> None:
    mark = Mark("t", (), FIRST_GENERATION, 1, "run", "attempt", 0).to_json()
    log: Any = Asked()
    foreign, ours, damaged = commit(1), commit(2, user_metadata=mark), commit(3, user_metadata=mark[:-3])
    quiet = Commit(4, 0, "OPTIMIZE")
    assert [each.commit for each in telling(log, [foreign, ours, damaged, quiet])] == [foreign, damaged]
    assert log.versions == [1, 3]
    assert telling(log, [ours, quiet]) == ()
    assert log.versions == [1, 3]
