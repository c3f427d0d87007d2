"""Tables for measurements: built once in a cache, cloned for every contestant and every run."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROWS_PER_FILE = 625_000
FEED = "delta.enableChangeDataFeed"
PROPERTIES = {FEED: "true", "delta.enableDeletionVectors": "true"}
"""The properties of every table, this library's and the rivals': downstream tables read all of them incrementally."""
KEY = "id"


def cache() -> Path:
    """Where the tables are kept: LAKEHOUSE_BENCHMARKS, or a directory in the system's own temporary one."""
    named = os.environ.get("LAKEHOUSE_BENCHMARKS")
    root = Path(named) if named else Path(tempfile.gettempdir(), "lakehouse-benchmarks")
    root.mkdir(parents=True, exist_ok=True)
    return root


def rows(spark: SparkSession, count: int, columns: int) -> DataFrame:
    """Rows in key order, each value a function of the key: two columns (42 MB for a million rows) or six (65 MB)."""
    numbers = spark.range(0, count, 1, max(1, count // ROWS_PER_FILE))
    narrow = numbers.select(F.col("id"), (F.col("id") * 7 % 1_000_003).alias("value"))
    if columns == 2:
        return narrow
    return numbers.select(
        F.col("id"),
        (F.col("id") * 2_654_435_761 % 100_003).alias("customer"),
        (F.col("id") * 7 % 1_000_003).alias("value"),
        F.element_at(F.array(*map(F.lit, ("new", "paid", "sent", "done"))), (F.col("id") % 4 + 1).cast("int")).alias(
            "status"
        ),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id") % 31_536_000).alias("at"),
        F.sha1(F.col("id").cast("string")).alias("note"),
    )


def built(spark: SparkSession, count: int, columns: int, *, vectors: bool = True) -> Path:
    """The directory of a table with this many rows, made on first use.

    Args:
        spark: A session.
        count: How many rows it has.
        columns: How many columns it has: two or six.
        vectors: Whether the table may have deletion vectors, which delta-rs does not write.
    """
    path = cache() / f"{count}x{columns}{'' if vectors else '-plain'}"
    if not path.exists():
        print(f"Building {count:,} rows x {columns} columns in {path} ...", flush=True)
        properties = PROPERTIES if vectors else {FEED: "true"}
        with made(path) as scratch:
            rows(spark, count, columns).write.format("delta").options(**properties).save(str(scratch))
    return path


@contextmanager
def made(path: Path) -> Generator[Path]:
    """A directory to fill, which gets its final name once it is complete."""
    scratch = path.with_suffix(".part")
    shutil.rmtree(scratch, ignore_errors=True)
    yield scratch
    scratch.rename(path)


def clone(directory: Path, to: Path) -> None:
    """Clones a directory of tables, at no cost: logs are copied, data files are hard links.

    Delta never changes a data file in place, so neither side sees later changes of the other.
    """
    to.mkdir(parents=True)
    for path in sorted(directory.rglob("*")):
        at = to / path.relative_to(directory)
        if path.is_dir():
            at.mkdir(exist_ok=True)
        elif _is_data(path):
            at.hardlink_to(path)
        else:
            shutil.copy2(path, at)


def follow(leader: Path, follower: Path) -> None:
    """Brings a clone up to date with its original: to its readers the same changes have been committed to it."""
    for path in sorted(leader.rglob("*")):
        at = follower / path.relative_to(leader)
        if path.is_dir():
            at.mkdir(exist_ok=True)
        elif _is_data(path):
            if not at.exists():
                at.hardlink_to(path)
        elif not at.exists() or at.stat().st_mtime_ns != path.stat().st_mtime_ns:
            shutil.copy2(path, at)


def _is_data(path: Path) -> bool:
    return path.suffix in (".parquet", ".bin") and "_delta_log" not in path.parts


@dataclass(frozen=True, slots=True)
class Pair:
    """A source, a target that equals it, and room for what a contestant remembers between its steps."""

    root: Path

    @property
    def source(self) -> Path:
        return self.root / "source"

    @property
    def target(self) -> Path:
        return self.root / "target"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def position(self) -> Path:
        return self.root / "position.json"

    @classmethod
    def of(cls, table: Path, root: Path) -> "Pair":
        clone(table, root / "source")
        clone(table, root / "target")
        return cls(root)


def name(table: Path | str) -> str:
    """The SQL name of the table in a directory or at another address."""
    return f"delta.`{table}`"


def change(spark: SparkSession, table: Path | str, where: str) -> None:
    """Sets other values in the rows that the predicate selects."""
    spark.sql(f"UPDATE {name(table)} SET value = value + 1 WHERE {where}").collect()


def neighbours(first: int, count: int = 1) -> str:
    """The predicate that selects `count` keys next to each other."""
    return f"{KEY} >= {first} AND {KEY} < {first + count}"


def same(spark: SparkSession, a: Path, b: Path) -> bool:
    """Whether two tables hold the same keys with the same values; the other columns never change."""
    sums = f"count(*), sum(xxhash64({KEY}, value) % 1000000007)"
    first, second = (spark.sql(f"SELECT {sums} FROM {name(t)}").collect() for t in (a, b))
    return first == second
