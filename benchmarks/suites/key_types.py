"""One changed row of ten million by keys of several types: the cost follows the change whatever the type of the key."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.by_hand import Batch
from benchmarks.contestants.ours import Ours
from benchmarks.harness import data, race, report
from benchmarks.harness.data import KEY, PROPERTIES, ROWS_PER_FILE, change, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.race import Contestant
from benchmarks.harness.report import Goal, Result, at_most
from lakehouse import Table

ROWS, EVENTS = 10_000_000, 1_000
"""How many rows there are, and how many of them each device has."""
KEYS = {
    "a number": ("device", "number"),
    "an instant": ("device", "at"),
    "a boolean and a double": ("device", "even", "seconds"),
    "a binary": ("device", "code"),
}
"""The columns of the key, by the type of the columns next to `device`."""
DOCUMENTED, EXPERT = "R2t batch MERGE, an instant", "R2x, hint and range of devices too, an instant"


def run(lab: Lab) -> Result:
    table = built(lab.spark, lab.rows(ROWS))
    instant = KEYS["an instant"]
    contestants: list[Contestant] = [
        *(Ours(lab.ours(), f"ours, {what}", Table(key=key)) for what, key in KEYS.items()),
        Batch(lab.ours(), DOCUMENTED, key=instant),
        Batch(lab.ours(), EXPERT, expert=True, key=instant),
    ]
    with lab.room() as room:
        first = lab.rows(ROWS) // 3

        def one_row(source: Path, turn: int) -> None:
            change(lab.spark, source, neighbours(first + EVENTS * turn))

        tallies = race.kept(lab.meter, race.entered(table, contestants, room), one_row, lab.rounds)
    cpu = {name: tally.cost.cpu for name, tally in tallies.items()}
    by_number, by_instant = cpu["ours, a number"], cpu["ours, an instant"]
    return Result(
        "key_types",
        "Keys of any type",
        f"Ten million rows in the order of their device and of its time, {EVENTS:,} of each device; a row's key is its "
        "device and what is named. A round updates one row; each contestant has tables of its own.",
        report.COLUMNS,
        [report.row(name, tally) for name, tally in tallies.items()],
        [
            *(
                at_most(f"CPU by {what} against a number: at most 1.2x", cpu[f"ours, {what}"] / by_number, 1.2)
                for what in list(KEYS)[1:]
            ),
            at_most("CPU by an instant against R2t: at most 1/2", by_instant / cpu[DOCUMENTED], 0.5),
            Goal("CPU by an instant against R2x", f"{by_instant / cpu[EXPERT]:.2f}x", None),
        ],
    )


def built(spark: SparkSession, count: int) -> Path:
    """A table of events, made on first use; each key in `KEYS` identifies an event."""
    path = data.cache() / f"events-{count}"
    if not path.exists():
        print(f"Building {count:,} events in {path} ...", flush=True)
        with data.made(path) as scratch:
            events(spark, count).write.format("delta").options(**PROPERTIES).save(str(scratch))
    return path


def events(spark: SparkSession, count: int) -> DataFrame:
    number = F.col(KEY) % EVENTS
    return spark.range(0, count, 1, max(1, count // ROWS_PER_FILE)).select(
        KEY,
        F.floor(F.col(KEY) / EVENTS).cast("int").alias("device"),
        number.cast("int").alias("number"),
        F.timestamp_millis(F.lit(1_700_000_000_000) + 1_500 * number).alias("at"),
        (number % 2 == 0).alias("even"),
        (number / 4).alias("seconds"),
        F.unhex(F.lpad(F.hex(number), 8, "0")).alias("code"),
        (F.col(KEY) * 7 % 1_000_003).alias("value"),
    )
