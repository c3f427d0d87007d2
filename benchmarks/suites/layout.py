"""How rows are laid out: in key order, in any order, and gathered by liquid clustering."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.contestants.ours import Ours
from benchmarks.harness import data, race, report
from benchmarks.harness.data import KEY, PROPERTIES, Pair, change, name, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost
from benchmarks.harness.race import Entry
from benchmarks.harness.report import Goal, Result

ROWS, FILES, FILE_BYTES = 4_000_000, 16, 16_000_000
"""The table is a sixty-fourth of one whose files have the size that OPTIMIZE aims at, which is 1 GiB."""
FILE_SIZES = {f"spark.databricks.delta.optimize.{size}FileSize": str(FILE_BYTES) for size in ("min", "max")}
SORT = {"spark.databricks.io.skipping.mdc.sortWithinFiles": "true"}
ORDERED, ANY, CLUSTERED, SORTED = "in the key's order", "in any order", "clustered", "clustered, files sorted"
KEYS = {"1 key": 1, "1,000 keys": 1_000}


def run(lab: Lab) -> Result:
    with lab.room() as room, configured(lab.spark, FILE_SIZES):
        tables = {
            ORDERED: ordered(lab.spark, lab.rows(ROWS), room / "ordered"),
            ANY: shuffled(lab.spark, lab.rows(ROWS), room / "any"),
            CLUSTERED: clustered(lab.spark, lab.rows(ROWS), room / "clustered"),
        }
        with configured(lab.spark, SORT):
            tables[SORTED] = clustered(lab.spark, lab.rows(ROWS), room / "sorted")
        rows: list[tuple[str, ...]] = []
        steps: dict[tuple[str, str], Cost] = {}
        for count, keys in KEYS.items():
            entries: dict[str, Entry] = {}
            for layout, table in tables.items():
                entries |= race.entered(table, [Ours(lab.ours(), layout)], room / count / table.name)
            first = lab.rows(ROWS) // 3

            def some(source: Path, turn: int, first: int = first, keys: int = keys) -> None:
                change(lab.spark, source, neighbours(first + 5_000 * turn, keys))

            for layout, tally in race.kept(lab.meter, entries, some, lab.rounds).items():
                steps[layout, count] = tally.cost
                rows.append(report.row(f"{count}, {layout}", tally))
        upkeep = {layout: optimized(lab, entries[layout].pair) for layout in (ORDERED, CLUSTERED)}
        rows += [(f"OPTIMIZE afterwards, {layout}", *report.figures(cost), "") for layout, cost in upkeep.items()]
    less = {count: steps[ANY, count].cpu / steps[SORTED, count].cpu for count in KEYS}
    again = upkeep[CLUSTERED].written / upkeep[ORDERED].written
    return Result(
        "layout",
        "Where the rows of a key lie",
        "Four million rows of six columns in files of 16 MB, a scale model of files of the size that OPTIMIZE aims at; "
        "the same rows in the order of the key, as a first write lays them out, in any order, and in a table with "
        "CLUSTER BY after OPTIMIZE, with and without `spark.databricks.io.skipping.mdc.sortWithinFiles`. The last two "
        "lines: OPTIMIZE again, after the steps of 1,000 keys.",
        report.COLUMNS,
        rows,
        [
            *(Goal(f"CPU of any order against {SORTED}, {count}", f"{x:.1f}x", None) for count, x in less.items()),
            Goal("bytes that OPTIMIZE writes afterwards, clustered against not", f"{again:.1f}x", None),
        ],
    )


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Generator[None]:
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        yield
    finally:
        for setting in settings:
            spark.conf.unset(setting)


def ordered(spark: SparkSession, count: int, path: Path) -> Path:
    """The rows in the order of their key."""
    rows = data.rows(spark, count, 6).repartitionByRange(FILES, KEY)
    rows.write.format("delta").options(**PROPERTIES).save(str(path))
    return path


def shuffled(spark: SparkSession, count: int, path: Path) -> Path:
    """The rows as they would have arrived over the years: each file has keys from the whole range."""
    data.rows(spark, count, 6).repartition(FILES).write.format("delta").options(**PROPERTIES).save(str(path))
    return path


def clustered(spark: SparkSession, count: int, path: Path) -> Path:
    """The same rows, gathered by OPTIMIZE."""
    data.rows(spark, count, 6).repartition(FILES).createOrReplaceTempView("rows_in_any_order")
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
    spark.sql(
        f"CREATE TABLE {name(path)} USING delta CLUSTER BY ({KEY}) TBLPROPERTIES ({properties}) "
        f"AS SELECT * FROM rows_in_any_order"
    ).collect()
    spark.sql(f"OPTIMIZE {name(path)}").collect()
    return path


def optimized(lab: Lab, pair: Pair) -> Cost:
    return lab.meter.measure("OPTIMIZE", lambda: lab.spark.sql(f"OPTIMIZE {name(pair.target)}").collect())[1].cost
