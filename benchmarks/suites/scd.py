"""Type 2 of events: a few of many keys get one more event each."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.dimensions import (
    MEMORY,
    TABLE,
    TwoMerges,
    Type2,
    UnionMerge,
    WholeHistory,
    intervals,
    target,
)
from benchmarks.contestants.ours import Lake
from benchmarks.harness import data, race, report
from benchmarks.harness.data import KEY, PROPERTIES, ROWS_PER_FILE, Pair, name
from benchmarks.harness.lab import Lab
from benchmarks.harness.race import Contestant, Entry, Tally
from benchmarks.harness.report import Goal, Result, at_most

KEYS, LARGE, EVENTS = 1_000_000, 10_000_000, 3
SHARES = {"0.01 %": 10_000, "0.1 %": 1_000, "1 %": 100, "10 %": 10}
"""One key in this many gets an event."""
LATE = "late events, 0.1 %"
OURS, DOCUMENTED, DOCUMENTED_BEST = "ours", "union MERGE", "union MERGE, with hints"
TWO, TWO_BEST, WHOLE = "two MERGEs", "two MERGEs, with hints", "recompute"


def run(lab: Lab) -> Result:
    keys = lab.rows(LARGE if lab.large else KEYS)
    tables = built(lab, keys)
    rows: list[Sequence[str]] = []
    goals: list[Goal] = []
    for share, one_of in SHARES.items():
        tallies, _ = measured(lab, tables, keys, one_of, late=False)
        rows += [(*report.row(f"{share}, {who}", tally), "0") for who, tally in tallies.items()]
        goals += compared(share, tallies)
    tallies, wrong = measured(lab, tables, keys, SHARES["0.1 %"], late=True)
    rows += [(*report.row(f"{LATE}, {who}", tally), f"{wrong[who]:,}") for who, tally in tallies.items()]
    goals.append(Goal(f"rows that are wrong after late events: {DOCUMENTED}", f"{wrong[DOCUMENTED_BEST]:,}", None))
    goals.append(Goal("rows that are wrong after late events: ours, none", f"{wrong[OURS]:,}", wrong[OURS] == 0))
    return Result(
        "scd_large" if lab.large else "scd",
        f"Type 2 of {keys:,} keys",
        f"A log of {EVENTS} events a key, and another event for a share of the keys, all over the files; each run on a "
        f"fresh clone of the tables. *{DOCUMENTED}* is Delta's documented SCD type 2; *{TWO}* is AUTO CDC's way, which "
        "keeps the events in a table of its own. With hints, their author broadcasts what is small, and tells the "
        "MERGE that only current rows match. Late events come before the newest event of their key."
        + (
            " Two MERGEs without hints cost more with a million keys, and were not measured with ten million."
            if lab.large
            else ""
        ),
        (*report.COLUMNS, "wrong rows"),
        rows,
        goals,
    )


def compared(share: str, tallies: dict[str, Tally]) -> list[Goal]:
    """The goal is about the MERGE as Delta documents it; the others, its best configuration first, are reported."""
    ours = tallies[OURS].cost.cpu
    ratios = {who: ours / tally.cost.cpu for who, tally in tallies.items() if who not in (OURS, TWO)}
    documented = ratios.pop(DOCUMENTED)
    what = f"CPU of type 2 against {DOCUMENTED}, {share}"
    return [
        Goal(what, f"{documented:.2f}x", None)
        if share == "10 %"
        else at_most(f"{what}: at most 0.7x", documented, 0.7),
        *(Goal(f"CPU of type 2 against {who}, {share}", f"{ratio:.2f}x", None) for who, ratio in ratios.items()),
    ]


def measured(lab: Lab, tables: Path, keys: int, one_of: int, *, late: bool) -> tuple[dict[str, Tally], dict[str, int]]:
    """What a step costs each contestant, and how many of its table's rows are wrong afterwards."""
    contestants: list[Contestant] = [
        Type2(lab.ours(), OURS),
        UnionMerge(lab.ours(), DOCUMENTED_BEST, expert=True),
        TwoMerges(lab.ours(), TWO_BEST, expert=True),
        WholeHistory(lab.ours(), WHOLE),
        UnionMerge(lab.ours(), DOCUMENTED),
    ]
    if not lab.large:
        contestants.append(TwoMerges(lab.ours(), TWO))
    wrong: dict[str, int] = {}
    with lab.room() as room:
        entries = entered(tables, contestants, room)

        def arrive(source: Path, turn: int) -> None:
            seq = 15 + turn if late else 10 * (EVENTS + 1 + turn)
            some = lab.spark.range(0, keys, 1, 1).where(F.col(KEY) % one_of == turn).withColumn("seq", F.lit(seq))
            event(some).write.format("delta").mode("append").save(str(source))

        def check(spark: SparkSession, contestant: Contestant, pair: Pair) -> None:
            wrong[contestant.name] = wrong_rows(spark, pair)
            assert late or not wrong[contestant.name], f"{contestant.name} left another history than its events"

        return race.fresh(lab.meter, entries, arrive, lab.rounds, room, check), wrong


def built(lab: Lab, keys: int) -> Path:
    """A log of events, its type 2 as made by the first run of an asset, and a copy of the log as AUTO CDC's memory."""
    path = data.cache() / f"scd-{keys}"
    if not path.exists():
        print(f"Building {keys:,} keys of {EVENTS} events in {path} ...", flush=True)
        numbers = lab.spark.range(0, keys, 1, max(1, keys * EVENTS // ROWS_PER_FILE))
        seqs = F.explode(F.sequence(F.lit(10), F.lit(10 * EVENTS), F.lit(10))).alias("seq")
        with data.made(path) as scratch:
            rows = event(numbers.select(KEY, seqs))
            rows.write.format("delta").options(**PROPERTIES).save(str(scratch / "source"))
            data.clone(scratch / "source", scratch / MEMORY)
            Lake(lab.ours(), scratch, {}).materialize(target, TABLE)
    return path


def event(keys: DataFrame) -> DataFrame:
    """Events of keys at their sequence values; each value differs from the one before it."""
    status = F.element_at(F.array(*map(F.lit, ("new", "paid", "sent", "done"))), (F.col(KEY) % 4 + 1).cast("int"))
    return keys.select(KEY, F.col("seq").cast("bigint"), status.alias("status"), F.xxhash64(KEY, "seq").alias("value"))


def entered(tables: Path, contestants: Sequence[Contestant], root: Path) -> dict[str, Entry]:
    """An entry for each contestant, with tables of its own; all of them follow one log."""
    data.clone(tables / "source", root / "leader")
    entries: dict[str, Entry] = {}
    for index, contestant in enumerate(contestants):
        data.clone(tables, root / str(index))
        entries[contestant.name] = Entry(contestant, Pair(root / str(index)), root / "leader")
    return entries


def wrong_rows(spark: SparkSession, pair: Pair) -> int:
    """How many rows are missing from a target or should not be in it."""
    due = intervals(spark.read.table(name(pair.source)))
    rows = spark.read.table(name(pair.target)).select(*due.columns)
    if digest(due) == digest(rows):
        return 0
    return due.exceptAll(rows).count() + rows.exceptAll(due).count()


def digest(rows: DataFrame) -> Row:
    """A digest of rows that does not depend on their order."""
    hashes = F.xxhash64(*rows.columns)
    return rows.select(hashes.alias("hash")).selectExpr("count(*)", "sum(CAST(hash AS DECIMAL(20)))").collect()[0]
