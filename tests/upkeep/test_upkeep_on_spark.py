"""A slow reader and upkeep: its range stays readable within its limit; after that upkeep goes on, and it recovers."""

from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import dagster as dg
import pytest

from benchmarks.harness.earlier import set_back
from lakehouse import Append, Changes, DeltaIOManager, Nightly, Table, change_sensor, incremental
from lakehouse.cursor.cursor import Known, Lost
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.unread import TableState
from lakehouse.dagster.definitions.keeping import UPKEEP_JOB
from lakehouse.upkeep.carry_out import change_properties
from lakehouse.upkeep.due import Rules, UpkeepWork, past_upkeep
from lakehouse.upkeep.registration import register
from tests.support.dagster_house import Running
from tests.support.lake import Lake
from tests.support.marked_tables import append, run
from tests.support.raises import raises_code
from tests.support.ready_runs import KEYED, SRC, copy, ready
from tests.support.ticks import ticked
from tests.upkeep.by_hand import carry_out, compares, log_of, look, states

ONLY_FREE = Rules(freed_share=0.0)
orders = dg.AssetSpec("orders", metadata=Table())


@dg.asset(metadata=Table())
def copies(orders: Changes) -> Append: ...


def present(lake: Lake) -> set[str]:
    root = lake.root / "src"
    return {file.relative_to(root).as_posix() for file in root.rglob("*") if file.suffix in (".parquet", ".bin")} - {
        file.relative_to(root).as_posix() for file in (root / "_delta_log").rglob("*")
    }


@pytest.mark.slow
def test_a_slow_reader_reads_its_range_and_one_beyond_its_limit_recovers(lake: Lake) -> None:
    lake.create("src", [(1, "a", 10), (2, "b", 20), (3, "c", 30)], SRC, **{"delta.enableDeletionVectors": "true"})
    lake.materialize(copy, KEYED)
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.sql("DELETE FROM {src} WHERE id = 2")
    lake.materialize(copy, KEYED)
    head = log_of(lake, "src").head()
    assert head is not None
    registered = register(head, "src", "copy", timedelta(days=40))
    change_properties(lake.spark, lake.ref("src"), registered)
    lake.insert("src", [(4, "d", 40)])
    lake.sql("UPDATE {src} SET v = 31 WHERE id = 3")

    set_back(lake.root / "src", 10)
    needed = look(lake, "src", ONLY_FREE)
    assert states(lake, "src") == {"copy": TableState.BEHIND} and needed.by_inventory
    assert [task.work for task in needed.tasks] == [UpkeepWork.FREE]
    before = present(lake)
    carry_out(lake, needed)
    assert before - present(lake) == {unquote(file.path) for file in needed.unneeded} != set()
    assert past_upkeep(log_of(lake, "src"), log_of(lake, "src").head() or head).freed_upto == needed.horizon
    assert look(lake, "src", ONLY_FREE).tasks == (), "what has been removed is not due again"

    assert not compares(lake, copy, KEYED), "it reads its range"
    assert lake.rows("copy") == lake.rows("src")

    lake.sql("UPDATE {src} SET v = 12 WHERE id = 1")
    lake.sql("DELETE FROM {src} WHERE id = 4")
    set_back(lake.root / "src", 60)
    needed = look(lake, "src", ONLY_FREE)
    assert states(lake, "src") == {"copy": TableState.ASLEEP}
    before = present(lake)
    carry_out(lake, needed)
    assert before > present(lake)
    assert compares(lake, copy, KEYED)
    assert lake.rows("copy") == lake.rows("src")


def test_a_night_compacts_what_is_due_and_wakes_nobody(lake: Lake, instance: dg.DagsterInstance) -> None:
    """The sensor requests no run because of an OPTIMIZE, neither of the table nor of those that read it."""
    append(lake.root, "orders", 1)
    for row in range(20):
        run(lake.root, "copies", "orders")
        append(lake.root, "orders", row)
    run(lake.root, "copies", "orders")
    rows = lake.rows("copies")

    manager = DeltaIOManager(spark=Running(lake.spark), root=str(lake.root))
    defs = dg.Definitions(assets=[orders, copies], resources={"io_manager": manager})
    job = incremental(defs, upkeep=Nightly("0 4 * * *", max_bytes=1)).resolve_job_def(UPKEEP_JOB)
    night = job.execute_in_process(instance=instance)

    (output,) = [event for event in night.all_events if event.event_type is dg.DagsterEventType.STEP_OUTPUT]
    metadata: Any = output.step_output_data.metadata
    assert (metadata["tables"].value, metadata["tables_with_upkeep"].value) == (1, 1)
    (record,) = metadata["upkeep"].records
    assert record.data | {"rewritten_mb": 0} == {
        "table": "copies",
        "done": "OPTIMIZE",
        "files_before": 21,
        "files_after": 1,
        "rewritten_mb": 0,
        "freed_mb": 0.0,
        "left": "-",
    }
    texts = [entry.user_message for entry in instance.all_logs(night.run_id) if entry.dagster_event is None]
    assert "copies: OPTIMIZE: 21 of 21 files are small. It has 1 file now, and had 21." in texts
    assert lake.rows("copies") == rows
    assert not look(lake, "copies", Rules()).tasks
    sensor = change_sensor("follow", [orders, copies], root=str(lake.root))
    assert not ticked(sensor, instance).run_requests


@pytest.mark.slow
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_only_the_partitions_that_are_due_are_rewritten(lake: Lake, mapping: str) -> None:
    """Whatever their values are: a text with a quote, NULL, a day, a moment, a decimal."""
    partitions = [
        ("it's", "2013-01-01", "2013-01-01 10:00:00.5", "1.50"),
        (None, None, None, None),
        ("a=b/c", "2013-01-03", "2013-03-31 02:30:00", "-2.00"),
    ]
    values = ", ".join(f"({', '.join('NULL' if v is None else repr(v) for v in row)})" for row in partitions)
    select = "s, CAST(d AS date) AS d, CAST(t AS timestamp) AS t, CAST(n AS decimal(9, 2)) AS n"
    columns = "id int, s string, d date, t timestamp, n decimal(9, 2)"
    options = f"'delta.columnMapping.mode' = '{mapping}', 'delta.enableDeletionVectors' = 'true'"
    path = f"delta.`{lake.root}/days`"
    lake.spark.sql(f"CREATE TABLE {path} ({columns}) USING delta PARTITIONED BY (s, d, t, n) TBLPROPERTIES ({options})")
    source = f"(SELECT {select} FROM VALUES {values} AS v(s, d, t, n))"
    for number in range(3):
        where = "" if number < 2 else " WHERE s IS NULL OR s = 'a=b/c'"
        rows = f"SELECT CAST({number} AS int), * FROM {source}{where}"
        lake.spark.sql(f"INSERT INTO {path} {rows}").collect()
    before = lake.rows("days")
    needed = look(lake, "days", Rules(small_files=2, small_in_partition=3))
    (task,) = needed.tasks
    assert (task.work, len(task.parts)) == (UpkeepWork.COMPACT, 2)
    assert task.why == "6 of 8 files are small in 2 of 3 partitions"
    carry_out(lake, needed)
    assert lake.rows("days") == before
    live = look(lake, "days").live
    assert sorted(sum(file.partition == part for file in live) for part in {f.partition for f in live}) == [1, 1, 2]
    lake.spark.sql(f"DELETE FROM {path} WHERE s = 'it\\'s' AND id = 0").collect()
    purge = look(lake, "days", Rules(deleted_share=0.5, deleted_bytes=0))
    carry_out(lake, purge)
    assert not purge.tasks or sum(file.deleted or 0 for file in look(lake, "days").live) == 0


def alter(lake: Lake, *comments: str) -> None:
    """Commits without rows to `copy`, each with a checkpoint."""
    for comment in comments:
        options = f"'delta.checkpointInterval' = '1', 'comment' = '{comment}'"
        lake.sql("ALTER TABLE {copy} SET TBLPROPERTIES (" + options + ")")


@pytest.mark.slow
@pytest.mark.parametrize("cursor", [Known, Lost])
def test_log_cleanup_takes_the_position_of_a_table_that_nobody_runs_unless_upkeep_commits_its_mark_again(
    lake: Lake, cursor: type
) -> None:
    """A checkpoint keeps what a table holds, and the epochs of its writers, but not the marks in its commits.

    Delta removes the commits before a checkpoint that is older than the retention, when it writes another checkpoint.
    """
    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    lake.materialize(copy, KEYED)
    alter(lake, "a", "b")
    set_back(lake.root / "src", 40)
    set_back(lake.root / "copy", 40)
    if cursor is Known:
        needed = look(lake, "copy", Rules())
        assert [task.work for task in needed.tasks] == [UpkeepWork.MARK]
        carry_out(lake, needed)
        assert look(lake, "copy", Rules()).tasks == ()
    alter(lake, "c", "d", "e")
    names = sorted(file.name for file in (lake.root / "copy" / "_delta_log").glob("[0-9]*"))
    assert f"{0:020}.json" not in names, "Delta has cleaned the log"
    log = log_of(lake, "copy")
    assert type(find_cursor(log, log.head(), "copy")) is cursor
    lake.insert("src", [(3, "c", 30)])
    assert compares(lake, copy, KEYED) == (cursor is Lost), "without its position the run compares everything"
    assert lake.rows("copy") == lake.rows("src")


@pytest.mark.slow
def test_of_a_repeated_mark_and_a_run_one_gives_way(lake: Lake) -> None:
    """They have the same epoch, so Delta refuses or skips the second, whichever that is."""
    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    lake.materialize(copy, KEYED)
    set_back(lake.root / "copy", 20)
    planned = look(lake, "copy", Rules())
    lake.insert("src", [(3, "c", 30)])
    step, write = ready(lake)
    carry_out(lake, planned)
    with raises_code("OVERTAKEN"):
        step.commit(write, lake.retry)
    assert not compares(lake, copy, KEYED), "the run is made again, and reads on"
    assert lake.rows("copy") == lake.rows("src")
    before = lake.version("copy")
    carry_out(lake, planned)
    assert lake.version("copy") == before, "the mark of before the run is not there behind it"
