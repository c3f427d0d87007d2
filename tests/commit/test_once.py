"""The position is in the table, and every change is applied exactly once."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, History, Merge, Read, Table
from lakehouse.commit.execute import execute
from lakehouse.commit.outcome import AlreadyApplied, Committed, Unchanged
from lakehouse.cursor.mark import Mark
from lakehouse.delta.file_log import FileLog
from lakehouse.errors import StaleInputsError, UnreadableLogError
from lakehouse.writes.write import complete, plan
from tests.support.interleave import after, raises
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.slow import slow

pytestmark = [pytest.mark.core, pytest.mark.anywhere]

SRC = "id int, k string, v int"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def log(src: Changes) -> Append:
    return Append(src.log().select("id", "v", "change_type", "commit_version"))


def copy(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def past(src: Changes) -> History:
    return History(src)


def marks(lake: Lake, name: str) -> list[Mark]:
    return [mark for commit in lake.commits(name) if (mark := Mark.from_json(commit.user_metadata))]


def test_two_sources_keep_both_positions_in_one_commit(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.create("dim", [("a", "x")], "k string, name string")

    def both(src: Changes, dim: Changes) -> Merge:
        touched = src.touched("id") | dim.touched("k").via(src.source, "id")
        return Merge(touched.of(src.source.join(dim.source, "k", "left").select("id", "name")), touched)

    lake.materialize(both, Table(key="id"))
    lake.insert("dim", [("b", "y")])
    lake.sql("UPDATE {src} SET k = 'b' WHERE id = 1")
    lake.materialize(both, Table(key="id"))
    newest = marks(lake, "both")[-1]
    assert {name: at.version for name, at in newest.reads.items()} == {"src": 1, "dim": 1}
    assert lake.rows("both") == [(1, "y"), (2, "y"), (3, "x")]


def test_two_runs_that_read_the_same_range_apply_it_once(lake: Lake) -> None:
    tables = {log: Table(), copy: Table(key="id"), past: Table(key="id")}
    lake.create("src", ROWS, SRC)
    for asset, table in tables.items():
        lake.materialize(asset, table)
    lake.insert("src", [(4, "c", 40)])
    for asset, table in tables.items():
        steps = [lake.begin(asset, table) for _ in range(2)]
        writes = [asset(**lake.read(step, asset)) for step in steps]  # type: ignore[arg-type]
        first, second = (step.commit(write, lake.retry, NO_WAIT) for step, write in zip(steps, writes, strict=True))
        assert isinstance(first, Committed)
        assert isinstance(second, AlreadyApplied)
        assert (second.mark.run, second.commit.version) == (steps[0].run.run_id, first.commit.version)
        assert [row[0] for row in lake.rows(asset.__name__)].count(4) == 1


def test_a_run_that_read_further_than_the_winner_starts_again(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    lake.insert("src", [(4, "c", 40)])
    early = lake.begin(log)
    early_write = log(**lake.read(early, log))
    lake.insert("src", [(5, "c", 50)])
    late = lake.begin(log)
    late_write = log(**lake.read(late, log))
    early.commit(early_write, lake.retry, NO_WAIT)
    with pytest.raises(StaleInputsError, match="continues from version"):
        late.commit(late_write, lake.retry, NO_WAIT)
    lake.materialize(log)
    assert sorted(row[0] for row in lake.rows("log")) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("asset", [log, slow(past)], ids=["append", "history"])
def test_runs_at_the_same_moment_in_one_process_apply_every_change_once(lake: Lake, asset: Any) -> None:
    table = Table() if asset is log else Table(key="id")
    lake.create("src", ROWS, SRC)
    lake.materialize(asset, table)
    for value in range(3):
        lake.insert("src", [(10 + value, "z", value)])

        def attempt(_: int) -> str:
            try:
                return type(lake.materialize(asset, table)).__name__
            except StaleInputsError:
                return "stale"

        with ThreadPoolExecutor(4) as pool:
            outcomes = list(pool.map(attempt, range(4)))
        assert outcomes.count("Committed") == 1, outcomes
    assert sorted(row[0] for row in lake.rows(asset.__name__)) == [1, 2, 3, 10, 11, 12]


@pytest.mark.parametrize("asset", [pytest.param(copy, id="merge"), slow(past, id="history")])
def test_a_lost_answer_is_found_in_the_log(lake: Lake, monkeypatch: pytest.MonkeyPatch, asset: Any) -> None:
    """The commit lands, but the caller gets a connection error; and the store may list the commit late."""
    name = asset.__name__
    lake.create("src", ROWS, SRC)
    lake.materialize(asset, Table(key="id"))
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    lost = raises(ConnectionResetError("Answer from Java side is empty"))
    with after("execute", lost):
        outcome = lake.materialize(asset, Table(key="id"))
    assert isinstance(outcome, Committed) and outcome.recovered and lake.version(name) == 1
    assert sorted(row[-1] for row in lake.rows(name)) == ([0, 20, 30] if asset is copy else [0, 10, 20, 30])
    lake.sql("UPDATE {src} SET v = 1 WHERE id = 1")
    listed, before = FileLog.head, [lake.ref(name).log(lambda: lake.spark).head()]

    def list_late() -> None:
        monkeypatch.setattr(FileLog, "head", lambda log: before.pop() if before else listed(log))
        lost()

    with after("execute", list_late):
        outcome = lake.materialize(asset, Table(key="id"))
    assert before == [] and isinstance(outcome, Committed) and outcome.recovered and lake.version(name) == 2
    assert isinstance(lake.materialize(asset, Table(key="id")), Unchanged)


def test_a_step_that_is_run_again_after_its_commit_does_not_append_again(lake: Lake) -> None:
    frame = lake.values([(1,)], "id int")

    def ingest() -> Append:
        return Append(frame)

    assert isinstance(lake.materialize(ingest, run="run-1"), Committed)
    assert isinstance(lake.materialize(ingest, run="run-1"), AlreadyApplied)
    assert isinstance(lake.materialize(ingest, run="run-2", aliases=frozenset({"run-1"})), AlreadyApplied)
    assert isinstance(lake.materialize(ingest, run="run-3"), Committed)
    assert len(lake.rows("ingest")) == 2


@pytest.mark.parametrize("remedy", [slow("a full refresh"), slow("a RESTORE")])
def test_another_program_that_writes_our_application_id_is_recognised(lake: Lake, remedy: str) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id"))
    mark = marks(lake, "copy")[-1]
    frame = lake.values([], SRC).write.format("delta").mode("append")
    frame.option("txnAppId", mark.application_id).option("txnVersion", "99").save(str(lake.root / "copy"))
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    with raises_code("FOREIGN_APPLICATION_ID", match="another program"):
        lake.materialize(copy, Table(key="id"))
    assert lake.rows("copy") == ROWS
    if remedy == "a RESTORE":  # the error names both remedies
        lake.sql("ALTER TABLE {copy} SET TBLPROPERTIES ('another' = 'epoch')")
        lake.sql(f"RESTORE TABLE {{copy}} TO VERSION AS OF {lake.version('copy') - 1}")
        lake.materialize(copy, Table(key="id"))
    else:
        lake.materialize(copy, Table(key="id"), compare="a full refresh was asked for")
    assert lake.rows("copy")[0] == (1, "a", 0)
    lake.sql("UPDATE {src} SET v = 1 WHERE id = 1")
    lake.materialize(copy, Table(key="id"))
    assert lake.rows("copy")[0] == (1, "a", 1)


@pytest.mark.slow
def test_a_damaged_mark_is_recognised_and_nothing_is_written(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id"))
    frame = lake.values([(8, "q", 8)], SRC).write.format("delta").mode("append")
    frame.option("userMetadata", '{"lakehouse":{"asset":"copy","epoch":"many"}}').save(str(lake.root / "copy"))
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    with pytest.raises(UnreadableLogError, match="damaged mark"):
        lake.materialize(copy, Table(key="id"))
    assert lake.rows("copy") == [*ROWS, (8, "q", 8)]
    lake.materialize(copy, Table(key="id"), compare="a full refresh was asked for")
    assert lake.rows("copy")[0] == (1, "a", 0)
    lake.sql("UPDATE {src} SET v = 7 WHERE id = 1")
    lake.materialize(copy, Table(key="id"))
    assert lake.rows("copy")[0] == (1, "a", 7)


@pytest.mark.slow
def test_a_commit_planned_before_a_restore_is_not_believed(lake: Lake) -> None:
    """The zombie's epoch is above the stored one, so Delta lets it in; its mark must not hide the lost changes."""
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id"))
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    lake.materialize(copy, Table(key="id"))
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 2")
    zombie = lake.begin(copy, Table(key="id"))
    write = copy(**lake.read(zombie, copy))
    lake.sql("RESTORE TABLE {copy} TO VERSION AS OF 0")
    run, write = complete(lambda: lake.spark, zombie.run, write)
    head = lake.ref("copy").log(lambda: lake.spark).head()
    assert head is not None
    statement = plan(lake.spark, run, write, head)
    execute(lake.spark, statement, run, run.mark("zombie", 1, compared=False))
    lake.materialize(copy, Table(key="id"))
    assert lake.rows("copy") == [(1, "a", 0), (2, "b", 0), (3, "a", 30)]


def test_commits_can_be_left_out_whole_by_operation_or_mark(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.insert("src", [(4, "c", 4)])
    frame = lake.values([(5, "c", 5)], SRC).write.format("delta").mode("append")
    frame.option("userMetadata", "backfill of may").save(str(lake.root / "src"))
    lake.materialize(log, reads={"src": Read(exclude_operations="DELETE", exclude_metadata="backfill")})
    assert [row[:1] + row[2:] for row in lake.rows("log") if row[3] > 0] == [(4, "insert", 2)]


def test_a_plain_dataframe_is_pinned_when_it_is_read(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)

    def snapshot(src: DataFrame) -> DataFrame:
        return src

    step = lake.begin(snapshot)
    inputs = lake.read(step, snapshot)
    lake.insert("src", [(4, "c", 40)])
    frame = inputs["src"]
    assert isinstance(frame, DataFrame)
    assert frame.count() == 3


def priced(src: Changes, rates: DataFrame) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.join(rates, "k").selectExpr("id", "v * rate AS price"), touched)


def test_a_look_up_beside_changes_is_pinned_when_it_is_read(lake: Lake) -> None:
    lake.create("src", [(1, "a", 10)], SRC)
    lake.create("rates", [("a", 2)], "k string, rate int")
    step = lake.begin(priced, Table(key="id"))
    write = priced(**lake.read(step, priced))  # type: ignore[arg-type]
    lake.sql("UPDATE {rates} SET rate = 3")
    step.commit(write, lake.retry, NO_WAIT)
    assert lake.rows("priced") == [(1, 20)]


def test_a_missing_commit_in_the_middle_of_the_source_fails_closed(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    for value in range(3):
        lake.insert("src", [(10 + value, "z", value)])
    gone = lake.root / "src" / "_delta_log" / f"{2:020}.json"
    shutil.move(gone, lake.root / "hidden.json")
    before = lake.version("log")
    with pytest.raises(UnreadableLogError, match="missing"):
        lake.materialize(log)
    assert lake.version("log") == before
    shutil.move(lake.root / "hidden.json", gone)
    lake.materialize(log)
    assert len(lake.rows("log")) == 6
