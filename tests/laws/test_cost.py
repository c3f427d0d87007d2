"""What a step costs, in counters that are the same on every machine: never in seconds (docs/benchmarks.md has those)."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.contestants.ours import Ours
from benchmarks.harness import data, log_files
from benchmarks.harness.data import Pair
from benchmarks.harness.log_files import Files
from benchmarks.harness.meter import Cost, Meter
from lakehouse import Changes, Expect, Merge, Overwrite, Read, Table, View
from lakehouse.commit.outcome import Committed, Unchanged
from lakehouse.delta.limits import Limits, in_force
from tests.support.lake import Lake
from tests.support.slow import slow

FILES, ROWS_PER_FILE, PAGE, FOOTER = 8, 2_000, 100, 1_200
PENDING = 10


@pytest.fixture(scope="module")
def meter(spark: SparkSession) -> Meter:
    if not hasattr(spark, "sparkContext"):
        pytest.skip("the counters are those of a JVM in this process")
    return Meter(spark)


@pytest.fixture
def pair(spark: SparkSession, tmp_path: Path) -> Pair:
    return paired(spark, tmp_path, FILES)


def paired(spark: SparkSession, root: Path, files: int) -> Pair:
    """A source of several files in the order of the key, and a target that has read all of it."""
    rows = data.rows(spark, files * ROWS_PER_FILE, 2).repartitionByRange(files, "id").sortWithinPartitions("id")
    spark.conf.set("parquet.page.row.count.limit", PAGE)
    rows.write.format("delta").options(**data.PROPERTIES).save(str(root / "table"))
    spark.conf.unset("parquet.page.row.count.limit")
    pair = Pair.of(root / "table", root / "pair")
    Ours(spark).prepare(pair)
    return pair


def stepped(meter: Meter, pair: Pair, *, trust_key: bool = True) -> tuple[Cost, Files, Ours]:
    """One step, measured after one that warmed Delta's snapshots up; its rows come from the feed, or from the source."""
    ours, before = Ours(meter.spark, trust_key=trust_key), log_files.version(pair.target)
    _, lap = meter.measure("step", lambda: ours.step(pair))
    return lap.cost, log_files.since(pair.target, before), ours


@pytest.mark.parametrize("trust_key", [slow(True), False])
def test_a_changed_row_costs_what_it_is_and_not_what_the_table_is(meter: Meter, pair: Pair, *, trust_key: bool) -> None:
    for key in (ROWS_PER_FILE, 3 * ROWS_PER_FILE + 5):  # the first step loads what later ones find in memory
        data.change(meter.spark, pair.source, data.neighbours(key))
        cost, files, ours = stepped(meter, pair, trust_key=trust_key)
    assert isinstance(ours.outcome, Committed)
    assert data.same(meter.spark, pair.source, pair.target)
    assert cost.jobs <= 25
    # The file with the key: once in the source, once in the target and once to write; the rest is Delta's log.
    assert cost.input_rows < 4 * ROWS_PER_FILE
    assert (files.added, files.removed) == (2, 1), "the row's new file, and its old one with a deletion vector"
    assert files.written < 10_000


@pytest.mark.slow
@pytest.mark.parametrize("trust_key", [True, False])
def test_a_table_of_five_times_the_files_costs_a_changed_row_the_same(
    meter: Meter, tmp_path: Path, *, trust_key: bool
) -> None:
    seen: dict[int, tuple[Cost, Files]] = {}
    for size in (FILES, 5 * FILES):
        pair = paired(meter.spark, tmp_path / str(size), size)
        for key in (ROWS_PER_FILE, 3 * ROWS_PER_FILE + 5):
            data.change(meter.spark, pair.source, data.neighbours(key))
            cost, files, _ = stepped(meter, pair, trust_key=trust_key)
        seen[size] = cost, files
    (small, few), (large, many) = seen.values()
    assert large.jobs == small.jobs
    assert (many.added, many.removed) == (few.added, few.removed)
    # Spark reads a row for each file in the table's state, a few times; with a scan it read 64,000 rows more.
    assert large.input_rows - small.input_rows < ROWS_PER_FILE
    # A file that is opened and turns out not to be concerned costs its footer; the source has files, too.
    tables = 1 if trust_key else 2
    assert large.input_bytes - small.input_bytes < tables * 4 * FILES * FOOTER


def test_nothing_new_upstream_runs_no_spark_job(meter: Meter, pair: Pair) -> None:
    cost, files, ours = stepped(meter, pair)
    assert isinstance(ours.outcome, Unchanged)
    assert cost.jobs == 0
    assert files == Files(0, 0, 0)


@pytest.mark.slow
def test_what_a_step_wrote_is_read_by_pages_downstream(meter: Meter, pair: Pair) -> None:
    """With deletion vectors Delta would read the whole files that lost a row, each time that they lose one."""
    for key in (ROWS_PER_FILE + 7, ROWS_PER_FILE + 1_234):
        data.change(meter.spark, pair.source, data.neighbours(key))
        _, files, ours = stepped(meter, pair)
    assert isinstance(ours.outcome, Committed)
    assert (files.added, files.removed) == (2, 1)
    lake = Lake(meter.spark, pair.root)
    with meter.lap("feed"):
        read = Read(start=log_files.version(pair.target) - 1)
        found = lake.begin(keys, name="reader").changes(lake.source("target"), read, lake.ref).feed.collect()
    (lap,) = meter.settle()
    assert sorted((row.id, row._change_type) for row in found) == [(key, "delete"), (key, "insert")]
    assert lap.cost.input_rows <= 3 * PAGE, "the row in its old file, twice, and the new file"


@pytest.mark.slow
def test_a_step_of_one_row_that_is_judged_reads_no_row_more(meter: Meter, pair: Pair) -> None:
    """The answers come with the rows, in the pass that computes the rows. An empty quarantine is not read."""

    def copies(source: Changes) -> Merge:
        touched = source.touched("id")
        return Merge(touched.rows, touched)

    expect = (Expect("value > -1", "fail"), Expect("id >= 0", "drop"), Expect("id IS NOT NULL"))
    costs, lake = dict[str, Cost](), Lake(meter.spark, pair.root)
    guarded = Table(key="id", expect=Expect("id >= 0", "quarantine"))
    tables = {"plain": Table(key="id"), "guarded": guarded, "judged": Table(key="id", expect=expect)}
    for name, table in tables.items():
        lake.materialize(copies, table, name=name)
        for key in (ROWS_PER_FILE, 3 * ROWS_PER_FILE):  # the first step loads what later ones find in memory
            data.change(meter.spark, pair.source, data.neighbours(key))
            outcome, lap = meter.measure("step", partial(lake.materialize, copies, table, name=name))
        assert isinstance(outcome, Committed)
        costs[name] = lap.cost
    assert lake.evaluations[0].rows == 1
    for name in ("judged", "guarded"):
        assert costs[name].jobs <= costs["plain"].jobs + 1
        assert costs[name].input_rows <= costs["plain"].input_rows + PAGE


def keys(target: Changes) -> Overwrite:
    return Overwrite(target.touched(data.KEY).keys)


@pytest.mark.slow
def test_many_pending_versions_cost_no_more_jobs_than_one(meter: Meter, pair: Pair) -> None:
    data.change(meter.spark, pair.source, data.neighbours(1))
    one, _, _ = stepped(meter, pair)
    for version in range(PENDING):
        data.change(meter.spark, pair.source, data.neighbours(1 + version))
    before = log_files.version(pair.target)
    many, files, _ = stepped(meter, pair)
    assert log_files.version(pair.target) == before + 1
    assert many.jobs <= one.jobs + 2
    # By now key 1 is in the file of the first step; the other keys are where they always were.
    assert (files.added, files.removed) == (3, 2), "the rows' new file, and two old ones with deletion vectors"


def joined(source: Changes, target: Changes) -> View:
    return View(
        "SELECT s.id, s.value, t.value AS other FROM source s JOIN target t ON s.id = t.id WHERE s.id % 100 = 0"
    )


@pytest.mark.slow
def test_a_views_step_of_one_row_reads_the_files_of_its_keys_by_literals(meter: Meter, pair: Pair) -> None:
    lake, table = Lake(meter.spark, pair.root), Table(key="id")
    lake.materialize(joined, table)
    for key in (ROWS_PER_FILE, 3 * ROWS_PER_FILE):  # the first step loads what later ones find in memory
        data.change(meter.spark, pair.source, data.neighbours(key))
        outcome, lap = meter.measure("step", lambda: lake.materialize(joined, table))
    assert isinstance(outcome, Committed)
    assert lake.said[-1] == "joined computes the rows of touched keys (id)."
    # The page of the key in each of the two tables, which have 8 files each; the rest is Delta's log.
    assert lap.cost.input_rows < ROWS_PER_FILE
    assert lap.cost.jobs <= 40  # some of them replay Delta's log, as often as its memory has forgotten a table
    outcome, lap = meter.measure("step without changes", lambda: lake.materialize(joined, table))
    assert isinstance(outcome, Unchanged)
    assert lap.cost.jobs == 0


def test_a_replaced_table_costs_a_recompute_and_a_scan_of_its_keys(meter: Meter, pair: Pair) -> None:
    """Where the log shows that many rows changed, no feed is read or judged, and nothing is compared."""
    lake, spark, table = Lake(meter.spark, pair.root), meter.spark, Table(key="id", properties=data.PROPERTIES)

    def kept(source: Changes) -> View:
        return View("SELECT id, value FROM source WHERE id > 5")

    lake.materialize(kept, table)
    overwrite = f"SELECT id, value FROM {lake.ref('source').identifier} WHERE id > 5"
    for first in (0, ROWS_PER_FILE):  # the first step loads what later ones find in memory
        data.change(spark, pair.source, data.neighbours(first, ROWS_PER_FILE))
        with in_force(Limits(changes_to_count=0, compared_rows=0)):
            outcome, ours = meter.measure("ours", lambda: lake.materialize(kept, table))
        writer = spark.sql(overwrite).write.format("delta").options(**data.PROPERTIES).mode("overwrite")
        _, theirs = meter.measure("theirs", lambda: writer.save(str(pair.root / "theirs")))  # noqa: B023
    assert isinstance(outcome, Committed) and outcome.statement.describe() == "replace"
    assert ours.cost.input_rows <= 2 * theirs.cost.input_rows + PAGE
    assert ours.cost.jobs <= theirs.cost.jobs + 10  # the keys take two, the rest finds the files of two tables
