"""The history of a state table in which a share of the rows changes, spread over all files."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.contestants.dimensions import StateHistory, UnionMerge, WholePast
from benchmarks.harness import data, race, report
from benchmarks.harness.data import KEY, Pair, change, name
from benchmarks.harness.lab import Lab
from benchmarks.harness.race import Contestant, Tally
from benchmarks.harness.report import Goal, Result
from benchmarks.suites.scd import DOCUMENTED, DOCUMENTED_BEST, OURS, SHARES, entered
from lakehouse.scd.columns import END_AT

ROWS, LARGE = 1_000_000, 10_000_000
OVERWRITE = "overwrite"
MERGES = (DOCUMENTED, DOCUMENTED_BEST)
COLUMNS = (KEY, "customer", "value", "status", "at", "note")


def run(lab: Lab) -> Result:
    count = lab.rows(LARGE if lab.large else ROWS)
    tables = built(lab, count)
    rows: list[Sequence[str]] = []
    goals: list[Goal] = []
    for share, one_of in SHARES.items():
        tallies = measured(lab, tables, one_of)
        rows += [report.row(f"{share}, {who}", tally) for who, tally in tallies.items()]
        ratio = tallies[OURS].cost.cpu / min(tally.cost.cpu for who, tally in tallies.items() if who in MERGES)
        goals.append(Goal(f"CPU of a History against the better union MERGE, {share}", f"{ratio:.2f}x", None))
        ratio = tallies[OURS].cost.cpu / tallies[OVERWRITE].cost.cpu
        goals.append(Goal(f"CPU of a History against an overwrite, {share}", f"{ratio:.2f}x", None))
    return Result(
        "history_large" if lab.large else "history",
        f"The history of a table of {count:,} rows",
        "Six columns. A share of the rows is updated, all over the files; each run on a fresh clone of the tables. "
        f"*{DOCUMENTED}* is Delta's documented SCD type 2 of the updated rows; it ends no row that is deleted, and "
        "keeps its position in a file. With hints, its author broadcasts the updates, and tells the MERGE that only "
        f"current rows match. *{OVERWRITE}* compares the current rows with the whole source, and writes everything."
        + (" Without hints the MERGE was not measured at this size." if lab.large else ""),
        report.COLUMNS,
        rows,
        goals,
    )


def measured(lab: Lab, tables: Path, one_of: int) -> dict[str, Tally]:
    contestants: list[Contestant] = [
        StateHistory(lab.ours(), OURS),
        WholePast(lab.ours(), OVERWRITE, COLUMNS),
        *(
            UnionMerge(lab.ours(), who, expert=who == DOCUMENTED_BEST, columns=COLUMNS, at="_commit_timestamp")
            for who in (MERGES[-1:] if lab.large else MERGES)
        ),
    ]
    with lab.room() as room:
        entries = entered(tables, contestants, room)

        def update(source: Path, turn: int) -> None:
            change(lab.spark, source, f"{KEY} % {one_of} = {turn}")

        return race.fresh(lab.meter, entries, update, lab.rounds, room, is_current)


def is_current(spark: SparkSession, contestant: Contestant, pair: Pair) -> None:
    """Checks that the current rows of a history equal the rows of its source."""
    sums = f"count(*), sum(xxhash64({KEY}, value) % 1000000007)"
    source = spark.sql(f"SELECT {sums} FROM {name(pair.source)}").collect()
    current = spark.sql(f"SELECT {sums} FROM {name(pair.target)} WHERE {END_AT} IS NULL").collect()
    assert source == current, f"{contestant.name} says something else than its source"


def built(lab: Lab, count: int) -> Path:
    """A state table, and its history as made by the first run of an asset."""
    path = data.cache() / f"history-{count}"
    if not path.exists():
        state = data.built(lab.spark, count, len(COLUMNS))
        with data.made(path) as scratch:
            data.clone(state, scratch / "source")
            StateHistory(lab.ours()).step(Pair(scratch))
    return path
