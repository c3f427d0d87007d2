"""How the layout of remembered events affects reads of a few keys: in order of arrival, or gathered by clustering."""

from collections import defaultdict
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.contestants.dimensions import TABLE, intervals, target
from benchmarks.contestants.ours import Lake
from benchmarks.harness import race, report
from benchmarks.harness.data import KEY, PROPERTIES, name
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Goal, Result
from benchmarks.suites.layout import FILE_SIZES, configured
from benchmarks.suites.scd import event

EVENTS, KEYS, FILES = 10_000_000, 1_000_000, 40
TOUCHED = (1, 100, 10_000)
ARRIVAL, CLUSTERED = "as they came", "clustered by key"
WARM = 1


def run(lab: Lab) -> Result:
    with lab.room() as room, configured(lab.spark, FILE_SIZES):
        arrived = events(lab).repartition(FILES)
        arrived.write.format("delta").options(**PROPERTIES).save(str(room / ARRIVAL / "source"))
        path = room / CLUSTERED / "source"
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
        arrived.createOrReplaceTempView("arrived")
        lab.spark.sql(
            f"CREATE TABLE {name(path)} USING delta CLUSTER BY ({KEY}) TBLPROPERTIES ({properties}) "
            "AS SELECT * FROM arrived"
        ).collect()
        _, gathered = lab.meter.measure("OPTIMIZE", lambda: lab.spark.sql(f"OPTIMIZE {name(path)}").collect())
        lakes = {layout: remembered(lab, room / layout) for layout in (ARRIVAL, CLUSTERED)}
        costs = {count: measured(lab, lakes, count) for count in TOUCHED}
        files = {layout: len(list((room / layout / "source").glob("*.parquet"))) for layout in lakes}
    rows = [
        (f"{report_keys(count)}, {layout}", *report.figures(cost), "")
        for count, by_layout in costs.items()
        for layout, cost in by_layout.items()
    ]
    rows.append((f"OPTIMIZE of all of them, {CLUSTERED}", *report.figures(gathered.cost), ""))
    return Result(
        "archive",
        f"The events of a few keys among {lab.rows(EVENTS):,}",
        f"A log of events in the order in which they came ({FILES} files), and the same log in a table with CLUSTER BY "
        f"after OPTIMIZE ({files[CLUSTERED]} files with those it replaced and those that came since). Another event of "
        "some keys comes; what is measured is the read of every event of these keys, folded to type 2, without the "
        "write.",
        report.COLUMNS,
        rows,
        [
            Goal(
                f"{what} to read the events of {report_keys(count)}, {CLUSTERED} against {ARRIVAL}",
                f"{of(by_layout[CLUSTERED]) / of(by_layout[ARRIVAL]):.2f}x",
                None,
            )
            for count, by_layout in costs.items()
            for what, of in (("CPU", lambda cost: cost.cpu), ("bytes", lambda cost: cost.read))
        ],
    )


def report_keys(count: int) -> str:
    return "1 key" if count == 1 else f"{count:,} keys"


def events(lab: Lab) -> DataFrame:
    """Ten events for each key, in no particular order."""
    numbers = lab.spark.range(0, lab.rows(EVENTS), 1, FILES)
    keys = lab.rows(KEYS)
    return event(numbers.select((F.col(KEY) % keys).alias(KEY), (F.col(KEY) / keys).cast("bigint").alias("seq")))


def remembered(lab: Lab, root: Path) -> Lake:
    """A lakehouse with an asset whose position is at the newest event, but whose table has no rows."""
    lake = Lake(lab.ours(), root, {})
    nothing = intervals(lake.spark.read.table(name(root / "source"))).limit(0)
    nothing.write.format("delta").options(**PROPERTIES).save(str(root / "target"))
    lake.adopt(target, TABLE)
    return lake


def measured(lab: Lab, lakes: dict[str, Lake], count: int) -> dict[str, Cost]:
    costs: dict[str, list[Cost]] = defaultdict(list)
    for turn in range(WARM + lab.rounds):
        some = lab.spark.range(0, count, 1, 1).select(
            (F.pmod(F.xxhash64(KEY, F.lit(turn)), F.lit(lab.rows(KEYS)))).alias(KEY), F.lit(100 + turn).alias("seq")
        )
        for layout, lake in race.rotated(list(lakes.items()), turn):
            event(some.distinct()).write.format("delta").mode("append").save(str(lake.root / "source"))
            _, lap = lab.meter.measure(layout, lambda lake=lake: read(lake))
            lake.adopt(target, TABLE)
            if turn >= WARM:
                costs[layout].append(lap.cost)
    return {layout: medians(costs[layout]) for layout in lakes}


def read(lake: Lake) -> None:
    step = lake.begin(target, TABLE)
    target(**lake.read(step, target)).rows.write.format("noop").mode("overwrite").save()
