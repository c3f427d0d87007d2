"""`Table(expect=)`: conditions that hold of each row of a table, evaluated before a row of it is written."""

from functools import partial

import pytest

from lakehouse import Aggregate, Changes, Expect, History, Table, View
from lakehouse.delta.expect import OnFailure
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import DefinitionError, ExpectationError
from lakehouse.spark.progress import listening
from tests.support.interleave import rivals
from tests.support.judged import all_rows, copies, create_source, log
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import ready
from tests.support.slow import slow

pytestmark = pytest.mark.anywhere
AT_DRIVER, IN_SPARK = Limits(), Limits(driver_rows=0)
WAYS = pytest.mark.parametrize("limits", [AT_DRIVER, slow(IN_SPARK)])


def positive(on_failure: OnFailure = "warn", key: str | tuple[str, ...] = "id") -> Table:
    return Table(key=key, expect=Expect("v > 0", on_failure))


def summed(src: Changes) -> View:
    return View("SELECT g, count(*) AS n, sum(v) AS v FROM src GROUP BY g")


def sums(src: Changes) -> Aggregate:
    return Aggregate(src, by="g", count="n", sums={"v": "v"})


def past(src: Changes) -> History:
    return History(src)


@pytest.fixture
def source(lake: Lake) -> Lake:
    create_source(lake)
    return lake


def found(lake: Lake) -> list[tuple[str, int, int, list[str]]]:
    return [
        (e.expect.check_name, e.rows, e.broken, sorted(",".join(k.values()) for k in e.keys)) for e in lake.evaluations
    ]


@WAYS
def test_a_row_that_breaks_a_condition_leaves_the_table_and_comes_back_when_it_is_mended(
    source: Lake, limits: Limits
) -> None:
    with in_force(limits):
        source.materialize(copies, positive("drop"))
        assert source.rows("copies") == [(1, "a", 5), (4, "c", 9)]
        assert found(source) == [("v_gt_0", 4, 2, ["2", "3"])]
        source.sql("UPDATE {src} SET v = 7 WHERE id = 2")
        source.sql("UPDATE {src} SET v = 0 WHERE id = 1")
        source.materialize(copies, positive("drop"))
        assert source.rows("copies") == [(2, "a", 7), (4, "c", 9)]
        assert found(source) == [("v_gt_0", 2, 1, ["1"])]


@WAYS
def test_a_condition_that_fails_the_run_names_the_keys_and_writes_nothing(source: Lake, limits: Limits) -> None:
    with in_force(limits):
        with pytest.raises(ExpectationError) as failed:
            source.materialize(copies, positive("fail"))
        assert "2 of 4 rows break the expectation v_gt_0 (v > 0) [id=" in str(failed.value)
        assert not source.exists("copies")
        source.sql("UPDATE {src} SET v = 1")
        source.materialize(copies, positive("fail"))
        source.sql("UPDATE {src} SET v = -1 WHERE id = 4")
        source.sql("UPDATE {src} SET v = 2 WHERE id = 1")
        with pytest.raises(ExpectationError, match=r"1 of 2 rows breaks the expectation v_gt_0 \(v > 0\) \[id=4\]"):
            source.materialize(copies, positive("fail"))
    assert source.version("copies") == 0


def test_the_way_on_is_that_of_the_write(source: Lake) -> None:
    table = Table(expect=Expect("v > 0", "fail"))
    with pytest.raises(ExpectationError, match="run tag lakehouse/go_on_from/log=<version>"):
        source.materialize(log, table)
    with pytest.raises(ExpectationError, match="run tag lakehouse/full_refresh=copies lets"):
        source.materialize(copies, Table(key="id", expect=Expect("v > 0", "fail")))


@WAYS
def test_a_condition_that_fails_in_spark_is_named_and_the_asset_is_not_blamed(source: Lake, limits: Limits) -> None:
    with (
        in_force(limits),
        raises_code("UNKNOWN_CONDITION", match=r"ten of 'copies'.*\(10 / \(v - 5\) > 1\).*try_divide"),
    ):
        source.materialize(copies, Table(key="id", expect=Expect("10 / (v - 5) > 1", name="ten")))
    assert not source.exists("copies")


def test_a_warning_writes_the_rows_and_counts_them_and_null_is_not_true(source: Lake) -> None:
    source.materialize(copies, Table(key="id", expect=[Expect("v > 0"), Expect("g <> 'c'", name="no_c")]))
    assert len(source.rows("copies")) == 4
    assert found(source) == [("v_gt_0", 4, 2, ["2", "3"]), ("no_c", 4, 1, ["4"])]


@pytest.mark.parametrize("asset", [all_rows, slow(log)])
def test_other_writes_leave_rows_out_as_well(source: Lake, asset: object) -> None:
    source.materialize(asset, positive("drop", key=()))  # type: ignore[arg-type]
    source.insert("src", [(5, "d", 0), (6, "d", 1)])
    source.materialize(asset, positive("drop", key=()))  # type: ignore[arg-type]
    assert source.rows(asset.__name__) == [(1, "a", 5), (4, "c", 9), (6, "d", 1)]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(("asset", "key"), [(sums, "g"), slow(summed, "g"), slow(past, "id")])
def test_sums_and_histories_are_judged_by_the_rows_that_they_write(source: Lake, asset: object, key: str) -> None:
    table = Table(key=key, expect=[Expect("v < 100", "fail"), Expect("v > 0")])
    source.sql("DELETE FROM {src} WHERE id = 3")
    source.materialize(asset, table)  # type: ignore[arg-type]
    source.sql("UPDATE {src} SET v = -1 WHERE id = 4")
    source.materialize(asset, table)  # type: ignore[arg-type]
    assert [(name, broken) for name, _, broken, _ in found(source)] == [("v_lt_100", 0), ("v_gt_0", 1)]
    before = source.rows(asset.__name__)  # type: ignore[attr-defined]
    source.sql("UPDATE {src} SET v = 100 WHERE id = 4")
    with pytest.raises(ExpectationError, match=r"1 of \d rows? breaks the expectation v_lt_100"):
        source.materialize(asset, table)  # type: ignore[arg-type]
    assert source.rows(asset.__name__) == before  # type: ignore[attr-defined]


def test_what_cannot_be_kept_is_refused_and_nothing_is_written(source: Lake) -> None:
    for condition, problem in (
        ("w > 0", "cannot be resolved"),
        ("v", "its value is of type int, and not a boolean"),
        ("g > 0 OR v", "."),
    ):
        with raises_code("UNKNOWN_CONDITION", match=problem):
            source.materialize(copies, Table(key="id", expect=(Expect("v > 0"), Expect(condition))))
    with raises_code("CONDITION", match=r"it calls the aggregate sum\(\)"):
        source.materialize(copies, Table(key="id", expect=Expect("sum(v) > 0")))
    assert not source.exists("copies")
    for asset, key in ((sums, "g"), (past, "id")):
        with pytest.raises(DefinitionError, match=r"v_gt_0 of asset .* has on_failure='drop', but"):
            source.materialize(asset, positive("drop", key=key))
    source.materialize(log, Table(expect=Expect("v > 0", "drop")))
    source.insert("src", [(5, "d", 3)])
    with raises_code("GAP", match="other rows are left out"):
        source.materialize(log, Table(expect=Expect("v > 1", "drop")))
    assert source.version("log") == 0, "rows of an append stay"


@pytest.mark.slow
def test_a_plan_that_is_made_again_after_a_rival_leaves_the_same_rows_out(source: Lake, classic: None) -> None:
    source.materialize(copies, positive("drop"))
    source.sql("UPDATE {src} SET v = v - 5")
    step, write = ready(source, copies, positive("drop"))
    rival = partial(source.sql, "UPDATE {copies} SET v = 99 WHERE id = 4")
    with rivals(source.spark, rival, before="snapshot"), listening(source.hear):
        step.commit(write, source.retry, NO_WAIT)
    assert source.rows("copies") == [(4, "c", 4)]
    assert found(source) == [("v_gt_0", 4, 3, ["1", "2", "3"])]


@pytest.mark.slow
def test_of_many_broken_rows_twenty_keys_are_told(source: Lake) -> None:
    source.sql("INSERT INTO {src} SELECT CAST(id + 10 AS int), 'x', -1 FROM range(30)")
    source.materialize(copies, positive())
    (evaluation,) = source.evaluations
    assert (evaluation.rows, evaluation.broken, len(evaluation.keys)) == (34, 32, 20)
    assert evaluation.share == pytest.approx(32 / 34)


@WAYS
@pytest.mark.parametrize("on_failure", ["drop", slow("quarantine"), slow("fail")])
def test_a_condition_on_a_char_is_judged_alike_in_each_run(lake: Lake, limits: Limits, on_failure: OnFailure) -> None:
    """Spark pads the column and what it is compared with, as long as it knows that the column is a CHAR."""
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lake.spark.sql(f"CREATE TABLE {lake.ref('src').identifier} (id INT, g CHAR(10), v INT) USING delta {feed}")
    lake.sql("INSERT INTO {src} VALUES (1, 'new', 1), (2, 'paid', 1)")
    table = Table(key="id", expect=Expect("g IN ('new', 'paid')", on_failure))
    with in_force(limits):
        lake.materialize(copies, table)
        lake.sql("UPDATE {src} SET v = 2 WHERE id = 1")
        lake.materialize(copies, table)
        assert [(row[0], row[2]) for row in lake.rows("copies")] == [(1, 2), (2, 1)]
        lake.materialize(copies, table, compare="a full refresh was asked for")
        assert len(lake.rows("copies")) == 2
