"""A run that was overtaken, or repeats another: nothing is added twice, left out, or taken back to older inputs."""

import pytest
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Overwrite, Table
from lakehouse.commit.execute import execute
from lakehouse.commit.outcome import AlreadyApplied, Committed
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.difference.statements import Skip
from lakehouse.writes.write import plan
from tests.support.interleave import rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import SRC, committed, ready
from tests.support.slow import slow

BY_G = Table(key="id", partition_by="g")


def added(src: DataFrame) -> Append:
    return Append(src)


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def whole(src: DataFrame) -> Overwrite:
    return Overwrite(src)


def of(*partitions: str) -> Slice:
    return Slice(tuple(PartitionKey(g, {"g": g}, {}) for g in partitions))


@pytest.fixture
def rows(lake: Lake) -> Lake:
    lake.create("src", [(1, "p", 10), (2, "q", 20)], SRC)
    return lake


@pytest.mark.parametrize("there", [True, slow(False)], ids=["a partition that is there", "a new partition"])
def test_a_twin_between_the_looks_at_the_position_and_at_the_epoch_is_noticed(
    rows: Lake, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    """Otherwise its epoch would be taken for that of the position, and its rows would be added once more."""

    def landed(src: Changes) -> Append:
        return Append(src.appended())

    asked, twins = FileLog.epoch, ["one"]

    def behind_a_twin(log: FileLog, application_id: str, version: int) -> int | None:
        if application_id.startswith("landed") and twins:
            twins.clear()
            rows.materialize(landed, BY_G, slice=of("p"))
        return asked(log, application_id, version)

    rows.materialize(landed, BY_G, slice=of("q"))
    if there:
        rows.materialize(landed, BY_G, slice=of("p"))
    rows.insert("src", [(3, "p", 30)])
    with monkeypatch.context() as patched:
        # The position and the epoch are read in one call of `find_cursor`, without a phase in between.
        patched.setattr(FileLog, "epoch", behind_a_twin)
        step = rows.begin(landed, BY_G, slice=of("p"))
    outcome = step.commit(landed(**rows.read(step, landed)), rows.retry, NO_WAIT)
    assert isinstance(outcome, AlreadyApplied)
    assert rows.rows("landed") == [(1, "p", 10), (2, "q", 20), (3, "p", 30)]


@pytest.mark.parametrize("others", [slow(()), ("other",)])
@pytest.mark.parametrize("again", [slow("one"), "two"])
def test_an_append_that_is_repeated_adds_nothing_although_its_source_has_moved(
    rows: Lake, again: str, others: tuple[str, ...]
) -> None:
    for run in ("one", *others):
        rows.materialize(added, run=run)
    before = rows.rows("added")
    rows.insert("src", [(3, "p", 30)])
    outcome = rows.materialize(added, run=again, aliases=frozenset({"one"}))
    assert isinstance(outcome, AlreadyApplied)
    assert outcome.commit.version == 0
    assert rows.rows("added") == before
    assert isinstance(rows.materialize(added, run="next"), Committed)
    assert len(rows.rows("added")) == len(before) + 3


@pytest.mark.slow
def test_an_append_whose_rows_were_taken_back_is_repeated(rows: Lake) -> None:
    rows.materialize(added, run="first")
    rows.materialize(added, run="one")
    rows.sql("RESTORE TABLE {added} TO VERSION AS OF 0")
    rows.materialize(added, run="one", aliases=frozenset({"one"}))
    assert len(rows.rows("added")) == 4


def test_an_append_beside_another_run_of_it_is_not_taken_for_done(rows: Lake) -> None:
    rows.materialize(added)
    step, write = ready(rows, added, Table())
    rows.materialize(added)
    other = rows.version("added")
    rows.sql("OPTIMIZE {added}")
    assert rows.version("added") == other + 1
    with raises_code("OVERTAKEN") as told:
        step.commit(write, rows.retry, NO_WAIT)
    assert told.value.version == other
    rows.materialize(added)  # as Dagster does after this error
    assert len(rows.rows("added")) == 6


@pytest.mark.slow
@pytest.mark.parametrize(("mine", "theirs"), [(("p", "q"), ("q",)), slow(("p", "q"), ("q", "r"))])
def test_a_run_with_older_inputs_leaves_the_rows_of_one_that_read_further(
    rows: Lake, mine: tuple[str, ...], theirs: tuple[str, ...]
) -> None:
    """Each set of partitions has its own sequence of epochs, so the two runs do not meet by their epochs."""
    for partitions in (("p", "q"), mine, theirs):
        rows.materialize(whole, BY_G, slice=of(*partitions))
    rows.sql("UPDATE {src} SET v = v + 1")
    step, write = ready(rows, whole, BY_G, slice=of(*mine))
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(whole, BY_G, slice=of(*theirs))
    version = rows.version("whole")
    with raises_code("OVERTAKEN"):
        step.commit(write, rows.retry, NO_WAIT)
    assert rows.version("whole") == version
    rows.materialize(whole, BY_G, slice=of(*mine))
    assert rows.rows("whole") == rows.rows("src")


@pytest.mark.slow
def test_rows_of_a_run_of_more_partitions_that_had_read_further_are_not_taken_back_for_good(rows: Lake) -> None:
    """That run committed while ours compared; an overwrite without a key is not compared row by row afterwards."""
    table = Table(partition_by="g")
    rows.materialize(whole, table, slice=of("p", "q"))
    rows.sql("UPDATE {src} SET v = v + 1")
    step, write = ready(rows, whole, table, slice=of("p"))
    rows.sql("UPDATE {src} SET v = v + 1")
    more, its = ready(rows, whole, table, slice=of("p", "q"))
    with (
        rivals(rows.spark, lambda: committed(more.commit(its, rows.retry, NO_WAIT)), before="snapshot") as ran,
        raises_code("OVERTAKEN", match="Neither run saw the other"),
    ):
        step.commit(write, rows.retry, NO_WAIT)
    assert len(ran) == 1
    rows.materialize(whole, table, slice=of("p"))  # as Dagster does after this error
    assert rows.rows("whole") == rows.rows("src")


@pytest.mark.slow
def test_rows_from_before_a_restore_beside_those_of_a_run_after_it_are_not_taken_for_done(rows: Lake) -> None:
    """A blind append conflicts with nothing, not even with the RESTORE that rolled the position back."""

    def landed(src: Changes) -> Append:
        return Append(src.appended())

    rows.materialize(landed)
    for key in (3, 4):
        rows.insert("src", [(key, "p", key)])
        late, its = ready(rows, landed, Table())
        if key == 3:
            committed(late.commit(its, rows.retry, NO_WAIT))
    run, head = late.run, rows.ref("landed").log(lambda: rows.spark).head()
    assert head is not None
    statement = plan(rows.spark, run, its, head)
    assert not isinstance(statement, Skip)
    mark = run.mark("late", head.version, compared=False)
    rows.sql("RESTORE TABLE {landed} TO VERSION AS OF 0")
    step, write = ready(rows, landed, Table())
    with (
        rivals(rows.spark, lambda: execute(rows.spark, statement, run, mark), before="snapshot") as ran,
        raises_code("OVERTAKEN", match="or in the table twice"),
    ):
        step.commit(write, rows.retry, NO_WAIT)
    assert len(ran) == 1 and rows.rows("landed").count((4, "p", 4)) == 2
    with raises_code("GAP", match="another run of the asset came in between"):
        rows.materialize(landed)


@pytest.mark.slow
def test_a_partition_that_somebody_overwrote_dynamically_keeps_the_position(rows: Lake) -> None:
    """Delta records it in a form of its own; after an overwrite of everything an Append could not go on."""

    def copied(src: Changes) -> Append:
        return Append(src.appended())

    table = Table(partition_by="g")
    rows.materialize(copied, table)
    by_hand = rows.values([(2, "q", 21)], SRC).write.format("delta").mode("overwrite").partitionBy("g")
    by_hand.option("partitionOverwriteMode", "dynamic").save(str(rows.root / "copied"))
    rows.insert("src", [(3, "p", 30)])
    rows.materialize(copied, table)
    assert rows.rows("copied") == [(1, "p", 10), (2, "q", 21), (3, "p", 30)]
