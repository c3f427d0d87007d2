"""What becomes of the asset's own table while it is written, or while no run writes to it."""

import re
import shutil
import time
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Retry, Table
from lakehouse.commit.outcome import AlreadyApplied, Committed, Outcome, Unchanged
from lakehouse.cursor.cursor import Known
from lakehouse.delta.commit_info import NO_ROWS
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.errors import UnsettledError, WriteError
from tests.support.interleave import before, raises, rivals
from tests.support.lake import NO_WAIT, Lake, cleaned
from tests.support.raises import raises_code
from tests.support.ready_runs import KEYED, SRC, committed, copy, log, ready
from tests.support.slow import slow

ROWS = [(1, "a", 10), (2, "b", 20)]
BY_G = Table(key="id", partition_by="g")

LEFT = "part-00000-a0a0a0a0-1111-2222-3333-444444444444-c000.snappy.parquet"
"""The name of a data file, as Delta gives it."""


def of(g: str) -> Slice:
    return Slice((PartitionKey(g, {"g": g}, {}),))


def added(src: DataFrame) -> Append:
    return Append(src)


def followed(src: Changes) -> Append:
    return Append(src.appended())


@pytest.mark.slow
def test_a_new_partition_of_a_table_whose_log_was_cleaned_is_not_in_somebody_elses(lake: Lake) -> None:
    """Another program has changed rows since, and no own commit is left that shows whose table it is."""
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, BY_G, slice=of("a"))
    cleaned(lake, "copy")
    lake.materialize(copy, BY_G, slice=of("b"))
    assert lake.rows("copy")[1] == (2, "b", 20)


@pytest.mark.slow
def test_rows_that_other_partition_keys_had_are_not_appended_once_more(lake: Lake) -> None:
    """The partitions were months, for example, and are days now: none of the new keys has a position."""
    lake.create("src", ROWS, SRC)
    table = Table(partition_by="g")
    lake.materialize(followed, table, slice=Slice((PartitionKey("a month", {"g": "a"}, {}),)))
    with raises_code("GAP", match="rows of another origin"):
        lake.materialize(followed, table, slice=of("a"))
    lake.materialize(followed, table, slice=of("b"))
    assert lake.rows("followed") == lake.rows("src")


@pytest.mark.slow
@pytest.mark.parametrize("asset", [copy, log])
def test_a_table_that_is_deleted_while_it_is_compared_is_not_begun_with_the_difference(lake: Lake, asset: Any) -> None:
    name, table = asset.__name__, KEYED if asset is copy else Table()
    lake.create("src", ROWS, SRC)
    lake.materialize(asset, table)
    lake.insert("src", [(3, "c", 30)])
    with before("execute", lambda: shutil.rmtree(lake.root / name)), raises_code("ROLLED_BACK"):
        lake.materialize(asset, table)
    if asset is copy:
        lake.materialize(asset, table)
        assert lake.rows(name) == lake.rows("src")
    else:
        with raises_code("GAP", match="delete the table"):
            lake.materialize(asset, table)


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(False, id="the directory is empty"),
        slow(True, id="a twin has begun it again"),
    ],
)
def test_a_run_whose_table_is_another_by_now_starts_anew(lake: Lake, *, again: bool) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED)
    lake.insert("src", [(3, "c", 30)])
    step, write = ready(lake)
    shutil.rmtree(lake.root / "copy")
    if again:
        lake.materialize(copy, KEYED)
    with raises_code("ROLLED_BACK", match="is at version 0 now" if again else "is gone"):
        step.commit(write, lake.retry, NO_WAIT)
    lake.materialize(copy, KEYED)
    assert lake.rows("copy") == lake.rows("src")


@pytest.mark.slow
def test_two_partitions_that_create_the_table_where_a_dead_writer_left_files(lake: Lake) -> None:
    if not hasattr(lake.spark, "sparkContext"):
        pytest.skip("the rival is let in by the JVM in this process")
    lake.create("src", ROWS, SRC)
    (lake.root / "copy" / "_delta_log").mkdir(parents=True)
    (lake.root / "copy" / LEFT).touch()
    step, write = ready(lake, table=BY_G, slice=of("a"))
    beside, other = ready(lake, table=BY_G, slice=of("b"))
    with rivals(lake.spark, lambda: committed(beside.commit(other, lake.retry, NO_WAIT)), before="snapshot") as ran:
        step.commit(write, lake.retry, NO_WAIT)
    assert len(ran) == 1
    assert lake.rows("copy") == ROWS
    head = lake.ref("copy").log(lambda: lake.spark).head()
    assert head is not None and head.partition_columns == ("g",) and head.keeps_feed and head.has_vectors


@pytest.mark.slow
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_overlapping_partitions_that_create_the_table_where_a_dead_writer_left_files(lake: Lake, mapping: str) -> None:
    """Neither run reads changes, so no position shows that a row is already in the table."""
    if not hasattr(lake.spark, "sparkContext"):
        pytest.skip("the rival is let in by the JVM in this process")
    lake.create("src", ROWS, SRC)
    if mapping == "none":
        (lake.root / "added" / "_delta_log").mkdir(parents=True)
        (lake.root / "added" / LEFT).touch()
    table = Table(partition_by="g", properties={"delta.columnMapping.mode": mapping})
    step, write = ready(lake, added, table, name="added", slice=of("a"))
    both = Slice(tuple(PartitionKey(g, {"g": g}, {}) for g in "ab"))
    beside, other = ready(lake, added, table, name="added", slice=both)
    acts = [lambda: committed(beside.commit(other, lake.retry, NO_WAIT))]
    if mapping == "name":  # the first transaction creates the table; the rival comes before the second
        acts.insert(0, lambda: None)
    with rivals(lake.spark, *acts, before="snapshot") as ran:
        step.commit(write, lake.retry, NO_WAIT)
    assert len(ran) == len(acts)
    assert lake.rows("added") == ROWS


@pytest.mark.slow
def test_an_append_that_makes_a_mapped_table_is_there_once_whoever_wrote_to_it_meanwhile(lake: Lake) -> None:
    """Such a table is made in two commits, and another program may write between them."""
    if not hasattr(lake.spark, "sparkContext"):
        pytest.skip("the rival is let in by the JVM in this process")
    lake.create("src", ROWS, SRC)
    mapped = Table(properties={"delta.columnMapping.mode": "name"})
    step, write = ready(lake, followed, mapped, name="followed")
    insert = partial(lake.sql, "INSERT INTO {followed} VALUES (9, 'z', 9)")
    with rivals(lake.spark, lambda: None, insert, before="snapshot") as ran:
        step.commit(write, lake.retry, NO_WAIT)
    assert len(ran) == 2
    assert lake.rows("followed") == [*ROWS, (9, "z", 9)]


@pytest.mark.slow
@pytest.mark.parametrize("retry", [Retry(attempts=1), slow(Retry(attempts=4, wait_initial=0, wait_max=0))])
def test_a_twin_has_done_our_work_also_where_no_attempt_is_left(moved_lake: Lake, retry: Retry) -> None:
    step, write = ready(moved_lake)
    twin, same = ready(moved_lake)
    with rivals(moved_lake.spark, lambda: twin.commit(same, moved_lake.retry, NO_WAIT)):
        outcome = step.commit(write, retry, NO_WAIT)
    assert isinstance(outcome, AlreadyApplied) and outcome.mark.run == twin.run.run_id


@pytest.mark.slow
def test_an_error_behind_the_commit_does_not_say_that_nothing_was_written(lake: Lake) -> None:
    if not hasattr(lake.spark, "sparkContext"):
        pytest.skip("the rival is let in by the JVM in this process")
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED)
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    step, write = ready(lake)
    with (
        before("plan", lambda: None, raises(WriteError.plan("copy", "its second plan fails"))),
        rivals(lake.spark, partial(lake.sql, "UPDATE {copy} SET v = 99 WHERE id = 1"), before="snapshot"),
        pytest.raises(UnsettledError, match=r"committed as version 2.* its second plan fails"),
    ):
        step.commit(write, lake.retry, NO_WAIT)
    lake.materialize(copy, KEYED)
    assert lake.rows("copy") == lake.rows("src")


def later(days: float) -> int:
    """The moment that many days from now."""
    return int((time.time() + days * 24 * 60 * 60) * 1000)


@pytest.mark.slow
def test_a_position_that_others_bury_is_put_down_again(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    lake.sql("ALTER TABLE {log} SET TBLPROPERTIES ('of' = 'ours')")
    assert isinstance(lake.materialize(log), Unchanged)
    lake.sql("ALTER TABLE {log} SET TBLPROPERTIES ('of' = 'others')")
    newest = max((lake.root / "log" / "_delta_log").glob("*.json"))
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    newest.write_text(re.sub(r'"timestamp":\d+', f'"timestamp":{later(days=1.1)}', newest.read_text(), count=1))
    assert_only_marked(lake, lake.materialize(log))
    assert isinstance(lake.materialize(log), Unchanged)


def test_a_position_is_put_down_again_before_log_cleanup_could_reach_it(lake: Lake) -> None:
    """Commits of others may come in large numbers, and the log may be cleaned right after the next one."""
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    assert isinstance(lake.materialize(log, now=later(days=6)), Unchanged)
    assert_only_marked(lake, lake.materialize(log, now=later(days=8)))
    assert isinstance(lake.materialize(log, now=later(days=2)), Unchanged)


def test_a_position_is_taken_along_before_the_cleanup_of_its_source_could_reach_it(lake: Lake) -> None:
    """Even if it lags behind only a few commits, none of which changed a row."""
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('of' = 'theirs')")
    assert isinstance(lake.materialize(log, now=later(days=0.5)), Unchanged)
    assert_only_marked(lake, lake.materialize(log, now=later(days=1.5)))
    step = lake.begin(log)
    assert step.run.cursor.reads["src"].version == lake.version("src")
    assert isinstance(lake.materialize(log, now=later(days=3)), Unchanged)


def assert_only_marked(lake: Lake, outcome: Outcome) -> None:
    assert isinstance(outcome, Committed) and outcome.commit.rows == NO_ROWS
    step = lake.begin(log)
    assert isinstance(step.run.cursor, Known) and step.run.cursor.version == lake.version("log")


@pytest.mark.slow
def test_a_partition_that_was_never_written_begins_also_where_the_log_was_cleaned(lake: Lake) -> None:
    table, groups = Table(partition_by="g"), "abcdefghijklm"
    lake.create("src", [(n, g, n) for n, g in enumerate(groups)], SRC)
    for g in groups[:-1]:
        lake.materialize(followed, table, slice=of(g))
    cleaned(lake, "followed")
    for _ in range(2):
        lake.materialize(followed, table, slice=of(groups[-1]))
        assert sorted(row[1] for row in lake.rows("followed")) == list(groups)
    with raises_code("GAP", match="log was cleaned up"):  # its rows are in the table, but its position is lost
        lake.materialize(followed, table, slice=of("a"))


@pytest.mark.slow
def test_a_partition_s_append_brings_new_columns(lake: Lake) -> None:
    def wider(src: DataFrame) -> Append:
        return Append(src.selectExpr("*", "v * 2 AS twice"))

    lake.create("src", ROWS, SRC)
    table = Table(partition_by="g")
    lake.materialize(added, table, name="t", slice=of("a"))
    lake.materialize(wider, table, name="t", slice=of("b"))
    assert lake.rows("t") == [(1, "a", 10, None), (2, "b", 20, 40)]
    with raises_code("BROKEN_PROMISE"):  # an Append cannot rewrite a row, so it cannot fill in the new value either
        lake.materialize(wider, table, name="t", slice=of("a"))


MAPPED = Table(key="id", properties={"delta.columnMapping.mode": "name"})


def test_a_directory_with_files_of_somebody_else_is_refused(lake: Lake) -> None:
    """Upkeep's VACUUM would remove the files."""
    lake.create("src", [(1, "a")], "id int, g string")
    for name, table in (("plain", KEYED), ("mapped", MAPPED)):
        (lake.root / name / "2026").mkdir(parents=True)
        for file in (LEFT, ".hidden", "_SUCCESS"):
            (lake.root / name / file).write_text("")
        raw = lake.root / name / "2026" / "march.csv"
        raw.write_text("id,g")
        with raises_code("PLACE_TAKEN", match="march.csv"):
            lake.materialize(copy, table, name=name)
        raw.rename(lake.root / "march.csv")
        lake.materialize(copy, table, name=name)
        assert lake.rows(name) == [(1, "a")]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["{x,y}", "q?*"])
def test_what_a_dead_writer_left_is_found_in_a_folder_of_any_name(lake: Lake, folder: str) -> None:
    odd = Lake(lake.spark, lake.root / folder)
    odd.root.mkdir()
    odd.create("src", [(1, "a")], "id int, g string")
    (odd.root / "copy").mkdir()
    (odd.root / "copy" / LEFT).write_text("")
    odd.materialize(copy, KEYED)
    assert odd.rows("copy") == [(1, "a")]


MAPPED = Table(key="id", properties={"delta.columnMapping.mode": "name"})


@pytest.mark.parametrize("when", ["before its statement", slow("within it")])
@pytest.mark.parametrize("act", ["DROP COLUMN v", slow("RENAME COLUMN v TO u")])
def test_a_column_that_a_rival_takes_during_a_run_is_compared_again(
    lake: Lake, classic: None, act: str, when: str
) -> None:
    """Delta adds the column again with the rows that the run writes, and all other rows have NULL there."""
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, MAPPED)
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    alter = partial(lake.sql, f"ALTER TABLE {{copy}} {act}")
    is_before = when == "before its statement"
    with (
        before("execute", alter) if is_before else rivals(lake.spark, alter, before="snapshot"),
        raises_code("ROLLED_BACK", match="its columns were changed"),
    ):
        lake.materialize(copy, MAPPED)
    if act.startswith("RENAME"):
        lake.sql("ALTER TABLE {copy} DROP COLUMN u")
    lake.materialize(copy, MAPPED)
    assert [tuple(row) for row in lake.sql("SELECT id, g, v FROM {copy} ORDER BY id")] == [(1, "a", 11), (2, "b", 20)]


@pytest.mark.parametrize("between", ["a column", slow("two columns")])
def test_a_name_that_another_column_of_the_table_has_now_is_compared(lake: Lake, between: str) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, MAPPED)
    if between == "a column":
        acts = ("DROP COLUMN v", "ADD COLUMN v INT")
    else:
        acts = ("ADD COLUMN w INT", "RENAME COLUMN v TO x", "RENAME COLUMN w TO v", "DROP COLUMN x")
    for act in acts:
        lake.sql(f"ALTER TABLE {{copy}} {act}")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.materialize(copy, MAPPED)
    assert lake.rows("copy") == lake.rows("src")


@pytest.mark.slow
def test_a_name_that_another_field_of_the_table_has_now_is_compared(lake: Lake) -> None:
    lake.create("src", [], "id INT, n STRUCT<x: INT, y: INT>", delta__columnMapping__mode="name")
    lake.sql("INSERT INTO {src} SELECT id, named_struct('x', id, 'y', id) FROM VALUES (1), (2) AS t(id)")
    lake.materialize(copy, MAPPED)
    for act in ("DROP COLUMN n.y", "ADD COLUMN n.y INT"):
        lake.sql(f"ALTER TABLE {{copy}} {act}")
    lake.sql("UPDATE {src} SET n.x = 5 WHERE id = 1")
    lake.materialize(copy, MAPPED)
    assert lake.rows("copy") == lake.rows("src")
